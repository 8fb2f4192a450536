# The edition in plain SQL: what is its own. (The suite "managed" runs the pgTAP files and
# the model against it.)
#
# Installing, by a role that is no superuser, and removing; several sessions, where the
# UPDATE that people write by hand fails; what it promises less than the extension; moving
# to the extension and back; the command.
use strict;
use warnings;
use PacerSession;
use PacerCommand;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = PostgreSQL::Test::Cluster->new('managed');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "fsync = on\nmax_connections = 80\n");
$node->start;

sub run_file
{
	my ($file, $user) = @_;
	my ($out, $err);
	my $ok = IPC::Run::run([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres') . ($user ? " user=$user" : ''), '-f', "sql/$file" ],
		'>', \$out, '2>', \$err);

	return $ok ? '' : $err;
}

my $us = '(extract(epoch FROM %s) * 1000000)::bigint';

# --- installing

$node->safe_psql('postgres', 'CREATE ROLE deployer LOGIN; CREATE ROLE app LOGIN; GRANT CREATE ON DATABASE postgres TO deployer');
is(run_file('pacer-managed.sql', 'deployer'), '', 'a role that may create a schema installs it');
$node->safe_psql('postgres', "SELECT pacer.create_source('s', '1 h'); SELECT pacer.book('s') FROM generate_series(1, 3)");
my $before = $node->safe_psql('postgres', 'SELECT * FROM pacer.source_status()');
is(run_file('pacer-managed.sql', 'deployer'), '', 'again');
is($node->safe_psql('postgres', 'SELECT * FROM pacer.source_status()'), $before, 'and the schedule stays');
$node->safe_psql('postgres', 'GRANT USAGE ON SCHEMA pacer TO app');
like($node->safe_psql('postgres', "SELECT slot_at FROM pacer.book('s')", connstr => $node->connstr('postgres') . ' user=app'), qr/^\d/, 'USAGE is all it takes to book');

# --- the holder of the lock rolls back: a clock read before the lock would be stale

my ($first, $second, $me) = map { PacerSession->new($node) } 1 .. 3;

sub waits
{
	return $me->poll("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = " . $_[0]->pid);
}

# what "book" answers while another has booked in a transaction that is rolled back, and a
# time after it began to wait
sub after_a_rollback
{
	my ($book) = @_;

	$first->ask("BEGIN; $book");
	$second->send($book);
	waits($second) or die 'nobody waits';
	my $later = $me->ask('SELECT pg_sleep(0.1) IS NOT NULL, ' . sprintf($us, 'clock_timestamp()')) =~ s/.*\|//r;
	$first->ask('ROLLBACK');
	return ($second->result, $later);
}

$me->ask("SELECT pacer.create_source('rolled back', '1 ms')");
$me->ask("CREATE TABLE by_hand (next_at timestamptz); INSERT INTO by_hand VALUES ('2000-01-01')");
my ($slot, $later) = after_a_rollback('UPDATE by_hand SET next_at = greatest(next_at, now()) + \'1 ms\' RETURNING ' . sprintf($us, "next_at - interval '1 ms'"));
cmp_ok($slot, '<', $later, 'by hand: a slot before the time of its call');
($slot, $later) = after_a_rollback('SELECT ' . sprintf($us, 'slot_at') . " FROM pacer.book('rolled back')");
cmp_ok($slot, '>=', $later, 'here: a slot that is not past');
($slot, $later) = after_a_rollback('SELECT ' . sprintf($us, "pacer.nextslot('rolled back')"));
cmp_ok($slot, '>=', $later, 'nextslot as well');

# --- an open transaction that has booked: others wait for it, so long and no longer

$me->ask("ALTER FUNCTION pacer.book(text, int, interval, text) SET lock_timeout = '100ms'");
$first->ask("BEGIN; SELECT pacer.book('s')");
$before = $me->ask("SELECT next_request_at, waiting, booked FROM pacer.source_status('s')");
$second->ask("SELECT pacer.book('s')");
like($second->error, qr/ERROR:  55P03: canceling statement due to lock timeout/, 'an open transaction that has booked delays others up to lock_timeout');
is($me->ask("SELECT next_request_at, waiting, booked FROM pacer.source_status('s')"), $before, 'nothing is booked then, and nobody who looks has to wait');
is($me->ask("UPDATE pacer.source SET max_waiting = 99 WHERE name = 's' RETURNING max_waiting"), '99', 'nor who configures');
$first->ask('COMMIT');
is($second->ask("SELECT ticket IS NOT NULL FROM pacer.book('s')"), 't', 'it goes on afterwards');
is($me->ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), '0', 'no advisory lock is left');
run_file('pacer-managed.sql', 'deployer');
is($me->ask("SELECT proconfig FROM pg_proc WHERE proname = 'book' AND pronamespace = 'pacer'::regnamespace"), '{"search_path=pg_catalog, pg_temp",lock_timeout=5s}', 'the bound of the wait');

# --- a booking in a transaction

$first->ask("SELECT pacer.book('s')");
is($first->error, '', 'a statement of its own books without a word');
$first->ask("BEGIN; CREATE TEMP TABLE work (a int); SELECT pacer.book('s')");
like($first->error, qr/WARNING:  25001: book\(\) is part of a transaction that has written already/, 'in a transaction that has written there is a warning');
$first->ask("SELECT pacer.nextslot('s'); SELECT pacer.book('s')");
is($first->error, '', 'once; and nextslot() is made for that');
$first->ask('ROLLBACK');
$first->ask("SET pacer.allow_in_transaction = on; BEGIN; CREATE TEMP TABLE work (a int); SELECT pacer.book('s'); COMMIT");
is($first->error, '', 'none if it is said to be meant');

# --- many at once

$me->ask("SELECT pacer.create_source('many', '1 ms', max_waiting => NULL, remembered => 8)");
my $load = "$PostgreSQL::Test::Utils::tmp_check/managed.sql";
append_to_file($load, "SELECT pacer.nextslot('many');\nSELECT pacer.book('many');\n");
command_ok([ 'pgbench', '-n', '-c', '8', '-j', '2', '-t', '100', '-M', 'prepared', '-f', $load, $node->connstr('postgres') ], '1600 bookings by 8 clients');
is($me->ask("SELECT booked FROM pacer.source_status('many')"), '1600', 'each counts');
$me->ask("SELECT pacer.create_source('apart', '10 ms', max_waiting => NULL)");
my @out = map {
	my $n = $_;
	my %one = (out => '');
	$one{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', '-' ],
		'<', \join('', map { 'SELECT ' . sprintf($us, 'slot_at') . " FROM pacer.book('apart');\n" } 1 .. 150), '>', \$one{out});
	\%one;
} 1 .. 8;
IPC::Run::finish($_->{run}) for @out;
my @slots = sort { $a <=> $b } map { split /\n/, $_->{out} } @out;
is(scalar @slots, 1200, '1200 slots for 8 sessions');
is((grep { $slots[$_] - $slots[ $_ - 1 ] < 10_000 } 1 .. $#slots) + 0, 0, 'all at least an interval apart');

# exactly so many are admitted
$me->ask("SELECT pacer.create_source('line', '10 s', max_waiting => 10), pacer.create_source('none', '10 s', max_waiting => 0)");
for (['line', 11], ['none', 1])
{
	my ($source, $admitted) = @$_;
	my @caller = map { start_it('psql', '-XAtq', '-v', 'VERBOSITY=sqlstate', '-d', $node->connstr('postgres'), '-c', "SELECT slot_at FROM pacer.book('$source')") } 1 .. 50;

	finish_it($_) for @caller;
	is((grep { $_->{out} =~ /^\d/ } @caller) + 0, $admitted, "$source: of 50 at once $admitted are admitted");
	is((grep { $_->{err} =~ /^ERROR:  PC001$/ } @caller) + 0, 50 - $admitted, "$source: the others are refused");
	is($me->ask("SELECT next_request_at - last_start FROM pacer.source_status('$source')"), '00:' . ($admitted == 1 ? '00:10' : '01:50'), "$source: and take nothing");
}

# 20 that create one source
my @creators = map {
	my %one = (err => '');
	$one{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=sqlstate', '-d', $node->connstr('postgres'), '-c', "SELECT pacer.create_source('one', '1 s')" ],
		'>', \$one{out}, '2>', \$one{err});
	\%one;
} 1 .. 20;
IPC::Run::finish($_->{run}) for @creators;
is((grep { $_->{err} =~ /^ERROR:  42710$/ } @creators) + 0, 19, 'of 20 that create one source 19 are told that it exists');

# --- the command finds no difference

PacerCommand->database($node);
status_is([qw(pgpacer create c 200ms)], 0, 'pgpacer create');
my ($ran) = status_is([qw(pgpacer run c -- echo ran)], 0, 'pgpacer run');
is($ran, "ran\n", 'which starts at once');
($ran) = status_is([qw(pgpacer run c -- echo ran)], 0, 'pgpacer run');
is($ran, "ran\n", 'which waits and confirms');
is($me->ask("SELECT booked, confirmed, late FROM pacer.source_status('c')"), '2|1|0', 'as is recorded');
like((status_is([qw(pgpacer list)], 0, 'pgpacer list'))[0], qr/^c +00:00:00.2/m, 'tells the source');
like((status_is([qw(pgpacer status --json)], 0, 'pgpacer status'))[0], qr/"source":"c"/, 'as well');
status_is([qw(pgpacer pause c 1h)], 0, 'pgpacer pause');
status_is([qw(pgpacer run --max-wait 1s c -- true)], 124, 'pgpacer run is refused then');
status_is([qw(pgpacer alter c --burst 2)], 0, 'pgpacer alter');
status_is([qw(pgpacer resume c)], 0, 'pgpacer resume');
status_is([qw(pgpacer drop c)], 0, 'pgpacer drop');

# a stricter isolation level than the functions can do with: the loser of a conflict asks again
$node->safe_psql('postgres', "SELECT pacer.create_source('strict', '1 ms', max_waiting => NULL); CREATE ROLE strict LOGIN; GRANT USAGE ON SCHEMA pacer TO strict");
$node->safe_psql('postgres', "ALTER ROLE strict SET default_transaction_isolation = 'repeatable read'");
my @strict = map { start_it('sh', '-c', 'for n in 1 2 3 4 5 6 7 8 9 10; do pgpacer book strict -U strict || exit; done') } 1 .. 8;
is(finish_it($_), 0, 'REPEATABLE READ, 8 at once: each gets its slots') or diag($_->{err}) for @strict;
is($me->ask("SELECT booked FROM pacer.source_status('strict')"), '80', 'and no more');

# --- a standby answers, and books nothing; a dump keeps the schedule

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('managed_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
my $looks = PacerSession->new($standby);
$looks->ask("SELECT pacer.book('s')");
like($looks->error, qr/ERROR:  25006: cannot execute book\(\) during recovery/, 'standby: a booking is refused');
my $heads = 'SELECT name, next_request_at FROM pacer.status ORDER BY name';
is($looks->ask($heads), $me->ask($heads), 'standby: status answers');
is($looks->ask("SELECT slot_at, (SELECT bool_and(run_ok IS NULL) FROM pacer.status) FROM pacer.peek('s')"), $me->ask("SELECT next_request_at FROM pacer.source_status('s')") . '|t', 'standby: so does peek');
$looks->quit;
$standby->stop;
$me->ask('CREATE DATABASE copy');
my $dump = "$PostgreSQL::Test::Utils::tmp_check/managed.dump";
command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'dumped');
command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('copy'), $dump ], 'restored');
is($node->safe_psql('copy', $heads), $me->ask($heads), 'the same schedule');
is($node->safe_psql('copy', "SELECT slot_at FROM pacer.book('s')"), $me->ask("SELECT next_request_at FROM pacer.source_status('s')"), 'which goes on');
$me->ask('DROP DATABASE copy');

# --- to the extension and back

$_->quit for $first, $second, $me;
$node->safe_psql('postgres', "DROP TABLE by_hand; GRANT SELECT, INSERT ON pacer.source TO app; GRANT EXECUTE ON FUNCTION pacer.advance TO app");
$node->safe_psql('postgres', <<'END');
SELECT pacer.create_source('daily', '1 min', burst => 3, quota => 4, quota_window => '1 day', quota_origin => now() - interval '1 h', max_waiting => NULL);
SELECT pacer.book('daily') FROM generate_series(1, 3);
SELECT pacer.create_source('paused', '1 min'), pacer.create_source('stopped', '1 min', remembered => 200), pacer.create_source('never', '1 min');
SELECT pacer.pause('paused', '1 h'), pacer.pause('stopped', 'infinity');
END
my $config = 'SELECT name, start_interval, burst, max_waiting, max_wait, quota, quota_window, quota_origin, remembered, source_id FROM pacer.source ORDER BY name';
my $schedule = 'SELECT name, next_request_at, paused_until, quota_left FROM pacer.status ORDER BY name';
my %kept = map { $_ => $node->safe_psql('postgres', $_) } $config, $schedule;

sub has_kept
{
	my ($what) = @_;

	is($node->safe_psql('postgres', $config), $kept{$config}, "$what: the same sources");
	is($node->safe_psql('postgres', $schedule), $kept{$schedule}, "$what: the same schedule");
	is($node->safe_psql('postgres', "SELECT (pacer.peek('daily')).slot_at IS NOT NULL, pacer.nextslot('s') IS NOT NULL, pacer.advance('s', '2001-01-01') IS NOT NULL",
			connstr => $node->connstr('postgres') . ' user=app'), 't|t|t', "$what: the same rights");
	$kept{$schedule} = $node->safe_psql('postgres', $schedule);
	is($node->safe_psql('postgres', "SELECT pacer.create_source('new', '1 s') FROM pacer.source WHERE name = 's'"), 't', "$what: another source can be made");
	$node->safe_psql('postgres', "SELECT pacer.drop_source('new')");
	return;
}

# somebody's column default stands in the way, and nothing is changed
$node->safe_psql('postgres', "CREATE TABLE job (run_at timestamptz DEFAULT pacer.nextslot('s'))");
like(run_file('pacer-to-extension.sql'), qr/cannot drop function pacer\.nextslot.*depend/s, 'what uses the functions is not dropped along');
is($node->safe_psql('postgres', $schedule), $kept{$schedule}, 'and all is as it was');
like(run_file('pacer-managed-uninstall.sql'), qr/cannot drop function pacer\.nextslot/, 'nor by the removal');
$node->safe_psql('postgres', 'DROP TABLE job');

is(run_file('pacer-to-extension.sql'), '', 'to the extension');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_extension WHERE extname = 'pg_pacer'"), '1', 'it is there');
has_kept('with the extension');
like(run_file('pacer-managed.sql'), qr/the extension pg_pacer is installed/, 'the other edition is not put on top of it');
like(run_file('pacer-managed-uninstall.sql'), qr/the extension pg_pacer is installed/, 'nor removed with it');
is(run_file('pacer-to-managed.sql'), '', 'and back');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_extension WHERE extname = 'pg_pacer'"), '0', 'it is gone');
has_kept('without it');

# --- removing

is(run_file('pacer-managed-uninstall.sql'), '', 'removed');
is($node->safe_psql('postgres', "SELECT to_regnamespace('pacer') IS NULL"), 't', 'nothing is left');
is(run_file('pacer-managed.sql', 'deployer'), '', 'and installed anew');

$node->stop;
done_testing();
