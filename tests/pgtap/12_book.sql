-- book(), try_book(), nextslot(), peek(), release(), status: answers, and every error with its text
BEGIN;
\ir 3_support.psql
SELECT plan(80);

-- ----------------------------------------------------------------
-- What a booking says
-- ----------------------------------------------------------------
SELECT pacer.create_source('b', '1 h', remembered => 200);
SELECT set_config('test.before', clock_timestamp()::text, false);
SELECT pg_temp.take('g', 'b');
SELECT is(((booking).source, (booking).wait, (booking).wait_ms), ('b'::text, '0'::interval, 0::float8), 'the first starts at once')
	FROM taken WHERE who = 'g';
SELECT ok(pg_temp.slot('g') BETWEEN current_setting('test.before')::timestamptz AND clock_timestamp(), 'now, by the server''s clock');
SELECT ok(pg_temp.slot('g') > transaction_timestamp(), 'which is not the time of the transaction');
SELECT ok(pg_temp.ticket('g') > 0, 'it has a ticket');
SELECT ok(pg_temp.is_about(pg_temp.take('h', 'b'), '1 h'), 'the second waits');
SELECT is(pg_temp.slot_after('h', 'g'), '1 h', 'exactly an interval');
SELECT is(wait_ms, ceil(extract(epoch FROM wait) * 1000)::float8, 'wait_ms is the wait in whole milliseconds, rounded up') FROM pacer.book('b');
SELECT isnt(pg_temp.ticket('h'), pg_temp.ticket('g'), 'another ticket');
SELECT ok(abs(pg_temp.ticket('h') - pg_temp.ticket('g')) > 1000, 'which cannot be guessed from the first');
SELECT is((count(DISTINCT ticket), bool_and(ticket BETWEEN 1 AND 281474976710655)), (60::bigint, true), 'tickets are distinct numbers of 48 bits')
	FROM (SELECT (pacer.book('b')).* FROM generate_series(1, 60)) t;

-- a wait that is not 0 is a slot ahead, and 0 is a start
SELECT is((booked, waiting, last_start), (63::bigint, 62::bigint, pg_temp.slot('g')), 'status counts them') FROM pacer.source_status('b');
SELECT is(pacer.release(pg_temp.booking('g')), 'started', 'a wait of 0 is a start that was recorded');

-- ----------------------------------------------------------------
-- Arguments
-- ----------------------------------------------------------------
SELECT is(pg_temp.error('SELECT pacer.' || c), e, c) FROM (VALUES
	($$book('nobody')$$, '42704 | source "nobody" does not exist'),
	($$book('')$$, '42704 | source "" does not exist'),
	($$book('B')$$, '42704 | source "B" does not exist'),
	($$book(E'a "b" \n%s')$$, E'42704 | source "a "b" \n%s" does not exist'),
	($$book(NULL)$$, '22004 | source must not be null'),
	($$book('b', NULL)$$, '22004 | permits must not be null'),
	($$book('b', 0)$$, '22023 | permits must be at least 1, not 0'),
	($$book('b', -2147483648)$$, '22023 | permits must be at least 1, not -2147483648'),
	($$book('b', max_wait => '-1 us')$$, '22023 | max_wait must be at least 0 and must not have months'),
	($$book('b', max_wait => '1 month')$$, '22023 | max_wait must be at least 0 and must not have months'),
	($$book('b', max_wait => '1 month -30 days')$$, '22023 | max_wait must be at least 0 and must not have months'),
	($$book('b', key => '')$$, '22023 | key must not be empty'),
	($$try_book('nobody')$$, '42704 | source "nobody" does not exist'),
	($$try_book(NULL)$$, '22004 | source must not be null'),
	($$try_book('b', 0)$$, '22023 | permits must be at least 1, not 0'),
	($$try_book('b', NULL)$$, '22004 | permits must not be null'),
	($$try_book('b', max_wait => '-1 s')$$, '22023 | max_wait must be at least 0 and must not have months'),
	($$nextslot('nobody')$$, '42704 | source "nobody" does not exist'),
	($$nextslot(NULL)$$, '22004 | source must not be null'),
	($$peek('nobody')$$, '42704 | source "nobody" does not exist'),
	($$peek(NULL)$$, '22004 | source must not be null'),
	($$release('nobody', 1)$$, '42704 | source "nobody" does not exist'),
	($$release(NULL, 1)$$, '22004 | source must not be null'),
	($$release('b', NULL)$$, '22004 | ticket must not be null'),
	($$release(NULL)$$, '22004 | booking must not be null'),
	($$release(ROW(NULL, 1, NULL, NULL, NULL)::pacer.booking)$$, '22004 | source must not be null'),
	($$release(ROW('b', NULL, NULL, NULL, NULL)::pacer.booking)$$, '22004 | ticket must not be null'),
	($$release(ROW('nobody', 1, NULL, NULL, NULL)::pacer.booking)$$, '42704 | source "nobody" does not exist')) t(c, e);
SELECT is(pg_temp.error(format('SELECT pacer.book(%L)', repeat('x', 256))), '42704 | source "' || repeat('x', 256) || '" does not exist',
	'a name too long is a name that no source has');
SELECT is(booked, 63::bigint, 'none of that booked') FROM pacer.source_status('b');
SELECT is_empty($$SELECT * FROM pacer.source_status('nobody')$$, 'the status of no source is no row');

-- ----------------------------------------------------------------
-- Refusals
-- ----------------------------------------------------------------
SELECT pacer.create_source('r', '1 h', max_waiting => 2);
SELECT pg_temp.take('r1', 'r');
SELECT is(pg_temp.refusal($$SELECT pacer.book('r', max_wait => '0')$$),
	'PC002 | could not book a slot for "r" within 0 ms | The earliest slot is at T, in N ms.', 'not at once');
SELECT pg_temp.take('r2', 'r');
SELECT is(pg_temp.refusal($$SELECT pacer.book('r', max_wait => '500 ms')$$),
	'PC002 | could not book a slot for "r" within 500 ms | The earliest slot is at T, in N ms.', 'not within 500 ms');
SELECT is(pg_temp.refusal($$SELECT pacer.book('r', max_wait => '1 s 500 us')$$),
	'PC002 | could not book a slot for "r" within 1000500 us | The earliest slot is at T, in N ms.', 'a bound that is no whole milliseconds');
SELECT is(pg_temp.error($$SELECT pacer.book('r', max_wait => '500 ms')$$)
	~ ('The earliest slot is at ' || regexp_replace((pg_temp.slot('r2') + interval '1 h')::text, '([.+])', '\\\1', 'g') || ', in \d+ ms\.$'),
	true, 'DETAIL tells the slot that a patient caller would get');
SELECT is(int4range(6900000, 7200001) @> substring(pg_temp.error($$SELECT pacer.book('r', max_wait => '500 ms')$$) FROM ', in (\d+) ms')::int, true,
	'and how far that is');
SELECT pg_temp.take('r3', 'r');
SELECT is(pg_temp.refusal($$SELECT pacer.book('r')$$),
	'PC001 | could not book a slot for "r": 2 callers are waiting already | The earliest slot is at T, in N ms.', 'the line is full');
SELECT is(pg_temp.refusal($$SELECT pacer.book('r', max_wait => '1 s')$$) LIKE 'PC001 | %', true, 'which is said before the bound of the wait');
UPDATE pacer.source SET max_waiting = 1 WHERE name = 'r';
SELECT is(pg_temp.refusal($$SELECT pacer.book('r')$$),
	'PC001 | could not book a slot for "r": 1 caller is waiting already | The earliest slot is at T, in N ms.', 'one is a number, too');
UPDATE pacer.source SET max_waiting = 0 WHERE name = 'r';
SELECT is(pg_temp.refusal($$SELECT pacer.book('r')$$),
	'PC001 | could not book a slot for "r": 0 callers are waiting already | The earliest slot is at T, in N ms.', 'nobody may wait');
UPDATE pacer.source SET max_waiting = NULL, max_wait = '90 min' WHERE name = 'r';
SELECT is(pg_temp.refusal($$SELECT pacer.book('r')$$),
	'PC002 | could not book a slot for "r" within 5400000 ms | The earliest slot is at T, in N ms.', 'the bound of the source');
SELECT is(pg_temp.refusal($$SELECT pacer.book('r', max_wait => '1 day')$$),
	'PC002 | could not book a slot for "r" within 5400000 ms | The earliest slot is at T, in N ms.', 'whatever the caller would bear');
SELECT is(pg_temp.refusal($$SELECT pacer.nextslot('r')$$),
	'PC002 | could not book a slot for "r" within 5400000 ms | The earliest slot is at T, in N ms.', 'binds an appointment, too');
UPDATE pacer.source SET quota = 3, quota_window = '1 day' WHERE name = 'r';
SELECT is(pg_temp.error($$SELECT pacer.book('r', 4)$$), '22023 | cannot book 4 permits of "r": its quota is 3', 'more than a window has');
SELECT is((booked, waiting, next_request_at), (3::bigint, 2::bigint, pg_temp.slot('r3') + interval '1 h'), 'a refusal changes nothing')
	FROM pacer.source_status('r');
-- errors inside a subtransaction count like others: a refusal is not rolled back either
SELECT is(refused, CASE WHEN :extension THEN 12 ELSE 0 END::bigint, 'but that it was refused') FROM pacer.source_status('r');

-- try_book() answers instead
UPDATE pacer.source SET max_waiting = 2, max_wait = NULL, quota = NULL, quota_window = NULL WHERE name = 'r';
SELECT is((ticket, source, slot_at), (NULL::bigint, 'r'::text, pg_temp.slot('r3') + interval '1 h'), 'refused for the line: no ticket, the earliest slot')
	FROM pacer.try_book('r');
UPDATE pacer.source SET max_waiting = NULL WHERE name = 'r';
SELECT is((ticket, slot_at), (NULL::bigint, pg_temp.slot('r3') + interval '1 h'), 'refused for the wait') FROM pacer.try_book('r');
SELECT ok(pg_temp.is_about(wait, '3 h') AND wait_ms = ceil(extract(epoch FROM wait) * 1000), 'with the wait') FROM pacer.try_book('r', max_wait => '1 min');
SELECT is((ticket IS NULL, slot_at), (false, pg_temp.slot('r3') + interval '1 h'), 'booked where the bound allows it') FROM pacer.try_book('r', max_wait => '3 h');
SELECT is(ticket IS NULL, false, 'or there is none') FROM pacer.try_book('r', max_wait => NULL);
SELECT pacer.create_source('r0', '1 h');
SELECT is((ticket IS NULL, wait), (false, '0'::interval), 'booked at once') FROM pacer.try_book('r0');
SELECT is((booked, waiting), (1::bigint, 0::bigint), 'and counted') FROM pacer.source_status('r0');

-- ----------------------------------------------------------------
-- peek
-- ----------------------------------------------------------------
SELECT pacer.create_source('p', '1 h', max_waiting => 0, max_wait => '1 s');
SELECT is((ticket, wait, wait_ms), (NULL::bigint, '0'::interval, 0::float8), 'an idle source') FROM pacer.peek('p');
SELECT is(booked, 0::bigint, 'nothing is booked') FROM pacer.source_status('p');
SELECT pg_temp.take('p', 'p');
SELECT is((source, ticket, slot_at), ('p'::text, NULL::bigint, pg_temp.slot('p') + interval '1 h'), 'the next slot, whatever the source''s bounds') FROM pacer.peek('p');
SELECT is((SELECT slot_at FROM pacer.peek('p')), (SELECT slot_at FROM pacer.peek('p')), 'any number of times');

-- ----------------------------------------------------------------
-- release: what it answers
-- ----------------------------------------------------------------
SELECT pacer.create_source('l', '150 ms');
SELECT pg_temp.take('lg', 'l'), pg_temp.take('lh', 'l'), pg_temp.take('li', 'l');
UPDATE pacer.source SET start_interval = '1 h' WHERE name = 'l';
SELECT pg_temp.take('lj', 'l'), pg_temp.take('lk', 'l');
SELECT is(pacer.release('l', pg_temp.ticket('lk')), 'released', 'before its time');
SELECT is(pacer.release('l', pg_temp.ticket('lk')), 'unknown', 'once');
SELECT is(pg_temp.release('lg'), 'started', 'after its start');
DO $$ BEGIN WHILE clock_timestamp() <= (SELECT pg_temp.slot('lh')) LOOP PERFORM pg_sleep(0.01); END LOOP; END $$;
SELECT set_config('test.head', pg_temp.head('l')::text, false);
SELECT is(pg_temp.release('lh'), 'passed', 'after its time');
SELECT is(pg_temp.head('l'), current_setting('test.head')::timestamptz, 'which gives nothing back');
SELECT is(released, 1::bigint, 'one was released') FROM pacer.source_status('l');

-- ----------------------------------------------------------------
-- nextslot: an appointment
-- ----------------------------------------------------------------
SELECT pacer.create_source('n', '1 h', max_waiting => 0, remembered => 4);
CREATE TEMP TABLE job (id int, run_at timestamptz NOT NULL DEFAULT pacer.nextslot('n'));
INSERT INTO job (id) VALUES (1);
INSERT INTO job (id) SELECT g FROM generate_series(2, 1000) g;
SELECT is((count(DISTINCT run_at), max(run_at) - min(run_at)), (1000::bigint, interval '999 h'), 'a default for each row')
	FROM job;
SELECT is(min(d), '1 h', 'an interval apart') FROM (SELECT run_at - lag(run_at) OVER (ORDER BY id) d FROM job) t WHERE d IS NOT NULL;
SELECT is((booked, waiting), (1000::bigint, 0::bigint), 'none of them waits') FROM pacer.source_status('n');
INSERT INTO job VALUES (1001, '2000-01-01');
SELECT is(booked, 1000::bigint, 'a given value books nothing') FROM pacer.source_status('n');
UPDATE job SET run_at = DEFAULT WHERE id = 1001;
SELECT is(booked, 1001::bigint, 'asked for it is booked') FROM pacer.source_status('n');

SELECT finish();
ROLLBACK;
