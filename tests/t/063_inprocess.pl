# What an in-process limiter does, now across processes: interval 100 ms, eight may wait.
# The first call starts at once, eight wait, the tenth is refused at once; a cancelled waiter
# frees its place; with no places only immediate starts are admitted; a permit once granted
# stays spent. And what such limiters got wrong: slots leaked by callers that never start,
# a rate changed while people wait.
use strict;
use warnings;
use PacerSession;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PacerSession->node('inprocess');
my $me = PacerSession->new($node);
my @caller = map { PacerSession->new($node) } 1 .. 10;

# every caller asks at the same instant: they wait for a lock that we let go
sub all_at_once
{
	my ($sql) = @_;

	$me->ask('SELECT pg_advisory_lock(1)');
	$_->send("SELECT pg_advisory_lock_shared(1); SELECT pg_advisory_unlock_shared(1); $sql") for @caller;
	$me->poll("SELECT count(*) = 10 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") or die 'they do not wait';
	$me->ask('SELECT pg_advisory_unlock(1)');
}

# the last line, or the SQLSTATE
sub answer_of
{
	my ($s) = @_;
	my $out = $s->result;

	return $1 if $s->error =~ /ERROR:  (\w{5})/;
	return (split /\n/, $out)[-1];
}

# --- ten calls

# a machine that cannot call ten times within one interval gets another chance
my ($immediate, $refused, @wait, $source);
for my $attempt (1 .. 10)
{
	$source = "ten$attempt";
	$me->ask("SELECT pacer.create_source('$source', '100 ms', max_waiting => 8)");
	all_at_once("SELECT ticket, slot_at, extract(epoch FROM wait) AS wait FROM pacer.book('$source')");
	my @answer = map { answer_of($_) } @caller;
	@wait = sort { $a <=> $b } map { (split /\|/)[2] } grep { /\|/ } @answer;
	$refused = join ' ', grep { !/\|/ } @answer;
	$immediate = grep { $_ == 0 } @wait;
	last if $refused ne '';
}
is($immediate, 1, 'the first of ten calls starts at once');
is(scalar(@wait), 9, 'eight wait');
is($refused, 'PC001', 'and one is refused: PC001');
is((grep { $wait[$_] > 0.1 * $_ } 0 .. 8), 0, 'none for longer than the intervals before it');
is($me->ask("SELECT booked, refused, next_request_at - last_start FROM pacer.source_status('$source')"), '9|1|00:00:00.9', 'nine intervals are taken');

# --- the same, waiting in the server

$me->ask("SELECT pacer.create_source('wait', '100 ms', max_waiting => 8)");
$me->ask("SELECT pacer.advance('wait', clock_timestamp() + interval '2 s')");
all_at_once("SELECT slot_at, clock_timestamp() FROM pacer.acquire('wait')");
$me->poll("SELECT refused = 2 AND waiting = 8 FROM pacer.source_status('wait')");
is($me->ask("SELECT refused, waiting FROM pacer.source_status('wait')"), '2|8', 'where none can start at once eight wait and two are refused');

# one of the eight is cancelled: its place is free, for one
my ($cancelled) = grep { !$_->has_answered } @caller;
$me->ask('SELECT pg_cancel_backend(' . $cancelled->pid . ')');
is(answer_of($cancelled), '57014', 'a waiter is cancelled');
is($me->ask("SELECT waiting FROM pacer.source_status('wait')"), '7', 'and waits no more');
my $ticket = $me->ask("SELECT ticket FROM pacer.book('wait')");
like($ticket, qr/^\d+$/, 'its place goes to another caller');
$me->ask("SELECT ticket FROM pacer.book('wait')");
like($me->error, qr/PC001/, 'to one');

my @start = sort map { answer_of($_) } grep { $_ != $cancelled } @caller;
is(scalar(grep { /\|/ } @start), 7, 'the others start');
my $list = join ',', map { '"' . (split /\|/)[0] . '"' } grep { /\|/ } @start;
is($me->ask("SELECT count(*) FROM (SELECT s - lag(s) OVER (ORDER BY s) AS gap FROM unnest('{$list}'::timestamptz[]) s) g WHERE gap < '100 ms'"),
	'0', 'an interval apart');
is((grep { /\|/ && $me->ask(sprintf "SELECT timestamptz '%s' < '%s'", (split /\|/)[1, 0]) eq 't' } @start), 0, 'none early');

# --- no places

$me->ask("SELECT pacer.create_source('none', '1 h', max_waiting => 0)");
all_at_once("SELECT wait FROM pacer.book('none')");
is(join(' ', sort map { answer_of($_) } @caller), '00:00:00' . ' PC001' x 9, 'without places one starts at once and the others are refused');
is($me->ask("SELECT ticket IS NULL, wait <= '1 h' FROM pacer.try_book('none', max_wait => NULL)"), 't|t', 'and are told when there will be a slot');
is($me->ask("SELECT booked, next_request_at - last_start FROM pacer.source_status('none')"), '1|01:00:00', 'refusals take nothing');

# --- spent

$me->ask("SELECT pacer.create_source('spent', '1 h')");
my $s = shift @caller;
$s->ask('BEGIN');
$ticket = $s->ask("SELECT ticket FROM pacer.acquire('spent')");
is($me->ask("SELECT pacer.release('spent', $ticket)"), 'started', 'once granted it cannot be given back');
my $pid = $s->client_pid;
kill 'KILL', $pid;
$me->poll('SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = ' . $s->pid);
is($me->ask("SELECT ticket IS NULL FROM pacer.try_book('spent')"), 't', 'not even when its caller dies');
$s->quit;

# --- callers that never start

# cancelled: the place is free at once
$me->ask("SELECT pacer.create_source('leak', '1 h', max_waiting => 1)");
$me->ask("SELECT pacer.book('leak')");
my ($waiter, $slot) = split /\|/, $me->ask("SELECT ticket, slot_at FROM pacer.book('leak')");
$me->ask("SELECT pacer.book('leak')");
like($me->error, qr/PC001: could not book a slot for "leak": 1 caller is waiting already/, 'full');
is($me->ask("SELECT pacer.release('leak', $waiter)"), 'released', 'cancelled');
is($me->ask("SELECT slot_at = '$slot' FROM pacer.book('leak')"), 't', 'its slot goes to the next');

# killed: the place is free when its time has come, without anybody's doing
$me->ask("SELECT pacer.create_source('killed', '100 ms', max_waiting => 1)");
$s = shift @caller;
$s->ask("SELECT pacer.book('killed')");
$s->ask("SELECT pacer.book('killed')");
kill 'KILL', $s->client_pid;
$s->quit;
ok($me->poll("SELECT ticket IS NOT NULL FROM pacer.try_book('killed')"), 'a killed waiter keeps nobody out for longer than its slot');

# unwilling to wait: nothing is booked
$me->ask("SELECT pacer.create_source('unwilling', '1 h')");
$me->ask("SELECT pacer.book('unwilling')");
my $head = $me->ask("SELECT next_request_at FROM pacer.source_status('unwilling')");
$me->ask("SELECT pacer.acquire('unwilling', max_wait => '1 s')");
like($me->error, qr/PC002: could not book a slot for "unwilling" within 1000 ms/, 'a wait too long is refused');
is($me->ask("SELECT next_request_at, waiting FROM pacer.source_status('unwilling')"), "$head|0", 'at no cost');

# --- a rate changed while people wait, from another session

$me->ask("SELECT pacer.create_source('rate', '1 h', max_waiting => 10)");
my $g = $me->ask("SELECT slot_at FROM pacer.book('rate')");
my ($w, $w_slot) = split /\|/, $me->ask("SELECT ticket, slot_at FROM pacer.book('rate')");
$caller[0]->ask("UPDATE pacer.source SET start_interval = '1 s' WHERE name = 'rate'");
is($me->ask("SELECT waiting FROM pacer.source_status('rate')"), '1', 'one waits: it is a count, not a division');
my ($x, $x_slot) = split /\|/, $me->ask("SELECT ticket, slot_at FROM pacer.book('rate')");
is($me->ask("SELECT timestamptz '$x_slot' - '$w_slot'"), '01:00:00', 'booked slots stay, and keep their width');
is($me->ask("SELECT next_request_at - '$x_slot' FROM pacer.source_status('rate')"), '00:00:01', 'the new one takes the new width');
is($me->ask("SELECT pacer.release('rate', $x)"), 'released', 'undone');
is($me->ask("SELECT pacer.release('rate', $w)"), 'released', 'both');
is($me->ask("SELECT next_request_at - '$g' FROM pacer.source_status('rate')"), '01:00:00', 'each gives back what it took');
($w, $w_slot) = split /\|/, $me->ask("SELECT ticket, slot_at FROM pacer.book('rate')");
$caller[0]->ask("UPDATE pacer.source SET start_interval = '1 day' WHERE name = 'rate'");
is($me->ask("SELECT next_request_at - '$w_slot', waiting FROM pacer.source_status('rate')"), '00:00:01|1', 'a slower rate moves nothing that is booked');

$_->quit for @caller, $me;
$node->stop;
done_testing();
