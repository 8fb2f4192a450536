# What was answered before a fail-over, a recovery or a backup is not answered again after it.
#
# In each round a primary is killed under load and its standby promoted, which is the
# primary of the next round. A synchronous standby forgets nothing, and the command follows
# by its list of hosts. An asynchronous one forgets what it did not have yet: how much is
# counted, and that pacer.advance() closes the gap. Then recovery to a named point, a backup taken under load, a dump.
#
# PACER_ROUNDS rounds of each fail-over, a sixth of that of the others.
use strict;
use warnings;
use File::Path qw(rmtree);
use PacerReport;
use PacerSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use Time::Local qw(timegm);

my $rounds = $ENV{PACER_ROUNDS} || 2;
my $few = int(($rounds + 5) / 6);
my $bound = $PostgreSQL::Test::Utils::timeout_default;
my $dir = PostgreSQL::Test::Utils::tempdir;
my $us = '(extract(epoch FROM %s) * 1000000)::bigint';
my %interval = (us => 1, ms => 1_000, ms100 => 100_000, h => 3_600_000_000);
my @sources = sort keys %interval;

sub make_sources
{
	my ($node) = @_;

	$node->safe_psql('postgres', join ' ', 'CREATE EXTENSION pg_pacer;',
		map { "SELECT pacer.create_source('$_', make_interval(secs => $interval{$_} / 1e6), max_waiting => NULL);" } @sources);
	return;
}

# --- load: sessions that die with their server, and commands that go on with the next one

my $script = "$dir/load.sql";
append_to_file($script, join '', map {
	"SELECT source, " . sprintf($us, 'slot_at') . ", pg_current_wal_insert_lsn() - '0/0', " . sprintf($us, 'clock_timestamp()') . " FROM pacer.book('$sources[ $_ % @sources ]');\n" } 1 .. 40_000);

sub start_sessions
{
	my ($node) = @_;
	my @load;

	for my $n (1 .. 4)
	{
		my %one = (file => "$dir/session.$n");

		unlink $one{file};
		$one{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', $script ],
			'<', \undef, '>', $one{file}, '2>', '/dev/null');
		push @load, \%one;
	}
	wait_for_lines(10, map { $_->{file} } @load);
	return @load;
}

sub lines_of { return -e $_[0] ? slurp_file($_[0]) =~ tr/\n// : 0 }

sub wait_for_lines
{
	my ($n, @files) = @_;
	my $until = time + $bound;

	for my $file (@files)
	{
		until (lines_of($file) >= $n)
		{
			die "no answers in $file" if time > $until;
			sleep 0.01;
		}
	}
	return;
}

# [source, slot, where the log was, when] of each answer
sub collect
{
	my @answers;

	for my $one (@_)
	{
		IPC::Run::finish($one->{run});
		push @answers, map { /^(\w+)\|(\d+)\|(\d+)\|(\d+)$/ ? [ $1, $2, $3, $4 ] : () } split /\n/, slurp_file($one->{file});
	}
	return @answers;
}

sub start_commands
{
	my @node = @_;
	my @load;

	unlink "$dir/enough";
	for my $n (1 .. 3)
	{
		my %one = (file => "$dir/command.$n");
		my $source = $sources[ $n % @sources ];

		unlink $one{file};
		$one{run} = IPC::Run::start(
			[ 'sh', '-c', 'while ! [ -e "$2" ]; do told=$(pgpacer book --database-wait=30s "$1" 2>/dev/null); echo "$?|$1|$told"; done', 'sh', $source, "$dir/enough" ],
			'<', \undef, '>', $one{file},
			init => sub {
				$ENV{PGHOST} = join ',', map { $_->host } @node;
				$ENV{PGPORT} = join ',', map { $_->port } @node;
				$ENV{PGDATABASE} = 'postgres';
			});
		push @load, \%one;
	}
	wait_for_lines(2, map { $_->{file} } @load);
	return @load;
}

# [source, slot] of each booking; what the command exited with
sub collect_commands
{
	my (@answers, %status);

	append_to_file("$dir/enough", '');
	for my $one (@_)
	{
		IPC::Run::finish($one->{run});
		for (split /\n/, slurp_file($one->{file}))
		{
			my ($status, $source, $told) = split /\|/, $_, 3;

			$status{$status}++;
			push @answers, [ $source, timegm($6, $5, $4, $3, $2 - 1, $1) * 1_000_000 + $7 ]
			  if $told =~ /\t(\d+)-(\d+)-(\d+)[T ](\d+):(\d+):(\d+)\.(\d{6})/;
		}
	}
	return (\@answers, \%status);
}

# how many of these slots are closer than an interval to another one
sub too_close
{
	my %slots;
	my $bad = 0;

	push @{ $slots{ $_->[0] } }, $_->[1] for @_;
	for my $source (keys %slots)
	{
		my @in_order = sort { $a <=> $b } @{ $slots{$source} };

		for (1 .. $#in_order)
		{
			next if $in_order[$_] - $in_order[ $_ - 1 ] >= $interval{$source};
			diag("$source: $in_order[ $_ - 1 ] and $in_order[$_]");
			$bad++;
		}
	}
	return $bad;
}

# one more slot of each source
sub book_each
{
	my ($node) = @_;

	return map { [ $_, $node->safe_psql('postgres', 'SELECT ' . sprintf($us, 'slot_at') . " FROM pacer.book('$_')") ] } @sources;
}

# --- fail-over

sub make_standby
{
	my ($primary, $name) = @_;

	$primary->backup($name);
	my $standby = PostgreSQL::Test::Cluster->new($name);
	$standby->init_from_backup($primary, $name, has_streaming => 1);
	$standby->start;
	$primary->wait_for_catchup($standby);
	rmtree($primary->backup_dir);
	return $standby;
}

sub set_synchronous
{
	my ($node, $names) = @_;

	$node->append_conf('postgresql.conf', "synchronous_standby_names = '$names'\n");
	$node->reload;
	$node->poll_query_until('postgres', $names ? "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'" : "SELECT current_setting('synchronous_standby_names') = ''")
	  or die 'the standby is not what it should be';
	return;
}

sub make_primary
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(allows_streaming => 1, extra => ['--data-checksums']);
	$node->append_conf('postgresql.conf', "fsync = on\nmax_connections = 40\nlog_statement = none\nwal_keep_size = 64MB\n");
	$node->start;
	make_sources($node);
	return $node;
}

sub synchronous
{
	my $primary = make_primary('sync0');
	my ($answers, $bad, %status) = (0, 0);

	for my $round (1 .. $rounds)
	{
		my $standby = make_standby($primary, "sync$round");

		set_synchronous($primary, '*');
		my @commands = start_commands($primary, $standby);
		my @sessions = start_sessions($primary);

		sleep rand 0.3;
		$primary->stop('immediate');
		my @told = collect(@sessions);
		$standby->promote;
		# commands that began before, and some that did not
		my %lines = map { $_->{file} => lines_of($_->{file}) } @commands;
		wait_for_lines($lines{$_} + 5, $_) for keys %lines;
		my ($booked, $exits) = collect_commands(@commands);

		push @told, @$booked, book_each($standby);
		$status{$_} += $exits->{$_} for keys %$exits;
		$answers += @told;
		$bad += too_close(@told);
		rmtree($primary->data_dir);
		$primary = $standby;
	}
	$primary->stop;
	is($bad, 0, "synchronous standby promoted: $rounds rounds, $answers answers, none given again");
	is(join(' ', sort grep { !/^(?:0|125)$/ } keys %status), '', 'the command exits with 0, or with 125 where nothing was booked');
	PacerReport::line('synchronous standby promoted in mid-load, commands follow by their list of hosts', $rounds,
		"$answers answers, " . join(', ', map { "$status{$_} x exit $_" } sort keys %status), $bad);
	return;
}

sub asynchronous
{
	my $primary = make_primary('async0');
	my ($answers, $forgotten, $early, $bad) = (0, 0, 0, 0);

	for my $round (1 .. $rounds)
	{
		my $standby = make_standby($primary, "async$round");
		my @sessions = start_sessions($primary);
		my $receiver = $standby->safe_psql('postgres', 'SELECT pid FROM pg_stat_wal_receiver');

		# it falls behind
		my $since = $primary->safe_psql('postgres', 'SELECT ' . sprintf($us, 'clock_timestamp()'));
		kill 'STOP', $receiver;
		sleep 0.2 + rand 0.3;
		$primary->stop('immediate');
		kill 'CONT', $receiver;
		my @told = collect(@sessions);
		$standby->promote;

		for my $source (@sources)
		{
			my $head = $standby->safe_psql('postgres', 'SELECT ' . sprintf($us, 'next_request_at') . " FROM pacer.source_status('$source')");
			my @lost = grep { $_->[0] eq $source && $_->[1] >= $head } @told;
			my ($latest) = sort { $b <=> $a } map { $_->[1] } grep { $_->[0] eq $source } @told;

			$forgotten += @lost;
			# bounded: nothing that was answered long before the standby fell behind
			$early += grep { $_->[3] < $since - 1_000_000 } @lost;
			$standby->safe_psql('postgres', "SELECT pacer.advance('$source', timestamptz 'epoch' + ($latest + $interval{$source}) * interval '1 us')") if defined $latest;
		}
		push @told, book_each($standby);
		$answers += @told;
		$bad += too_close(@told);
		rmtree($primary->data_dir);
		$primary = $standby;
	}
	$primary->stop;
	cmp_ok($forgotten, '>', 0, "asynchronous standby promoted: $forgotten of $answers slots were forgotten");
	is($early, 0, 'all of them answered while the standby was behind');
	is($bad, 0, 'after pacer.advance() none is given again');
	PacerReport::line('asynchronous standby promoted, then pacer.advance()', $rounds, "$answers answers, $forgotten of them forgotten before advance", $bad);
	return;
}

# --- recovery, backups

sub kept
{
	my ($what, $node, @told) = @_;

	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die "$what: still in recovery";
	my $bad = too_close(@told, book_each($node));
	$node->stop('immediate');
	rmtree($node->data_dir);
	return $bad;
}

sub recoveries
{
	my $primary = PostgreSQL::Test::Cluster->new('archiving');
	my ($points, $backups, $bad_point, $bad_backup) = (0, 0, 0, 0);

	$primary->init(has_archiving => 1, allows_streaming => 1, extra => ['--data-checksums']);
	$primary->append_conf('postgresql.conf', "fsync = on\nmax_connections = 40\nlog_statement = none\n");
	$primary->start;
	make_sources($primary);

	for my $round (1 .. $few)
	{
		$primary->backup("before$round");
		my @sessions = start_sessions($primary);

		$primary->command_ok([ 'pg_basebackup', '-D', $primary->backup_dir . "/under$round", '-h', $primary->host, '-p', $primary->port, '--checkpoint', 'fast', '--no-sync' ], 'a backup under load');
		my ($end) = slurp_file($primary->backup_dir . "/under$round/backup_manifest") =~ m{"End-LSN": "([0-9A-F]+/[0-9A-F]+)"};
		$end = $primary->safe_psql('postgres', "SELECT pg_lsn '$end' - '0/0'");
		my $point = $primary->safe_psql('postgres', "SELECT pg_create_restore_point('p$round') - '0/0'");
		sleep 0.1;
		kill 'TERM', map { $_->{run}{KIDS}[0]{PID} } @sessions;
		my @told = collect(@sessions);
		$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');

		my $restored = PostgreSQL::Test::Cluster->new("point$round");
		$restored->init_from_backup($primary, "before$round", has_restoring => 1, standby => 0);
		$restored->append_conf('postgresql.conf', "recovery_target_name = 'p$round'\nrecovery_target_action = promote\narchive_mode = off\n");
		$restored->start;
		my @before = grep { $_->[2] <= $point } @told;
		$points += @before;
		$bad_point += kept('recovery', $restored, @before);

		my $copy = PostgreSQL::Test::Cluster->new("copy$round");
		$copy->init_from_backup($primary, "under$round");
		$copy->append_conf('postgresql.conf', "archive_mode = off\n");
		$copy->start;
		@before = grep { $_->[2] <= $end } @told;
		$backups += @before;
		$bad_backup += kept('backup', $copy, @before);
		rmtree($primary->backup_dir);
	}
	is($bad_point, 0, "recovery to a point after the calls: none of $points answers is given again");
	is($bad_backup, 0, "a backup taken under load: none of $backups answers");
	PacerReport::line('point-in-time recovery, to a point after the calls', $few, "$points answers", $bad_point);
	PacerReport::line('pg_basebackup under load, started as a server', $few, "$backups answers", $bad_backup);
	dumps($primary);
	$primary->stop;
	return;
}

sub dumps
{
	my ($node) = @_;
	my $earlier = 0;

	for my $round (1 .. $few)
	{
		my $heads = "SELECT name, " . sprintf($us, 'next_request_at') . " FROM pacer.status ORDER BY name";
		my %before = map { split /\|/ } split /\n/, $node->safe_psql('postgres', $heads);

		$node->safe_psql('postgres', "CREATE DATABASE copy$round");
		$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/dump", '-d', $node->connstr('postgres') ], 'dumped');
		$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr("copy$round"), "$dir/dump" ], 'restored');
		my %after = map { split /\|/ } split /\n/, $node->safe_psql("copy$round", $heads);
		$earlier += grep { !defined $after{$_} || $after{$_} < $before{$_} } keys %before;
		$node->safe_psql('postgres', "DROP DATABASE copy$round");
		book_each($node);
	}
	is($earlier, 0, 'dump and restore keep the schedule, or a later one');
	PacerReport::line('pg_dump, pg_restore', $few, $few * @sources . ' schedules', $earlier);
	return;
}

synchronous();
asynchronous();
recoveries();
done_testing();
