-- burst: starts that may come at once after idling; permits: intervals that a start takes
BEGIN;
\ir 3_support.psql
SELECT plan(45);

-- burst
SELECT pacer.create_source('b', '1 h', burst => 3);
SELECT is(array_agg(pg_temp.take(who, 'b') = '0' ORDER BY who), '{t,t,t,f,f}', 'three at once, the others wait')
	FROM unnest('{a,b,c,d,e}'::text[]) who;
SELECT is(pg_temp.slot_after('d', 'a'), '1 h', 'the fourth until the first one''s interval is over');
SELECT is(pg_temp.slot_after('e', 'd'), '1 h', 'the fifth an interval more');
SELECT is(last_start, pg_temp.slot('c'), 'the immediate ones are starts') FROM pacer.source_status('b');
SELECT is(slot_at, pg_temp.slot('a') + interval '3 h', 'peek') FROM pacer.peek('b');
SELECT is(pg_temp.release('e'), 'released', 'the last one');
SELECT pg_temp.take('f', 'b');
SELECT is(pg_temp.slot('f'), pg_temp.slot('e'), 'is given back whole');
SELECT is(pg_temp.release('d'), 'released', 'one in the middle');
SELECT pg_temp.take('g', 'b');
SELECT is(pg_temp.slot('g'), pg_temp.slot('d'), 'is taken over');
SELECT is(pg_temp.release('a'), 'started', 'credit that was used is spent');

-- a changed burst
SELECT pacer.create_source('change', '1 h');
SELECT pg_temp.take('a', 'change'), pg_temp.take('b', 'change');
UPDATE pacer.source SET burst = 3 WHERE name = 'change';
SELECT is(pg_temp.take('c', 'change'), '0', 'more burst is credit at once');
SELECT ok(pg_temp.is_about(pg_temp.confirm('b'), '1 h'), 'what is booked stays');
UPDATE pacer.source SET burst = 1 WHERE name = 'change';
SELECT pg_temp.take('d', 'change');
SELECT is(pg_temp.slot_after('d', 'a'), '3 h', 'less burst takes the credit back');
SELECT ok(pg_temp.is_about(pg_temp.confirm('b'), '1 h'), 'and moves nothing either');

-- idling builds up no more than the burst
SELECT pacer.create_source('idle', '20 ms', burst => 2);
SELECT pacer.book('idle'), pg_sleep(0.2);
UPDATE pacer.source SET start_interval = '1 h' WHERE name = 'idle';
SELECT is(array_agg(pg_temp.take(who, 'idle') = '0' ORDER BY who), '{t,t,f}', 'ten intervals idle are a burst of two')
	FROM unnest('{a,b,c}'::text[]) who;
SELECT pacer.create_source('none', '20 ms');
SELECT pacer.book('none'), pg_sleep(0.2);
UPDATE pacer.source SET start_interval = '1 h' WHERE name = 'none';
SELECT is(array_agg(pg_temp.take(who, 'none') = '0' ORDER BY who), '{t,f,f}', 'and with a burst of one no credit at all')
	FROM unnest('{a,b,c}'::text[]) who;

-- a burst larger than time
SELECT pacer.create_source('endless', '1000 years'::interval - '1000 years' + '8766000 h', burst => 2147483647, max_waiting => 0);
SELECT is(count(*), 50::bigint, 'a burst whose credit exceeds time is one without end')
	FROM generate_series(1, 50), pacer.book('endless') WHERE wait = '0';

-- permits
SELECT pacer.create_source('p', '1 h');
SELECT is(pg_temp.take('a', 'p', 3), '0', 'three permits start together');
SELECT is(pg_temp.head_after('p', 'a'), '3 h', 'and take three intervals');
SELECT pg_temp.take('b', 'p', 2), pg_temp.take('c', 'p');
SELECT is(pg_temp.slot_after('b', 'a'), '3 h', 'the next one comes after them');
SELECT is(pg_temp.slot_after('c', 'b'), '2 h', 'and so on');
SELECT is(pg_temp.waiting('p'), 2::bigint, 'a caller is one caller however many permits');
SELECT is(pg_temp.release('c'), 'released', 'given back');
SELECT is(pg_temp.release('b'), 'released', 'both');
SELECT is(pg_temp.head_after('p', 'a'), '3 h', 'the whole width comes back');

-- wide and narrow places
SELECT pacer.create_source('hole', '1 h');
SELECT pg_temp.take('g', 'hole'), pg_temp.take('wide', 'hole', 3), pg_temp.take('narrow', 'hole'), pg_temp.take('last', 'hole');
SELECT pg_temp.release('narrow');
SELECT pg_temp.take('two', 'hole', 2);
SELECT is(pg_temp.slot_after('two', 'last'), '1 h', 'a booking does not fit into a place narrower than it');
SELECT pg_temp.release('wide');
SELECT pg_temp.take('one', 'hole');
SELECT is(pg_temp.slot('one'), pg_temp.slot('wide'), 'but into a wider one');
SELECT pg_temp.take('next', 'hole');
SELECT is(pg_temp.slot('next'), pg_temp.slot('narrow'), 'which it takes whole: the next one gets another place');
SELECT pg_temp.release('one'), pg_temp.take('three', 'hole', 3);
SELECT is(pg_temp.slot('three'), pg_temp.slot('wide'), 'given back it is as wide as before');

-- both
SELECT pacer.create_source('both', '1 h', burst => 4);
SELECT is(pg_temp.take('a', 'both', 2), '0', 'permits use up the burst');
SELECT is(pg_temp.take('b', 'both', 3), '0', 'as soon as it has begun');
SELECT pg_temp.take('c', 'both', 1);
SELECT is(pg_temp.slot_after('c', 'a'), '2 h', 'and are paid for by those that follow');

-- at the end of time
SELECT pacer.create_source('huge', '2000000000 h');
SELECT is(pg_temp.take('a', 'huge'), '0', 'an interval of 228000 years');
SELECT set_config('test.head', pg_temp.head('huge')::text, false);
SELECT is(pg_temp.error('SELECT pacer.book(''huge'')'), '22008 | cannot book 1 permits of "huge": timestamp out of range', 'the second start lies beyond time');
SELECT is(pg_temp.error('SELECT pacer.nextslot(''huge'')'), '22008 | cannot book 1 permits of "huge": timestamp out of range', 'so does an appointment');
SELECT is(pg_temp.error('SELECT pacer.try_book(''huge'', 2147483647)'),
	'22008 | cannot book 2147483647 permits of "huge": timestamp out of range', 'and a width that is no number');
SELECT is(pg_temp.head('huge')::text, current_setting('test.head'), 'nothing is changed by that');
SELECT is((booked, refused, waiting), (1::bigint, 0::bigint, 0::bigint), 'nor counted') FROM pacer.source_status('huge');

-- more permits than an entry can note
SELECT pacer.create_source('many', '1 s');
SELECT pg_temp.take('g', 'many'), pg_temp.take('a', 'many', 5000), pg_temp.take('b', 'many');
SELECT is(pg_temp.slot_after('b', 'a'), '5000 s', 'five thousand permits');
SELECT pg_temp.release('b'), pg_temp.release('a');
SELECT is(pg_temp.head_after('many', 'g'), '1 s', 'are given back whole');

-- arguments
SELECT is(pg_temp.error(format('SELECT pacer.%s(''p'', %s)', verb, n)), format('22023 | permits must be at least 1, not %s', n), verb || ' ' || n)
	FROM unnest('{book,acquire}'::text[]) verb, unnest('{0,-1}'::text[]) n;
SELECT is(pg_temp.error('SELECT pacer.try_book(''p'', NULL)'), '22004 | permits must not be null', 'NULL permits');

SELECT * FROM finish();
ROLLBACK;
