-- How many bookings a spelling makes. The table in the manual; a spelling that gives many
-- rows one slot would start many callers at once.
BEGIN;
\ir 3_support.psql
SELECT plan(47);

SELECT pacer.create_source('s', '1 h', max_waiting => NULL, remembered => 200);
CREATE TEMP TABLE counted (booked bigint);
INSERT INTO counted VALUES (0);

-- books since the last call of this
CREATE FUNCTION pg_temp.books() RETURNS bigint LANGUAGE sql AS $$
	WITH now AS (SELECT booked FROM pacer.source_status('s')),
		was AS (SELECT booked FROM counted)
	UPDATE counted SET booked = now.booked FROM now, was RETURNING now.booked - was.booked
$$;
-- runs a command: how many rows, distinct slots, bookings
CREATE FUNCTION pg_temp.run(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
	PERFORM pg_temp.books();
	EXECUTE format('SELECT count(*) AS n, count(DISTINCT slot) AS slots FROM (%s) t(slot)', command) INTO r;
	RETURN format('%s rows, %s slots, %s booked', r.n, r.slots, pg_temp.books());
END $$;

-- each row of the statement its own slot
SELECT is(pg_temp.run(c), e, c) FROM (VALUES
	($$SELECT slot_at FROM pacer.book('s')$$, '1 rows, 1 slots, 1 booked'),
	($$SELECT (pacer.book('s')).slot_at$$, '1 rows, 1 slots, 1 booked'),
	($$SELECT slot_at FROM pacer.try_book('s', max_wait => NULL)$$, '1 rows, 1 slots, 1 booked'),
	($$SELECT slot_at FROM (SELECT (pacer.book('s')).*) b$$, '1 rows, 1 slots, 1 booked'),
	($$SELECT slot_at FROM (SELECT (pacer.try_book('s', max_wait => NULL)).*) b$$, '1 rows, 1 slots, 1 booked'),
	($$SELECT (b).slot_at FROM (SELECT pacer.book('s') b OFFSET 0) t$$, '1 rows, 1 slots, 1 booked'),
	($$WITH b AS (SELECT * FROM pacer.book('s')) SELECT slot_at FROM b$$, '1 rows, 1 slots, 1 booked'),
	($$WITH b AS (SELECT * FROM pacer.book('s')) SELECT b1.slot_at FROM b b1, b b2$$, '1 rows, 1 slots, 1 booked'),
	($$SELECT (pacer.book('s')).slot_at FROM generate_series(1, 3)$$, '3 rows, 3 slots, 3 booked'),
	($$SELECT slot_at FROM (SELECT (pacer.book('s')).* FROM generate_series(1, 3)) b$$, '3 rows, 3 slots, 3 booked'),
	($$SELECT slot_at FROM unnest('{s,s,s}'::text[]) n, pacer.book(n)$$, '3 rows, 3 slots, 3 booked'),
	($$SELECT slot_at FROM unnest('{s,s,s}'::text[]) n, LATERAL (SELECT * FROM pacer.book(n)) b$$, '3 rows, 3 slots, 3 booked'),
	($$SELECT pacer.nextslot('s') FROM generate_series(1, 3)$$, '3 rows, 3 slots, 3 booked'),
	($$SELECT pacer.nextslot('s') FROM generate_series(1, 3) g ORDER BY g DESC$$, '3 rows, 3 slots, 3 booked'),
	($$SELECT pacer.nextslot('s') FROM generate_series(1, 3) WHERE false$$, '0 rows, 0 slots, 0 booked'),
	($$SELECT CASE WHEN g = 1 THEN pacer.nextslot('s') END FROM generate_series(1, 3) g$$, '3 rows, 1 slots, 1 booked'),
	($$SELECT coalesce(now(), pacer.nextslot('s'))$$, '1 rows, 1 slots, 0 booked'),
	-- the two that give many rows one slot: documented, nextslot() per row instead
	($$SELECT (SELECT slot_at FROM pacer.book('s')) FROM generate_series(1, 3)$$, '3 rows, 1 slots, 1 booked'),
	($$SELECT slot_at FROM generate_series(1, 3), LATERAL (SELECT * FROM pacer.book('s')) b$$, '3 rows, 1 slots, 1 booked'),
	($$SELECT slot_at FROM generate_series(1, 3), pacer.book('s')$$, '3 rows, 1 slots, 1 booked'),
	($$SELECT (SELECT pacer.nextslot('s')) FROM generate_series(1, 3)$$, '3 rows, 1 slots, 1 booked')) t(c, e);

-- two calls are two bookings, however alike they look
SELECT pg_temp.books();
SELECT isnt(a.slot_at, b.slot_at, 'two in FROM') FROM pacer.book('s') a, pacer.book('s') b;
SELECT is(pg_temp.books(), 2::bigint, 'are two');
SELECT isnt((a).slot_at, (b).slot_at, 'two in the target list') FROM (SELECT pacer.book('s') a, pacer.book('s') b) t;
SELECT is(pg_temp.books(), 2::bigint, 'are two');
SELECT isnt(a, b, 'two nextslot()') FROM (SELECT pacer.nextslot('s') a, pacer.nextslot('s') b OFFSET 0) t;
SELECT is(pg_temp.books(), 2::bigint, 'are two');

-- stored: views, rules, functions in SQL and PL/pgSQL
CREATE TEMP VIEW expanded AS SELECT (pacer.book('s')).*;
CREATE TEMP VIEW from_item AS SELECT * FROM pacer.book('s');
CREATE FUNCTION pg_temp.sql_body() RETURNS SETOF pacer.booking BEGIN ATOMIC SELECT (pacer.book('s')).*; END;
CREATE FUNCTION pg_temp.plpgsql_body() RETURNS pacer.booking LANGUAGE plpgsql AS $$
DECLARE b pacer.booking;
BEGIN
	SELECT * INTO b FROM pacer.book('s');
	RETURN b;
END $$;
CREATE FUNCTION pg_temp.plpgsql_expression() RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE t timestamptz := pacer.nextslot('s');
BEGIN
	RETURN t;
END $$;
SELECT is(pg_temp.run(c), '1 rows, 1 slots, 1 booked', c) FROM (VALUES
	('SELECT slot_at FROM expanded'), ('SELECT slot_at FROM from_item'), ('SELECT slot_at FROM pg_temp.sql_body()'),
	('SELECT slot_at FROM pg_temp.plpgsql_body()'), ('SELECT pg_temp.plpgsql_expression()'),
	('SELECT slot_at FROM (SELECT * FROM expanded) a JOIN (SELECT 1) b ON true')) t(c);

-- what does not run does not book
SELECT pg_temp.books();
PREPARE later AS SELECT * FROM pacer.book('s');
PREPARE later_expanded (text) AS SELECT (pacer.book($1)).*;
EXPLAIN SELECT * FROM pacer.book('s');
EXPLAIN SELECT (pacer.book('s')).*;
EXPLAIN EXECUTE later;
EXPLAIN INSERT INTO counted SELECT 1 FROM pacer.book('s');
SELECT is(pg_temp.books(), 0::bigint, 'PREPARE and EXPLAIN book nothing');
EXECUTE later;
SELECT is(pg_temp.books(), 1::bigint, 'EXECUTE does');
EXPLAIN (ANALYZE, TIMING off, SUMMARY off, COSTS off) SELECT * FROM pacer.book('s');
SELECT is(pg_temp.books(), 1::bigint, 'so does EXPLAIN ANALYZE');
DO $$ BEGIN FOR i IN 1..10 LOOP EXECUTE 'EXECUTE later_expanded(''s'')'; END LOOP; END $$;
SELECT is(pg_temp.books(), 10::bigint, 'and a generic plan, each time');
CREATE VIEW never_run AS SELECT pacer.nextslot('s');
CREATE FUNCTION pg_temp.never_run() RETURNS timestamptz RETURN pacer.nextslot('s');
SELECT is(pg_temp.books(), 0::bigint, 'a definition books nothing');

-- cursors, RETURNING, defaults
DECLARE c CURSOR FOR SELECT pacer.nextslot('s') FROM generate_series(1, 100);
SELECT is(pg_temp.books(), 0::bigint, 'a cursor books as it is read');
FETCH 2 FROM c;
SELECT is(pg_temp.books(), 2::bigint, 'two rows, two slots');
CLOSE c;
CREATE TEMP TABLE queue (id int, run_at timestamptz DEFAULT pacer.nextslot('s'));
SELECT is(pg_temp.run('SELECT 1'), '1 rows, 1 slots, 0 booked', 'a default books nothing');
INSERT INTO queue SELECT g FROM generate_series(1, 50) g;
SELECT is((SELECT count(DISTINCT run_at) FROM queue), 50::bigint, 'until rows are inserted');
SELECT is(pg_temp.books(), 50::bigint, 'one each');
ALTER TABLE queue ADD COLUMN second timestamptz DEFAULT pacer.nextslot('s');
SELECT is(pg_temp.books(), 50::bigint, 'as does ADD COLUMN for the rows that are there');
SELECT is((SELECT count(DISTINCT second) FROM queue), 50::bigint, 'each its own');
COPY queue (id) FROM STDIN;
1
2
3
\.
SELECT is(pg_temp.books(), 6::bigint, 'and COPY');
SELECT is((SELECT max(run_at) - min(run_at) >= interval '52 h' FROM queue), true, 'all an interval apart');

SELECT finish();
ROLLBACK;
