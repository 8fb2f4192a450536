-- A booking is none of the transaction's business: it stands whatever becomes of that
BEGIN;
\ir 3_support.psql
SELECT plan(32);

SELECT pacer.create_source('t', '1 h', remembered => 200, max_waiting => NULL);
SELECT pg_temp.take('first', 't');
SELECT set_config('test.head', pg_temp.head('t')::text, false);
CREATE FUNCTION pg_temp.moved(by interval) RETURNS boolean LANGUAGE sql
AS $$ SELECT pg_temp.head('t') = current_setting('test.head')::timestamptz + $1 $$;

\if :extension
-- ROLLBACK TO
SAVEPOINT s;
SELECT ok(wait > '0', 'booked in a subtransaction') FROM pacer.book('t');
ROLLBACK TO s;
SELECT ok(pg_temp.moved('1 h'), 'the slot stays taken after ROLLBACK TO');
SELECT isnt(pacer.nextslot('t'), NULL, 'nextslot');
ROLLBACK TO s;
SELECT ok(pg_temp.moved('2 h'), 'the same');

-- EXCEPTION
DO $$
BEGIN
	PERFORM pacer.book('t');
	RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
	PERFORM pacer.book('t');
END
$$;
SELECT ok(pg_temp.moved('4 h'), 'and after an exception that was caught');
SELECT throws_ok($$SELECT pacer.book('t'), 1 / (random() * 0)::int$$, '22012', NULL, 'an error after the booking');
SELECT ok(pg_temp.moved('5 h'), 'does not undo it');

-- a release is not undone either
SELECT pg_temp.take('last', 't');
SELECT ok(pg_temp.moved('6 h'), 'one more');
SAVEPOINT r;
SELECT is(pg_temp.release('last'), 'released', 'given back');
ROLLBACK TO r;
SELECT ok(pg_temp.moved('5 h'), 'stays given back');
SELECT is(pg_temp.release('last'), 'unknown', 'once');
\else
SELECT skip('without the extension a call is part of the transaction', 11);
\endif

-- the configuration is transactional, and a change of one's own counts at once
SAVEPOINT c;
UPDATE pacer.source SET start_interval = '1 day' WHERE name = 't';
SELECT pg_temp.take('day', 't');
SELECT is(pg_temp.head_after('t', 'day'), '1 day', 'with the new interval');
ROLLBACK TO c;
SELECT pg_temp.take('hour', 't');
SELECT is(pg_temp.head_after('t', 'hour'), '1 h', 'with the old one again');
\if :extension
SELECT ok(pg_temp.moved('30 h'), 'what was booked stays');
\else
SELECT skip('without the extension a call is part of the transaction', 1);
\endif
SELECT set_config('test.head', pg_temp.head('t')::text, false);

-- a source made in a subtransaction takes its schedule along
SAVEPOINT m;
SELECT pacer.create_source('m', '1 h');
SELECT is(wait, '0', 'the first') FROM pacer.book('m');
SELECT ok(wait > '0', 'the second') FROM pacer.book('m');
ROLLBACK TO m;
SELECT is(pg_temp.error($$SELECT pacer.book('m')$$), '42704 | source "m" does not exist', 'gone with the subtransaction');
SELECT pacer.create_source('m', '1 h');
SELECT is(wait, '0', 'another source of that name starts anew') FROM pacer.book('m');
DELETE FROM pacer.source WHERE name = 'm';
INSERT INTO pacer.source (name, start_interval) VALUES ('m', '2 h');
SELECT is(wait, '0', 'as after a deletion') FROM pacer.book('m');

-- READ ONLY (it can be left again by rolling back to before)
CREATE FUNCTION pg_temp.read_only(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	SET TRANSACTION READ ONLY;
	RETURN pg_temp.error(command);
END $$;
CREATE FUNCTION pg_temp.refused_read_only(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
	BEGIN
		answer := pg_temp.read_only(command);
		RAISE EXCEPTION USING ERRCODE = 'XXXXX';
	EXCEPTION WHEN SQLSTATE 'XXXXX' THEN
		RETURN answer;
	END;
END $$;
SELECT is(pg_temp.refused_read_only('SELECT pacer.' || c), e, 'READ ONLY: ' || c) FROM (VALUES
	($$book('t')$$, '25006 | cannot execute book() in a read-only transaction'),
	($$try_book('t')$$, '25006 | cannot execute try_book() in a read-only transaction'),
	($$nextslot('t')$$, '25006 | cannot execute nextslot() in a read-only transaction'),
	($$release('t', 1)$$, '25006 | cannot execute release() in a read-only transaction'),
	($$create_source('ro', '1 s')$$, '25006 | cannot execute INSERT in a read-only transaction'),
	($$drop_source('t')$$, '25006 | cannot execute DELETE in a read-only transaction'),
	($$peek('t')$$, 'no error'),
	($$source_status()$$, 'no error')) t(c, e);
SELECT ok(pg_temp.moved('0'), 'nothing was booked');

-- Parallel plans: the functions keep the plan from being parallel, however the server insists
SELECT set_config(name, 'on', true) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
SELECT set_config('parallel_setup_cost', '0', true), set_config('parallel_tuple_cost', '0', true), set_config('min_parallel_table_scan_size', '0', true);
CREATE TABLE pg_temp_rows AS SELECT g FROM generate_series(1, 1000) g;
SELECT is((count(DISTINCT slot_at), max(slot_at) - min(slot_at)), (3::bigint, interval '2 h'), 'three slots, an interval apart')
	FROM (SELECT (pacer.book('t')).slot_at FROM generate_series(1, 3)) t;
SELECT is((count(DISTINCT s), max(s) - min(s)), (1000::bigint, interval '999 h'), 'a thousand')
	FROM (SELECT pacer.nextslot('t') s FROM pg_temp_rows) t;
SELECT is((SELECT count(*) FROM pg_temp_rows WHERE pacer.nextslot('t') IS NOT NULL), 1000::bigint, 'in a condition');
SELECT ok(pg_temp.moved('2003 h'), 'each once');

SELECT finish();
ROLLBACK;
