# Somebody sets the server's clock. Waiters count elapsed time, so the schedule moves with
# the clock: no stall of an hour after a step back, no burst after one forth.
#
# The server runs under shift_clock.c. Slots are compared in elapsed time: a slot less the
# shift that was in force when it was told. A step is measured to about a millisecond.
use strict;
use warnings;
use Fcntl;
use PacerSession;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

use constant HOUR => 3600;
use constant MEASURED => 0.010;

my $folder = PostgreSQL::Test::Utils::tempdir;
my $library = "$folder/shift_clock.so";
(my $code = $0) =~ s/[^\/]*$/shift_clock.c/;
my $compiler = $ENV{CC} || 'cc';
system("$compiler -Wall -O2 -fPIC -shared -o $library $code -ldl") == 0
	or plan skip_all => 'no C compiler';

my $shift = 0;
my $file = "$folder/shift";

# the clock is set to what it would show, and so many seconds
sub set_clock
{
	($shift) = @_;
	# written in place: the server has it mapped
	sysopen(my $fh, $file, O_RDWR | O_CREAT) or die "$file: $!";
	syswrite($fh, pack('q', $shift * 1_000_000)) == 8 or die $!;
	close $fh;
}
set_clock(0);

my $node = PostgreSQL::Test::Cluster->new('clock');
$node->init(extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', "fsync = on\nautovacuum = off\n");

sub start
{
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{SHIFT_CLOCK} = $file;
	$node->start;
}
start();

my $me = PacerSession->new($node);
$me->ask('CREATE EXTENSION pg_pacer');

# is the library at work?
my $before = $me->ask('SELECT extract(epoch FROM clock_timestamp())');
set_clock(HOUR);
cmp_ok($me->ask("SELECT extract(epoch FROM clock_timestamp()) - $before"), '>=', HOUR, 'the server\'s clock can be set');
set_clock(0);

my $names = 0;
sub source
{
	my (@rest) = @_;
	my $source = 's' . ++$names;

	$me->ask("SELECT pacer.create_source(" . join(', ', "'$source'", @rest) . ")");
	return $source;
}

# books; ticket, slot in elapsed time, wait, and the moment by our own clock before and after
sub book
{
	my ($source, $rest) = @_;
	my $from = clock_gettime(CLOCK_MONOTONIC);
	my ($ticket, $slot, $wait) = split /\|/,
		$me->ask("SELECT ticket, extract(epoch FROM slot_at), extract(epoch FROM wait) FROM pacer.book('$source'" . ($rest // '') . ")");

	die $me->error unless defined $wait;
	return { ticket => $ticket, slot => $slot - $shift, wait => $wait, from => $from, to => clock_gettime(CLOCK_MONOTONIC) };
}

sub is_apart
{
	my ($one, $other, $seconds, $what) = @_;
	my $gap = $other->{slot} - $one->{slot};

	ok(abs($gap - $seconds) <= MEASURED, "$what: $seconds s apart") or diag("$gap");
}

# what is left of a wait when it is asked for again
sub is_rest
{
	my ($was, $is, $what) = @_;

	cmp_ok($is->{wait}, '<=', $was->{wait} - ($is->{from} - $was->{to}) + MEASURED, "$what: not later");
	cmp_ok($is->{wait}, '>=', $was->{wait} - ($is->{to} - $was->{from}) - MEASURED, "$what: not earlier");
}

# --- nobody waits

for my $step (HOUR, -(HOUR), -30)
{
	set_clock(0);
	my $source = source("'10 s'");
	my $first = book($source);
	set_clock($step);
	my $second = book($source);
	is_apart($first, $second, 10, "step of $step s, nobody waits");
}

# --- with a line

for my $step (HOUR, -(HOUR), -30, 25)
{
	set_clock(0);
	my $what = "step of $step s";
	my $source = source("'10 s'");
	my @line = map { book($source, ", key => 'k$_'") } 0 .. 3;

	set_clock($step);
	my ($waiting, $ahead) = split /\|/,
		$me->ask("SELECT waiting, extract(epoch FROM next_request_at - clock_timestamp()) FROM pacer.source_status('$source')");
	is($waiting, 3, "$what: status counts the line as before");
	ok($ahead > 0 && $ahead <= 40 + MEASURED, "$what: and shows the head where it ends") or diag($ahead);

	is_rest($line[$_], book($source, ", key => 'k$_'"), "$what: waiter $_") for 1 .. 3;
	my $next = book($source);
	is_apart($line[3], $next, 10, "$what: the next one");
	is($me->ask("SELECT pacer.release('$source', $next->{ticket})"), 'released', "$what: it can be released");

	# and back again
	set_clock(0);
	is_rest($line[$_], book($source, ", key => 'k$_'"), "$what and back: waiter $_") for 1 .. 3;
	is_apart($line[3], book($source), 10, "$what and back: the next one");
}

# --- a pause, a quota

for my $step (HOUR, -(HOUR))
{
	set_clock(0);
	my $source = source("'10 s'");
	$me->ask("SELECT pacer.pause('$source', '20 s')");
	my $first = book($source, ", key => 'a'");
	set_clock($step);
	is_rest($first, book($source, ", key => 'a'"), "step of $step s: a pause moves with it");
	is_apart($first, book($source), 10, "step of $step s: behind a pause");

	set_clock(0);
	$source = source("'1 s'", 'quota => 2', "quota_window => '1 day'");
	book($source) for 1 .. 2;
	set_clock($step);
	is($me->ask("SELECT quota_left FROM pacer.source_status('$source')"), '0', "step of $step s: a quota that is used up stays so");
}

# --- who sleeps in acquire() sleeps as long as was told

for my $step (HOUR, -(HOUR))
{
	set_clock(0);
	my $source = source("'500 ms'");
	my @sleeper = map { PacerSession->new($node) } 1 .. 2;
	my $first = book($source);
	for my $s (@sleeper)
	{
		$s->send("SELECT 1 FROM pacer.acquire('$source')");
		$me->poll_asleep($s) or die $s->result . $s->error;
	}
	set_clock($step);
	my @at = map { is($_->result, '1', "step of $step s: a sleeper starts"); clock_gettime(CLOCK_MONOTONIC) } @sleeper;
	cmp_ok($at[$_] - $first->{from}, '>=', 0.5 * ($_ + 1) - MEASURED, "step of $step s: sleeper $_ not too early") for 0 .. 1;
	cmp_ok($at[1] - $first->{from}, '<', 60, "step of $step s: nor hours too late");
	$_->quit for @sleeper;
}

# --- who waits outside, and confirms with the slot that was told before the step

for my $step (HOUR, -(HOUR))
{
	set_clock(0);
	my $source = source("'300 ms'");
	book($source);
	my ($booking, $wait) = split /\|/, $me->ask("SELECT b, wait_ms FROM pacer.book('$source') b");
	set_clock($step);
	select(undef, undef, undef, $wait / 1000 + MEASURED);
	my $left = $me->ask("SELECT extract(epoch FROM pacer.confirm('$booking'::pacer.booking))");
	cmp_ok($left, '<=', MEASURED, "step of $step s: confirm at the end of the wait");
}

# the row does not remember this one any more, so there is nothing to move with the clock
{
	set_clock(0);
	my $source = source("'100 ms'", 'remembered => 4');
	my $booking = (split /\n/, $me->ask("SELECT pacer.book('$source') FROM generate_series(1, 8)"))[1];
	set_clock(-(HOUR));
	select(undef, undef, undef, 0.8);
	my $left = $me->ask("SELECT extract(epoch FROM pacer.confirm('$booking'::pacer.booking))");
	cmp_ok($left, '<=', 1, 'step back: a forgotten booking need not wait for the hour to come again');
}

# --- any steps

{
	set_clock(0);
	my $source = source("'1 s'", 'max_waiting => NULL', 'remembered => 8');
	my @line = (book($source));
	srand(my $seed = $ENV{PACER_SEED} // 4711);
	for (1 .. 100)
	{
		set_clock(int((rand() - 0.5) * 20000)) if rand() < 0.7;
		push @line, book($source);
	}
	my @gap = map { $line[$_]{slot} - $line[$_ - 1]{slot} } 1 .. $#line;
	is((grep { $_ < 1 - MEASURED } @gap), 0, "a hundred bookings between steps: none too early (seed $seed)");
	is((grep { $_ > 1 + MEASURED } @gap), 0, 'none late');
	# what is not measured exactly must not add up to one side
	my $sum = $line[-1]{slot} - $line[0]{slot};
	ok(abs($sum - 100) < 0.5, 'nor together') or diag($sum);
}

# --- a step while the server is down

for my $step (HOUR, -(HOUR))
{
	set_clock(0);
	my $source = source("'10 s'");
	my @line = map { book($source, ", key => 'k$_'") } 0 .. 3;

	$node->stop('fast');
	$me->quit;
	set_clock($step);
	start();
	$me = PacerSession->new($node);
	is_rest($line[$_], book($source, ", key => 'k$_'"), "clean restart and step of $step s: waiter $_") for 1 .. 3;
	is_apart($line[3], book($source), 10, "clean restart and step of $step s: the next one");
}

# --- a crash and a step back: nothing but the clock itself tells

{
	set_clock(0);
	my $source = source("'10 s'");
	my $paused = source("'10 s'");
	my @line = map { book($source) } 0 .. 3;
	$me->ask("SELECT pacer.pause('$paused', '30 s')");

	$node->stop('immediate');
	$me->quit;
	set_clock(-(HOUR));
	start();
	$me = PacerSession->new($node);
	is($me->ask("SELECT run_ok FROM pacer.source_status('$source')"), 'f', 'crash and step back: status says that it is read from the log');
	my $ahead = $me->ask("SELECT extract(epoch FROM next_request_at - clock_timestamp()) FROM pacer.source_status('$source')");
	ok($ahead > 0 && $ahead <= 40 + MEASURED, 'crash and step back: and shows no hour to wait') or diag($ahead);
	my $next = book($source);
	cmp_ok($next->{slot} - $line[3]{slot}, '>=', 10 - MEASURED, 'crash and step back: the next one is not early');
	cmp_ok($next->{wait}, '<=', 40, 'crash and step back: nor an hour late');
	my $behind = book($paused);
	cmp_ok($behind->{wait}, '<=', 30, 'crash and step back: a pause does not last an hour more');
	cmp_ok($behind->{wait}, '>', 0, 'crash and step back: but is kept');
}

$me->quit;
$node->stop;
done_testing();
