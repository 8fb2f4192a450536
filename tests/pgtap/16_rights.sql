-- Who may do what: nothing is open until USAGE on the schema is granted, and then booking, not administration
BEGIN;
\ir 3_support.psql
SELECT plan(67);

CREATE ROLE pacer_test_nobody;
CREATE ROLE pacer_test_app;
CREATE ROLE pacer_test_config;
GRANT USAGE ON SCHEMA pacer TO pacer_test_app, pacer_test_config;
GRANT SELECT, INSERT, UPDATE, DELETE ON pacer.source TO pacer_test_config;
GRANT EXECUTE ON FUNCTION pacer.create_source, pacer.drop_source TO pacer_test_config;
GRANT pacer_test_nobody, pacer_test_app, pacer_test_config TO CURRENT_USER;

SELECT pacer.create_source('r', '1 h', max_waiting => NULL);
SELECT set_config('test.ticket', ticket::text, false) FROM pacer.book('r');

-- 3_support's helpers are this session's, whoever it is
CREATE FUNCTION pg_temp.as_role(role text, command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	answer := pg_temp.error(command);
	RESET ROLE;
	RETURN answer;
END $$;

-- without USAGE: not even the names
SELECT is(pg_temp.as_role('pacer_test_nobody', c), '42501 | permission denied for schema pacer', 'nobody: ' || c) FROM unnest(ARRAY[
	$$SELECT pacer.book('r')$$, $$SELECT pacer.try_book('r')$$, $$SELECT pacer.nextslot('r')$$, $$SELECT pacer.peek('r')$$,
	$$SELECT pacer.release('r', 1)$$, $$SELECT pacer.confirm('r', 1)$$, $$SELECT pacer.acquire('r')$$, $$SELECT pacer.book_many('r', 2)$$,
	$$SELECT pacer.pause('r', '1 s')$$, $$SELECT pacer.resume('r')$$, $$SELECT pacer.every(1, '1 s')$$,
	$$SELECT pacer.create_source('x', '1 s')$$, $$SELECT pacer.drop_source('r')$$,
	$$SELECT pacer.advance('r', now())$$, $$SELECT pacer.rewind('r')$$, $$TABLE pacer.status$$,
	$$TABLE pacer.source$$, $$TABLE pacer.slot$$, $$SELECT nextval('pacer.run_mark')$$]) c;

-- with USAGE: the verbs and the status
SELECT is(pg_temp.as_role('pacer_test_app', c), 'no error', 'app: ' || c) FROM unnest(ARRAY[
	$$SELECT * FROM pacer.book('r')$$, $$SELECT * FROM pacer.try_book('r')$$, $$SELECT pacer.nextslot('r')$$, $$SELECT * FROM pacer.peek('r')$$,
	$$SELECT pacer.release('r', 1)$$, $$SELECT pacer.release(pacer.book('r'))$$, $$SELECT pacer.confirm('r', 1, '2999-01-01')$$,
	$$SELECT * FROM pacer.book_many('r', 2)$$, $$SELECT pacer.every(3, '1 s')$$, $$TABLE pacer.status$$, $$SELECT pacer.source_status('r')$$,
	$$SELECT pacer.pause('r', '1 s')$$, $$SELECT pacer.resume('r')$$]) c;
SELECT is(pg_temp.as_role('pacer_test_app', c), '42501 | permission denied for ' || o, 'app: ' || c) FROM (VALUES
	($$SELECT pacer.create_source('x', '1 s')$$, 'function create_source'),
	($$SELECT pacer.drop_source('r')$$, 'function drop_source'),
	($$SELECT pacer.advance('r', '2999-01-01')$$, 'function advance'),
	($$SELECT pacer.rewind('r')$$, 'function rewind'),
	($$SELECT pacer.rewind('r', '2020-01-01')$$, 'function rewind'),
	('TABLE pacer.source', 'table source'),
	($$INSERT INTO pacer.source (name, start_interval) VALUES ('x', '1 s')$$, 'table source'),
	($$UPDATE pacer.source SET start_interval = '1 us'$$, 'table source'),
	('DELETE FROM pacer.source', 'table source'),
	('TRUNCATE pacer.source', 'table source'),
	('SELECT 1 FROM pacer.source FOR UPDATE', 'table source'),
	('LOCK TABLE pacer.source', 'table source'),
	('TABLE pacer.slot', 'table slot'),
	('UPDATE pacer.slot SET slot_id = 0', 'table slot'),
	('DELETE FROM pacer.slot', 'table slot'),
	('TRUNCATE pacer.slot', 'table slot'),
	('LOCK TABLE pacer.slot', 'table slot'),
	('SELECT 1 FROM pacer.slot FOR UPDATE', 'table slot'),
	($$INSERT INTO pacer.slot (slot_id, remembered) VALUES (9, 4)$$, 'table slot')) t(c, o);
\if :extension
SELECT is(pg_temp.as_role('pacer_test_app', c), '42501 | permission denied for sequence run_mark', 'app: ' || c) FROM unnest(ARRAY[
	$$SELECT nextval('pacer.run_mark')$$, $$SELECT setval('pacer.run_mark', 1, false)$$, 'TABLE pacer.run_mark']) c;
SELECT is(pg_temp.as_role('pacer_test_app', c) LIKE '42501 | %', true, 'app: ' || c) FROM unnest(ARRAY[
	'ALTER SEQUENCE pacer.run_mark SET LOGGED', 'DROP EXTENSION pg_pacer']) c;
\else
SELECT skip('there is neither mark nor extension', 5);
\endif
SELECT is(pg_temp.as_role('pacer_test_app', c) LIKE '42501 | %', true, 'app: ' || c) FROM unnest(ARRAY[
	'ALTER TABLE pacer.slot SET UNLOGGED', 'CREATE TABLE pacer.x (a int)']) c;
SELECT is((SELECT start_interval FROM pacer.source), '1 h', 'the source is as it was');

-- a role that may configure need not own anything: the triggers have their owner's rights
SELECT is(pg_temp.as_role('pacer_test_config', c), 'no error', 'config: ' || c) FROM unnest(ARRAY[
	$$INSERT INTO pacer.source (name, start_interval) VALUES ('c', '1 s')$$, $$UPDATE pacer.source SET burst = 2 WHERE name = 'c'$$,
	$$DELETE FROM pacer.source WHERE name = 'c'$$,
	$$SELECT pacer.create_source('d', '1 s')$$, $$SELECT pacer.book('d')$$, $$SELECT pacer.drop_source('d')$$]) c;
SELECT is((SELECT count(*) FROM pacer.slot), 1::bigint, 'and leave nothing behind');

-- another's function, called from a security definer function, needs that function's rights
CREATE FUNCTION pg_temp.book_for_others() RETURNS SETOF pacer.booking LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ SELECT * FROM pacer.book('r') $$;
SELECT is(pg_temp.as_role('pacer_test_nobody', 'SELECT * FROM pg_temp.book_for_others()'), 'no error', 'a wrapper opens one source to others');

SELECT finish();
ROLLBACK;
