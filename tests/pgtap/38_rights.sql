-- Who may what: USAGE of the schema opens booking and observing, administration is granted one by one
BEGIN;
\ir 3_support.psql
SELECT plan(78);

CREATE ROLE pacer_test_none;
CREATE ROLE pacer_test_app;
CREATE ROLE pacer_test_config;
GRANT USAGE ON SCHEMA pacer TO pacer_test_app, pacer_test_config;
GRANT INSERT ON pacer.source TO pacer_test_config;
GRANT EXECUTE ON FUNCTION pacer.create_source(text, interval, int, int, interval, int, interval, int, boolean, timestamptz)
	TO pacer_test_config;

CREATE TEMP TABLE verb (call text, admin boolean);
INSERT INTO verb VALUES
	('SELECT * FROM pacer.book(''r'')', false),
	('SELECT * FROM pacer.try_book(''r'')', false),
	('SELECT * FROM pacer.book_many(''r'', 2)', false),
	('SELECT pacer.nextslot(''r'')', false),
	('SELECT pacer.peek(''r'')', false),
	('SELECT pacer.confirm(''r'', 1)', false),
	('SELECT pacer.confirm(b) FROM pacer.book(''r'') b', false),
	('SELECT pacer.release(''r'', 1)', false),
	('SELECT pacer.release(b) FROM pacer.book(''r'') b', false),
	('SELECT pacer.pause(''r'', ''1 s'')', false),
	('SELECT pacer.pause(''r'', interval ''1 s'')', false),
	('SELECT pacer.resume(''r'')', false),
	('SELECT pacer.every(3, ''1 s'')', false),
	('SELECT * FROM pacer.status', false),
	('SELECT * FROM pacer.source_status(''r'')', false),
	('SELECT pacer.create_source(''new'', ''1 s'')', true),
	('SELECT pacer.drop_source(''r'')', true),
	('SELECT pacer.advance(''r'', now())', true),
	('SELECT pacer.rewind(''r'')', true);
\if :extension
INSERT INTO verb VALUES ('SELECT * FROM pacer.acquire(''fast'')', false);
\else
-- it needs the extension
INSERT INTO verb VALUES ('SELECT pacer.peek(''r''), ''pacer.acquire(''', false);
\endif
GRANT SELECT ON verb TO PUBLIC;

SELECT pacer.create_source('r', '1 s'), pacer.create_source('fast', '1 us');

-- the list above is all there is
SELECT set_eq(
	$$SELECT DISTINCT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'pacer'::regnamespace AND p.prorettype <> 'trigger'::regtype
		AND p.proname !~ '^_' AND (p.proname <> 'acquire' OR EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_pacer'))$$,
	$$SELECT DISTINCT coalesce(substring(call FROM 'pacer\.(\w+)\('), 'source_status') FROM verb$$,
	'every function is tried here');
SELECT set_eq(
	$$SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'pacer'::regnamespace AND NOT has_function_privilege('pacer_test_app', p.oid, 'EXECUTE')$$,
	'{create_source,drop_source,advance,rewind,source_check,source_made,source_gone}'::text[]
		|| CASE WHEN :extension THEN '{source_changed,slot_restored,slot_refuse}'::text[] END,
	'what PUBLIC may not call');
SELECT set_eq(
	$$SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'pacer'::regnamespace AND c.relkind IN ('r', 'v', 'S')
		AND (c.relkind = 'S' AND has_sequence_privilege('pacer_test_app', c.oid, 'USAGE, SELECT, UPDATE')
			OR c.relkind <> 'S' AND has_table_privilege('pacer_test_app', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER'))$$,
	'{status}'::text[], 'what PUBLIC may read');
SELECT table_privs_are('pacer', 'status', 'pacer_test_app', '{SELECT}', 'and no more than read');
SELECT ok(NOT has_schema_privilege('pacer_test_none', 'pacer', 'USAGE, CREATE'), 'the schema is closed');
SELECT ok(NOT has_schema_privilege('pacer_test_app', 'pacer', 'CREATE'), 'and its USAGE lets nobody put things there');
SELECT is_empty(
	$$SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'pacer'::regnamespace AND p.prosecdef
		AND NOT coalesce(p.proconfig::text LIKE '%search_path=pg_catalog, pg_temp%', false)$$,
	'no function with the owner''s rights and the caller''s search_path');

-- a role with nothing
SET LOCAL ROLE pacer_test_none;
SELECT is(pg_temp.error(call), '42501 | permission denied for schema pacer', 'without USAGE: ' || call) FROM verb;

-- a role that books
SET LOCAL ROLE pacer_test_app;
SELECT is(pg_temp.error(call),
	CASE WHEN admin THEN format('42501 | permission denied for function %s', substring(call FROM 'pacer\.(\w+)\(')) ELSE 'no error' END,
	'with USAGE: ' || call) FROM verb;
SELECT is(pg_temp.error(command), '42501 | permission denied for ' || what, command) FROM (VALUES
	('SELECT * FROM pacer.source', 'table source'),
	('INSERT INTO pacer.source (name, start_interval) VALUES (''mine'', ''1 s'')', 'table source'),
	('UPDATE pacer.source SET start_interval = ''1 s''', 'table source'),
	('DELETE FROM pacer.source', 'table source'),
	('TRUNCATE pacer.source', 'table source'),
	('SELECT * FROM pacer.slot', 'table slot'),
	('INSERT INTO pacer.slot (slot_id, remembered) VALUES (1, 4)', 'table slot'),
	('UPDATE pacer.slot SET slot_id = 1', 'table slot'),
	('DELETE FROM pacer.slot', 'table slot'),
	('TRUNCATE pacer.slot CASCADE', 'table slot'),
	('SELECT FROM pacer.slot FOR UPDATE', 'table slot'),
	('LOCK pacer.slot IN ACCESS SHARE MODE', 'table slot'),
	('SELECT nextval(''pacer.source_source_id_seq'')', 'sequence source_source_id_seq'),
	('CREATE FUNCTION pacer.book(text) RETURNS int LANGUAGE sql AS ''SELECT 1''', 'schema pacer')) v (command, what);
\if :extension
SELECT is(pg_temp.error(command), '42501 | permission denied for sequence run_mark', command) FROM (VALUES
	('SELECT * FROM pacer.run_mark'), ('SELECT nextval(''pacer.run_mark'')'), ('SELECT setval(''pacer.run_mark'', 1)')) v (command);
\else
SELECT skip('there is no mark', 3);
\endif
RESET ROLE;
CREATE TABLE public.mine (source_id int);
ALTER TABLE public.mine OWNER TO pacer_test_app;
GRANT ALL ON SCHEMA public TO pacer_test_app;
SET LOCAL ROLE pacer_test_app;
SELECT is(pg_temp.error('CREATE TRIGGER t AFTER DELETE ON public.mine FOR EACH ROW EXECUTE FUNCTION pacer.source_gone()'),
	'42501 | permission denied for function pacer.source_gone', 'its trigger functions are for its own tables');

-- a role that configures
SET LOCAL ROLE pacer_test_config;
SELECT is(pg_temp.error('INSERT INTO pacer.source (name, start_interval) VALUES (''inserted'', ''1 s'')'), 'no error',
	'INSERT on pacer.source makes a source with its state');
SELECT is(pg_temp.error('SELECT pacer.create_source(''made'', ''1 s'')'), 'no error', 'so does create_source');
SELECT is(pg_temp.error('SELECT pacer.create_source(''made'', ''1 s'', if_not_exists => true)'), 'no error', 'repeatedly');
SELECT is(pg_temp.error('SELECT pacer.create_source(''made'', ''1 s'')'), '42710 | source "made" already exists', 'with the proper error');
SELECT is(pg_temp.error(format('SELECT pacer.book(%L)', s)), 'no error', 'it can be booked: ' || s) FROM unnest('{inserted,made}'::text[]) s;
SELECT is(pg_temp.error('UPDATE pacer.source SET start_interval = ''1 s'''), '42501 | permission denied for table source', 'but no other right follows');
SELECT is(pg_temp.error('SELECT pacer.rewind(''made'')'), '42501 | permission denied for function rewind', 'of administration either');

-- a hostile search_path
RESET ROLE;
CREATE SCHEMA evil;
CREATE TABLE evil.called (what text);
CREATE FUNCTION evil.trip(what text) RETURNS void LANGUAGE sql AS 'INSERT INTO evil.called VALUES ($1)';
CREATE FUNCTION evil.format(text, VARIADIC "any") RETURNS text LANGUAGE internal AS 'text_format';
CREATE FUNCTION evil.format(text, text) RETURNS text LANGUAGE sql AS 'SELECT evil.trip(''format''); SELECT $1';
CREATE FUNCTION evil.repeat(text, int) RETURNS text LANGUAGE sql AS 'SELECT evil.trip(''repeat''); SELECT $1';
CREATE FUNCTION evil.decode(text, text) RETURNS bytea LANGUAGE sql AS 'SELECT evil.trip(''decode''); SELECT ''''::bytea';
CREATE FUNCTION evil.lower(text) RETURNS text LANGUAGE sql AS 'SELECT evil.trip(''lower''); SELECT $1';
CREATE FUNCTION evil.octet_length(text) RETURNS int LANGUAGE sql AS 'SELECT evil.trip(''octet_length''); SELECT 0';
CREATE FUNCTION evil.octet_length(bytea) RETURNS int LANGUAGE sql AS 'SELECT evil.trip(''octet_length''); SELECT 0';
CREATE FUNCTION evil.source_status() RETURNS int LANGUAGE sql AS 'SELECT evil.trip(''source_status''); SELECT 0';
CREATE FUNCTION evil.eq(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT evil.trip(''= int''); SELECT true';
CREATE FUNCTION evil.eq(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT evil.trip(''= text''); SELECT true';
CREATE FUNCTION evil.mul(int, int) RETURNS int LANGUAGE sql AS 'SELECT evil.trip(''*''); SELECT 0';
CREATE FUNCTION evil.gt(interval, interval) RETURNS boolean LANGUAGE sql AS 'SELECT evil.trip(''>''); SELECT false';
CREATE OPERATOR evil.= (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.eq);
CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq);
CREATE OPERATOR evil.* (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.mul);
CREATE OPERATOR evil.> (LEFTARG = interval, RIGHTARG = interval, FUNCTION = evil.gt);
CREATE TABLE evil.source (name text, start_interval interval);
CREATE TABLE evil.slot (slot_id int, remembered int, recent bytea);
CREATE TYPE evil.booking AS (a int);
-- and one that is searched even before
CREATE TEMP TABLE source (name text, start_interval interval);
CREATE TEMP TABLE slot (slot_id int, remembered int, recent bytea);

SET LOCAL search_path = evil, pg_temp, pg_catalog;
SELECT pacer.create_source('searched', '1 s', max_waiting => 5) AS made \gset
SELECT pacer.create_source('searched', '1 s', if_not_exists => true) AS again \gset
INSERT INTO pacer.source (name, start_interval) VALUES ('inserted too', '1 s');
UPDATE pacer.source SET start_interval = '2 s' WHERE name OPERATOR(pg_catalog.=) 'searched';
SELECT pg_catalog.count(*) AS booked FROM pacer.book_many('searched', 3) \gset
SELECT pacer.release(b) AS released, pacer.nextslot('searched') AS slot, pacer.advance('searched', '2001-01-01') AS head FROM pacer.book('searched') b \gset
SELECT pg_catalog.count(*) AS shown FROM pacer.status WHERE name OPERATOR(pg_catalog.=) 'searched' \gset
SELECT pacer.drop_source('inserted too') \gset
SET LOCAL search_path = public, pg_catalog;

SELECT is((:'made', :'again', :'booked', :'released', :'shown')::text, '(t,f,3,released,1)', 'all works as ever under a hostile search_path');
SELECT is(array_agg(what), NULL, 'and nothing in it is called') FROM evil.called;
SELECT is((SELECT count(*) FROM evil.source) + (SELECT count(*) FROM evil.slot) + (SELECT count(*) FROM pg_temp.source) + (SELECT count(*) FROM pg_temp.slot),
	0::bigint, 'nor written');
SELECT is(count(*), 1::bigint, 'the source is where it should be') FROM pacer.source s JOIN pacer.slot ON slot_id = source_id
	WHERE name = 'searched';
SELECT is(count(*), 0::bigint, 'and the dropped one gone') FROM pacer.source WHERE name = 'inserted too';

SELECT * FROM finish();
ROLLBACK;
