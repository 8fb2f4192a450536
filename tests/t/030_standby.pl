# On a standby one can look and not book; what a caller was told by the primary holds
# after a failover to a synchronous standby.
use strict;
use warnings;
use PacerSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $bound = $PostgreSQL::Test::Utils::timeout_default;
my $us = '(extract(epoch FROM %s) * 1000000)::bigint';

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, extra => ['--data-checksums']);
$primary->append_conf('postgresql.conf',
	"fsync = on\nmax_connections = 30\nwal_compression = on\nlog_statement = none\nautovacuum = off\n");
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION pg_pacer; CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA pacer TO app');
$primary->safe_psql('postgres',
	"SELECT pacer.create_source(n, i::interval, max_waiting => NULL) FROM (VALUES ('h', '1 h'), ('ms', '1 ms'), ('other', '100 ms'), ('never', '1 s')) t(n, i)");
my %interval = (h => 3_600_000_000, ms => 1_000, other => 100_000);

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->append_conf('postgresql.conf', "synchronous_standby_names = '*'\n");
$primary->reload;
$primary->poll_query_until('postgres', "SELECT sync_state = 'sync' FROM pg_stat_replication") or die 'no synchronous standby';

# --- a standby answers, and books nothing

$primary->safe_psql('postgres', "SELECT pacer.book('h') FROM generate_series(1, 3); SELECT pacer.book('other'); SELECT pacer.pause('other', '1 h')");
$primary->wait_for_catchup($standby);
my $watcher = PacerSession->new($standby);

for my $call ("book('h')", "try_book('h')", "nextslot('h')", "book_many('h', 2)", "release('h', 1)", "confirm('h', 1)", "acquire('h')",
	"pause('h', '1 s')", "resume('h')", "advance('h', now())", "rewind('h')")
{
	my ($verb) = $call =~ /^(\w+)/;

	$watcher->ask("SELECT pacer.$call");
	like($watcher->error, qr/^psql:.*ERROR:  25006: cannot execute \Q$verb\E\(\) during recovery$/m, "standby: $verb() is refused");
}
$watcher->ask("SELECT pacer.book('h')");
is($watcher->ask('SELECT 1'), '1', 'standby: the session goes on');
$watcher->ask("SELECT pacer.create_source('x', '1 s')");
like($watcher->error, qr/ERROR:  25006:/, 'standby: no source is made');
$watcher->ask("SELECT pacer.peek('nobody')");
like($watcher->error, qr/ERROR:  42704: source "nobody" does not exist/, 'standby: there is no such source');

my $head = $primary->safe_psql('postgres', "SELECT next_request_at FROM pacer.source_status('h')");
is($watcher->ask("SELECT slot_at FROM pacer.peek('h')"), $head, 'standby: peek tells the next slot, from what is logged');
is($watcher->ask("SELECT next_request_at, waiting, booked, run_ok IS NULL FROM pacer.status WHERE name = 'h'"), "$head|0|0|t", 'standby: so does status, and says so');
is($watcher->ask("SELECT count(*), count(next_request_at), bool_and(run_ok IS NULL) FROM pacer.status"), '4|2|t', 'standby: every source has a status');
is($watcher->ask("SELECT paused_until FROM pacer.source_status('other')"), $primary->safe_psql('postgres', "SELECT paused_until FROM pacer.source_status('other')"), 'standby: a pause is known');
is($watcher->ask('SET default_transaction_read_only = on; SELECT wait > \'0\' FROM pacer.peek(\'h\')'), 't', 'standby: in a read-only session, too');
# the sequence has no file there: monitoring that reads all sequences must not fail for it
$watcher->ask('SELECT count(*) FROM pg_sequences');
is($watcher->error, '', 'standby: pg_sequences can be read');
$primary->safe_psql('postgres', "SELECT pacer.resume('other')");

# --- replicas have the same logged bytes, after a load that logs, fills pages and makes checkpoints

$primary->safe_psql('postgres', "SELECT pacer.create_source('n' || n, '1 us', remembered => 4 + n % 20) FROM generate_series(1, 40) n");
my $load = "$PostgreSQL::Test::Utils::tmp_check/load.sql";
append_to_file($load, <<'END');
\set n random(1, 40)
\set h random(1, 10)
SELECT pacer.book('ms');
SELECT pacer.book('n' || :n);
SELECT pacer.book('n' || :h);
SELECT pacer.nextslot('other');
SELECT pacer.book('h');
END
my $async = 'PGOPTIONS=-c synchronous_commit=local';
command_ok([ 'env', $async, 'pgbench', '-n', '-c', '4', '-j', '2', '-t', '500', '-M', 'prepared', '-f', $load, $primary->connstr('postgres') ], '10000 bookings by 4 clients');
$primary->safe_psql('postgres', 'CHECKPOINT; VACUUM (FREEZE) pacer.slot');
command_ok([ 'env', $async, 'pgbench', '-n', '-c', '4', '-j', '2', '-t', '100', '-f', $load, $primary->connstr('postgres') ], 'and 2000 more');
$primary->wait_for_catchup($standby);
my $logged = 'SELECT slot_id, reserved_until, paused_until, quota_start, quota_window_us, quota_reserved, start_reach_us, logged_at, run FROM pacer.slot ORDER BY 1';
is($standby->safe_psql('postgres', $logged), $primary->safe_psql('postgres', $logged), 'what is logged is the same on both');
unlike(slurp_file($_->logfile), qr/PANIC|FATAL:(?!.*(?:terminating|shutting down|starting up))|XX000|leak/, $_->name . ': nothing in the log') for $primary, $standby;

# --- the wait for the standby can be cancelled, as that of COMMIT; the booking stands

my $s = PacerSession->new($primary);
my $me = PacerSession->new($primary);
# an hour ahead, so that no clock has a say
$me->ask("SELECT pacer.create_source('ahead', '1 ms', max_waiting => NULL); SELECT pacer.advance('ahead', now() + interval '1 h')");
my $reserved = "SELECT reserved_until FROM pacer.slot JOIN pacer.source ON slot_id = source_id WHERE name = 'ahead'";
my $mark = $me->ask($reserved);
$standby->stop;
# until the primary has noticed, which may take a moment
$me->poll('SELECT count(*) = 0 FROM pg_stat_replication');
$head = $me->ask("SELECT next_request_at FROM pacer.source_status('h')");
$s->send("SELECT slot_at = '$head', wait > '0', ticket IS NOT NULL FROM pacer.book('h')");
ok($me->poll("SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = " . $s->pid), 'a booking waits for the standby');
is($me->ask("SELECT next_request_at - '$head' FROM pacer.source_status('h')"), '01:00:00', 'its slot is taken already');
is($me->ask("SET synchronous_commit = local; SELECT slot_at - '$head' FROM pacer.book('h')"), '01:00:00', 'nobody else waits for it');
$me->ask('RESET synchronous_commit');
is($me->ask('SELECT pg_cancel_backend(' . $s->pid . ')'), 't', 'cancelled');
is($s->result, 't|t|t', 'the booking is answered');
like($s->error, qr/WARNING:  01000: canceling wait for synchronous replication due to user request/, 'with a warning that says what it is worth');
is($s->ask('SELECT 1'), '1', 'the session goes on');

# --- the mark is raised before an answer depends on it

$s->send("SELECT ticket IS NOT NULL FROM pacer.book('ahead', 600)");
$me->poll("SELECT query LIKE '%ahead%' AND (state = 'idle' OR wait_event = 'SyncRep') FROM pg_stat_activity WHERE pid = " . $s->pid);
is($me->ask("SELECT state FROM pg_stat_activity WHERE pid = " . $s->pid), 'idle', 'a booking that the mark before covers waits for nobody');
is($s->result, 't', 'and is answered');
is($me->ask("SELECT ($reserved) - '$mark'"), '00:00:00.6', 'but has raised it for those to come');
$s->send("SELECT ticket IS NOT NULL FROM pacer.book('ahead', 600)");
ok($me->poll("SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = " . $s->pid), 'one that it does not cover waits for the standby');
$me->ask('SELECT pg_cancel_backend(' . $s->pid . ')');
is($s->result, 't', 'and can be cancelled as well');
$standby->start;
$primary->poll_query_until('postgres', "SELECT sync_state = 'sync' FROM pg_stat_replication") or die 'no synchronous standby';

# --- failover: kill the primary under load, promote the standby

# a session that has looked while it was a standby, and lives on
$watcher = PacerSession->new($standby);
$watcher->ask("SELECT pacer.peek('h'); SELECT count(*) FROM pacer.status; SELECT pacer.book('h')");

my $script = "$PostgreSQL::Test::Utils::tmp_check/booking.sql";
append_to_file($script, join('', map { "SELECT source, " . sprintf($us, 'slot_at') . " FROM pacer.book('$_');\n" } (qw(h ms ms other)) x 5_000));
my @load;
for my $n (1 .. 4)
{
	my $out = "$script.$n";
	push @load, { out => $out, run => IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $primary->connstr('postgres'), '-f', $script ],
		'<', \undef, '>', $out, '2>', '/dev/null') };
}
my $until = time + $bound;
for my $one (@load)
{
	until (-e $one->{out} && (slurp_file($one->{out}) =~ tr/\n//) >= 40)
	{
		die 'no answers' if time > $until;
		sleep 0.01;
	}
}
sleep rand 0.2;
$primary->stop('immediate');
my %told;
for my $one (@load)
{
	IPC::Run::finish($one->{run});
	for (split /\n/, slurp_file($one->{out}))
	{
		push @{ $told{$1} }, $2 if /^(\w+)\|(\d+)$/;
	}
}
$standby->promote;
# there is nobody to wait for any more
$standby->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");
$standby->reload;
$standby->poll_query_until('postgres', "SELECT current_setting('synchronous_standby_names') = ''");

# the first caller afterwards may do nothing but book
for my $source (sort keys %interval)
{
	my $latest = (sort { $b <=> $a } @{ $told{$source} })[0];
	my $slot = $standby->safe_psql('postgres', 'SELECT ' . sprintf($us, 'slot_at') . " FROM pacer.book('$source')", connstr => $standby->connstr('postgres') . ' user=app');

	cmp_ok($slot, '>=', $latest + $interval{$source}, "promoted: $source goes on behind all " . @{ $told{$source} } . ' slots that were told');
}
$head = $standby->safe_psql('postgres', "SELECT next_request_at FROM pacer.source_status('h')");
is($watcher->ask("SELECT slot_at FROM pacer.book('h')"), $head, 'promoted: a session from before the promotion books behind the others');
is($watcher->ask("SELECT run_ok, booked FROM pacer.source_status('h')"), 't|2', 'promoted: and has the mark of this run');
is($watcher->ask("SELECT run_ok FROM pacer.source_status('never')"), 'f', 'promoted: what was not booked here is read from the log');
is($standby->safe_psql('postgres', "SELECT slot_at - '$head' FROM pacer.book('h')"), '01:00:00', 'promoted: as does another');

# and the new primary survives a crash of its own
$standby->stop('immediate');
$standby->start;
is($standby->safe_psql('postgres', "SELECT slot_at - '$head' FROM pacer.book('h')"), '02:00:00', 'promoted: a crash takes nothing back');

done_testing();
