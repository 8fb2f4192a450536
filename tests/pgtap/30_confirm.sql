-- confirm(): keeps the starts apart, not only the slots
BEGIN;
\ir 3_support.psql
SELECT plan(56);

SELECT pacer.create_source('hour', '1 h');

-- an immediate booking has started
SELECT is(pg_temp.take('g', 'hour'), '0', 'the first booking starts at once');
SELECT is(pg_temp.confirm('g'), '0', 'an immediate booking may start');
SELECT is(confirmed, 0::bigint, 'which is no second start') FROM pacer.source_status('hour');
SELECT is(pg_temp.head_after('hour', 'g'), '1 h', 'and moves nothing');

-- ahead
SELECT ok(pg_temp.is_about(pg_temp.take('a', 'hour'), '1 h'), 'the second one waits an hour');
SELECT ok(pg_temp.is_about(pg_temp.confirm('a'), '1 h'), 'asked before its slot, confirm tells the wait until then');
SELECT ok(pg_temp.is_about(pacer.confirm('hour', pg_temp.ticket('a')), '1 h'), 'so it does by source and ticket');
SELECT ok(pg_temp.is_about(pacer.confirm('hour', pg_temp.ticket('a'), pg_temp.slot('a') - interval '59 min'), '1 h'),
	'the slot given counts for nothing while the ticket is remembered');
SELECT is((waiting, confirmed, late), (1::bigint, 0::bigint, 0::bigint), 'asking early is neither a start nor late')
	FROM pacer.source_status('hour');
SELECT is(pg_temp.head_after('hour', 'g'), '2 h', 'and moves nothing');

-- due: booked at a fast pace, asked for after the source was made slower
SELECT pacer.create_source('due', '20 ms');
SELECT pg_temp.take(who, 'due') FROM unnest('{g,a,b,c}'::text[]) who ORDER BY who = 'g' DESC, who;
SELECT pg_sleep(0.1);
UPDATE pacer.source SET start_interval = '1 h' WHERE name = 'due';

SELECT is(pg_temp.confirm('a'), '0', 'a due booking may start');
SELECT is((confirmed, late), (1::bigint, 0::bigint), 'and its start is recorded') FROM pacer.source_status('due');
SELECT cmp_ok(last_start, '>=', pg_temp.slot('a'), 'not before its slot') FROM pacer.source_status('due');
SELECT is(pg_temp.confirm('a'), '0', 'asking again answers the same');
SELECT is(confirmed, 1::bigint, 'and records nothing') FROM pacer.source_status('due');
SELECT is(pg_temp.release('a'), 'started', 'a started booking is not given back');

SELECT ok(pg_temp.is_about(pg_temp.confirm('b'), '1 h'), 'the next late one has to wait, at the present rate');
SELECT ok(pg_temp.is_about(pg_temp.confirm('c'), '2 h'), 'the one after that is assigned the place behind it');
SELECT ok(pg_temp.is_about(pg_temp.confirm('b'), '1 h'), 'which the first finds kept when it asks again');
SELECT ok(pg_temp.is_about(pg_temp.confirm('c'), '2 h'), 'and so does the other');
SELECT is((confirmed, late, waiting), (1::bigint, 2::bigint, 2::bigint), 'they count as late once each, and as waiting')
	FROM pacer.source_status('due');
SELECT is(pg_temp.head('due') - last_start, '3 h', 'the late starts push new bookings back')
	FROM pacer.source_status('due');
SELECT pg_temp.take('d', 'due');
SELECT is(pg_temp.slot('d') - last_start, '3 h', 'as the next booking finds') FROM pacer.source_status('due');
SELECT is(pg_temp.release('c'), 'released', 'an assigned place can be given back');
SELECT is(pg_temp.confirm('g'), '0', 'what started long ago stays started');

-- late start, immediate booking
SELECT pacer.create_source('late', '20 ms');
SELECT pg_temp.take('g', 'late'), pg_temp.take('a', 'late'), pg_sleep(0.1);
UPDATE pacer.source SET start_interval = '1 h' WHERE name = 'late';
SELECT pg_temp.confirm('a');
SELECT ok(pg_temp.is_about(pg_temp.take('b', 'late'), '1 h'), 'a booking cannot come too close to a late start');

-- passed, and then asked for after all
SELECT pacer.create_source('passed', '20 ms');
SELECT pg_temp.take('g', 'passed'), pg_temp.take('a', 'passed'), pg_sleep(0.05);
SELECT is(pg_temp.release('a'), 'passed', 'nobody confirmed it: its time has passed');
SELECT is(pg_temp.confirm('a'), '0', 'it may start all the same');

-- released
SELECT pacer.create_source('gone', '1 h');
SELECT pg_temp.take('g', 'gone'), pg_temp.take('a', 'gone'), pg_temp.take('b', 'gone');
SELECT pg_temp.release('a');
SELECT is(pg_temp.error('SELECT pg_temp.confirm(''a'')'),
	format('PC003 | ticket %s of source "gone" was released', pg_temp.ticket('a')), 'a hole cannot start');
SELECT pg_temp.take('c', 'gone');
SELECT is(pg_temp.error('SELECT pg_temp.confirm(''a'')'),
	format('PC003 | ticket %s of source "gone" was released', pg_temp.ticket('a')), 'nor can a place taken over');
SELECT pg_temp.release('b');
SELECT is(pg_temp.error('SELECT pg_temp.confirm(''b'')'),
	format('PC003 | ticket %s of source "gone" was released', pg_temp.ticket('b')), 'nor one that was taken off the end');
SELECT is(pg_temp.head_after('gone', 'g'), '2 h', 'these refusals move nothing');

-- not remembered
SELECT pacer.create_source('unseen', '1 h');
SELECT is(pacer.confirm('unseen', 1), '0', 'a ticket not remembered, of no slot, is due');
SELECT ok(pg_temp.is_about(pacer.confirm('unseen', 2, now() - interval '1 min'), '1 h'), 'the next one is paced');
SELECT ok(pg_temp.is_about(pacer.confirm('unseen', 3, now() - interval '1 h'), '2 h'), 'and the next, whatever its slot was');
SELECT ok(pg_temp.is_about(pacer.confirm('unseen', 2, now() - interval '1 min'), '1 h'), 'their places are kept');
SELECT ok(pg_temp.is_about(pacer.confirm('unseen', 4, now() + interval '7 h'), '3 h'), 'one whose slot is ahead of all that was booked waits for the head');
SELECT is(pg_temp.head('unseen') - last_start, '3 h', 'and takes no place before') FROM pacer.source_status('unseen');
SELECT is(pacer.confirm('unseen', 1), '0', 'the one that started has started');
SELECT ok(pg_temp.is_about(pg_temp.take('n', 'unseen'), '3 h'), 'a booking comes behind them');

-- appointments
SELECT pacer.create_source('app', '1 h');
SELECT is(pacer.confirm('app', NULL, pacer.nextslot('app')), '0', 'an appointment whose time has come may start');
SELECT ok(pg_temp.is_about(pacer.confirm('app', NULL, now()), '1 h'), 'the next one is paced');
SELECT ok(pg_temp.is_about(pacer.confirm('app', NULL, now()), '1 h'), 'but has no place kept: it cannot be told from another');
SELECT ok(pg_temp.is_about(pacer.confirm('app', NULL, now() + interval '5 h'), '5 h'), 'a later one waits for its time');

-- burst
SELECT pacer.create_source('burst', '1 h', burst => 3);
SELECT is(array_agg(pacer.confirm('burst', t) > '0' ORDER BY t), '{f,f,f,t}', 'as many as burst says may start at once')
	FROM generate_series(1, 4) t;

-- paused
SELECT pacer.create_source('paused', '1 h');
SELECT is(pacer.confirm('paused', 7), '0', 'before the pause');
SELECT pacer.pause('paused', '10 h');
SELECT ok(pg_temp.is_about(pacer.confirm('paused', 8), '10 h'), 'a due booking waits for the end of a pause');
SELECT ok(pg_temp.is_about(pacer.confirm('paused', 9), '11 h'), 'and the next behind it');
SELECT pacer.pause('paused', 'infinity');
SELECT ok(pacer.confirm('paused', 10) BETWEEN '1 us' AND '1 min', 'under a pause without end it is told to ask again in a minute');

-- arguments
SELECT is(pg_temp.error('SELECT pacer.confirm(NULL, 1)'), '22004 | source must not be null', 'NULL source');
SELECT is(pg_temp.error('SELECT pacer.confirm(''hour'', NULL)'), '22004 | ticket must not be null', 'NULL ticket');
SELECT is(pg_temp.error('SELECT pacer.confirm(NULL::pacer.booking)'), '22004 | booking must not be null', 'NULL booking');
SELECT is(pg_temp.error('SELECT pacer.confirm(b) FROM pacer.try_book(''hour'') b'), '22004 | ticket must not be null',
	'a refused booking has no ticket');
SELECT is(pg_temp.error('SELECT pacer.confirm(''hour'', 1, ''infinity'')'), '22023 | slot_at must be a finite time', 'infinite slot');
SELECT is(pg_temp.error('SELECT pacer.confirm(''none'', 1)'), '42704 | source "none" does not exist', 'unknown source');
SELECT is(pg_temp.error('SET LOCAL transaction_read_only = on; SELECT pacer.confirm(''hour'', 1)'),
	'25006 | cannot execute confirm() in a read-only transaction', 'read only');

SELECT finish();
ROLLBACK;
