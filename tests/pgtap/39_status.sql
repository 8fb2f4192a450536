-- pacer.status: what an operator asks first
BEGIN;
\ir 3_support.psql
SELECT plan(41);

-- its columns are a contract
SELECT is(array_agg(attname || ' ' || format_type(atttypid, -1) ORDER BY attnum), ARRAY[
	'name text', 'start_interval interval', 'burst integer', 'max_waiting integer', 'max_wait interval', 'quota integer',
	'quota_window interval', 'quota_origin timestamp with time zone', 'remembered integer',
	'next_request_at timestamp with time zone', 'waiting bigint', 'paused_until timestamp with time zone', 'quota_left integer',
	'last_start timestamp with time zone', 'last_used_before timestamp with time zone', 'booked bigint', 'refused bigint',
	'released bigint', 'confirmed bigint', 'late bigint', 'waited interval', 'run_ok boolean'], 'columns')
	FROM pg_attribute WHERE attrelid = 'pacer.status'::regclass AND attnum > 0;
SELECT is(count(*), 0::bigint, 'each that is not configuration is explained') FROM pg_attribute
	WHERE attrelid = 'pacer.status'::regclass AND attnum > 9 AND col_description(attrelid, attnum) IS NULL;

-- a new source
DELETE FROM pacer.source;
INSERT INTO pacer.source (name, start_interval) VALUES ('plain', '1 h');
SELECT is(count(*), 1::bigint, 'one row for each source') FROM pacer.status;
SELECT is((burst, max_waiting, max_wait, quota, quota_window, remembered),
	(1, 100, NULL::interval, NULL::int, NULL::interval, 32), 'configuration, with its defaults') FROM pacer.status;
SELECT is((next_request_at, last_start, last_used_before, paused_until, quota_left),
	(NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::int), 'never used, not paused, no quota') FROM pacer.status;
SELECT is((waiting, booked, refused, released, confirmed, late, waited),
	(0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, '0'::interval), 'nothing has happened') FROM pacer.status;

UPDATE pacer.source SET burst = 2, max_waiting = NULL, max_wait = '1 day 2 h', quota = 9, quota_window = '7 days', quota_origin = now();
SELECT is((name, start_interval, burst, max_waiting, max_wait, quota, quota_window, quota_origin, remembered),
	('plain'::text, '1 h'::interval, 2, NULL::int, '26 h'::interval, 9, '168 h'::interval, now(), 32), 'configuration as it is now') FROM pacer.status;
SELECT is(quota_left, 9, 'quota left') FROM pacer.status;

-- bookings
SELECT pg_temp.take('a', 'plain');
SELECT is((next_request_at, last_start), (pg_temp.slot('a') + interval '1 h', pg_temp.slot('a')), 'an immediate booking is a start') FROM pacer.status;
SELECT cmp_ok(last_used_before, '>=', next_request_at, 'what is durable is no earlier') FROM pacer.status;
SELECT is(run_ok, true, 'used in this run of the server') FROM pacer.status;
SELECT is((waiting, booked, confirmed, quota_left), (0::bigint, 1::bigint, 0::bigint, 8), 'one booking') FROM pacer.status;
SELECT pg_temp.take('b', 'plain'), pg_temp.take('c', 'plain'), pg_temp.take('d', 'plain');
SELECT is((waiting, booked, quota_left), (2::bigint, 4::bigint, 5), 'two with a burst, two waiting') FROM pacer.status;
SELECT ok(waited <= '3 h' AND waited > '2 h 59 min', 'their waits') FROM pacer.status;
SELECT throws_ok('SELECT pacer.book(''plain'', max_wait => ''1 s'')', 'PC002', NULL, 'a refusal');
SELECT is(count(*), 1::bigint, 'another') FROM pacer.try_book('plain') WHERE ticket IS NULL;
-- without the extension the error takes the count of the first back
SELECT is((refused, booked, waiting), (CASE WHEN :extension THEN 2 ELSE 1 END::bigint, 4::bigint, 2::bigint), 'are counted') FROM pacer.status;
SELECT pg_temp.release('d');
SELECT is((released, waiting, quota_left), (1::bigint, 1::bigint, 6), 'a release') FROM pacer.status;
SELECT is(pg_temp.release('d'), 'unknown', 'again');
SELECT is(released, 1::bigint, 'counts once') FROM pacer.status;
SELECT pacer.nextslot('plain');
SELECT is((booked, waiting), (5::bigint, 1::bigint), 'an appointment is a booking, but no caller') FROM pacer.status;
SELECT cmp_ok(last_used_before, '>=', next_request_at, 'what is durable is no earlier still') FROM pacer.status;

-- confirms
INSERT INTO pacer.source (name, start_interval) VALUES ('due', '20 ms');
SELECT pg_temp.take('g', 'due'), pg_temp.take('h', 'due'), pg_temp.take('i', 'due'), pg_sleep(0.1);
SELECT is(waiting, 0::bigint, 'whose time has come waits no more') FROM pacer.source_status('due');
UPDATE pacer.source SET start_interval = '1 h' WHERE name = 'due';
SELECT pg_temp.confirm('h'), pg_temp.confirm('i');
SELECT is((confirmed, late, waiting), (1::bigint, 1::bigint, 1::bigint), 'a start, and one told to wait') FROM pacer.source_status('due');
SELECT cmp_ok(last_start, '>=', pg_temp.slot('g') + interval '100 ms', 'the last start is that of the confirm') FROM pacer.source_status('due');

-- paused
SELECT set_config('test.until', pacer.pause('due', '1 h')::text, false);
SELECT is(paused_until, current_setting('test.until')::timestamptz, 'a pause') FROM pacer.source_status('due');
SELECT pacer.pause('plain', '10 ms'), pg_sleep(0.02);
SELECT is(paused_until, NULL, 'one that is over is none') FROM pacer.source_status('plain');

-- several
INSERT INTO pacer.source (name, start_interval) SELECT n, '1 s' FROM unnest('{é,z,Z,"a b","it''s"}'::text[]) n;
SELECT is(array_agg(name), '{Z,"a b",due,it''s,plain,z,é}', 'by name, byte for byte') FROM pacer.status;
SELECT is(name, 'it''s', 'one of them') FROM pacer.source_status('it''s');
SELECT is(count(*), 0::bigint, 'one that there is not') FROM pacer.source_status('none');
SELECT is(count(*), 7::bigint, 'NULL is all of them') FROM pacer.source_status(NULL);
SELECT is(booked, 0::bigint, 'each has its own') FROM pacer.source_status('z');
DELETE FROM pacer.source WHERE name = 'z';
SELECT is(count(*), 6::bigint, 'a deleted one is gone') FROM pacer.status;

-- read only: it changes nothing
SELECT is(pg_temp.error('SET LOCAL transaction_read_only = on; SELECT * FROM pacer.status; SELECT pacer.peek(''plain'');
	SELECT * FROM pacer.source_status(''plain''); SELECT 1/0'), '22012 | division by zero', 'status and peek work in a read-only transaction');

-- sources that are gone leave no trace that would harm a reader of those that are there
INSERT INTO pacer.source (name, start_interval) SELECT 'many ' || n, '1 s' FROM generate_series(1, 300) n;
SAVEPOINT s;
INSERT INTO pacer.source (name, start_interval) SELECT 'gone ' || n, '1 s' FROM generate_series(1, 300) n;
ROLLBACK TO s;
DELETE FROM pacer.source WHERE name LIKE 'many %7';
SELECT is(array_agg(s.name), (SELECT array_agg(name ORDER BY name) FROM pacer.source), 'every source that is there, after many have gone')
	FROM generate_series(1, 3) n, LATERAL (SELECT name FROM pacer.status WHERE n > 0) s GROUP BY n LIMIT 1;
DELETE FROM pacer.source WHERE name LIKE 'many %';

-- sources that nobody uses any more can be found and deleted in bulk
SELECT is(array_agg(name), '{Z,"a b",it''s,é}', 'never used') FROM pacer.status WHERE last_used_before IS NULL;
SELECT pacer.advance('Z', '2001-01-01');
DELETE FROM pacer.source WHERE name IN (SELECT name FROM pacer.status WHERE coalesce(last_used_before, '2000-01-01') < now() - interval '30 days');
SELECT is(array_agg(name), '{due,plain}', 'what is used is left') FROM pacer.status;

-- peek
SELECT is((source, ticket), ('plain'::text, NULL::bigint), 'peek has no ticket') FROM pacer.peek('plain');
SELECT is(p.slot_at, pg_temp.slot('d') + interval '1 h', 'it sees where the next booking goes') FROM pacer.peek('plain') p;
SELECT is(pg_temp.error('SELECT pacer.peek(''none'')'), '42704 | source "none" does not exist', 'unknown source');
SELECT is(pg_temp.error('SELECT pacer.peek(NULL)'), '22004 | source must not be null', 'NULL source');

SELECT * FROM finish();
ROLLBACK;
