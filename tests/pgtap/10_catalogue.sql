-- What CREATE EXTENSION leaves in the catalogue: labels, rights, comments, storage
BEGIN;
\ir 3_support.psql
SELECT plan(29);

\if :extension
CREATE TEMP VIEW member AS
	SELECT classid, objid FROM pg_depend
	 WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
	   AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_pacer');
\else
CREATE TEMP VIEW member AS
	SELECT 'pg_proc'::regclass AS classid, oid AS objid FROM pg_proc WHERE pronamespace = 'pacer'::regnamespace AND proname !~ '^_'
	UNION ALL SELECT 'pg_class', oid FROM pg_class WHERE relnamespace = 'pacer'::regnamespace;
\endif
CREATE TEMP VIEW verb AS
	SELECT p.* FROM pg_proc p JOIN member ON classid = 'pg_proc'::regclass AND objid = p.oid
	 WHERE prorettype <> 'trigger'::regtype;

\if :extension
SELECT is((SELECT extversion FROM pg_extension WHERE extname = 'pg_pacer'),
	(SELECT default_version FROM pg_available_extensions WHERE name = 'pg_pacer'), 'the version is the default one');
SELECT is((SELECT nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'pg_pacer'),
	'pacer', 'the schema is pacer');
\else
	SELECT skip('there is no extension', 2);
\endif
SELECT isnt_empty('SELECT FROM verb', 'there are functions');

-- whatever takes a slot must not be planned away, run twice or run in a worker
SELECT is_empty($$SELECT oid::regprocedure FROM verb WHERE provolatile <> 'v' AND proname <> 'every'$$,
	'every function that sees the schedule is VOLATILE');
SELECT is_empty($$SELECT oid::regprocedure FROM verb WHERE proparallel <> 'u' AND proname <> 'every'$$,
	'every function that sees the schedule is PARALLEL UNSAFE');
SELECT is((SELECT provolatile::text || proparallel::text FROM verb WHERE proname = 'every'), 'is', 'every() is IMMUTABLE and PARALLEL SAFE');
SELECT is_empty('SELECT oid::regprocedure FROM verb WHERE proisstrict', 'none is STRICT: a null is an error, not a null row');
SELECT is_empty('SELECT oid::regprocedure FROM verb WHERE proleakproof', 'none claims to be leakproof');
SELECT is((SELECT array_agg(proname::text ORDER BY proname) FROM verb WHERE proretset AND prorows = 1),
	'{acquire,book,try_book}', 'what answers one booking is SETOF with ROWS 1, so that (f()).* calls it once');

-- signatures: names and defaults are a contract
SELECT bag_eq(
	$$SELECT proname || '(' || pg_get_function_arguments(oid) || ') ' || pg_get_function_result(oid)
	    FROM verb WHERE proname IN ('book', 'try_book', 'nextslot', 'peek', 'release', 'every', 'drop_source')$$,
	$$VALUES
	('book(source text, permits integer DEFAULT 1, max_wait interval DEFAULT NULL::interval, key text DEFAULT NULL::text) SETOF pacer.booking'),
	('drop_source(name text) void'),
	('every(permits integer, period interval) interval'),
	('nextslot(source text) timestamp with time zone'),
	('peek(source text) pacer.booking'),
	('release(booking pacer.booking) text'),
	('release(source text, ticket bigint) text'),
	('try_book(source text, permits integer DEFAULT 1, max_wait interval DEFAULT ''00:00:00''::interval, key text DEFAULT NULL::text) SETOF pacer.booking')$$,
	'signatures and defaults');
SELECT is((SELECT proargnames[1:10] FROM verb WHERE proname = 'create_source'),
	'{name,start_interval,burst,max_waiting,max_wait,quota,quota_window,remembered,if_not_exists,quota_origin}',
	'parameters of create_source');
SELECT is((SELECT (pronargs - pronargdefaults)::int FROM verb WHERE proname = 'create_source'), 2, 'all but two are optional');
SELECT is((SELECT array_agg(attname || ' ' || format_type(atttypid, atttypmod) ORDER BY attnum)
	FROM pg_attribute WHERE attrelid = 'pacer.booking'::regclass),
	'{"source text","ticket bigint","slot_at timestamp with time zone","wait interval","wait_ms double precision"}', 'pacer.booking');
SELECT is((SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'pacer.status'::regclass AND attnum > 0),
	'{name,start_interval,burst,max_waiting,max_wait,quota,quota_window,quota_origin,remembered,next_request_at,waiting,paused_until,quota_left,last_start,last_used_before,booked,refused,released,confirmed,late,waited,run_ok}',
	'columns of pacer.status');

-- pg_upgrade and pg_dump
SELECT is_empty($$SELECT attrelid::regclass, attname FROM pg_attribute JOIN member ON classid = 'pg_class'::regclass AND objid = attrelid
	WHERE atttypid IN ('regclass'::regtype, 'regproc'::regtype, 'regprocedure'::regtype, 'regoper'::regtype,
		'regoperator'::regtype, 'regconfig'::regtype, 'regdictionary'::regtype, 'regnamespace'::regtype, 'regcollation'::regtype)$$,
	'no column holds an OID that pg_upgrade could not carry over');
\if :extension
SELECT is((SELECT array_agg(c::regclass::text ORDER BY c::regclass::text) FROM pg_extension, unnest(extconfig) c WHERE extname = 'pg_pacer'),
	'{pacer.slot,pacer.source,pacer.source_source_id_seq}', 'configuration, state and the numbers that tie them are dumped');
\else
	SELECT skip('an ordinary schema is dumped whole', 1);
\endif

-- rights
\if :extension
SELECT is((SELECT array_agg(oid::regprocedure::text ORDER BY oid::regprocedure::text) FROM verb WHERE prosecdef), NULL,
	'nothing that is called runs with the rights of its owner');
\else
	SELECT skip('the verbs run as the owner, so that USAGE on the schema is the gate', 1);
\endif
SELECT is_empty($$SELECT objid::regprocedure FROM member JOIN pg_proc p ON classid = 'pg_proc'::regclass AND objid = p.oid
	WHERE (prosecdef OR prolang <> (SELECT oid FROM pg_language WHERE lanname = 'c'))
	  AND coalesce(array_to_string(proconfig, ' ') !~ '^search_path=pg_catalog, pg_temp( lock_timeout=5s)?$', true)$$,
	'whatever is not C has its search_path pinned');
SELECT is((SELECT array_agg(DISTINCT proname::text ORDER BY proname::text) FROM verb
	WHERE proacl IS NOT NULL AND NOT EXISTS (SELECT FROM aclexplode(proacl) WHERE grantee = 0)),
	'{advance,create_source,drop_source,rewind}', 'administration is not granted to PUBLIC');
SELECT is_empty($$SELECT objid::regclass FROM member JOIN pg_class c ON classid = 'pg_class'::regclass AND objid = c.oid
	WHERE relname <> 'status' AND EXISTS (SELECT FROM aclexplode(relacl) WHERE grantee = 0)$$,
	'nor is any table or sequence');
SELECT ok(NOT has_schema_privilege('public', 'pacer', 'USAGE'), 'nor is the schema: nothing is open until it is granted');
SELECT is_empty($$SELECT objid::regprocedure FROM member JOIN pg_proc p ON classid = 'pg_proc'::regclass AND objid = p.oid
	WHERE prorettype = 'trigger'::regtype AND (proacl IS NULL OR EXISTS (SELECT FROM aclexplode(proacl) WHERE grantee = 0))$$,
	'trigger functions are nobody''s to use');

-- a comment on everything that somebody may look up
SELECT is_empty($$SELECT oid::regprocedure FROM verb WHERE obj_description(oid, 'pg_proc') IS NULL$$, 'functions have comments');
SELECT is_empty($$SELECT objid::regclass FROM member JOIN pg_class c ON classid = 'pg_class'::regclass AND objid = c.oid
	WHERE relkind IN ('r', 'v') AND obj_description(objid, 'pg_class') IS NULL$$, 'tables and views have comments');
SELECT is_empty($$SELECT attname FROM pg_attribute WHERE attrelid = 'pacer.source'::regclass AND attnum > 0 AND NOT attisdropped
	AND col_description(attrelid, attnum) IS NULL$$, 'columns of pacer.source have comments');
\if :extension
SELECT isnt(obj_description((SELECT oid FROM pg_extension WHERE extname = 'pg_pacer'), 'pg_extension'), NULL, 'the extension has a comment');
\else
	SELECT skip('there is no extension', 1);
\endif

-- the row is overlaid by a C struct, the mark is gone after a crash
\if :extension
SELECT is((SELECT relpersistence::text FROM pg_class WHERE oid = 'pacer.run_mark'::regclass), 'u', 'the mark is unlogged');
SELECT is((SELECT relpersistence::text || (reltoastrelid = 0)::text FROM pg_class WHERE oid = 'pacer.slot'::regclass), 'ptrue',
	'the state is logged, and has no TOAST table');
SELECT is_empty($$SELECT attname FROM pg_attribute WHERE attrelid = 'pacer.slot'::regclass AND attnum > 0
	AND (NOT attnotnull OR attisdropped OR attstorage <> 'p' OR attcompression <> '')$$,
	'its columns are never null, moved out or compressed');
\else
	SELECT skip('the state is an ordinary row', 3);
\endif

SELECT finish();
ROLLBACK;
