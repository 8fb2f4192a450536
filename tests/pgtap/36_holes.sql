-- release(): the last place goes back to the schedule, one in the middle becomes a hole
BEGIN;
\ir 3_support.psql
SELECT plan(52);

-- a refund in the middle of the queue moves the head over nobody
SELECT pacer.create_source('a', '10 s');
SELECT pg_temp.take(who, 'a') FROM unnest('{g,h,i,j}'::text[]) who;
SELECT is(pg_temp.release('h'), 'released', 'one in the middle is given back');
SELECT is(pg_temp.head_after('a', 'g'), '40 s', 'the head stays');
SELECT is(pg_temp.waiting('a'), 2::bigint, 'a hole does not wait');
SELECT is(slot_at, pg_temp.slot('h'), 'peek sees the hole') FROM pacer.peek('a');
SELECT pg_temp.take('k', 'a');
SELECT is(pg_temp.slot('k'), pg_temp.slot('h'), 'the next booking gets its place');
SELECT pg_temp.take('l', 'a');
SELECT is(pg_temp.slot_after('l', 'j'), '10 s', 'the one after that comes last');
SELECT isnt(pg_temp.ticket('k'), pg_temp.ticket('h'), 'the place has another ticket now');
SELECT is(pg_temp.release('h'), 'unknown', 'the old one opens it no more');
SELECT is(pg_temp.release('k'), 'released', 'the new one does');
SELECT is(pg_temp.release('k'), 'unknown', 'once');

-- the tail rewinds over released neighbours
SELECT pacer.create_source('t', '1 h');
SELECT pg_temp.take(who, 't') FROM unnest('{g,h,i,j,k}'::text[]) who;
SELECT is(pg_temp.release('k'), 'released', 'the last one');
SELECT is(pg_temp.head_after('t', 'g'), '4 h', 'takes the head back');
SELECT pg_temp.release('i'), pg_temp.release('h');
SELECT is(pg_temp.head_after('t', 'g'), '4 h', 'the middle ones do not');
SELECT is(pg_temp.release('j'), 'released', 'the last one behind two holes');
SELECT is(pg_temp.head_after('t', 'g'), '1 h', 'takes it back over all three');
SELECT is(array_agg(pg_temp.release(who)), '{unknown,unknown,unknown,unknown,started}', 'all once only')
	FROM unnest('{h,i,j,k,g}'::text[]) who;
SELECT is(pg_temp.head_after('t', 'g'), '1 h', 'and a start is not given back');
SELECT is((released, waiting), (4::bigint, 0::bigint), 'four were released') FROM pacer.source_status('t');

-- where an appointment lies behind, the place stays on the schedule
SELECT pacer.create_source('n', '1 h');
SELECT pg_temp.take('g', 'n'), pg_temp.take('h', 'n');
SELECT set_config('test.slot', pacer.nextslot('n')::text, false);
SELECT is(pg_temp.release('h'), 'released', 'before an appointment');
SELECT is(pg_temp.head('n'), current_setting('test.slot')::timestamptz + interval '1 h', 'the head stays behind it');
SELECT is(pacer.nextslot('n'), pg_temp.slot('h'), 'an appointment may take the hole');
SELECT pg_temp.take('i', 'n');
SELECT is(pg_temp.slot_after('i', 'g'), '3 h', 'which is taken then');
SELECT is(pg_temp.release('i'), 'released', 'behind the appointment the head goes back');
SELECT is(pg_temp.head_after('n', 'g'), '3 h', 'to the end of it');

-- tickets of others
SELECT pacer.create_source('o', '1 h');
SELECT pg_temp.take('og', 'o'), pg_temp.take('oh', 'o');
SELECT is(pacer.release('o', pg_temp.ticket('j')), 'unknown', 'a ticket of another source');
SELECT is(array_agg(DISTINCT pacer.release('o', t)), '{unknown}', 'guessed ones')
	FROM unnest(ARRAY[0, -1, 1, pg_temp.ticket('oh') + 1, pg_temp.ticket('oh') - 1, 9223372036854775807]) t;
SELECT is(pacer.release('o', pg_temp.ticket('oh') + 281474976710656), 'unknown', 'one that differs in its high bits');
SELECT is(pg_temp.head_after('o', 'og'), '2 h', 'nothing is moved by them');
SELECT is(released, 0::bigint, 'nor counted') FROM pacer.source_status('o');

-- limits
SELECT pacer.create_source('limit', '1 h', max_waiting => 2);
SELECT pg_temp.take(who, 'limit') FROM unnest('{g,h,i}'::text[]) who;
SELECT throws_ok('SELECT pacer.book(''limit'')', 'PC001', NULL, 'two wait');
SELECT pg_temp.release('h');
SELECT lives_ok('SELECT pg_temp.take(''j'', ''limit'')', 'a released place lets another caller in');
SELECT throws_ok('SELECT pacer.book(''limit'')', 'PC001', NULL, 'one');
SELECT pg_temp.release('j');
SELECT is(wait < '61 min' AND ticket IS NOT NULL, true, 'who would not wait as long as the tail may get a hole')
	FROM pacer.book('limit', max_wait => '1 h');

-- a changed interval: what is given back is what was taken
SELECT pacer.create_source('c', '1 h');
SELECT pg_temp.take('g', 'c'), pg_temp.take('h', 'c');
UPDATE pacer.source SET start_interval = '1 s' WHERE name = 'c';
SELECT is(pg_temp.waiting('c'), 1::bigint, 'one waits, not as many as fit into the hour');
SELECT is(pg_temp.release('h'), 'released', 'given back');
SELECT is(pg_temp.head_after('c', 'g'), '1 h', 'an hour, as it had taken');
SELECT pg_temp.take('h', 'c');
UPDATE pacer.source SET start_interval = '1 day' WHERE name = 'c';
SELECT is(pg_temp.head_after('c', 'g'), '1 h 1 s', 'a slower rate moves nothing');
SELECT pg_temp.release('h'), pg_temp.take('i', 'c');
SELECT is(pg_temp.slot_after('i', 'g'), '1 h', 'not even what is given back');

-- a hole narrower than the present interval is none
SELECT pacer.create_source('d', '1 h');
SELECT pg_temp.take(who, 'd') FROM unnest('{g,h,i}'::text[]) who;
SELECT pg_temp.release('h');
UPDATE pacer.source SET start_interval = '2 h' WHERE name = 'd';
SELECT pg_temp.take('j', 'd');
SELECT is(pg_temp.slot_after('j', 'i'), '1 h', 'a place of one hour does not do for two');

-- more callers than it remembers
SELECT pacer.create_source('few', '1 h', remembered => 4, max_waiting => 6);
SELECT pg_temp.take(who, 'few') FROM unnest('{g,h,i,j,k,l,m}'::text[]) who;
SELECT is(pg_temp.waiting('few'), 6::bigint, 'those that it has forgotten are counted');
SELECT throws_ok('SELECT pacer.book(''few'')', 'PC001', NULL, 'also against max_waiting');
SELECT is(pg_temp.release('h'), 'unknown', 'but cannot be released');
SELECT is(pg_temp.release('m'), 'released', 'unlike those that it remembers');
SELECT is(pg_temp.head_after('few', 'g'), '6 h', 'whose places go back');
SELECT is(array_agg(pg_temp.release(who)), '{released,released,released}', 'all of them') FROM unnest('{l,k,j}'::text[]) who;
SELECT is(pg_temp.head_after('few', 'g'), '3 h', 'down to the first one that it has forgotten');

-- no part of the transaction
SELECT pacer.create_source('r', '1 h');
SELECT pg_temp.take('rg', 'r'), pg_temp.take('rh', 'r');
\if :extension
SAVEPOINT s;
SELECT is(pg_temp.release('rh'), 'released', 'released in what is rolled back');
ROLLBACK TO s;
SELECT is(pacer.release('r', pg_temp.ticket('rh')), 'unknown', 'is released');
SELECT is(pg_temp.head_after('r', 'rg'), '1 h', 'and its place gone');
\else
SELECT skip('without the extension a call is part of the transaction', 3);
\endif

-- any order of calls: whoever holds a slot is as far from the next as his permits say
CREATE TEMP TABLE live (ticket bigint, slot_at timestamptz, permits int);
SELECT pacer.create_source('any', '1 h', max_waiting => NULL, remembered => 200);
SELECT setseed(0.7);
DO $$
DECLARE
	n int;
	one record;
	answer text;
BEGIN
	FOR i IN 1 .. 1000 LOOP
		IF random() < 0.5 THEN
			n := 1 + floor(random() * 3);
			INSERT INTO live SELECT ticket, slot_at, n FROM pacer.book('any', n);
		ELSIF random() < 0.1 THEN
			INSERT INTO live SELECT ticket, slot_at, 1 FROM pacer.book_many('any', 3);
		ELSE
			SELECT * INTO one FROM live ORDER BY random() LIMIT 1;
			CONTINUE WHEN NOT FOUND;
			answer := pacer.release('any', one.ticket);
			IF answer = 'released' THEN
				DELETE FROM live WHERE ticket = one.ticket;
			ELSIF answer <> 'started' THEN
				RAISE EXCEPTION 'ticket of a live booking is %', answer;
			END IF;
		END IF;
	END LOOP;
END $$;
SELECT cmp_ok(count(*), '>', 30::bigint, 'of 1000 random calls enough are left') FROM live;
SELECT is(count(*), 0::bigint, 'all slots lie far enough apart') FROM
	(SELECT slot_at + permits * interval '1 h' AS until, lead(slot_at) OVER (ORDER BY slot_at) AS next FROM live) l WHERE next < until;
SELECT is(pg_temp.waiting('any'), count(*), 'and the callers counted are those that wait') FROM live WHERE slot_at > clock_timestamp();

SELECT * FROM finish();
ROLLBACK;
