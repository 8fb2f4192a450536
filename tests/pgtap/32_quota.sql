-- quota: no more starts in a window than it says
BEGIN;
\ir 3_support.psql
SELECT plan(47);

-- windows begin where the test does
CREATE FUNCTION pg_temp.source(name text, quota int, start_interval interval = '1 min', burst int = 1)
RETURNS boolean LANGUAGE sql AS $$
	SELECT pacer.create_source($1, $3, burst => $4, quota => $2, quota_window => '1 h', quota_origin => now())
$$;
CREATE FUNCTION pg_temp.left(source text) RETURNS int LANGUAGE sql
AS 'SELECT quota_left FROM pacer.source_status($1)';
-- the slot, seen from the first window's beginning
CREATE FUNCTION pg_temp.at(who text) RETURNS interval LANGUAGE sql
AS 'SELECT pg_temp.slot($1) - now()';

SELECT pg_temp.source('q', 2);
SELECT is(pg_temp.left('q'), 2, 'a new window is empty');
SELECT is(pg_temp.take('a', 'q'), '0', 'the first start');
SELECT is(pg_temp.left('q'), 1, 'counts');
SELECT pg_temp.take('b', 'q');
SELECT is(pg_temp.slot_after('b', 'a'), '1 min', 'the second is an interval away');
SELECT is(pg_temp.left('q'), 0, 'and fills the window');
SELECT is(slot_at - now(), '1 h', 'peek sees that') FROM pacer.peek('q');
SELECT pg_temp.take('c', 'q');
SELECT is(pg_temp.at('c'), '1 h', 'the third comes when the next window begins');
SELECT is(pg_temp.left('q'), 1, 'and counts there');
SELECT pg_temp.take('d', 'q');
SELECT is(pg_temp.at('d'), '1 h 1 min', 'the fourth an interval later');
SELECT is(pacer.nextslot('q') - now(), '2 h', 'appointments are bound by it, too');
SELECT is(array_agg(slot_at - now() ORDER BY slot_at), '{2:01,3:00,3:01,4:00}', 'and book_many')
	FROM pacer.book_many('q', 4);
SELECT is(pg_temp.refusal('SELECT pacer.book(''q'', max_wait => ''1 h'')'),
	'PC002 | could not book a slot for "q" within 3600000 ms | The earliest slot is at T, in N ms.', 'a wait for a window is a wait');

-- permits
SELECT pg_temp.source('permits', 3);
SELECT is(pg_temp.error('SELECT pacer.book(''permits'', 4)'),
	'22023 | cannot book 4 permits of "permits": its quota is 3', 'more permits than a window has');
SELECT is(pg_temp.take('a', 'permits', 2), '0', 'two permits');
SELECT is(pg_temp.left('permits'), 1, 'are two starts');
SELECT pg_temp.take('b', 'permits', 2);
SELECT is(pg_temp.at('b'), '1 h', 'they lie in one window');
SELECT pg_temp.take('c', 'permits', 1);
SELECT is(pg_temp.at('c'), '1 h 2 min', 'a window that was left is not gone back to');

-- release
SELECT is(pg_temp.release('c'), 'released', 'the last one is given back');
SELECT is(pg_temp.left('permits'), 1, 'and no longer counts');
SELECT is(pg_temp.release('b'), 'released', 'so is the first of the window');
SELECT is(pg_temp.left('permits'), 3, 'which is empty then');
SELECT pg_temp.take('d', 'permits', 3);
SELECT is(pg_temp.at('d'), '1 h', 'but the schedule does not go back before it');

SELECT pg_temp.source('hole', 2);
SELECT pg_temp.take(who, 'hole') FROM unnest('{a,b,c,d,e}'::text[]) who;
SELECT is(pg_temp.release('d'), 'released', 'in the middle');
SELECT is(pg_temp.release('b'), 'released', 'and in a window that was left');
SELECT is(pg_temp.left('hole'), 1, 'the last window counts as before');
SELECT pg_temp.take('f', 'hole'), pg_temp.take('g', 'hole');
SELECT is(pg_temp.at('f'), pg_temp.at('b'), 'the earlier place is taken over');
SELECT is(pg_temp.at('g'), pg_temp.at('d'), 'then the later one');

SELECT pg_temp.source('fit', 4);
SELECT pg_temp.take('a', 'fit', 1), pg_temp.take('b', 'fit', 2), pg_temp.take('c', 'fit', 1), pg_temp.take('d', 'fit', 1);
SELECT pg_temp.release('b');
SELECT pg_temp.take('e', 'fit', 1);
SELECT is(pg_temp.at('e'), '1 h 1 min', 'a place of two permits is not taken by one: it would count twice');
SELECT pg_temp.take('f', 'fit', 2);
SELECT is(pg_temp.slot('f'), pg_temp.slot('b'), 'but by two');

-- starts count where they are
SELECT pg_temp.source('late', 2, '1 us');
SELECT is(pg_temp.take('a', 'late'), '0', 'one start in this window');
SELECT is(pacer.confirm('late', 1, now() - interval '1 min'), '0', 'a late one of the window before starts here');
SELECT is(pg_temp.left('late'), 0, 'and counts here');
SELECT ok(pg_temp.is_about(pacer.confirm('late', 2, now() - interval '1 min'), '1 h'), 'the next late one waits for the next window');
SELECT is(pg_temp.left('late'), 1, 'and counts there');
SELECT ok(pg_temp.is_about(pacer.confirm('late', 2, now() - interval '1 min'), '1 h'), 'once');
SELECT is(pg_temp.left('late'), 1, 'however often it asks');

-- burst
SELECT pg_temp.source('burst', 3, '10 min', 5);
SELECT is(array_agg(slot_at - now() >= '1 h' ORDER BY slot_at), '{f,f,f,t}', 'a burst ends where the quota does')
	FROM pacer.book_many('burst', 4);

-- a change keeps what is counted
SELECT pg_temp.source('change', 2);
SELECT pg_temp.take('a', 'change'), pg_temp.take('b', 'change');
UPDATE pacer.source SET quota = 3 WHERE name = 'change';
SELECT is(pg_temp.left('change'), 1, 'a larger quota leaves more');
UPDATE pacer.source SET quota = 1 WHERE name = 'change';
SELECT is(pg_temp.left('change'), 0, 'a smaller one none');
UPDATE pacer.source SET quota = 2, quota_window = '2 h' WHERE name = 'change';
SELECT is(slot_at - now(), '2 h', 'in another window what is booked still counts') FROM pacer.peek('change');
UPDATE pacer.source SET quota_origin = now() - interval '30 min' WHERE name = 'change';
SELECT is(slot_at - now(), '90 min', 'with another origin, too') FROM pacer.peek('change');
UPDATE pacer.source SET quota = NULL, quota_window = NULL WHERE name = 'change';
SELECT is(pg_temp.left('change'), NULL, 'without a quota nothing is left to count');
SELECT pg_temp.take('c', 'change');
SELECT is(pg_temp.slot_after('c', 'b'), '1 min', 'nor anything to wait for');

-- windows begin at the origin, in both directions
SELECT pacer.create_source('day', '1 min', quota => 1, quota_window => '1 day', quota_origin => '2031-05-05 03:00:00+00');
SELECT pacer.create_source('plain', '1 s');
SELECT pacer.book('day');
SELECT is((slot_at AT TIME ZONE 'UTC')::time, '03:00', 'a day may begin at three') FROM pacer.peek('day');
SELECT is(quota_origin, '1970-01-01 00:00:00+00', 'by default they begin at midnight in UTC') FROM pacer.source_status('plain');

-- any order of bookings and releases
CREATE TEMP TABLE live (ticket bigint, slot_at timestamptz, permits int);
SELECT pacer.create_source('any', '7 min', quota => 5, quota_window => '1 h', quota_origin => now(), burst => 3,
	max_waiting => NULL, remembered => 200);
SELECT setseed(0.42);
DO $$
DECLARE
	n int;
	one record;
BEGIN
	FOR i IN 1 .. 400 LOOP
		IF random() < 0.6 THEN
			n := 1 + floor(random() * 3);
			INSERT INTO live SELECT ticket, slot_at, n FROM pacer.book('any', n);
		ELSE
			SELECT * INTO one FROM live ORDER BY random() LIMIT 1;
			IF FOUND AND pacer.release('any', one.ticket) = 'released' THEN
				DELETE FROM live WHERE ticket = one.ticket;
			END IF;
		END IF;
	END LOOP;
END $$;
SELECT cmp_ok(count(*), '>', 50::bigint, 'of 400 random calls') FROM live;
SELECT cmp_ok(max(n), '<=', 5::bigint, 'no window has more than its quota')
	FROM (SELECT sum(permits) AS n FROM live GROUP BY date_bin('1 h', slot_at, now())) w;

SELECT * FROM finish();
ROLLBACK;
