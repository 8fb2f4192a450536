# acquire() sleeps in the server: it is in nobody's way, and whatever ends it gives its slot back
use strict;
use warnings;
use PacerSession;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = PacerSession->node('acquire');
my $me = PacerSession->new($node);
my $names = 0;

# a source whose next slot is an hour away
sub busy
{
	my $source = 'busy' . ++$names;

	$me->ask("SELECT pacer.create_source('$source', '1 h'); SELECT pacer.advance('$source', now() + interval '1 h')");
	return $source;
}

sub head
{
	my ($source) = @_;
	return $me->ask("SELECT next_request_at FROM pacer.source_status('$source')");
}

sub counted
{
	my ($source) = @_;
	return $me->ask("SELECT waiting, released FROM pacer.source_status('$source')");
}

# a session asleep in acquire() of that source
sub sleeper
{
	my ($source, $before) = @_;
	my $s = PacerSession->new($node);

	$s->ask($before) if defined $before;
	$s->send("SELECT slot_at FROM pacer.acquire('$source', max_wait => NULL)");
	$me->poll_asleep($s) or die "session does not sleep: " . $s->result . $s->error;
	return $s;
}

sub is_given_back
{
	my ($source, $head, $what) = @_;

	ok($me->poll("SELECT next_request_at = '$head' FROM pacer.source_status('$source')"), "$what: the slot is back");
	is(counted($source), '0|1', "$what: nobody waits, one was released");
}

# --- asleep

my $source = busy();
my $head = head($source);
my $s = sleeper($source);
my $expected = $me->ask('SELECT current_setting(\'server_version_num\')::int >= 170000') eq 't' ? 'PacerSlot' : 'Extension';

is($me->ask('SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE pid = ' . $s->pid),
	"Extension|$expected", 'pg_stat_activity tells what it waits for');
is($me->ask('SELECT count(*) FROM pg_locks WHERE locktype <> \'virtualxid\' AND pid = ' . $s->pid), '0', 'it holds no lock');
is(counted($source), '1|0', 'it is one that waits');

# whoever waited for the sleeper would do so for an hour
$me->ask("SET statement_timeout = '10 s'");
my $booked = $me->ask("SELECT ticket FROM pacer.book('$source')");
like($booked, qr/^\d+$/, 'another session books meanwhile');
is($me->ask("SELECT pacer.release('$source', $booked)"), 'released', 'and releases');
is($me->ask("UPDATE pacer.source SET max_waiting = 50 WHERE name = '$source'; VACUUM FULL pacer.slot; SELECT 1"), '1',
	'the source can be configured, and the state moved, meanwhile');

# what interrupts but does not end
$me->ask('SELECT pg_reload_conf(), pg_log_backend_memory_contexts(' . $s->pid . ')');
ok($me->poll_asleep($s) && !$s->has_answered, 'a reload does not wake it');
is(counted($source), '1|1', 'nor end its wait');

# --- cancelled

$me->ask('SELECT pg_cancel_backend(' . $s->pid . ')');
is($s->result, '', 'a cancelled one has no slot');
like($s->error, qr/57014.*canceling statement due to user request/, 'it is told why');
is(head($source), $head, 'the slot is back');
is(counted($source), '0|2', 'and nobody waits');
is($s->ask('SELECT 1'), '1', 'the session goes on');

# --- in a transaction, a savepoint, a function

$source = busy();
$head = head($source);
$s->ask('BEGIN; SAVEPOINT a');
$s->send("SELECT pacer.acquire('$source', max_wait => NULL)");
$me->poll_asleep($s);
$me->ask('SELECT pg_cancel_backend(' . $s->pid . ')');
$s->result;
is(head($source), $head, 'cancelled in a transaction: the slot is back before that ends');
is($s->ask('ROLLBACK TO a; SELECT 1'), '1', 'and the transaction can go on');
$s->ask('COMMIT');

$source = busy();
$head = head($source);
$s->send("DO \$\$ BEGIN PERFORM pacer.acquire('$source', max_wait => NULL); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(3600); END \$\$");
$me->poll_asleep($s);
$me->ask('SELECT pg_cancel_backend(' . $s->pid . ')');
is_given_back($source, $head, 'cancelled where that is caught');
$me->ask('SELECT pg_cancel_backend(' . $s->pid . ')');
$s->result;

# --- statement_timeout

$source = busy();
$head = head($source);
$s->ask("SET statement_timeout = '200 ms'");
$s->ask("SELECT pacer.acquire('$source', max_wait => NULL)");
like($s->error, qr/57014.*canceling statement due to statement timeout/, 'statement_timeout ends it');
is_given_back($source, $head, 'statement_timeout');
$s->quit;

# --- terminated

$source = busy();
$head = head($source);
$s = sleeper($source);
$me->ask('SELECT pg_terminate_backend(' . $s->pid . ')');
$s->result;
like($s->error, qr/57P01/, 'a terminated one ends');
is_given_back($source, $head, 'terminated');

# --- the client is gone

$source = busy();
$head = head($source);
$s = sleeper($source);
my $killed_at = time;
kill 'KILL', $s->client_pid;
is_given_back($source, $head, 'client killed');
note(sprintf 'noticed after %.0f ms', (time - $killed_at) * 1000);
cmp_ok(time - $killed_at, '<', 10, 'it is noticed without the client saying so');
ok($me->poll('SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = ' . $s->pid), 'the session ends');
$s->quit;

# --- the source is dropped

$source = busy();
$s = sleeper($source);
$me->ask("DELETE FROM pacer.source WHERE name = '$source'");
$me->ask('SELECT pg_cancel_backend(' . $s->pid . ')');
$s->result;
like($s->error, qr/57014|42704/, 'one whose source is gone can be ended, too');
is($s->ask('SELECT 1'), '1', 'and its session goes on');

# --- granted

$me->ask("SELECT pacer.create_source('quick', '100 ms')");
is($s->ask("SELECT wait FROM pacer.acquire('quick')"), '00:00:00', 'the first starts at once');
my $previous = head('quick');
my ($start, $early) = split /\|/, $s->ask("SELECT slot_at, clock_timestamp() < slot_at FROM pacer.acquire('quick')");
is($early, 'f', 'the second is not answered before its start');
is($me->ask("SELECT timestamptz '$start' >= '$previous'"), 't', 'which is not before its slot');
is($me->ask("SELECT last_start, confirmed, waiting FROM pacer.source_status('quick')"), "$start|1|0", 'its start is recorded');
$s->ask('BEGIN');
my $ticket = $s->ask("SELECT ticket FROM pacer.acquire('quick')");
$s->ask('ROLLBACK');
is($me->ask("SELECT pacer.release('quick', $ticket)"), 'started', 'a rollback does not give it back');

# several at once: the answers are the starts
my @session = map { PacerSession->new($node) } 1 .. 5;
$_->send("SELECT (a).slot_at, clock_timestamp() FROM (SELECT pacer.acquire('quick') AS a FROM generate_series(1, 3)) s") for @session;
my @answer = map { split /\n/, $_->result } @session;
is(scalar(@answer), 15, 'five sessions start three times each');
is($me->ask("SELECT count(*) FROM (SELECT start - lag(start) OVER (ORDER BY start) AS gap FROM unnest('{"
	. join(',', map { "\"" . (split /\|/)[0] . '"' } @answer) . "}'::timestamptz[]) start) g WHERE gap < '100 ms'"),
	'0', 'at least an interval apart');
is((grep { my ($slot, $now) = split /\|/; $me->ask("SELECT timestamptz '$now' < '$slot'") eq 't' } @answer), 0, 'none early');
$_->quit for @session;

# --- bounds

$source = busy();
$head = head($source);
$s->ask("SELECT pacer.acquire('$source')");
like($s->error, qr/PC002: could not book a slot for "$source" within 60000 ms/, 'by default it waits up to a minute');
$s->ask("SELECT pacer.acquire('$source', max_wait => '500 ms')");
like($s->error, qr/PC002: could not book a slot for "$source" within 500 ms/, 'or what is given');
is(head($source), $head, 'and books nothing beyond');

# a pause while it sleeps moves it
$me->ask("SELECT pacer.create_source('paused', '1 h'); SELECT pacer.advance('paused', clock_timestamp() + interval '1 s')");
$s = sleeper('paused');
my $until = $me->ask("SELECT pacer.pause('paused', '1500 ms')");
$start = $s->result;
is($me->ask("SELECT timestamptz '$start' >= '$until'"), 't', 'a pause made while it sleeps holds for it');

# or ends it, where it would not wait that long
$me->ask("SELECT pacer.create_source('bounded', '1 h'); SELECT pacer.advance('bounded', clock_timestamp() + interval '1 s')");
$head = head('bounded');
$s->send("SELECT pacer.acquire('bounded', max_wait => '5 s')");
$me->poll_asleep($s);
$me->ask("SELECT pacer.pause('bounded', '1 h')");
is($s->result, '', 'a pause beyond its bound');
like($s->error, qr/PC002: could not book a slot for "bounded" within 5000 ms/, 'is a refusal');
is(counted('bounded'), '0|1', 'and its slot is back');
$s->quit;

# --- fast shutdown

$source = busy();
$head = head($source);
$s = sleeper($source);
my $stopped_at = time;
$node->stop('fast');
cmp_ok(time - $stopped_at, '<', 20, 'a fast shutdown does not wait for it');
note(sprintf 'stopped after %.0f ms', (time - $stopped_at) * 1000);
$s->quit;
$me->quit;
$node->start;
$me = PacerSession->new($node);
is_given_back($source, $head, 'fast shutdown');

# --- the postmaster dies

$s = sleeper($source);
my $pid = $s->pid;
$node->kill9;
my $tries = 500;
select(undef, undef, undef, 0.02) while kill(0, $pid) && $tries-- > 0;
ok(!kill(0, $pid), 'it ends with the postmaster');
$s->quit;
$me->quit;
$node->start;
$me = PacerSession->new($node);
cmp_ok($me->ask("SELECT booked IS NOT NULL FROM pacer.source_status('$source')"), 'eq', 't', 'and the server starts again');
unlike(slurp_file($node->logfile), qr/PANIC|leak|signal 11|TRAP/, 'nothing went wrong in the server');

$me->quit;
$node->stop;
done_testing();
