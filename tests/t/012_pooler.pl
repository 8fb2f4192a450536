# 012_pooler.pl - behind PgBouncer in transaction mode, where all share one session of the server
#
# The story: session locks, settings and subscriptions stayed on a server connection
# that another client then got; and poolers refuse unknown startup parameters.
# Whatever the command does must leave the one session as it was.

use strict;
use warnings;

use IPC::Run ();
use PacerCommand;
use PacerSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my ($bouncer) = grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';
plan skip_all => 'no PgBouncer: install the package pgbouncer' unless $bouncer;

my $node = PacerSession->node('pooled');
my $dir = PostgreSQL::Test::Utils::tempdir_short;
my $log = "$PostgreSQL::Test::Utils::log_path/pgbouncer.log";
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $user = getpwuid($<);

append_to_file("$dir/users", qq("$user" ""\n));
append_to_file("$dir/ini", <<"END");
[databases]
postgres = host=@{[$node->host]} port=@{[$node->port]} user=$user
[pgbouncer]
listen_addr =
listen_port = $port
unix_socket_dir = $dir
logfile = $log
auth_type = any
auth_file = $dir/users
admin_users = $user
pool_mode = transaction
default_pool_size = 1
reserve_pool_size = 0
max_client_conn = 100
END

my $pooler = IPC::Run::start([ $bouncer, '-q', "$dir/ini" ], '<', \undef, '>&', "$log.out");
PacerCommand->database($node);
$ENV{PGHOST} = $dir;
$ENV{PGPORT} = $port;
END { $pooler->kill_kill if $pooler; }

# of the session that all share
sub through
{
	my ($sql) = @_;
	my (undef, $out) = run_it('psql', '-XqAt', '-c', $sql);

	chomp $out;
	return $out;
}

my $tries = 10 * $PostgreSQL::Test::Utils::timeout_default;
sleep 0.1 while $tries-- > 0 && through('SELECT 1') ne '1';
is(through('SELECT 1'), '1', 'there is a pooler') or BAIL_OUT('no pooler');
my $backend = through('SELECT pg_backend_pid()');
my $settings = q(SELECT string_agg(name || '=' || setting || ' ' || source, E'\n' ORDER BY name) FROM pg_settings
	WHERE name <> 'application_name');
# libraries bring settings of their own: they are loaded first
through(q(SELECT pacer.every(1, '1 s'); DO 'BEGIN END'));
my %before = map { $_ => 1 } split /\n/, through($settings);
ok($before{'statement_timeout=0 default'}, 'with its settings');

sub waiting
{
	my ($source, $n) = @_;

	return $node->poll_query_until('postgres', "SELECT waiting = $n FROM pacer.source_status('$source')");
}

# every verb
status_is([@$_], 0, "@$_")
  for ([qw(pgpacer create quick 10ms)], [qw(pgpacer create slow 1h)], [qw(pgpacer alter quick --burst 2)],
	[qw(pgpacer alter quick --burst 1)], [qw(pgpacer pause quick 1ms)], [qw(pgpacer resume quick)], [qw(pgpacer wait quick)],
	[qw(pgpacer list)], [qw(pgpacer status --json)], [qw(pgpacer top --count=1)], [qw(pgpacer book slow)],
	[qw(pgpacer create other 1s)], [qw(pgpacer drop other)]);
status_is([qw(pgpacer run --try slow -- true)], 124, 'a refusal');
status_is([qw(pgpacer run nowhere -- true)], 125, 'an error');

# ten that start while ten others are cancelled in their wait
my @waiters = map { start_it(qw(pgpacer run slow -- false)) } 1 .. 10;
ok(waiting('slow', 10), 'ten wait, with one session for all');
my @runs = map { start_it(qw(pgpacer run quick -- echo), $_) } 1 .. 10;
kill 'INT', $_->{pid} for @waiters;
is(join(',', map { finish_it($_) } @runs), join(',', (0) x 10), 'ten start');
is(join('', map { $_->{out} } @runs), join('', map { "$_\n" } 1 .. 10), 'each once');
is(join(',', map { finish_it($_) } @waiters), join(',', (130) x 10), 'ten are cancelled');
ok(waiting('slow', 0), 'and give their slots back');
is(join('', map { $_->{err} } @runs, @waiters), '', 'silently');

# cancelled at any moment: connecting, in the pooler's queue, during the statement
my %ended = map { $_ => 0 } 0, 130;
for my $round (1 .. 10)
{
	my @jobs = map { start_it(qw(pgpacer run quick -- true)) } 1 .. 5;

	sleep 0.004 * $round;
	kill 'INT', $_->{pid} for @jobs;
	$ended{ finish_it($_) }++ for @jobs;
}
diag('ended: ' . join(', ', map { "$ended{$_} with $_" } sort { $a <=> $b } keys %ended)) if keys %ended > 2;
is($ended{0} + $ended{130}, 50, 'each starts or is cancelled');

# a booking that waits for a lock in the server is cancelled there, through the pooler
my $owner = PacerSession->new($node);
$owner->ask('BEGIN');
$owner->ask('LOCK TABLE pacer.source, pacer.slot IN ACCESS EXCLUSIVE MODE');
my $job = start_it(qw(pgpacer run quick -- false));
ok($owner->poll("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $backend"), 'a booking waits in the server');
kill 'INT', $job->{pid};
is(finish_it($job), 130, 'and is cancelled');
# in a transaction "state" stays as it was at the first look, what is waited for does not
ok($owner->poll("SELECT wait_event_type IS DISTINCT FROM 'Lock' FROM pg_stat_activity WHERE pid = $backend"), 'there, too');
$owner->ask('COMMIT');
$owner->quit;
status_is([qw(pgpacer run quick -- true)], 0, 'the next one is not');

# the session is as it was
is(through('SELECT pg_backend_pid()'), $backend, 'it was one session all the time');
is(join("\n", grep { !$before{$_} } split /\n/, through($settings)), '', 'no setting was changed');
is(through('SHOW statement_timeout'), '0', 'statement_timeout neither');
is(through(q(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')), '0', 'no advisory lock is left');
is(through('SELECT count(*) FROM pg_listening_channels()'), '0', 'nothing is listened to');
is(through('SELECT count(*) FROM pg_prepared_statements'), '0', 'nothing is prepared');
is(through(q(SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%')), '0', 'no transaction is open');

$pooler->signal('INT');
$pooler->finish;
undef $pooler;
$node->stop;
done_testing();
