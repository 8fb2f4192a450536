# A slot that a caller was told is never given again, however the server dies.
#
# Several psql sessions book as fast as they can and write down each answer. In each of
# 20 rounds the server is killed in the middle of that, by one backend or as a whole. The
# answers of all rounds together must lie an interval apart, a crash must not cost more
# than pg_pacer.reserve_ahead, and the first caller afterwards is one who may do nothing
# but book.
use strict;
use warnings;
use PacerSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $rounds = $ENV{PACER_ROUNDS} || 20;
my $sessions = 4;
my $reserve_us = 1_000_000;    # the default of pg_pacer.reserve_ahead

my $node = PacerSession->node('crash',
	'restart_after_crash = on', 'log_statement = none', 'full_page_writes = on', 'recovery_init_sync_method = syncfs', 'max_prepared_transactions = 2');
my $bound = $PostgreSQL::Test::Utils::timeout_default;
my $dir = PostgreSQL::Test::Utils::tempdir;

# interval in microseconds of each source
my %interval = (ms1 => 1_000, ms100 => 100_000, s10 => 10_000_000, appointment => 100_000, late => 1_000_000);

$node->safe_psql('postgres', "SELECT pacer.create_source('$_', make_interval(secs => $interval{$_} / 1e6), max_waiting => NULL)")
	for sort keys %interval;
$node->safe_psql('postgres', 'CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA pacer TO app');

my %told;       # source -> slots in microseconds, of every round
my %started;    # source -> confirmed starts

# --- what a session does: each line one statement, whose answer psql writes out at once

my $us = '(extract(epoch FROM %s) * 1000000)::bigint';
my $booking = "SELECT 'told', source, " . sprintf($us, 'slot_at') . " FROM ";
my @statements = (
	"${booking}pacer.book('ms1')",
	"${booking}pacer.book('ms100')",
	"${booking}pacer.book('s10')",
	"${booking}pacer.book_many('ms1', 3)",
	"SELECT 'told', 'appointment', " . sprintf($us, "pacer.nextslot('appointment')"),
	# in a transaction that goes on, and in one that is rolled back
	"BEGIN; SAVEPOINT p; ${booking}pacer.book('s10'); ROLLBACK TO p; ${booking}pacer.book('ms100'); ROLLBACK",
	# a start by one whose ticket nobody knows, as if it had been booked before a crash; the
	# time is that of just before
	"SELECT 'start', 'late', " . sprintf($us, 'now') . " FROM (SELECT clock_timestamp() AS now OFFSET 0) t WHERE pacer.confirm('late', 1 + (random() * 1e9)::bigint) = '0'",
);

my $script = "$dir/load.sql";
append_to_file($script, join('', map { "$statements[$_ % @statements];\n" } 1 .. 30_000));
my $checkpoints = "$dir/checkpoints.sql";
append_to_file($checkpoints, "SELECT pg_sleep(0.03); CHECKPOINT;\n" x 2_000);

sub start_load
{
	my @load;

	for my $n (1 .. $sessions + 1)
	{
		my %one = (file => "$dir/answers.$n", want => $n <= $sessions ? 10 : 0);
		my $from = $n <= $sessions ? $script : $checkpoints;
		my $user = $n % 2 ? 'app' : getpwuid($>);

		$user = getpwuid($>) if $n > $sessions;
		unlink $one{file};
		$one{run} = IPC::Run::start(
			[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres') . " user=$user", '-f', $from ],
			'<', \undef, '>', $one{file}, '2>', "$one{file}.err");
		push @load, \%one;
	}

	# until everyone has had some answers
	my $until = time + $bound;
	for my $one (@load)
	{
		while ($one->{want} && (!-e $one->{file} || (slurp_file($one->{file}) =~ tr/\n//) < $one->{want}))
		{
			die "no answers: " . slurp_file("$one->{file}.err") if time > $until;
			sleep 0.01;
		}
	}
	return @load;
}

# the sessions have lost their server and end by themselves
sub collect
{
	my $told = 0;

	for my $one (@_)
	{
		IPC::Run::finish($one->{run});
		for (split /\n/, slurp_file($one->{file}))
		{
			my ($what, $source, $slot) = /^(told|start)\|(\w+)\|(\d+)$/ or next;

			push @{ ($what eq 'told' ? \%told : \%started)->{$source} }, $slot;
			$told++;
		}
		my $complaint = join '', grep { !/server closed|terminat|connection|crash|another server process|recovery mode|HINT|DETAIL|abnormally|before or while|WARNING|roll back the current/i }
			split /^/, slurp_file("$one->{file}.err");
		is($complaint, '', 'no session saw another error') if $complaint ne '';
	}
	return $told;
}

# the ids of the postmaster's children
sub children
{
	my ($parent) = @_;
	my @child;

	for my $stat (glob '/proc/[0-9]*/stat')
	{
		open my $f, '<', $stat or next;
		my $line = <$f> // next;
		push @child, $1 if $line =~ /^(\d+) \(.*\) \S (\d+)/ && $2 == $parent;
	}
	return @child;
}

sub wait_until_up
{
	my $until = time + $bound;

	until ($node->psql('postgres', 'SELECT 1') == 0)
	{
		die 'the server does not come back' if time > $until;
		sleep 0.02;
	}
}

# one backend dies, the postmaster starts anew
sub kill_backend
{
	my $log = -s $node->logfile;
	my $pid = $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1");

	sleep rand 0.1;
	kill 'KILL', $pid;

	my $until = time + $bound;
	until (slurp_file($node->logfile, $log) =~ /database system is ready to accept connections/)
	{
		die 'the server does not recover' if time > $until;
		sleep 0.02;
	}
	wait_until_up();
}

# everything dies at one instant, as when the machine loses power (but for the disk's cache)
sub kill_all
{
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];

	sleep rand 0.1;
	kill 'STOP', $postmaster;    # it makes no new ones meanwhile
	my @all = ($postmaster, children($postmaster));
	kill 'KILL', @all;
	$node->{_pid} = undef;

	# the new one wants the old one's memory, which is in use until all are gone
	my $until = time + $bound;
	while (grep { kill 0, $_ } @all)
	{
		die 'killed processes are still there' if time > $until;
		sleep 0.01;
	}
	$node->start;
}

sub smallest_gap
{
	my ($slots) = @_;
	my @in_order = sort { $a <=> $b } @$slots;
	my $least;

	for (1 .. $#in_order)
	{
		my $gap = $in_order[$_] - $in_order[ $_ - 1 ];
		$least = $gap if !defined $least || $gap < $least;
	}
	return $least;
}

sub latest
{
	my ($slots) = @_;
	my $latest = 0;
	for (@$slots) { $latest = $_ if $_ > $latest }
	return $latest;
}

for my $round (1 .. $rounds)
{
	my @load = start_load();

	if   ($round % 2) { kill_backend() }
	else              { kill_all() }
	my $answers = collect(@load);

	# before the first call nothing is believed that was not logged
	is($node->safe_psql('postgres', "SELECT count(*) FROM pacer.status WHERE run_ok IS DISTINCT FROM false"), '0', "round $round: a new run");

	# the first caller is one who may do nothing but book
	my %next;
	for my $source (sort keys %interval)
	{
		my $book = $source eq 'appointment' ? "pacer.nextslot('appointment') slot_at" : "pacer.book('$source')";
		my ($slot, $now) = split /\|/, $node->safe_psql('postgres',
			'SELECT ' . sprintf($us, 'slot_at') . ', ' . sprintf($us, 'clock_timestamp()') . " FROM $book", connstr => $node->connstr('postgres') . ' user=app');

		$next{$source} = $slot;
		next if $source eq 'late';

		my $head = latest($told{$source}) + $interval{$source};
		my $lost = $slot - $head;
		my $reserve = $interval{$source} < $reserve_us ? $reserve_us : 0;
		# bookings that were made, but not answered any more: 3 by a session at most
		my $unanswered = 3 * $sessions * $interval{$source};

		fail("round $round, $source: slot $slot is " . -$lost . " us before the head told, $head") if $lost < 0;
		fail("round $round, $source: $lost us are lost") if $lost > $reserve + $unanswered && $slot > $now;
		push @{ $told{$source} }, $slot;
	}
	# no immediate booking comes too close to a start that was confirmed
	cmp_ok($next{late}, '>=', latest($started{late}) + $interval{late}, "round $round: $answers answers, none taken back") if $started{late};
	push @{ $started{late} }, $next{late} if $next{late};

	for (grep { $_ ne 'late' } sort keys %interval)
	{
		my $gap = smallest_gap($told{$_});
		fail("round $round, $_: two slots are $gap us apart") if $gap < $interval{$_};
	}
}

for (sort keys %told)
{
	cmp_ok(smallest_gap($told{$_}), '>=', $interval{$_}, "$_: " . @{ $told{$_} } . " slots, the smallest gap is at least an interval");
}
cmp_ok(scalar @{ $told{ms1} }, '>', 20 * $rounds, 'that was a load');

# --- a clean restart loses nothing

my $ticket = $node->safe_psql('postgres', "SELECT ticket FROM pacer.book('s10')");
my $before = $node->safe_psql('postgres', "SELECT next_request_at, booked, waiting FROM pacer.source_status('s10')");
$node->restart;
is($node->safe_psql('postgres', "SELECT next_request_at, booked, waiting FROM pacer.source_status('s10')"), $before, 'a clean restart loses nothing');
is($node->safe_psql('postgres', "SELECT run_ok FROM pacer.source_status('s10')"), 't', 'it is no new run');
is($node->safe_psql('postgres', "SELECT pacer.release('s10', $ticket)"), 'released', 'tickets are good');

# --- a ticket from before a crash

$ticket = $node->safe_psql('postgres', "SELECT ticket FROM pacer.book('s10')");
my $head = $node->safe_psql('postgres', "SELECT next_request_at FROM pacer.source_status('s10')");
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', "SELECT pacer.release('s10', $ticket)"), 'unknown', 'a ticket from before a crash is not known');
is($node->safe_psql('postgres', "SELECT next_request_at FROM pacer.source_status('s10')"), $head, 'and frees nothing');

# --- a prepared transaction that has booked is in nobody's way, before and after a crash

$node->safe_psql('postgres', "BEGIN; CREATE TABLE work (a int); SELECT pacer.book('s10'); SELECT pacer.nextslot('s10'); PREPARE TRANSACTION 'p'");
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', "SELECT slot_at - '$head' FROM pacer.book('s10')"), '00:00:20', 'its two bookings stand, and nobody waits for it');
$node->safe_psql('postgres', "ROLLBACK PREPARED 'p'");
is($node->safe_psql('postgres', "SELECT slot_at - '$head' FROM pacer.book('s10')"), '00:00:30', 'after its rollback, too');

# --- the files are sound

unlike(slurp_file($node->logfile), qr/PANIC|XX000|invalid page|leak/, 'the log has nothing to complain about');
$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums are right');

done_testing();
