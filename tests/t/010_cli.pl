# 010_cli.pl - the command pgpacer: exit statuses, signals, what the child sees, and
# that without a slot nothing starts

use strict;
use warnings;

use IPC::Run ();
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = PostgreSQL::Test::Cluster->new('cli');
$node->init;
$node->append_conf('postgresql.conf', "fsync = on\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_pacer');

# the environment of every pgpacer below; the tests' own queries go through $node
local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
local $ENV{PGDATABASE} = 'postgres';
delete local $ENV{PGAPPNAME};    # the tests', which would be pgpacer's, too

my $tmp = PostgreSQL::Test::Utils::tempdir;

# Runs a command: (exit status, or 128 + signal as a shell shows it, stdout, stderr).
sub run_it
{
	my @command = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>', \$err,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return ($? & 127 ? 128 + ($? & 127) : $? >> 8, $out, $err);
}

sub status_is
{
	my ($command, $expected, $name) = @_;
	my ($status, $out, $err) = run_it(@$command);

	is($status, $expected, $name) or diag($err);
	return ($out, $err);
}

sub status_of
{
	my ($source, $column) = @_;

	return $node->safe_psql('postgres',
		"SELECT $column FROM pacer.source_status('$source')");
}

# Starts a command that is to go on, in the background.
sub start_it
{
	my @command = @_;
	my %job = (out => '', err => '');

	$job{h} = IPC::Run::start(\@command, '<', \undef, '>', \$job{out}, '2>', \$job{err},
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	$job{pid} = $job{h}{KIDS}[0]{PID};
	return \%job;
}

sub finish_it
{
	my ($job) = @_;

	$job->{h}->finish;
	return $? & 127 ? 128 + ($? & 127) : $? >> 8;
}

# Until a caller of the source waits.
sub waits
{
	my ($source, $n) = @_;

	return $node->poll_query_until('postgres',
		"SELECT waiting = $n FROM pacer.source_status('$source')");
}

### sources

status_is([qw(pgpacer create quick 1ms)], 0, 'create');
status_is([qw(pgpacer create slow 1h)], 0, 'create with another unit');
status_is([qw(pgpacer create slow 1h)], 125, 'create again fails');
status_is([qw(pgpacer create --if-not-exists slow 2h)], 0, 'unless it may be there');
status_is([qw(pgpacer create rate 3/s --burst 2 --max-waiting none --quota 1000/d)], 0, 'create with a rate and a quota');
is( $node->safe_psql('postgres',
		"SELECT start_interval, burst, max_waiting IS NULL, quota, quota_window = '1 day' FROM pacer.source WHERE name = 'rate'"),
	'00:00:00.333334|2|t|1000|t', 'a rate is rounded up');
for my $bad ('0', '-1s', '1x', '1.2.3', '', '3/', '0/s', '99999999999999999999s')
{
	status_is([ 'pgpacer', 'create', '--', 'bad', $bad ], 64, "no interval: \"$bad\"");
}

### the child's status is ours

my @run = qw(pgpacer run quick --);
status_is([ @run, 'true' ], 0, 'success');
status_is([ @run, 'sh', '-c', 'exit 2' ], 2, 'exit 2');
status_is([ @run, 'sh', '-c', 'exit 200' ], 200, 'exit 200');
status_is([ @run, 'sh', '-c', 'kill -9 $$' ], 137, 'a child killed by SIGKILL');
status_is([ @run, 'no-such-command' ], 127, 'no such command');
status_is([ @run, "$tmp/none/at/all" ], 127, 'no such file');
append_to_file("$tmp/plain", "text\n");
chmod 0644, "$tmp/plain";
status_is([ @run, "$tmp/plain" ], 126, 'not executable');
status_is([ @run, $tmp ], 126, 'a folder');

my ($out, $err) = status_is([ qw(pgpacer run quick printf %s,%s -q --try) ], 0, 'without --');
is($out, '-q,--try', "the child's options are its own");
is($err, '', 'silent on success');
($out, $err) = status_is([ qw(pgpacer -v run -- quick echo -- x) ], 0, '-- before the source');
is($out, "-- x\n", 'stdout belongs to the child');
like($err, qr/^pgpacer: quick: ticket \d+, start in \d+\.\d{3} s$/m, '--verbose');

### wrong usage

status_is([@$_], 64, "usage: @$_")
  for (
	[qw(pgpacer)], [qw(pgpacer frobnicate)],
	[qw(pgpacer run)], [qw(pgpacer run quick)],
	[qw(pgpacer run quick --)], [qw(pgpacer --nonsense run quick true)],
	[qw(pgpacer run --max-wait=soon quick -- true)], [qw(pgpacer run --permits 0 quick -- true)],
	[qw(pgpacer release quick abc)], [qw(pgpacer release quick 1 2)]);
($out) = status_is([qw(pgpacer --version)], 0, '--version');
like($out, qr/^pgpacer \d+\.\d+\.\d+$/, 'prints it');
status_is([qw(pgpacer --help)], 0, '--help');

### no slot, no start

status_is([qw(pgpacer run nowhere -- touch), "$tmp/f" ], 125, 'unknown source');
status_is([qw(pgpacer run slow -- true)], 0, 'the slot of this hour');
my $head = status_of('slow', 'next_request_at');
status_is([ qw(pgpacer run --max-wait 1s slow -- touch), "$tmp/f" ], 124, '--max-wait');
status_is([ qw(pgpacer run --try slow -- touch), "$tmp/f" ], 124, '--try');
($out, $err) = status_is([ qw(pgpacer run -q --try slow -- touch), "$tmp/f" ], 124, '--quiet');
is($err, '', 'is quiet');
status_is([ qw(pgpacer run --deadline 300ms slow -- touch), "$tmp/f" ], 124, '--deadline');
is(status_of('slow', 'next_request_at'), $head, 'a refusal books nothing');
ok(!-e "$tmp/f", 'and nothing was started');

$node->safe_psql('postgres', "UPDATE pacer.source SET max_waiting = 0 WHERE name = 'slow'");
status_is([ qw(pgpacer run slow -- touch), "$tmp/f" ], 124, 'queue full');
$node->safe_psql('postgres', "UPDATE pacer.source SET max_waiting = 5 WHERE name = 'slow'");

### signals while waiting

for my $signal (qw(INT TERM HUP))
{
	my $job = start_it(qw(pgpacer run slow -- touch), "$tmp/f");

	ok(waits('slow', 1), "waiting for SIG$signal");
	kill $signal, $job->{pid};
	is(finish_it($job), 128 + POSIX->can("SIG$signal")->(), "SIG$signal ends it");
	is($job->{err}, '', 'silently');
	is(status_of('slow', 'waiting'), 0, 'and the slot is given back');
	is(status_of('slow', 'next_request_at'), $head, 'entirely');
}
ok(!-e "$tmp/f", 'nothing was started');

my $job = start_it('sh', '-c', "trap '' HUP INT; exec pgpacer run slow -- touch $tmp/f");
ok(waits('slow', 1), 'waiting with SIGHUP ignored');
kill 'HUP', $job->{pid};
kill 'INT', $job->{pid};
sleep 0.2;
is(status_of('slow', 'waiting'), 1, 'ignored signals stay ignored');
kill 'TERM', $job->{pid};
is(finish_it($job), 143, 'others do not');
status_is([ 'sh', '-c', q(trap '' HUP; exec pgpacer run quick -- sh -c 'kill -HUP $$; echo still here') ],
	0, 'nor are they ignored less by the child');

# after the start signals are the child's
$job = start_it(@run, 'sh', '-c', q(trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.1; done));
$job->{h}->pump until $job->{out} =~ /ready/;
kill 'TERM', $job->{pid};
is(finish_it($job), 7, 'after the start a signal is for the child');
like($job->{out}, qr/caught/, 'which handles it');

# a waiter that is killed leaves its place when its slot is over
status_is([qw(pgpacer create soon 1s)], 0, 'a source of one second');
$node->safe_psql('postgres', "UPDATE pacer.source SET max_waiting = 1 WHERE name = 'soon'");
status_is([qw(pgpacer run soon -- true)], 0, 'its first start');
$job = start_it(qw(pgpacer run soon -- touch), "$tmp/f");
ok(waits('soon', 1), 'a waiter');
status_is([qw(pgpacer run soon -- true)], 124, 'fills the queue');
kill 'KILL', $job->{pid};
is(finish_it($job), 137, 'is killed');
ok(waits('soon', 0), 'leaves its place by itself');
status_is([qw(pgpacer run soon -- true)], 0, 'which is free again');
ok(!-e "$tmp/f", 'and never started');

### what the child sees

my $fds = 'for f in /proc/self/fd/*; do echo "${f##*/}"; done';
my ($without) = status_is([ 'env', 'sh', '-c', $fds ], 0, 'descriptors under env');
my ($with) = status_is([ @run, 'sh', '-c', $fds ], 0, 'descriptors under pgpacer');
is($with, $without, 'are the same');

$job = start_it(@run, 'sh', '-c', 'echo up; exec sleep 100');
$job->{h}->pump until $job->{out} =~ /up/;
ok( $node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pgpacer'"),
	'no session while the command runs');
kill 'KILL', $job->{pid};
finish_it($job);

my $dsn = 'password=zz-secret host=' . $node->host . ' port=' . $node->port;
for my $option ('--dsn', '-d')
{
	$job = start_it('pgpacer', $option, $dsn, 'run', 'slow', '--', 'true');
	ok(waits('slow', 1), 'waiting with a password given');
	my $cmdline = slurp_file("/proc/$job->{pid}/cmdline");
	like($cmdline, qr/slow/, 'the command line is there');
	unlike($cmdline, qr/zz/, "without the password of $option");
	kill 'INT', $job->{pid};
	finish_it($job);
}
($out) = status_is([ 'pgpacer', '--dsn', $dsn, 'run', 'quick', '--', 'env' ], 0, 'environment of the child');
unlike($out, qr/zz/, 'no password either');
($out) = status_is([ 'pgpacer', '-d', 'host=/nonexistent', '-h', $node->host, 'run', 'quick', 'echo', 'x' ],
	0, '-h wins over -d');

### long waits

status_is([qw(pgpacer create month 30d)], 0, 'a source of 30 days');
status_is([qw(pgpacer run month -- true)], 0, 'its first start');
$job = start_it(qw(pgpacer run month -- touch), "$tmp/f");
ok(waits('month', 1), 'a wait of 30 days');
sleep 1.5;
ok(waits('month', 1), 'goes on');
ok( $node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pgpacer'"),
	'without a session');
my ($utime, $stime) = (split ' ', slurp_file("/proc/$job->{pid}/stat"))[ 13, 14 ];
cmp_ok($utime + $stime, '<', 10, 'and without work');
kill 'INT', $job->{pid};
is(finish_it($job), 130, 'until it is interrupted');
ok(!-e "$tmp/f", 'not started');

### the other verbs

status_is([qw(pgpacer create tenth 10min)], 0, 'a source of ten minutes');
($out) = status_is([qw(pgpacer book tenth)], 0, 'book');
like($out, qr/^\d+\t\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\t0\.000000\n$/, 'at once');
($out) = status_is([qw(pgpacer book tenth --key job-1)], 0, 'book with a key');
like($out, qr/^\d+\t\S+Z\t599\.\d{6}\n$/, 'ten minutes later');
my ($again) = status_is([qw(pgpacer book tenth --key=job-1)], 0, 'the same key');
my ($ticket) = $out =~ /^(\d+)/;
like($again, qr/^$ticket\t/, 'finds the slot');
($out) = status_is([ qw(pgpacer release tenth), $ticket ], 0, 'release');
is($out, "released\n", 'gives it back');
($out) = status_is([ qw(pgpacer release tenth), $ticket ], 0, 'release again');
is($out, "unknown\n", 'gives nothing back');
status_is([qw(pgpacer wait quick)], 0, 'wait');
status_is([qw(pgpacer wait --try tenth)], 124, 'wait, refused');

($out) = status_is([qw(pgpacer list)], 0, 'list');
like($out, qr/^source +interval +burst/, 'has a head');
like($out, qr/^rate +00:00:00\.333334 +2 /m, 'and a line for each source');
($out) = status_is([qw(pgpacer list --csv rate)], 0, 'list --csv');
is((split /\n/, $out)[1], 'rate,00:00:00.333334,2,,,1000,24:00:00,32', 'one line');
($out) = status_is([qw(pgpacer status --json tenth)], 0, 'status --json');
like($out, qr/^\[\{"source":"tenth",.*"released":1,/, 'is JSON');
($out) = status_is([qw(pgpacer status)], 0, 'status');
like($out, qr/^tenth +00:10:00 +0 /m, 'as a table');
status_is([qw(pgpacer status nowhere)], 125, 'status of no source');

### a frozen server, and one that is gone

my $frozen = 0;

sub freeze
{
	my ($signal) = @_;
	my $postmaster = $node->{_pid};
	my @pids = ($postmaster);

	push @pids, split ' ', qx(ps -o pid= --ppid $postmaster);
	kill $signal, @pids;
	$frozen = $signal eq 'STOP';
}

# whatever happens, no stopped server stays behind
END { freeze('CONT') if $frozen; }

# Waits until the job ends, in seconds.
sub ends_within
{
	my ($job, $limit, $name) = @_;
	my $start = time;
	my $status = finish_it($job);

	cmp_ok(time - $start, '<', $limit, $name);
	return $status;
}

freeze('STOP');
$job = start_it(qw(pgpacer run quick -- touch), "$tmp/f");
sleep 0.5;
kill 'INT', $job->{pid};
is(ends_within($job, 3, 'interrupted while connecting to a frozen server'), 130, 'by the signal');
freeze('CONT');

# A booking that waits in the server, for the owner's lock.
sub start_blocked
{
	my $blocked = start_it(qw(pgpacer run quick -- touch), "$tmp/f");

	ok( $node->poll_query_until('postgres',
			"SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'pgpacer' AND wait_event_type = 'Lock'"),
		'a booking that waits in the server');
	return $blocked;
}

my ($in, $said) = ('', '');
my $psql = IPC::Run::start([ 'psql', '-XqAt' ], '<', \$in, '>', \$said,
	IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
$in .= "BEGIN; LOCK TABLE pacer.source, pacer.slot IN ACCESS EXCLUSIVE MODE; SELECT 'locked';\n";
$psql->pump until $said =~ /locked/;

$job = start_blocked();
freeze('STOP');
kill 'INT', $job->{pid};
is(ends_within($job, 3, 'interrupted when the server froze during the booking'), 130, 'by the signal');
freeze('CONT');

$job = start_blocked();
kill 'TERM', $job->{pid};
is(ends_within($job, 3, 'interrupted during the booking'), 143, 'by the signal');
ok( $node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pgpacer'"),
	'and it does not go on in the server');
$in .= "COMMIT;\n\\q\n";
$psql->finish;

my $waiting = status_of('slow', 'waiting');
$job = start_it(qw(pgpacer run slow -- touch), "$tmp/f");
ok(waits('slow', $waiting + 1), 'waiting when the server goes');
$node->stop('fast');
kill 'INT', $job->{pid};
is(ends_within($job, 3, 'interrupted without a server'), 130, 'by the signal');
status_is([ qw(pgpacer run quick -- touch), "$tmp/f" ], 125, 'the server is stopped');
ok(!-e "$tmp/f", 'nothing was started');

$job = start_it(qw(pgpacer run --database-wait=60s quick -- touch), "$tmp/g");
sleep 0.3;
$node->start;
is(finish_it($job), 0, '--database-wait rides out a restart');
ok(-e "$tmp/g", 'and starts');

$node->stop;
done_testing();
