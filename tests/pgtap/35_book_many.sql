-- book_many(): n single slots in one call, all or none
BEGIN;
\ir 3_support.psql
SELECT plan(27);

CREATE TEMP TABLE many (n bigint, b pacer.booking);
CREATE FUNCTION pg_temp.many(source text, n int, max_wait interval = NULL) RETURNS bigint LANGUAGE sql AS $$
	TRUNCATE many;
	INSERT INTO many SELECT row_number() OVER (), m FROM pacer.book_many($1, $2, $3) m;
	SELECT count(*) FROM many;
$$;
CREATE FUNCTION pg_temp.gaps() RETURNS interval[] LANGUAGE sql AS $$
	SELECT array_agg(gap ORDER BY n) FROM
		(SELECT n, (b).slot_at - lag((b).slot_at) OVER (ORDER BY n) AS gap FROM many) g WHERE gap IS NOT NULL
$$;

SELECT pacer.create_source('m', '1 h');
SELECT is(pg_temp.many('m', 4), 4::bigint, 'as many as asked for');
SELECT is(pg_temp.gaps(), '{1h,1h,1h}', 'an interval apart, in order');
SELECT is(array_agg((b).wait = '0' ORDER BY n), '{t,f,f,f}', 'the first starts at once') FROM many;
SELECT ok(bool_and(pg_temp.is_about((b).wait, (n - 1) * interval '1 h')), 'the others are told their waits') FROM many;
SELECT is(bool_and((b).wait_ms BETWEEN extract(epoch FROM (b).wait) * 1000 AND extract(epoch FROM (b).wait) * 1000 + 1), true, 'in milliseconds, too') FROM many;
SELECT is(count(DISTINCT (b).ticket), 4::bigint, 'each has its ticket') FROM many;
SELECT is(array_agg(DISTINCT (b).source), '{m}', 'of this source') FROM many;
SELECT is((booked, waiting), (4::bigint, 3::bigint), 'they are bookings') FROM pacer.source_status('m');
SELECT is(array_agg(pacer.release(b) ORDER BY n), '{started,released,released,released}', 'to be released one by one') FROM many;
SELECT is(pg_temp.head('m') - (b).slot_at, '1 h', 'and rewound over') FROM many WHERE n = 1;
SELECT ok(pg_temp.is_about(pacer.confirm(b), '1 h'), 'or confirmed') FROM pacer.book_many('m', 1) b;

-- none
SELECT pacer.create_source('none', '1 h', max_waiting => 3);
SELECT pg_temp.take('g', 'none');
SELECT is(pg_temp.refusal('SELECT pacer.book_many(''none'', 4)'),
	'PC001 | could not book a slot for "none": 3 callers are waiting already | The earliest slot is at T, in N ms.',
	'four do not fit where three may wait');
SELECT is(pg_temp.refusal('SELECT pacer.book_many(''none'', 3, ''150 min'')'),
	'PC002 | could not book a slot for "none" within 9000000 ms | The earliest slot is at T, in N ms.',
	'nor three within the time of two');
SELECT is((booked, waiting, refused), (1::bigint, 0::bigint, CASE WHEN :extension THEN 2 ELSE 0 END::bigint), 'nothing is booked')  FROM pacer.source_status('none');
SELECT is(pg_temp.head_after('none', 'g'), '1 h', 'nothing is moved');
SELECT is(pg_temp.many('none', 3, '3 h'), 3::bigint, 'three fit');

-- released places first
SELECT pacer.create_source('hole', '1 h');
SELECT pg_temp.take(who, 'hole') FROM unnest('{a,b,c,d}'::text[]) who;
SELECT pg_temp.release('b');
SELECT pg_temp.many('hole', 3);
SELECT is(array_agg((b).slot_at - pg_temp.slot('a') ORDER BY n), '{1h,4h,5h}', 'a released place is used, and moves nobody') FROM many;

-- as many as it remembers, burst and all
SELECT pacer.create_source('most', '1 h', burst => 3, max_waiting => NULL, remembered => 200);
SELECT pg_temp.take('g', 'most');
SELECT is(pg_temp.many('most', 200), 200::bigint, 'as many as a source remembers');
SELECT is(array_agg(DISTINCT pacer.release(b)), '{released,started}', 'which it does remember') FROM many;
SELECT is(pg_temp.head_after('most', 'g'), '3 h', 'all');

-- arguments
SELECT is(pg_temp.error('SELECT pacer.book_many(''m'', 33)'),
	'22023 | cannot book 33 slots for "m" at once: it remembers 32 bookings', 'more than it remembers');
SELECT is(pg_temp.error('SELECT pacer.book_many(''m'', 2147483647)'),
	'22023 | cannot book 2147483647 slots for "m" at once: it remembers 32 bookings', 'many more');
SELECT is(pg_temp.error('SELECT pacer.book_many(''m'', 0)'), '22023 | n must be at least 1, not 0', 'none');
SELECT is(pg_temp.error('SELECT pacer.book_many(''m'', NULL)'), '22004 | n must not be null', 'NULL');
SELECT is(pg_temp.error('SELECT pacer.book_many(NULL, 1)'), '22004 | source must not be null', 'NULL source');
SELECT is(pg_temp.error('SELECT pacer.book_many(''no'', 1)'), '42704 | source "no" does not exist', 'unknown source');
SELECT is(pg_temp.error('SET LOCAL transaction_read_only = on; SELECT pacer.book_many(''m'', 1)'),
	'25006 | cannot execute book_many() in a read-only transaction', 'read only');

SELECT * FROM finish();
ROLLBACK;
