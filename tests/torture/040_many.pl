# Many sources, many sessions, names of every kind; and what an extension has to bear.
#
# PACER_ROUNDS >= 30: a million sources and a minute, otherwise 20,000 and ten seconds.
use strict;
use warnings;
use PacerReport;
use PacerSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $long = ($ENV{PACER_ROUNDS} || 0) >= 30;
my $sources = $long ? 1_000_000 : 20_000;
my $seconds = $long ? 60 : 10;
my $dir = PostgreSQL::Test::Utils::tempdir;
my $node = PacerSession->node('many', 'log_statement = none', 'max_connections = 100', 'synchronous_commit = on', 'shared_buffers = 512MB', 'max_wal_size = 4GB',
	'recovery_init_sync_method = syncfs', 'max_locks_per_transaction = 128');
my $me = PacerSession->new($node);

# --- 64 sources, 64 sessions, in any order, in transactions that go on

$me->ask("SELECT pacer.create_source('s' || n, '1 ms', max_waiting => NULL) FROM generate_series(1, 64) n; CREATE TABLE note (n int)");
append_to_file("$dir/transactions.sql", <<'END');
\set isolation random(1, 3)
\set end random(1, 2)
\if :isolation = 1
BEGIN ISOLATION LEVEL REPEATABLE READ;
\else
BEGIN;
\endif
INSERT INTO note VALUES (:client_id);
END
append_to_file("$dir/transactions.sql", <<'END' x 15);
\set s random(1, 64)
SELECT ticket FROM pacer.book('s' || :s) \gset
\set what random(1, 4)
\if :what = 1
SELECT pacer.release('s' || :s, :ticket);
\endif
\set s random(1, 64)
SELECT pacer.nextslot('s' || :s);
END
append_to_file("$dir/transactions.sql", "\\if :end = 1\nCOMMIT;\n\\else\nROLLBACK;\n\\endif\n");
append_to_file("$dir/configure.sql", <<'END');
\set s random(1, 64)
\set burst random(1, 3)
\set wait random(1, 20)
BEGIN;
UPDATE pacer.source SET burst = :burst WHERE name = 's' || :s;
SELECT pacer.create_source('temporary ' || :s, '1 s', if_not_exists => true);
SELECT pg_sleep(:wait / 1000.0);
DELETE FROM pacer.source WHERE name = 'temporary ' || :s;
COMMIT;
END

my ($out, $err) = ('', '');
my $configure = IPC::Run::start([ 'pgbench', '-n', '-c', '2', '-T', $seconds, '-f', "$dir/configure.sql", $node->connstr('postgres') ], '>', "$dir/configure.out", '2>', "$dir/configure.err");
IPC::Run::run([ 'pgbench', '-n', '-c', '64', '-j', '2', '-T', $seconds, '-M', 'prepared', '-f', "$dir/transactions.sql", $node->connstr('postgres') ], '>', \$out, '2>', \$err);
IPC::Run::finish($configure);
unlike($err . slurp_file("$dir/configure.err"), qr/ERROR/, 'no error in any session') or diag($err);
my ($transactions) = $out =~ /transactions actually processed: (\d+)/;
cmp_ok($transactions, '>', 64, "$transactions transactions of 30 bookings and more");
is($me->ask("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'"), '0', 'no deadlock');
PacerReport::line('64 sources booked by 64 sessions in random order, in long transactions', 1, "$transactions transactions, " . $me->ask('SELECT sum(booked) FROM pacer.status') . ' bookings', 0);

# --- names of every kind

$me->ask(<<'END');
CREATE TABLE name (name text);
INSERT INTO name VALUES (''''), ('"'), ('\'), ('%'), (E'a\nb'), (E'\t'), ('$1'), (' '), ('NULL'), ('x''; DROP TABLE name; --'), ('{a,b}'), ('(a,b)'),
	(repeat('é', 127) || 'x'), (repeat('x', 255)), (repeat('y', 63) || 'a'), (repeat('y', 63) || 'b'), ('ß'), ('SS'), ('a'), ('A'), ('日本'), (U&'\0061\0301'), (U&'\00E1');
END
my $names = $me->ask('SELECT count(*) FROM name');
my $wrong = 0;
$wrong += $me->ask("SELECT count(*) FROM name WHERE NOT pacer.create_source(name, '1 h')");
$wrong += $names - $me->ask("SELECT count(*) FROM (SELECT b.* FROM name n, pacer.book(n.name) b) t WHERE wait = '0'");
$wrong += $names - $me->ask("SELECT count(*) FROM (SELECT n.name, b.source, pacer.release(n.name, b.ticket) r FROM name n, pacer.book(n.name) b) t WHERE name = source AND r = 'released'");
$wrong += $names - $me->ask('SELECT count(*) FROM name n JOIN pacer.status s USING (name)');
$me->ask('SELECT pacer.drop_source(name) FROM name');
$wrong += $me->ask('SELECT count(*) FROM name n JOIN pacer.source s USING (name)');
is($wrong, 0, "$names names");
PacerReport::line('names of every kind: made, booked, released, dropped', 1, "$names names", $wrong);

# --- a great many sources

my $began = time;
$me->ask("INSERT INTO pacer.source (name, start_interval, remembered) SELECT 'many ' || n, '10 s', 4 FROM generate_series(1, $sources) n");
is($me->error, '', sprintf '%d sources made in %.0f s', $sources, time - $began);
append_to_file("$dir/book.sql", "\\set s random(1, $sources)\nINSERT INTO told SELECT source, slot_at FROM pacer.book('many ' || :s);\n");
$me->ask('CREATE TABLE told (source text, slot_at timestamptz)');
my $load = IPC::Run::start([ 'pgbench', '-n', '-c', '64', '-j', '2', '-T', 3 * $seconds, '-M', 'prepared', '-f', "$dir/book.sql", $node->connstr('postgres') ], '>', '/dev/null', '2>', '/dev/null');
sleep $seconds;
$me->quit;
$node->stop('immediate');
IPC::Run::finish($load);
$node->start;
$me = PacerSession->new($node);
# each that was booked goes on an interval behind what was told
my $bad = $me->ask(<<'END');
SELECT count(*) FROM (SELECT source, max(slot_at) AS latest FROM told GROUP BY source) t, pacer.book(t.source) b WHERE b.slot_at < t.latest + interval '10 s'
END
my ($answers, $booked) = split /\|/, $me->ask('SELECT count(*), count(DISTINCT source) FROM told');
is($bad, '0', "$answers bookings of $booked sources out of $sources, by 64 sessions; after a crash none is given again");
is($me->ask("SELECT count(*) FROM (SELECT slot_at - lag(slot_at) OVER (PARTITION BY source ORDER BY slot_at) AS gap FROM told) g WHERE gap < '10 s'"), '0', 'and all were apart');
$me->ask("DELETE FROM pacer.source WHERE source_id % 2 = 0");
is($me->error, '', 'half of them dropped');
is($me->ask('SELECT (SELECT count(*) FROM pacer.slot) - (SELECT count(*) FROM pacer.source)'), '0', 'no state is left over');
$me->ask('CREATE EXTENSION amcheck; VACUUM pacer.slot, pacer.source');
is($me->ask("SELECT count(*) FROM verify_heapam('pacer.slot')"), '0', 'the table is sound');
PacerReport::line(sprintf('%d sources, 64 sessions, killed in mid-load', $sources), 1, "$answers bookings of $booked sources", $bad);

# --- databases and extensions that come and go

sub in_database
{
	my ($database, $sql) = @_;

	return $node->safe_psql($database, $sql);
}

$me->ask('CREATE DATABASE first');
in_database('first', "CREATE EXTENSION pg_pacer; SELECT pacer.create_source('x', '1 h'); SELECT pacer.book('x') FROM generate_series(1, 3)");
my $head = in_database('first', "SELECT next_request_at FROM pacer.source_status('x')");
$me->ask('CREATE DATABASE second TEMPLATE first');
is(in_database('second', "SELECT slot_at FROM pacer.book('x')"), $head, 'CREATE DATABASE ... TEMPLATE: the copy goes on where the first was');
is(in_database('first', "SELECT slot_at FROM pacer.book('x')"), $head, 'and both on their own');
$node->stop('immediate');
$node->start;
is(in_database($_, "SELECT slot_at - '$head' FROM pacer.book('x')"), '01:00:00', "$_ survives a crash") for qw(first second);
PacerReport::line('CREATE DATABASE ... TEMPLATE', 1, 'a copy, then a crash', 0);

$me = PacerSession->new($node);
my $other = PacerSession->new($node);
$me->ask("DELETE FROM pacer.source; SELECT pacer.create_source('x', '1 h'); PREPARE book AS SELECT slot_at FROM pacer.book('x'); EXECUTE book");
$me->ask('DROP EXTENSION pg_pacer; CREATE EXTENSION pg_pacer');
$me->ask('EXECUTE book');
like($me->error, qr/^(?:psql:.*)?ERROR:  42704: source "x" does not exist|ERROR:  42883/m, 'DROP and CREATE EXTENSION: a prepared booking has one clear error');
$me->ask("SELECT pacer.create_source('x', '1 h')");
like($me->ask("SELECT slot_at FROM pacer.book('x')"), qr/^\d{4}-/, 'and the session books');
$me->ask('BEGIN; DROP EXTENSION pg_pacer; CREATE EXTENSION pg_pacer; ROLLBACK');
is($me->ask("SELECT wait > '0' FROM pacer.book('x')"), 't', 'rolled back, the schedule is what it was');
PacerReport::line('DROP and CREATE EXTENSION in a session with prepared bookings, also rolled back', 1, 'one clear error, then bookings', 0);

# the next version: its script in the private copy's folder, and gone afterwards
chomp(my $share = qx(pg_config --sharedir));
my ($version) = slurp_file("$share/extension/pg_pacer.control") =~ /default_version = '(.*)'/;
my @script = ("$share/extension/pg_pacer--$version--next.sql", "$share/extension/pg_pacer--next--wrong.sql");
append_to_file($script[0], "COMMENT ON SCHEMA pacer IS 'the next version';\n");
append_to_file($script[1], "CREATE FUNCTION pacer.missing() RETURNS int LANGUAGE c AS 'MODULE_PATHNAME', 'pacer_missing';\n");
$other->ask("PREPARE book AS SELECT wait > '0' FROM pacer.book('x'); EXECUTE book");
$me->ask("ALTER EXTENSION pg_pacer UPDATE TO 'next'");
is($me->error, '', 'ALTER EXTENSION ... UPDATE');
is($other->ask('EXECUTE book'), 't', 'while another session has prepared a booking, which works on');
$me->ask("ALTER EXTENSION pg_pacer UPDATE TO 'wrong'");
like($me->error, qr/ERROR:  42883: could not find function "pacer_missing" in file/, 'a script that the library does not fit has one clear error');
is($me->ask("SELECT extversion FROM pg_extension WHERE extname = 'pg_pacer'"), 'next', 'and changes nothing');
is($other->ask('EXECUTE book'), 't', 'bookings go on');
unlink @script;
PacerReport::line('ALTER EXTENSION ... UPDATE with prepared bookings open; a script that does not fit', 1, 'bookings go on, one clear error', 0);

unlike(slurp_file($node->logfile), qr/PANIC|XX000/, 'the log has nothing to complain about');
$_->quit for $me, $other;
$node->stop;
done_testing();
