-- pause() and resume(): nobody starts before; who waits moves behind it, in order
BEGIN;
\ir 3_support.psql
SELECT plan(68);

CREATE FUNCTION pg_temp.paused_until(source text) RETURNS timestamptz LANGUAGE sql
AS 'SELECT paused_until FROM pacer.source_status($1)';

-- where the booking with a key is by now
CREATE FUNCTION pg_temp.now_at(source text, key text) RETURNS timestamptz LANGUAGE sql
AS 'SELECT slot_at FROM pacer.book($1, key => $2)';

-- nobody waits yet
SELECT pacer.create_source('p', '1 h');
SELECT is(pg_temp.paused_until('p'), NULL, 'a new source is not paused');
CREATE TEMP TABLE pause AS SELECT clock_timestamp() AS before, pacer.pause('p', '5 h') AS until, clock_timestamp() AS after;
SELECT ok(until BETWEEN before + interval '5 h' AND after + interval '5 h', 'pause answers when it ends') FROM pause;
SELECT is(pg_temp.paused_until('p'), until, 'and status shows it') FROM pause;
SELECT ok(pg_temp.is_about(pg_temp.take('a', 'p'), '5 h'), 'a booking waits for the end');
SELECT is(pg_temp.slot('a'), until, 'to the microsecond') FROM pause;
SELECT pg_temp.take('b', 'p');
SELECT is(pg_temp.slot_after('b', 'a'), '1 h', 'the next one an interval behind it');
SELECT is(slot_at, pg_temp.slot('b') + interval '1 h', 'peek knows') FROM pacer.peek('p');

-- it only extends
SELECT is(pacer.pause('p', '1 h'), until, 'a shorter pause ends when the longer one does') FROM pause;
SELECT is(pg_temp.paused_until('p'), until, 'and changes nothing') FROM pause;
SELECT cmp_ok(pacer.pause('p', '6 h'), '>', until, 'a longer one extends') FROM pause;

-- it is no part of a transaction
\if :extension
SAVEPOINT s;
SELECT pacer.pause('p', '7 h');
ROLLBACK TO s;
SELECT cmp_ok(pg_temp.paused_until('p'), '>', until + interval '1 h 59 min', 'a rollback does not undo it') FROM pause;
SAVEPOINT s;
SELECT pacer.resume('p');
ROLLBACK TO s;
SELECT is(pg_temp.paused_until('p'), NULL, 'nor a resume');
\else
SELECT skip('without the extension a call is part of the transaction', 2);
\endif

-- who waits moves behind it, in order, holes too
SELECT pacer.create_source('line', '1 h');
SELECT pg_temp.take('g', 'line');
SELECT pg_temp.take(who, 'line', key => who) FROM unnest('{a,b,c,d}'::text[]) who;
SELECT pg_temp.release('b');
SELECT pacer.pause('line', '30 min');
SELECT is(pg_temp.now_at('line', 'a'), pg_temp.slot('a'), 'a pause that ends before the first waiter moves nobody');
SELECT is(pg_temp.head_after('line', 'g'), '5 h', 'nor the head');
UPDATE pause SET until = pacer.pause('line', '10 h');
SELECT is(pg_temp.now_at('line', 'a'), until, 'the first one waiting comes when the pause ends') FROM pause;
SELECT is(pg_temp.now_at('line', 'c'), until + interval '2 h', 'the others as far behind it as before') FROM pause;
SELECT is(pg_temp.now_at('line', 'd'), until + interval '3 h', 'each') FROM pause;
SELECT is(pg_temp.head('line'), until + interval '4 h', 'and so does the head') FROM pause;
SELECT is(pg_temp.waiting('line'), 3::bigint, 'they wait as before');
SELECT ok(pg_temp.is_about(pg_temp.confirm('c'), '12 h'), 'confirm tells the moved slot');
SELECT pg_temp.take('e', 'line');
SELECT is(pg_temp.slot('e'), until + interval '1 h', 'a released place has moved with them') FROM pause;
SELECT is(pg_temp.release('d'), 'released', 'a moved booking can be given back');
SELECT is(pg_temp.head('line'), until + interval '3 h', 'with its place') FROM pause;

-- resume
SELECT pacer.resume('line');
SELECT is(pg_temp.paused_until('line'), NULL, 'resume ends the pause');
SELECT is(pg_temp.now_at('line', 'a'), until, 'but moved slots stay') FROM pause;
SELECT pg_temp.take('f', 'line');
SELECT is(pg_temp.slot('f'), until + interval '3 h', 'and new ones come behind them') FROM pause;
SELECT pacer.create_source('idle', '1 h');
SELECT pacer.pause('idle', '1 h'), pacer.resume('idle');
SELECT is(pg_temp.take('i', 'idle'), '0', 'where nobody waited the next one starts at once');
SELECT lives_ok('SELECT pacer.resume(''idle'')', 'resuming what is not paused is no error');
SELECT is(pg_temp.head_after('idle', 'i'), '1 h', 'and moves nothing');

-- limits
SELECT pacer.create_source('limit', '1 h', max_waiting => 2, max_wait => '3 h');
SELECT pacer.pause('limit', '2 h');
SELECT is(count(pg_temp.take(who, 'limit')), 2::bigint, 'under a pause callers may wait') FROM unnest('{a,b}'::text[]) who;
SELECT is(pg_temp.refusal('SELECT pg_temp.take(''c'', ''limit'')'),
	'PC001 | could not book a slot for "limit": 2 callers are waiting already | The earliest slot is at T, in N ms.',
	'as many as max_waiting says');
SELECT pg_temp.release('b'), pacer.pause('limit', '5 h');
SELECT is(pg_temp.refusal('SELECT pg_temp.take(''c'', ''limit'')'),
	'PC002 | could not book a slot for "limit" within 10800000 ms | The earliest slot is at T, in N ms.',
	'as long as max_wait says');
SELECT is(pg_temp.waiting('limit'), 1::bigint, 'who waits already stays');

-- without end
SELECT pacer.create_source('stop', '1 h');
SELECT pg_temp.take('g', 'stop'), pg_temp.take('a', 'stop', key => 'a');
SELECT is(pacer.pause('stop', 'infinity'), 'infinity', 'a pause may have no end');
SELECT is(pg_temp.paused_until('stop'), 'infinity', 'and status shows that');
SELECT is(pg_temp.error(format('SELECT %s', call)),
	'PC002 | could not book a slot for "stop": it is paused | The pause has no end. | Use pacer.resume().',
	call || ' is refused')
	FROM unnest('{pacer.book(''stop''), pacer.nextslot(''stop''), "pacer.book_many(''stop'', 2)"}'::text[]) call;
SELECT CASE WHEN :extension THEN is(pg_temp.error($$SELECT pacer.acquire('stop')$$),
	'PC002 | could not book a slot for "stop": it is paused | The pause has no end. | Use pacer.resume().', 'as is acquire')
	ELSE is(pg_temp.error($$SELECT pacer.acquire('stop')$$) ~ '^0A000', true, 'acquire() is refused anyway: it needs the extension') END;
SELECT is((ticket, slot_at, wait, wait_ms), (NULL::bigint, 'infinity'::timestamptz, NULL::interval, 'infinity'::float8),
	'try_book answers a wait without end') FROM pacer.try_book('stop');
SELECT is((ticket, slot_at, wait, wait_ms), (NULL::bigint, 'infinity'::timestamptz, NULL::interval, 'infinity'::float8),
	'and so does peek') FROM pacer.peek('stop');
SELECT is(pg_temp.now_at('stop', 'a'), pg_temp.slot('a'), 'who waits is not moved, and finds the own booking');
SELECT is(pacer.pause('stop', interval '1 h'), 'infinity', 'a pause with an end does not shorten it');
SELECT is(pg_temp.release('a'), 'released', 'slots can be given back');
-- without the extension the error of book() takes the count back
SELECT is(refused, CASE WHEN :extension THEN 5 ELSE 1 END::bigint, 'the refusals are counted') FROM pacer.source_status('stop');
SELECT pacer.resume('stop');
SELECT is(pg_temp.paused_until('stop'), NULL, 'only resume ends it');
SELECT pg_temp.take('b', 'stop');
SELECT is(pg_temp.slot_after('b', 'g'), '1 h', 'and the schedule goes on where it was');

-- together with a burst: the gaps stay
SELECT pacer.create_source('burst', '1 h', burst => 2);
SELECT pg_temp.take(who, 'burst', key => who) FROM unnest('{g,h,a,b}'::text[]) who;
UPDATE pause SET until = pacer.pause('burst', '9 h');
SELECT is(pg_temp.now_at('burst', 'b') - pg_temp.now_at('burst', 'a'), '1 h', 'those that waited stay an interval apart');
SELECT is(pg_temp.now_at('burst', 'a'), until, 'behind the pause') FROM pause;

-- together with a quota: what moves into a full window is pushed on
SELECT pacer.create_source('quota', '1 min', quota => 2, quota_window => '1 h', quota_origin => now());
SELECT pg_temp.take(who, 'quota', key => who) FROM unnest('{g,a,b,c,d}'::text[]) who;
SELECT is(array_agg(pg_temp.slot(who) - now() >= hours * interval '1 h' AND pg_temp.slot(who) - now() < (hours + 1) * interval '1 h' ORDER BY who),
	'{t,t,t,t,t}', 'two in each hour') FROM (VALUES ('g', 0), ('a', 0), ('b', 1), ('c', 1), ('d', 2)) AS v (who, hours);
SELECT pacer.pause('quota', '90 min');
SELECT cmp_ok(max(n), '<=', 2::bigint, 'nor more than two after a pause')
	FROM (SELECT count(*) AS n FROM unnest('{a,b,c,d}'::text[]) who
		  GROUP BY floor(extract(epoch FROM pg_temp.now_at('quota', who) - now()) / 3600)) w;

-- text and interval
SELECT is(pacer.pause('idle', text '2 h') - pacer.pause('idle', interval '1 h'), '0', 'the duration may be text');
SELECT is(pacer.pause('idle', 'Infinity'), 'infinity', 'infinity in any case');

-- arguments
SELECT is(pg_temp.error('SELECT pacer.pause(NULL, interval ''1 h'')'), '22004 | source must not be null', 'NULL source');
SELECT is(pg_temp.error('SELECT pacer.pause(''p'', NULL::interval)'), '22004 | duration must not be null', 'NULL duration');
SELECT is(pg_temp.error('SELECT pacer.pause(''p'', NULL::text)'), '22004 | duration must not be null', 'NULL duration as text');
SELECT is(pg_temp.error(format('SELECT pacer.pause(''p'', %s)', duration)),
	'22023 | duration must be above 0 and must not have months', duration || ' is refused')
	FROM unnest(ARRAY['interval ''0''', '''-1 s''', '''1 month''', 'interval ''1 year''']) duration;
SELECT is(pg_temp.error('SELECT pacer.pause(''p'', ''soon'')'), '22007 | invalid input syntax for type interval: "soon"', 'no duration');
SELECT is(pg_temp.error('SELECT pacer.pause(''p'', ''3000000000 h'')'),
	'22015 | interval field value out of range: "3000000000 h"', 'no interval');
SELECT is(pg_temp.error('SELECT pacer.pause(''p'', make_interval(days => 106751991))'),
	'22008 | cannot pause "p" for so long: timestamp out of range', 'beyond the end of time');
SELECT is(pg_temp.error('SELECT pacer.pause(''none'', ''1 h'')'), '42704 | source "none" does not exist', 'unknown source');
SELECT is(pg_temp.error('SELECT pacer.resume(''none'')'), '42704 | source "none" does not exist', 'unknown source');
SELECT is(pg_temp.error('SELECT pacer.resume(NULL)'), '22004 | source must not be null', 'NULL source');
SELECT is(pg_temp.error('SET LOCAL transaction_read_only = on; SELECT pacer.pause(''p'', ''1 h'')'),
	'25006 | cannot execute pause() in a read-only transaction', 'read only');
SELECT is(pg_temp.error('SET LOCAL transaction_read_only = on; SELECT pacer.resume(''p'')'),
	'25006 | cannot execute resume() in a read-only transaction', 'read only');

SELECT * FROM finish();
ROLLBACK;
