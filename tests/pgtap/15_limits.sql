-- Numbers and clocks at their limits: idling, long transactions, rounding, overflow, changed intervals
BEGIN;
\ir 3_support.psql
SELECT plan(44);

-- A07: whoever idles builds up no credit. The head is put into the past, as ten seconds of
-- idling would.
SELECT pacer.create_source('a07', '1 h');
SELECT pg_temp.take('one', 'a07');
SELECT ok(pacer.rewind('a07', clock_timestamp() - interval '10 h') < now() - interval '9 h', 'ten intervals of idling');
SELECT pg_temp.take(n::text, 'a07') FROM generate_series(0, 4) n;
SELECT is((SELECT array_agg(pg_temp.slot_after(n::text, '0') ORDER BY n) FROM generate_series(0, 4) n),
	'{0,1 h,2 h,3 h,4 h}', 'five callers: one at once, the others an interval apart');
SELECT is((SELECT count(*) FROM taken WHERE who ~ '^\d$' AND (booking).wait = '0'), 1::bigint, 'never two at once');

-- A06: in a transaction the clock goes on
SELECT pacer.create_source('a06', '1 h');
SELECT pg_sleep(0.3);
SELECT set_config('test.before', clock_timestamp()::text, false);
SELECT pg_temp.take('late', 'a06'), pg_temp.take('later', 'a06');
SELECT ok(pg_temp.slot('late') >= current_setting('test.before')::timestamptz, 'no slot before the call');
SELECT ok(pg_temp.slot('late') > transaction_timestamp() + interval '0.3 s', 'whenever the transaction began');
SELECT is(pg_temp.slot_after('later', 'late'), '1 h', 'the second an interval after it');
SELECT ok((SELECT bool_and((booking).wait >= '0' AND (booking).wait_ms >= 0) FROM taken), 'no wait is negative');

-- A13: microseconds, exactly. All slots lie ahead, where no stall of the machine gets between them.
SELECT pacer.create_source('a13', '1333 us', max_waiting => 2000);
SELECT pacer.advance('a13', clock_timestamp() + interval '1 h');
SELECT is((count(*), max(s) - min(s)), (1001::bigint, interval '1333000 us'), '1001 bookings at 1333 us take 1333000 us')
	FROM (SELECT (pacer.book('a13')).slot_at s FROM generate_series(1, 1001)) t;
SELECT pacer.create_source('a13b', pacer.every(3, '1 s'), max_waiting => 2000);
SELECT pacer.advance('a13b', clock_timestamp() + interval '1 h');
SELECT is((count(DISTINCT d), min(d)), (1::bigint, interval '333334 us'), 'three a second, never a fourth')
	FROM (SELECT s - lag(s) OVER (ORDER BY s) d FROM (SELECT pacer.nextslot('a13b') s FROM generate_series(1, 1000)) u) t WHERE d IS NOT NULL;
SELECT pacer.create_source('a13c', '1 us');
SELECT lives_ok($$SELECT pacer.nextslot('a13c') FROM generate_series(1, 1000)$$, 'the shortest interval');

-- A10: what does not fit into time
SELECT pacer.create_source('a10', '2000000000 hours');
SELECT is(pg_temp.take('a10', 'a10'), '0', 'the first is booked');
SELECT is(pg_temp.error($$SELECT pacer.book('a10')$$), '22008 | cannot book 1 permits of "a10": timestamp out of range', 'the second is not');
SELECT is(pg_temp.error($$SELECT pacer.try_book('a10', max_wait => NULL)$$), '22008 | cannot book 1 permits of "a10": timestamp out of range', 'nor tried');
SELECT is(pg_temp.error($$SELECT pacer.nextslot('a10')$$), '22008 | cannot book 1 permits of "a10": timestamp out of range', 'nor is an appointment');
SELECT is(pg_temp.error($$SELECT pacer.peek('a10')$$), '22008 | cannot book 1 permits of "a10": timestamp out of range', 'peek says the same');
SELECT is(pg_temp.error($$SELECT pacer.book('a10', 2)$$), '22008 | cannot book 2 permits of "a10": timestamp out of range', 'twice the interval does not fit at all');
SELECT is(pg_temp.head_after('a10', 'a10'), '2000000000 hours', 'the head stays');
SELECT is((booked, refused, waiting), (1::bigint, 0::bigint, 0::bigint), 'as does what is counted') FROM pacer.source_status('a10');
SELECT pacer.create_source('a10b', '1 s');
SELECT is(pg_temp.take('many', 'a10b', 2147483647), '0', 'as many permits as there are numbers');
SELECT is(pg_temp.head_after('a10b', 'many'), '2147483647 s', 'take as many intervals');
SELECT pacer.advance('a10b', '294276-12-31 23:59:59.999999+00');
SELECT is(pg_temp.error($$SELECT pacer.book('a10b')$$),
	'22008 | cannot book 1 permits of "a10b": timestamp out of range', 'the last instant there is');
SELECT is(pg_temp.error($$SELECT pacer.advance('a10b', 'infinity')$$), '22023 | to_time must be a finite time after 2000-01-01', 'the head is never infinite');
SELECT is(isfinite(next_request_at), true, 'nor null') FROM pacer.source_status('a10b');
SELECT is((ticket IS NULL, wait_ms > 8e15), (true, true), 'the wait until then is a number') FROM pacer.try_book('a10b');
SELECT pacer.create_source('a10c', '1 us', burst => 2147483647);
SELECT is(pg_temp.take('burst', 'a10c'), '0', 'the largest burst');

-- A wait longer than a 32-bit timer of milliseconds
SELECT pacer.create_source('a09', '30 days');
SELECT pg_temp.take('a09', 'a09');
SELECT ok(wait_ms > 2147483647 AND wait_ms <= 2592000000, 'thirty days in milliseconds') FROM pacer.book('a09');

-- A14: the interval is changed while callers wait
SELECT pacer.create_source('a14', '1 h', max_waiting => 10);
SELECT pg_temp.take('g', 'a14'), pg_temp.take('w', 'a14');
UPDATE pacer.source SET start_interval = '1 s' WHERE name = 'a14';
SELECT is(pg_temp.waiting('a14'), 1::bigint, 'one is waiting, not 7200');
SELECT isnt(pg_temp.take('x', 'a14'), NULL, 'so there is room for another');
SELECT is(pg_temp.slot_after('x', 'g'), '2 h', 'behind what was booked');
SELECT is(pg_temp.release('x'), 'released', 'given back');
SELECT is(pg_temp.release('w'), 'released', 'the one from before');
SELECT is(pg_temp.head_after('a14', 'g'), '1 h', 'gives back what it took');
SELECT pg_temp.take('v', 'a14');
UPDATE pacer.source SET start_interval = '1 day' WHERE name = 'a14';
SELECT is(pg_temp.slot_after('v', 'g'), '1 h', 'nothing that is booked moves');
SELECT is(pg_temp.head_after('a14', 'v'), '1 s', 'nor the head');

-- A line longer than the row remembers
SELECT pacer.create_source('long', '1 h', remembered => 4, max_waiting => 1000);
SELECT pg_temp.take('long' || n, 'long') FROM generate_series(1, 1001) n;
SELECT is(pg_temp.waiting('long'), 1000::bigint, 'all are counted');
SELECT is(pg_temp.refusal($$SELECT pacer.book('long')$$),
	'PC001 | could not book a slot for "long": 1000 callers are waiting already | The earliest slot is at T, in N ms.', 'and refused by the count');
SELECT is(pg_temp.release('long2'), 'unknown', 'one that was forgotten cannot be given back');
SELECT is(pg_temp.release('long1001'), 'released', 'the latest can');
SELECT is(pg_temp.waiting('long'), 999::bigint, 'which leaves one less');

-- The largest row
SELECT pacer.create_source('large', '1 h', remembered => 200, max_waiting => NULL);
SELECT pg_temp.take('large' || n, 'large') FROM generate_series(1, 300) n;
SELECT is(pg_temp.release('large102'), 'released', 'the oldest of two hundred');
SELECT is(pg_temp.release('large100'), 'unknown', 'and one before it');
SELECT is(pg_temp.waiting('large'), 298::bigint, 'all counted');

-- A step of the clock is a matter of unit tests; here only that two readings agree
SELECT pacer.create_source('clock', '1 ms');
SELECT is((SELECT count(*) FROM generate_series(1, 2000) WHERE pacer.nextslot('clock') IS NULL), 0::bigint, 'two thousand calls');
SELECT ok(pg_temp.head('clock') <= clock_timestamp() + interval '3 s', 'the schedule does not run away');

SELECT finish();
ROLLBACK;
