-- pacer.source: the public way to configure; and the functions that are shorthand for it
BEGIN;
\ir 3_support.psql
SELECT plan(97);

-- ----------------------------------------------------------------
-- INSERT
-- ----------------------------------------------------------------
INSERT INTO pacer.source (name, start_interval) VALUES ('plain', '1 day 00:00:00.5');
SELECT is((burst, max_waiting, max_wait, remembered, quota, quota_window, quota_origin),
	(1, 100, NULL::interval, 32, NULL::int, NULL::interval, 'epoch'::timestamptz), 'defaults')
	FROM pacer.source WHERE name = 'plain';
SELECT is(start_interval::text, '24:00:00.5', 'a day is 24 hours, kept in microseconds') FROM pacer.source WHERE name = 'plain';
\if :extension
SELECT is((s.remembered, octet_length(s.recent), s.layout, s.run), (32, 1024, 1, 0::bigint), 'its state is made with it')
	FROM pacer.slot s JOIN pacer.source ON slot_id = source_id WHERE name = 'plain';
\else
	SELECT skip('the row is laid out for C', 1);
\endif
SELECT is((next_request_at, waiting, booked, run_ok), (NULL::timestamptz, 0::bigint, 0::bigint, NOT :extension), 'never booked')
	FROM pacer.source_status('plain');

-- every way to be wrong: SQLSTATE and text
CREATE FUNCTION pg_temp.insert_error(columns text, vals text) RETURNS text LANGUAGE sql
AS $$ SELECT pg_temp.error(format('INSERT INTO pacer.source (%s) VALUES (%s)', $1, $2)) $$;
CREATE FUNCTION pg_temp.update_error(assignment text) RETURNS text LANGUAGE sql
AS $$ SELECT pg_temp.error(format('UPDATE pacer.source SET %s WHERE name = ''plain''', $1)) $$;

SELECT is(pg_temp.insert_error('name, start_interval', v), e, 'INSERT ' || v) FROM (VALUES
	($$'x', NULL$$, '22023 | start_interval of source "x" must not be null'),
	($$'x', '0'$$, '22023 | start_interval of source "x" must be at least 1 microsecond'),
	($$'x', '-1 s'$$, '22023 | start_interval of source "x" must be at least 1 microsecond'),
	($$'x', '1 day -24 hours'$$, '22023 | start_interval of source "x" must be at least 1 microsecond'),
	($$'x', '1 day -25 hours'$$, '22023 | start_interval of source "x" must be at least 1 microsecond'),
	($$'x', '0.0000004 s'$$, '22023 | start_interval of source "x" must be at least 1 microsecond'),
	($$'x', '1 month'$$, '22023 | start_interval of source "x" must not have months or years, whose lengths vary'),
	($$'x', '1 year -12 months 1 s'$$, 'no error'),
	($$'y', '1 month -30 days'$$, '22023 | start_interval of source "y" must not have months or years, whose lengths vary'),
	($$'y', '106751992 days'$$, '22008 | start_interval of source "y" is out of range'),
	($$NULL, '1 s'$$, '22004 | source must not be null'),
	($$'', '1 s'$$, '22023 | name of a source must not be empty'),
	($$repeat('x', 255), '1 s'$$, 'no error'),
	($$repeat('ä', 127) || 'x', '1 s'$$, 'no error'),
	($$'plain', '1 s'$$, '23505 | duplicate key value violates unique constraint "source_pkey" | Key (name)=(plain) already exists.')) t(v, e);
SELECT is(pg_temp.error($$INSERT INTO pacer.source (name, start_interval) VALUES (repeat('ä', 128), '1 s')$$),
	'22023 | name of a source must not be longer than 255 bytes | "' || repeat('ä', 128) || '" has 256 bytes.', 'names are counted in bytes, and never cut');

SELECT is(pg_temp.insert_error('name, start_interval, ' || c, $$'z', '1 s', $$ || v), e, c || ' = ' || v) FROM (VALUES
	('burst', '0', '22023 | burst of source "z" must be at least 1, not 0'),
	('burst', '-2147483648', '22023 | burst of source "z" must be at least 1, not -2147483648'),
	('burst', 'NULL', '22023 | burst of source "z" must not be null'),
	('max_waiting', '-1', '22023 | max_waiting of source "z" must be at least 0, not -1'),
	('max_wait', $$'-1 us'$$, '22023 | max_wait of source "z" must not be negative'),
	('max_wait', $$'1 mon'$$, '22023 | max_wait of source "z" must not have months or years, whose lengths vary'),
	('remembered', '3', '22023 | remembered of source "z" must be between 4 and 200, not 3'),
	('remembered', '201', '22023 | remembered of source "z" must be between 4 and 200, not 201'),
	('remembered', 'NULL', '22023 | remembered of source "z" must not be null'),
	('quota', '5', '22023 | quota of source "z" must be given with quota_window, or neither'),
	('quota_window', $$'1 h'$$, '22023 | quota of source "z" must be given with quota_window, or neither'),
	('quota, quota_window', $$0, '1 h'$$, '22023 | quota of source "z" must be at least 1, not 0'),
	('quota, quota_window', $$1, '0'$$, '22023 | quota_window of source "z" must be at least 1 microsecond'),
	('quota, quota_window', $$1, '1 mon'$$, '22023 | quota_window of source "z" must not have months or years, whose lengths vary'),
	('quota, quota_window', $$1, '36525 days 1 us'$$, '22023 | quota_window of source "z" must be at most 36525 days'),
	('quota_origin', 'NULL', '22023 | quota_origin of source "z" must be a finite time'),
	('quota_origin', $$'infinity'$$, '22023 | quota_origin of source "z" must be a finite time'),
	('quota_origin', $$'-infinity'$$, '22023 | quota_origin of source "z" must be a finite time')) t(c, v, e);
SELECT is_empty($$SELECT FROM pacer.source WHERE name IN ('y', 'z')$$, 'none of them left a source');

-- bounds that are good
SELECT lives_ok($$INSERT INTO pacer.source (name, start_interval, burst, max_waiting, max_wait, remembered, quota, quota_window, quota_origin) VALUES
	('least', '1 us', 1, 0, '0', 4, 1, '1 us', '4714-11-24 00:00:00+00 BC'),
	('most', '2000000000 hours', 2147483647, 2147483647, '2000000000 hours', 200, 2147483647, '36525 days', '294276-12-31 23:59:59.999999+00'),
	('no bounds', '1 s', 1, NULL, NULL, 32, NULL, NULL, 'epoch')$$, 'least and most');

-- names are bytes: nothing is folded, trimmed, cut or interpreted
INSERT INTO pacer.source (name, start_interval) SELECT n, '1 h' FROM unnest(ARRAY[
	'Name', 'name', 'name ', E'it''s "a" \\ % \n line', repeat('n', 63) || '1', repeat('n', 63) || '2', 'café']) n;
SELECT is((SELECT count(*) FROM unnest(ARRAY['Name', 'name', 'name ', E'it''s "a" \\ % \n line',
	repeat('n', 63) || '1', repeat('n', 63) || '2', 'café']) n, pacer.book(n) b WHERE b.wait = '0' AND b.source = n), 7::bigint,
	'seven names, seven sources');

-- ----------------------------------------------------------------
-- UPDATE
-- ----------------------------------------------------------------
SELECT is(pg_temp.update_error(a), e, 'UPDATE ' || a) FROM (VALUES
	($$start_interval = '0'$$, '22023 | start_interval of source "plain" must be at least 1 microsecond'),
	($$start_interval = NULL$$, '22023 | start_interval of source "plain" must not be null'),
	('remembered = 33', '22023 | remembered of source "plain" is fixed at its creation'),
	('source_id = source_id + 1000', '22023 | source_id of source "plain" is fixed at its creation'),
	($$name = ''$$, '22023 | name of a source must not be empty'),
	($$name = 'least'$$, '23505 | duplicate key value violates unique constraint "source_pkey" | Key (name)=(least) already exists.'),
	($$quota = 1$$, '22023 | quota of source "plain" must be given with quota_window, or neither')) t(a, e);

SELECT pg_temp.take('p1', 'plain'), pg_temp.take('p2', 'plain');
UPDATE pacer.source SET start_interval = '10 min', max_wait = '100 days' WHERE name = 'plain';
SELECT pg_temp.take('p3', 'plain'), pg_temp.take('p4', 'plain');
SELECT is(pg_temp.slot_after('p3', 'p2'), '24:00:00.5', 'a change moves nothing that is booked');
SELECT is(pg_temp.slot_after('p4', 'p3'), '10 min', 'and holds from the next booking on');
UPDATE pacer.source SET name = 'renamed' WHERE name = 'plain';
SELECT is(pg_temp.error($$SELECT pacer.book('plain')$$), '42704 | source "plain" does not exist', 'the old name is gone');
SELECT pg_temp.take('p5', 'renamed');
SELECT is(pg_temp.slot_after('p5', 'p4'), '10 min', 'the new one has its schedule');
SELECT is(pacer.release('renamed', pg_temp.ticket('p4')), 'released', 'and its tickets');

-- ----------------------------------------------------------------
-- No orphans, no state that is somebody else's
-- ----------------------------------------------------------------
SELECT is((SELECT count(*) FROM pacer.slot), (SELECT count(*) FROM pacer.source), 'one state for each source, also after what failed');
DO $$ BEGIN FOR i IN 1..100 LOOP
	INSERT INTO pacer.source (name, start_interval) VALUES ('upsert', '1 s')
		ON CONFLICT (name) DO UPDATE SET start_interval = excluded.start_interval;
	INSERT INTO pacer.source (name, start_interval) VALUES ('upsert', '1 s') ON CONFLICT DO NOTHING;
END LOOP; END $$;
SELECT is((SELECT count(*) FROM pacer.slot), (SELECT count(*) FROM pacer.source), '200 upserts leave one state');
INSERT INTO pacer.source (name, start_interval, source_id) VALUES ('numbered', '1 s', 1000000);
SELECT is(pg_temp.insert_error('name, start_interval, source_id', $$'twice', '1 s', 1000000$$),
	'23505 | duplicate key value violates unique constraint "source_source_id_key" | Key (source_id)=(1000000) already exists.',
	'no two sources have one state');
SELECT is(wait, '0', 'a source with a number of its own works') FROM pacer.book('numbered');
DELETE FROM pacer.source WHERE name = 'numbered';
SELECT is_empty('SELECT FROM pacer.slot WHERE slot_id = 1000000', 'DELETE takes the state along');
SELECT is(pg_temp.error($$DELETE FROM pacer.slot; SET CONSTRAINTS ALL IMMEDIATE$$) ~ '^23503 | update or delete on table "slot" violates foreign key',
	true, 'the state of a source cannot be deleted from under it');

-- ----------------------------------------------------------------
-- pacer.slot is written in place by C alone
-- ----------------------------------------------------------------
\if :extension
SELECT is(pg_temp.error('UPDATE pacer.slot SET run = 1'),
	'55000 | cannot update pacer.slot | The state of a source is written in place by the functions of pg_pacer alone. | Use pacer.advance(), pacer.rewind(), or delete the source.',
	'UPDATE');
SELECT is(pg_temp.error('UPDATE pacer.slot SET run = 1 WHERE false') LIKE '55000 | cannot update pacer.slot | %', true, 'UPDATE of nothing');
SELECT is(pg_temp.error('SET CONSTRAINTS ALL IMMEDIATE; TRUNCATE pacer.slot CASCADE') LIKE '55000 | cannot truncate pacer.slot | %', true, 'TRUNCATE');
SET LOCAL session_replication_role = replica;
SELECT is(pg_temp.error('UPDATE pacer.slot SET run = 1') LIKE '55000 | cannot update pacer.slot | %', true, 'UPDATE as replication does it');
SET LOCAL session_replication_role = origin;
INSERT INTO pacer.slot (slot_id, remembered, recent, run, next_request_at)
	VALUES (2000000, 4, decode(repeat('ff', 128), 'hex'), 99, '2999-01-01');
SELECT is(run, 0::bigint, 'a row that is restored is not believed in what was not logged') FROM pacer.slot WHERE slot_id = 2000000;
SELECT is(pg_temp.insert_error('name, start_interval, source_id', $$'restored', '1 s', 2000000$$),
	'55000 | state of source "restored" does not fit it | Row 2000000 of pacer.slot does not remember 32 bookings.', 'nor used for another size');
INSERT INTO pacer.source (name, start_interval, remembered, source_id) VALUES ('restored', '1 s', 4, 2000000);
SELECT is(wait, '0', 'where it fits it speaks through what was logged') FROM pacer.book('restored');
SELECT is(pg_temp.error($$INSERT INTO pacer.slot (slot_id, remembered, recent) VALUES (2000001, 4, '\x00')$$) LIKE '23514 |%', true,
	'a row of the wrong length is refused');
\else
	SELECT skip('the row is not written in place', 8);
\endif

-- ----------------------------------------------------------------
-- TRUNCATE of the sources
-- ----------------------------------------------------------------
SAVEPOINT all_of_them;
SET CONSTRAINTS ALL IMMEDIATE;
TRUNCATE pacer.source;
SELECT is_empty('SELECT FROM pacer.slot', 'TRUNCATE takes the states along');
SELECT is(pg_temp.error($$SELECT pacer.book('renamed')$$), '42704 | source "renamed" does not exist', 'there is no source left');
ROLLBACK TO all_of_them;

-- ----------------------------------------------------------------
-- The functions
-- ----------------------------------------------------------------
SELECT is(pacer.create_source('made', '1 s'), true, 'create_source');
SELECT is(pg_temp.error($$SELECT pacer.create_source('made', '2 s')$$), '42710 | source "made" already exists', 'once');
SELECT is(pacer.create_source('made', '2 s', if_not_exists => true), false, 'unless it need not be new');
SELECT is(pg_temp.error($$SELECT pacer.create_source('made', '2 s', if_not_exists => NULL)$$), '42710 | source "made" already exists', 'null is not true');
SELECT is(start_interval, '1 s', 'which changes nothing') FROM pacer.source WHERE name = 'made';
SELECT is(pacer.create_source('all', '1 s', 2, NULL, '3 s', 4, '5 s', 6, false, '2020-01-01 00:00:07+00'), true, 'all parameters in order');
SELECT is((burst, max_waiting, max_wait, quota, quota_window, remembered, quota_origin),
	(2, NULL::int, '3 s'::interval, 4, '5 s'::interval, 6, '2020-01-01 00:00:07+00'::timestamptz), 'and in their places')
	FROM pacer.source WHERE name = 'all';
SELECT is(pg_temp.error(c), e, c) FROM (VALUES
	($$SELECT pacer.create_source(NULL, '1 s')$$, '22004 | source must not be null'),
	($$SELECT pacer.create_source('bad', NULL)$$, '22023 | start_interval of source "bad" must not be null'),
	($$SELECT pacer.create_source('bad', '0', if_not_exists => true)$$, '22023 | start_interval of source "bad" must be at least 1 microsecond'),
	($$SELECT pacer.drop_source('bad')$$, '42704 | source "bad" does not exist'),
	($$SELECT pacer.drop_source(NULL)$$, '22004 | source must not be null')) t(c, e);
SELECT lives_ok($$SELECT pacer.drop_source('made')$$, 'drop_source');
SELECT is(pg_temp.error($$SELECT pacer.book('made')$$), '42704 | source "made" does not exist', 'drops it');

-- every(): a rate as an interval, never too fast
SELECT is(pacer.every(p, i::interval), r::interval, format('every(%s, %s)', p, i)) FROM (VALUES
	(1, '1 s', '1 s'), (3, '1 s', '333334 us'), (750, '1 s', '1334 us'), (1000000, '1 s', '1 us'), (2000000, '1 s', '1 us'),
	(2147483647, '1 us', '1 us'), (7, '1 day', '12342857143 us'), (1, '2000000000 hours', '2000000000 hours')) t(p, i, r);
SELECT is(pg_temp.error(c), e, c) FROM (VALUES
	($$SELECT pacer.every(0, '1 s')$$, '22023 | permits must be at least 1, not 0'),
	($$SELECT pacer.every(1, '0')$$, '22023 | period must be above 0 and must not have months'),
	($$SELECT pacer.every(1, '-1 s')$$, '22023 | period must be above 0 and must not have months'),
	($$SELECT pacer.every(1, '1 month')$$, '22023 | period must be above 0 and must not have months'),
	($$SELECT pacer.every(NULL, '1 s')$$, '22004 | permits and period must not be null'),
	($$SELECT pacer.every(1, NULL)$$, '22004 | permits and period must not be null')) t(c, e);

SELECT finish();
ROLLBACK;
