-- advance() moves the head forward, rewind() back, both for administrators
BEGIN;
\ir 3_support.psql
SELECT plan(50);

-- advance
SELECT pacer.create_source('a', '1 h');
SELECT is(pacer.advance('a', now() + interval '5 h'), now() + interval '5 h', 'advance answers the head');
SELECT is((next_request_at, waiting, booked), (now() + interval '5 h', 0::bigint, 0::bigint), 'status shows it, and that nobody waits')
	FROM pacer.source_status('a');
SELECT is(slot_at, now() + interval '5 h', 'peek, too') FROM pacer.peek('a');
SELECT is(pg_temp.refusal('SELECT pacer.book(''a'', max_wait => ''1 s'')'),
	'PC002 | could not book a slot for "a" within 1000 ms | The earliest slot is at T, in N ms.', 'a booking that would wait is told');
SELECT pg_temp.take('b', 'a');
SELECT is(pg_temp.slot('b'), now() + interval '5 h', 'or waits');
SELECT is(pacer.advance('a', now()), now() + interval '6 h', 'it never moves back');
SELECT is(pg_temp.head('a'), now() + interval '6 h', 'not at all');
SELECT is(pacer.advance('a', '2000-01-01 00:00:00.000001+00'), now() + interval '6 h', 'not by long');

-- bookings before it stay, and their places
SELECT pacer.advance('a', now() + interval '9 h');
SELECT is(pg_temp.release('b'), 'released', 'what was booked before');
SELECT is(pg_temp.head('a'), now() + interval '9 h', 'does not take the head back over it');
SELECT pg_temp.take('c', 'a');
SELECT is(pg_temp.slot('c'), pg_temp.slot('b'), 'but leaves its place');
SELECT pg_temp.take('d', 'a');
SELECT is(pg_temp.slot('d'), now() + interval '9 h', 'others come where it was moved to');

-- far
SELECT is(pacer.advance('a', '294276-12-31 23:59:59.999999+00'), '294276-12-31 23:59:59.999999+00', 'to the end of time');
SELECT is(pg_temp.error('SELECT pacer.book(''a'')'), '22008 | cannot book 1 permits of "a": timestamp out of range', 'where nothing is left to book');
SELECT is(pg_temp.waiting('a'), 2::bigint, 'who waits is not moved');
SELECT cmp_ok(pacer.rewind('a'), '<=', clock_timestamp(), 'rewind mends it');
SELECT is(pg_temp.take('e', 'a'), '0', 'at once');

-- rewind
SELECT pacer.create_source('r', '1 h', quota => 5, quota_window => '1 day', quota_origin => now());
SELECT pg_temp.take(who, 'r', key => who) FROM unnest('{g,h,i,j}'::text[]) who;
SELECT pg_temp.release('h');
SELECT is(pacer.rewind('r', pg_temp.slot('i')), pg_temp.slot('i'), 'rewind answers the head');
SELECT is(waiting, 0::bigint, 'nobody is known to wait') FROM pacer.source_status('r');
SELECT is(quota_left, 5, 'the quota is counted anew') FROM pacer.source_status('r');
SELECT is((booked, released), (4::bigint, 1::bigint), 'counters go on') FROM pacer.source_status('r');
SELECT is(pg_temp.release('j'), 'unknown', 'bookings are forgotten');
SELECT pg_temp.take('k', 'r', key => 'j');
SELECT is(pg_temp.slot('k'), pg_temp.slot('i'), 'and what was booked is given again');
SELECT isnt(pg_temp.ticket('k'), pg_temp.ticket('j'), 'to others: keys are forgotten, too');
SELECT ok(pg_temp.is_about(pg_temp.confirm('i'), '2 h'), 'who held a slot is judged by it');
SELECT is(pacer.rewind('r', now() + interval '1 day'), pg_temp.slot('k') + interval '1 h', 'it never moves forward');
SELECT is(pg_temp.head_after('r', 'k'), '1 h', 'not at all');
CREATE TEMP TABLE rewound AS SELECT clock_timestamp() AS before, pacer.rewind('r') AS to, clock_timestamp() AS after;
SELECT ok("to" BETWEEN before AND after, 'by default back to now') FROM rewound;
SELECT is(pg_temp.take('l', 'r'), '0', 'when the next one may start');

-- starts, too
SELECT pacer.create_source('s', '1 h');
SELECT pacer.confirm('s', 1), pacer.confirm('s', 2);
SELECT pacer.rewind('s');
SELECT is(pacer.confirm('s', 3), '0', 'the starts are forgotten as well');

-- a pause is left alone
SELECT pacer.pause('s', '1 h');
SELECT pacer.rewind('s');
SELECT ok(pg_temp.is_about(wait, '1 h'), 'a pause is not rewound') FROM pacer.peek('s');

-- no part of the transaction
SELECT pacer.create_source('t', '1 h');
\if :extension
SAVEPOINT s;
SELECT pacer.advance('t', now() + interval '1 day');
ROLLBACK TO s;
SELECT is(pg_temp.head('t'), now() + interval '1 day', 'a rollback does not undo an advance');
SAVEPOINT s;
SELECT pacer.rewind('t');
ROLLBACK TO s;
SELECT cmp_ok(pg_temp.head('t'), '<=', clock_timestamp(), 'nor a rewind');
\else
SELECT skip('without the extension a call is part of the transaction', 2);
\endif

-- what a failed bulk insert wasted
CREATE TEMP TABLE job (run_at timestamptz DEFAULT pacer.nextslot('bulk'), n int CHECK (n < 100));
SELECT pacer.create_source('bulk', '1 min');
SELECT throws_ok('INSERT INTO job (n) SELECT generate_series(1, 100)', '23514', NULL, 'an insert that fails at its end');
\if :extension
SELECT is(next_request_at - now() > '99 min', true, 'has booked') FROM pacer.source_status('bulk');
\else
SELECT skip('without the extension a call is part of the transaction', 1);
\endif
SELECT pacer.rewind('bulk', now());
SELECT lives_ok('INSERT INTO job (n) SELECT generate_series(1, 99)', 'the next one');
SELECT is(max(run_at) - min(run_at), '98 min', 'gets the times of the first') FROM job;

-- arguments
SELECT is(pg_temp.error(format('SELECT pacer.%s(''a'', ''%s'')', verb, t)), '22023 | to_time must be a finite time after 2000-01-01', verb || ' to ' || t)
	FROM unnest('{advance,rewind}'::text[]) verb, unnest('{infinity,-infinity,1999-12-31}'::text[]) t;
SELECT is(pg_temp.error('SELECT pacer.advance(''a'', NULL)'), '22004 | to_time must not be null', 'NULL time');
SELECT is(pg_temp.error(format('SELECT pacer.%s(NULL, now())', verb)), '22004 | source must not be null', verb || ': NULL source')
	FROM unnest('{advance,rewind}'::text[]) verb;
SELECT is(pg_temp.error(format('SELECT pacer.%s(''none'', now())', verb)), '42704 | source "none" does not exist', verb || ': unknown source')
	FROM unnest('{advance,rewind}'::text[]) verb;
SELECT is(pg_temp.error(format('SET LOCAL transaction_read_only = on; SELECT pacer.%s(''a'', now())', verb)),
	format('25006 | cannot execute %s() in a read-only transaction', verb), verb || ': read only')
	FROM unnest('{advance,rewind}'::text[]) verb;

SELECT * FROM finish();
ROLLBACK;
