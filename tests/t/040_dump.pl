# Dump and restore, DROP and CREATE EXTENSION, rewrites of the tables: configuration and schedule
# go along, and no session holds on to what was there before
use strict;
use warnings;
use PacerSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PacerSession->node('dump', 'allow_in_place_tablespaces = on', 'log_statement = none', 'shared_buffers = 256kB', 'max_connections = 20', 'recovery_init_sync_method = syncfs');
my $dir = $PostgreSQL::Test::Utils::tmp_check;

sub sql
{
	my ($db, $sql) = @_;
	return $node->safe_psql($db, $sql);
}

sub fails_with
{
	my ($db, $sql, $expected, $name) = @_;
	my ($status, $out, $err) = $node->psql($db, "\\set VERBOSITY verbose\n$sql");

	isnt($status, 0, "$name fails");
	like($err, $expected, $name);
}

# --- dump and restore

sql('postgres', <<'END');
SELECT pacer.create_source('hour', '1 h', max_waiting => NULL);
SELECT pacer.create_source('all', '2 h', 3, 4, '5 days', 6, '1 day', 7, false, '2020-02-02 02:02:02+00');
SELECT pacer.create_source('day', '1 day', remembered => 200);
SELECT pacer.create_source('unused', '1 s');
SELECT pacer.create_source('gone', '1 s');
SELECT pacer.book('hour') FROM generate_series(1, 50);
SELECT pacer.nextslot('all') FROM generate_series(1, 8);
SELECT pacer.book('day');
SELECT pacer.pause('day', '30 days');
SELECT pacer.drop_source('gone');
INSERT INTO pacer.source (name, start_interval) VALUES (E'it''s "a"\n\\%', '1 us');
GRANT SELECT ON pacer.source TO PUBLIC;
END
my $config = 'SELECT * FROM pacer.source ORDER BY name';
my $logged = 'SELECT slot_id, layout, reserved_until, paused_until, quota_start, quota_window_us, quota_reserved, start_reach_us, remembered FROM pacer.slot ORDER BY 1';
my $heads = 'SELECT name, next_request_at, paused_until FROM pacer.status ORDER BY name';

for my $format ('custom', 'plain', 'directory')
{
	my $db = "restored_$format";
	my $file = "$dir/dump.$format";

	command_ok([ 'pg_dump', "--format=$format", '-f', $file, $node->connstr('postgres') ], "$format: dumped");
	sql('postgres', "CREATE DATABASE $db");
	command_ok(
		$format eq 'plain'
		? [ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $file, $node->connstr($db) ]
		: [ 'pg_restore', '--exit-on-error', '-d', $node->connstr($db), $file ], "$format: restored into an empty database");
	is(sql($db, $config), sql('postgres', $config), "$format: the configuration is the same");
	is(sql($db, $logged), sql('postgres', $logged), "$format: so is what is logged");
	is(sql($db, 'SELECT count(*), max(run) FROM pacer.slot'), '5|0', "$format: each state once, believed in what is logged only");
	is(sql($db, $heads), sql('postgres', $heads), "$format: the schedules are the same");
	is(sql($db, q(SELECT has_table_privilege('public', 'pacer.source', 'SELECT'))), 't', "$format: rights are the same");
}

my $db = 'restored_custom';
my $head = sql('postgres', "SELECT next_request_at FROM pacer.source_status('hour')");
is(sql($db, "SELECT slot_at = '$head' FROM pacer.book('hour')"), 't', 'the restored source goes on where the other stood');
is(sql('postgres', "SELECT slot_at = '$head' FROM pacer.book('hour')"), 't', 'and the other one, too: they are two from here on');
is(sql($db, "SELECT run_ok FROM pacer.source_status('hour')"), 't', 'with the mark of this run');
is(sql($db, "SELECT pacer.create_source('new', '1 s'); SELECT (SELECT source_id FROM pacer.source WHERE name = 'new') > max(source_id) FROM pacer.source WHERE name <> 'new'"),
	"t\nt", 'a new source gets a number that none had');
is(sql($db, "SELECT wait = '0' FROM pacer.book('new')"), 't', 'and a state of its own');
is(sql($db, 'SELECT count(*) = (SELECT count(*) FROM pacer.source) FROM pacer.slot'), 't', 'each source has one state');

# data only, into a database that has the extension
sql('postgres', 'CREATE DATABASE data_only');
sql('data_only', 'CREATE EXTENSION pg_pacer');
command_ok([ 'pg_restore', '--exit-on-error', '--data-only', '-d', $node->connstr('data_only'), "$dir/dump.custom" ], 'data alone are restored');
is(sql('data_only', $heads), sql($db =~ s/custom/plain/r, $heads), 'with the schedules');

# a clone shares the mark and the rows of its template, consistently
sql('postgres', "CREATE DATABASE clone TEMPLATE $db");
my $clone_head = sql($db, "SELECT next_request_at FROM pacer.source_status('hour')");
is(sql('clone', "SELECT slot_at = '$clone_head' FROM pacer.book('hour')"), 't', 'CREATE DATABASE ... TEMPLATE keeps the schedule');
is(sql($db, "SELECT slot_at = '$clone_head' FROM pacer.book('hour')"), 't', 'and is another from then on');

# --- the same name in two databases

is(sql('clone', "SELECT pacer.create_source('two', '1 h'); SELECT wait = '0' FROM pacer.book('two'); SELECT wait > '0' FROM pacer.book('two')"), "t\nt\nt", 'a source in one database');
is(sql($db, "SELECT pacer.create_source('two', '1 h'); SELECT wait = '0' FROM pacer.book('two')"), "t\nt", q(is not another database's source of that name));

# --- DROP and CREATE EXTENSION under a session that knows it (stale OIDs, addresses and plans)

my $warm = PacerSession->new($node);
my $other = PacerSession->new($node);

sub at_once
{
	my ($session, $name) = @_;
	is($session->ask("SELECT wait = '0' FROM pacer.book('s')"), 't', $name) or diag $session->error;
}

$warm->ask('DROP EXTENSION pg_pacer; CREATE EXTENSION pg_pacer; SELECT pacer.create_source(\'s\', \'1 h\')');
at_once($warm, 'one session: DROP, CREATE, book');
$warm->ask("PREPARE p AS SELECT wait = '0' FROM pacer.book('s'); EXECUTE p; EXECUTE p; EXECUTE p; EXECUTE p; EXECUTE p; EXECUTE p");
$other->ask("SELECT pacer.book('s')");
for my $times (1 .. 3)
{
	$warm->ask("DROP EXTENSION pg_pacer; CREATE EXTENSION pg_pacer; SELECT pacer.create_source('s', '1 h')");
	is($warm->ask('EXECUTE p'), 't', "$times: a prepared booking follows");
	is($other->ask("SELECT wait > '0' FROM pacer.book('s')"), 't', "$times: another session, too");
}
$warm->ask('DROP EXTENSION pg_pacer');
for ($warm, $other)
{
	$_->ask("SELECT pacer.book('s')");
	like($_->error, qr/ERROR:  (3F000|42883): /, 'gone');
}
$warm->ask('BEGIN; CREATE EXTENSION pg_pacer; SELECT pacer.create_source(\'s\', \'1 h\'); SELECT pacer.book(\'s\'); ROLLBACK; CREATE EXTENSION pg_pacer; SELECT pacer.create_source(\'s\', \'1 h\')');
at_once($warm, 'created, rolled back, created');
is($other->ask("SELECT wait > '0' FROM pacer.book('s')"), 't', 'another session finds it');

# all in one transaction: with wal_level = minimal the files are not logged, and go to disk at
# the commit. Like a hint a booking leaves no record; unlike one it must make the page dirty,
# or it is gone when the page is thrown out, as here between any two bookings.
is($node->safe_psql('postgres', 'SHOW wal_level'), 'minimal', 'wal_level is minimal');
# hundreds of pages by their indexes, which come through the 32 buffers that there are
my $evict = 'SELECT sum(length(a::text)) > 0 FROM (SELECT a FROM pg_attribute a ORDER BY attrelid, attnum) a, '
	. '(SELECT sum(length(p::text)) FROM (SELECT p FROM pg_proc p ORDER BY oid) p) p, (SELECT sum(length(d::text)) FROM (SELECT d FROM pg_depend d ORDER BY classid, objid, objsubid) d) d';
# an interval below reserve_ahead, and all of it ahead: ten bookings need no record
is($warm->ask(<<"END") =~ s/.*\n//sr, '0,1,2,3,4,5,6,7,8', 'bookings in the transaction that made the extension') or diag $warm->error;
SET enable_seqscan = off;
BEGIN;
DROP EXTENSION pg_pacer;
CREATE EXTENSION pg_pacer;
CREATE TEMP TABLE told (slot_at timestamptz);
SELECT pacer.create_source('s', '100 ms');
SELECT pacer.advance('s', now() + interval '1 h');
INSERT INTO told SELECT slot_at FROM pacer.book('s');
$evict;
@{[ "INSERT INTO told SELECT slot_at FROM pacer.book('s') ; $evict;\n" x 8 ]}
SELECT string_agg(n::text, ',' ORDER BY n) FROM (SELECT (extract(epoch FROM slot_at - min(slot_at) OVER ()) * 10)::int AS n FROM told) t;
COMMIT
END
my $s_head = sql('postgres', "SELECT next_request_at FROM pacer.source_status('s')");
$_->quit for $warm, $other;
$node->stop('immediate');
$node->start;
is(sql('postgres', "SELECT slot_at >= '$s_head' FROM pacer.book('s')"), 't', 'and a crash after its commit takes nothing back');

# --- VACUUM FULL, CLUSTER, SET TABLESPACE, TRUNCATE between bookings of a session that knows the row's address

$warm = PacerSession->new($node);
$other = PacerSession->new($node);
# rows before it, so that it moves
$other->ask("INSERT INTO pacer.source (name, start_interval, remembered) SELECT 'filler' || n, '1 h', 200 FROM generate_series(1, 20) n");
$other->ask("SELECT pacer.create_source('m', '1 h', max_waiting => NULL)");
my $slot = $warm->ask("SELECT slot_at FROM pacer.book('m')");
$other->ask("CREATE TABLESPACE elsewhere LOCATION ''");
my $hours = 0;
for my $rewrite ('VACUUM pacer.slot', 'VACUUM FULL pacer.slot', "DELETE FROM pacer.source WHERE name LIKE 'filler%'; VACUUM pacer.slot, pacer.source; VACUUM FULL pacer.slot",
	'CLUSTER pacer.slot USING slot_pkey', 'ALTER TABLE pacer.slot SET TABLESPACE elsewhere', 'ALTER TABLE pacer.slot SET TABLESPACE pg_default',
	'REINDEX TABLE pacer.slot', 'REINDEX TABLE pacer.source', 'VACUUM FULL pacer.source', 'VACUUM (FREEZE) pacer.slot', 'ANALYZE pacer.slot',
	'BEGIN; CLUSTER pacer.slot USING slot_pkey; ROLLBACK', 'CHECKPOINT')
{
	$other->ask($rewrite);
	is($other->error, '', $rewrite);
	$hours++;
	is($warm->ask("SELECT extract(epoch FROM slot_at - '$slot')::int / 3600 FROM pacer.book('m')"), $hours, 'the warm session goes on');
	$hours++;
	is($other->ask("SELECT extract(epoch FROM slot_at - '$slot')::int / 3600 FROM pacer.book('m')"), $hours, 'and the other');
}

# a booking would go into a file that a rollback throws away
for my $rewrite ('CLUSTER pacer.slot USING slot_pkey', 'ALTER TABLE pacer.slot SET TABLESPACE elsewhere')
{
	fails_with('postgres', "BEGIN; $rewrite; SELECT pacer.book('m')", qr/ERROR:  55000: cannot book while this transaction rewrites pacer.slot/, "$rewrite; book");
	fails_with('postgres', "BEGIN; SAVEPOINT p; $rewrite; RELEASE p; SELECT pacer.nextslot('m')", qr/ERROR:  55000: cannot book while this transaction rewrites pacer.slot/, "the same in a subtransaction");
}
$hours++;
is($warm->ask("SELECT extract(epoch FROM slot_at - '$slot')::int / 3600 FROM pacer.book('m')"), $hours, 'nothing was booked by that');

# what must be unlogged, and what must not
fails_with('postgres', "ALTER SEQUENCE pacer.run_mark SET LOGGED; SELECT pacer.book('m')", qr/ERROR:  55000: "run_mark" is not an unlogged sequence\n.*DETAIL:.*\n.*HINT:/, 'a mark that would survive a crash');
sql('postgres', 'ALTER SEQUENCE pacer.run_mark SET UNLOGGED');
fails_with('postgres', "ALTER TABLE pacer.source DROP CONSTRAINT source_source_id_fkey; ALTER TABLE pacer.slot SET UNLOGGED; SELECT pacer.book('m')",
	qr/ERROR:  55000: table pacer.slot is not logged/, 'a state that would not');
sql('postgres', 'ALTER TABLE pacer.slot SET LOGGED;
	ALTER TABLE pacer.source ADD CONSTRAINT source_source_id_fkey FOREIGN KEY (source_id) REFERENCES pacer.slot DEFERRABLE INITIALLY DEFERRED');
is(sql('postgres', "SELECT slot_at > '$slot' FROM pacer.book('m')"), 't', 'put right it goes on');

# somebody who resets the mark by hand makes two runs of one: late, never early
my $m_head = $warm->ask("SELECT next_request_at FROM pacer.source_status('m')");
sql('postgres', "SELECT setval('pacer.run_mark', 1, false)");
is($other->ask("SELECT slot_at >= '$m_head' FROM pacer.book('m')"), 't', 'a mark reset by hand');
is(sql('postgres', "SELECT slot_at >= '$m_head'::timestamptz + interval '1 h' FROM pacer.book('m')"), 't', 'for a new session');
is($warm->ask("SELECT slot_at >= '$m_head'::timestamptz + interval '2 h' FROM pacer.book('m')"), 't', 'and for one that knew the old one');

# rows that somebody destroyed: one clear error
$warm->ask("SELECT pacer.create_source('lost', '1 h'); SELECT pacer.book('lost')");
sql('postgres', "SET session_replication_role = replica; DELETE FROM pacer.slot WHERE slot_id = (SELECT source_id FROM pacer.source WHERE name = 'lost')");
for my $session ($warm, $other)
{
	$session->ask("SELECT pacer.book('lost')");
	like($session->error, qr/ERROR:  55000: state of source "lost" is missing\n.*DETAIL:  There is no row \d+ in pacer.slot\./, 'a state that is missing');
}
$warm->ask("SELECT pacer.create_source('changed', '1 h'); SELECT pacer.book('changed')");
sql('postgres', <<'END');
ALTER TABLE pacer.slot DISABLE TRIGGER slot_refuse;
UPDATE pacer.slot SET recent = recent || '\x00' WHERE false;
ALTER TABLE pacer.slot DROP CONSTRAINT slot_recent_check;
UPDATE pacer.slot SET recent = recent || '\x00' WHERE slot_id = (SELECT source_id FROM pacer.source WHERE name = 'changed');
END
for my $session ($warm, $other)
{
	$session->ask("SELECT pacer.book('changed')");
	like($session->error, qr/ERROR:  55000: state of source "changed" is not usable/, 'a state of the wrong length');
	$session->ask('TABLE pacer.status');
	like($session->error, qr/ERROR:  55000: state of source "changed" is not usable/, 'status says so, too');
}
# a row that was written by SQL to the right length is a row: what it says in its logged half counts
sql('postgres', <<'END');
UPDATE pacer.slot SET recent = substr(recent, 1, 32 * remembered), nrecent = 999, first = -1, flags = 77 WHERE octet_length(recent) <> 32 * remembered;
END
is($warm->ask("SELECT wait >= '0' FROM pacer.book('changed')"), 't', 'a ring that makes no sense is not read') or diag $warm->error;
sql('postgres', 'TRUNCATE pacer.slot CASCADE');
for my $session ($warm, $other)
{
	$session->ask("SELECT pacer.book('m')");
	like($session->error, qr/ERROR:  42704: source "m" does not exist/, 'after TRUNCATE ... CASCADE there is no source');
}

# --- heap pages are sound, as far as a heap can tell

sql('restored_plain', 'CREATE EXTENSION amcheck');
is(sql('restored_plain', "SELECT count(*) FROM verify_heapam('pacer.slot'), generate_series(1, 1) UNION ALL SELECT count(*) FROM verify_heapam('pacer.source')"), "0\n0", 'verify_heapam finds nothing')
	if sql('restored_plain', "SELECT pacer.book('hour') IS NOT NULL") eq 't';

# --- wal_consistency_checking would make the cluster unrecoverable

for my $setting ('all', 'generic', 'heap')
{
	fails_with('restored_plain', "SET wal_consistency_checking = '$setting'; SELECT pacer.book('day', max_wait => '100 days')",
		qr/ERROR:  0A000: cannot book while wal_consistency_checking is set\n.*DETAIL:.*\n.*HINT:/, "wal_consistency_checking = $setting");
}
sql('restored_plain', "SET wal_consistency_checking = 'all'; SELECT pacer.peek('day'); TABLE pacer.status");
$node->stop('immediate');
$node->start;
is(sql('restored_plain', "SELECT wait > '0' FROM pacer.book('day')"), 't', 'the server comes up after a crash');
unlike(slurp_file($node->logfile), qr/PANIC|XX000|leak|invalid page/, 'the log has nothing to complain about');

$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums are right');
done_testing();
