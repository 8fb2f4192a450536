-- key: who asks again with it finds the own booking
BEGIN;
\ir 3_support.psql
SELECT plan(43);

SELECT pacer.create_source('k', '1 h', max_waiting => 1, max_wait => '2 h');
SELECT pacer.create_source('other', '1 h');
SELECT pg_temp.take('g', 'k');
SELECT pg_temp.take('a', 'k', key => 'job 1');

-- ahead
SELECT pg_temp.take('again', 'k', key => 'job 1');
SELECT is(pg_temp.ticket('again'), pg_temp.ticket('a'), 'the same ticket');
SELECT is(pg_temp.slot('again'), pg_temp.slot('a'), 'the same slot');
SELECT cmp_ok((pg_temp.booking('again')).wait, '<', (pg_temp.booking('a')).wait, 'today''s wait');
SELECT is((booked, waiting), (2::bigint, 1::bigint), 'nothing is booked by that') FROM pacer.source_status('k');
SELECT is(pg_temp.head_after('k', 'g'), '2 h', 'nor moved');
SELECT is(pg_temp.refusal('SELECT pacer.book(''k'', key => ''job 2'')'),
	'PC001 | could not book a slot for "k": 1 caller is waiting already | The earliest slot is at T, in N ms.',
	'another key finds the queue full');
SELECT is(ticket, pg_temp.ticket('a'), 'try_book finds it, though there is a wait') FROM pacer.try_book('k', key => 'job 1');
SELECT is(ticket, pg_temp.ticket('a'), 'whatever bound is given') FROM pacer.book('k', max_wait => '1 s', key => 'job 1');
SELECT is(pg_temp.error('SELECT pacer.book(''k'', 2, key => ''job 1'')'),
	'22023 | cannot book 2 permits of "k": the booking with this key has another number of permits', 'with other permits it is an error');
SELECT isnt(ticket, pg_temp.ticket('a'), 'a key belongs to its source') FROM pacer.book('other', key => 'job 1');
SELECT is(pg_temp.head_after('k', 'g'), '2 h', 'none of this moved anything');

-- over
SELECT is(pg_temp.release('again'), 'released', 'the booking found is the booking');
SELECT pg_temp.take('b', 'k', key => 'job 1');
SELECT isnt(pg_temp.ticket('b'), pg_temp.ticket('a'), 'once released, the key books anew');
SELECT is(pg_temp.slot('b'), pg_temp.slot('a'), 'here the place given back');

-- in the middle a hole keeps no key either
SELECT pacer.create_source('hole', '1 h');
SELECT pg_temp.take('g', 'hole'), pg_temp.take('a', 'hole', key => 'x'), pg_temp.take('b', 'hole');
SELECT pg_temp.release('a'), pg_temp.take('c', 'hole', 2, key => 'x');
SELECT is(pg_temp.slot_after('c', 'g'), '3 h', 'the key of a hole is free, for other permits as well');
SELECT pg_temp.take('d', 'hole', key => 'y');
SELECT is(pg_temp.slot('d'), pg_temp.slot('a'), 'who takes a hole over');
SELECT is(ticket, pg_temp.ticket('d'), 'is found by the own key') FROM pacer.book('hole', key => 'y');

-- immediate: the reply may have been lost
SELECT pacer.create_source('lost', '1 h');
SELECT is(pg_temp.take('a', 'lost', key => 'x'), '0', 'started at once');
SELECT ok(pg_temp.is_about(pg_temp.take('again', 'lost', key => 'x'), '1 h'), 'asked again it is paced: the first may have begun');
SELECT is(pg_temp.ticket('again'), pg_temp.ticket('a'), 'it is the same booking');
SELECT is(booked, 1::bigint, 'nothing is booked') FROM pacer.source_status('lost');
SELECT is(slot_at, pg_temp.slot('again'), 'a third time it has the same place') FROM pacer.book('lost', key => 'x');
SELECT is((waiting, late), (1::bigint, 1::bigint), 'it waits, and was told so late once') FROM pacer.source_status('lost');
SELECT pg_temp.take('b', 'lost');
SELECT is(pg_temp.slot_after('b', 'again'), '1 h', 'others come behind');
SELECT is(pg_temp.release('again'), 'released', 'it can be given back then');

SELECT pacer.create_source('burst', '1 h', burst => 3);
SELECT is(pg_temp.take('a', 'burst', key => 'x'), '0', 'with credit left');
SELECT is(pg_temp.take('again', 'burst', key => 'x'), '0', 'a repeated immediate booking starts');
SELECT is(pg_temp.ticket('again'), pg_temp.ticket('a'), 'as the same');
SELECT is(confirmed, 1::bigint, 'that start is recorded, too') FROM pacer.source_status('burst');
SELECT is(pg_temp.take('third', 'burst', key => 'x'), '0', 'a third time');
SELECT isnt(pg_temp.ticket('third'), pg_temp.ticket('a'), 'the key was free: it is another booking');

-- due
SELECT pacer.create_source('due', '20 ms');
SELECT pg_temp.take('g', 'due'), pg_temp.take('a', 'due', key => 'x'), pg_temp.take('b', 'due', key => 'y'), pg_sleep(0.1);
UPDATE pacer.source SET start_interval = '1 h' WHERE name = 'due';
SELECT is(pg_temp.take('again', 'due', key => 'x'), '0', 'a due booking found by its key starts');
SELECT is(pg_temp.ticket('again'), pg_temp.ticket('a'), 'being the one that was booked');
SELECT is(pg_temp.release('a'), 'started', 'and its start is recorded');
SELECT ok(pg_temp.is_about(pg_temp.take('b', 'due', key => 'y'), '1 h'), 'the next due one is kept apart from it');
SELECT ok(pg_temp.is_about(pg_temp.take('c', 'due', key => 'x'), '2 h'), 'after the start the key books anew');

-- confirmed
SELECT pacer.create_source('confirmed', '20 ms');
SELECT pg_temp.take('g', 'confirmed'), pg_temp.take('a', 'confirmed', key => 'x'), pg_sleep(0.05);
SELECT is(pg_temp.confirm('a'), '0', 'confirmed');
SELECT isnt(ticket, pg_temp.ticket('a'), 'its key is free') FROM pacer.book('confirmed', key => 'x');

-- paused without end
SELECT pacer.create_source('paused', '1 h');
SELECT pg_temp.take('a', 'paused', key => 'x'), pacer.pause('paused', 'infinity');
SELECT is(pg_temp.error('SELECT pacer.book(''paused'', key => ''x'')'),
	'PC002 | could not book a slot for "paused": it is paused | The pause has no end. | Use pacer.resume().',
	'a due booking cannot start under a pause, asked for by its key or not');

-- not a part of the transaction, not cut, not folded
SAVEPOINT s;
SELECT pg_temp.take('s', 'other', key => 'saved');
SELECT set_config('test.ticket', pg_temp.ticket('s')::text, false);
ROLLBACK TO s;
SELECT isnt(ticket::text, '', 'after a rollback the booking is found again') FROM pacer.book('other', key => 'saved');
SELECT is(count(DISTINCT ticket), 5::bigint, 'keys are told apart in every byte')
	FROM unnest(ARRAY['A', 'a', 'a ', repeat('x', 1000) || '1', repeat('x', 1000) || '2']) k, pacer.book('other', key => k);
SELECT is(pg_temp.error('SELECT pacer.book(''k'', key => '''')'), '22023 | key must not be empty', 'an empty key is refused');
SELECT is(pg_temp.take('n1', 'other', key => NULL) IS NOT NULL AND pg_temp.take('n2', 'other', key => NULL) IS NOT NULL
	AND pg_temp.ticket('n1') <> pg_temp.ticket('n2'), true, 'no key is no key');

SELECT * FROM finish();
ROLLBACK;
