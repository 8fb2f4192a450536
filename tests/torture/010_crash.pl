# Whatever the server is told to do, and however it dies: no slot twice, none too early.
#
# Eight sessions book, release, confirm and pause sources of all intervals, one with a
# quota, while another makes checkpoints, vacuums and rewrites the table. At a random instant
# one backend is killed, or everything, or the server is stopped "immediate". Then the
# answers that were given are held against those given later.
#
# PACER_ROUNDS rounds with the server's defaults, a sixth of that with each of its other
# ways to write its log, and with files that are cut as a crash can leave them.
use strict;
use warnings;
use PacerReport;
use PacerSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $rounds = $ENV{PACER_ROUNDS} || 6;
my $few = int(($rounds + 5) / 6);
my $sessions = 8;
my $bound = $PostgreSQL::Test::Utils::timeout_default;
my $dir = PostgreSQL::Test::Utils::tempdir;
my $reserve_us = 1_000_000;    # the default of pg_pacer.reserve_ahead
my ($quota, $window_us) = (50, 1_000_000);

my %interval = (
	us => 1, ms => 1_000, ms100 => 100_000, s10 => 10_000_000, h => 3_600_000_000,
	quota => 1_000, stopgo => 1_000, late => 1_000_000);

# --- what a session does: a line of output for each slot that is its own from then on

my $us = '(extract(epoch FROM %s) * 1000000)::bigint';
my $told = sprintf("SELECT 'told', source, $us FROM ", 'slot_at');

# one that is given back is somebody else's, unless it could not be
sub book_and_release
{
	my ($source) = @_;

	return "SELECT ticket, " . sprintf($us, 'slot_at') . " AS us FROM pacer.book('$source') \\gset\n"
	  . "SELECT CASE pacer.release('$source', :ticket) WHEN 'released' THEN 'gone' ELSE 'told' END, '$source', :us;";
}

my @statements = (
	"${told}pacer.book('us');", "${told}pacer.book('ms');", "${told}pacer.book('ms100');", "${told}pacer.book('s10');",
	"${told}pacer.book_many('ms', 3);", "${told}pacer.book('h');", "${told}pacer.book('quota');", "${told}pacer.book_many('quota', 2);",
	"SELECT 'told', 'quota', " . sprintf($us, "pacer.nextslot('quota')") . ';',
	"SELECT 'told', 'ms100', " . sprintf($us, "pacer.nextslot('ms100')") . ';',
	book_and_release('s10'), book_and_release('ms100'), book_and_release('quota'),
	"${told}pacer.book('stopgo');",
	"DO \$\$ BEGIN PERFORM pacer.pause('stopgo', '30 ms'); IF random() < 0.3 THEN PERFORM pacer.resume('stopgo'); END IF; END \$\$;",
	"BEGIN; SAVEPOINT p; ${told}pacer.book('s10'); ROLLBACK TO p; ${told}pacer.book('ms100'); ROLLBACK;",
	# a start by one whose ticket nobody knows; the time is that of just before
	"SELECT 'start', 'late', " . sprintf($us, 'now') . " FROM (SELECT clock_timestamp() AS now OFFSET 0) t WHERE pacer.confirm('late', 1 + (random() * 1e9)::bigint) = '0';");

my $load = "$dir/load.sql";
append_to_file($load, join("\n", map { $statements[ $_ * 7 % @statements ] } 1 .. 40_000) . "\n");
my $upkeep = "$dir/upkeep.sql";
append_to_file($upkeep, "SELECT pg_sleep(0.02);\nCHECKPOINT;\nVACUUM pacer.slot;\nVACUUM FULL pacer.slot;\nSELECT pg_sleep(0.02);\nVACUUM FREEZE pacer.slot, pacer.source;\n" x 2_000);
my $nothing = "$dir/nothing.sql";
append_to_file($nothing, "SELECT pg_sleep(0.1);\n" x 1_000);

sub make_node
{
	my ($name, @settings) = @_;
	my $node = PacerSession->node($name, 'log_statement = none', 'recovery_init_sync_method = syncfs', 'restart_after_crash = on', @settings);

	$node->safe_psql('postgres', join ' ',
		'CREATE EXTENSION amcheck; CREATE EXTENSION pageinspect;',
		map { "SELECT pacer.create_source('$_', make_interval(secs => $interval{$_} / 1e6), max_waiting => NULL"
			  . ($_ eq 'quota' ? ", quota => $quota, quota_window => '1 s'" : '') . ');' } sort keys %interval);
	return $node;
}

sub start_load
{
	my ($node, $beside) = @_;
	my @load;

	for my $n (0 .. $sessions)
	{
		my %one = (file => "$dir/answers.$n", want => $n ? 10 : 0);

		unlink $one{file};
		$one{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', $n ? $load : $beside ],
			'<', \undef, '>', $one{file}, '2>', "$one{file}.err");
		push @load, \%one;
	}
	my $until = time + $bound;
	for my $one (@load)
	{
		while ($one->{want} && (!-e $one->{file} || (slurp_file($one->{file}) =~ tr/\n//) < $one->{want}))
		{
			die 'no answers: ' . slurp_file("$one->{file}.err") if time > $until;
			sleep 0.01;
		}
	}
	return @load;
}

# what the sessions were told, by source; they have lost their server and end by themselves
sub collect
{
	my %answers;

	for my $one (@_)
	{
		IPC::Run::finish($one->{run});
		for (split /\n/, slurp_file($one->{file}))
		{
			push @{ $answers{$1} }, $2 if /^(?:told|start)\|(\w+)\|(\d+)$/;
		}
		my $complaint = join '', grep { !/server closed|terminat|connection|crash|another server process|recovery mode|HINT|DETAIL|abnormally|before or while|WARNING|roll back the current/i }
			split /^/, slurp_file("$one->{file}.err");
		is($complaint, '', 'no session saw another error') if $complaint ne '';
	}
	return \%answers;
}

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

# one backend dies, the postmaster starts anew
sub kill_backend
{
	my ($node) = @_;
	my $log = -s $node->logfile;
	my $pid = $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1");

	sleep rand 0.15;
	kill 'KILL', $pid;
	my $until = time + $bound;
	until (slurp_file($node->logfile, $log) =~ /database system is ready to accept connections/)
	{
		die 'the server does not recover' if time > $until;
		sleep 0.02;
	}
	$node->poll_query_until('postgres', 'SELECT true') or die 'the server does not come back';
}

# everything dies at one instant, as when the machine loses power (but for the disk's cache)
sub kill_all
{
	my ($node) = @_;
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];

	sleep rand 0.15;
	kill 'STOP', $postmaster;    # it makes no new ones meanwhile
	my @all = ($postmaster, children($postmaster));
	kill 'KILL', @all;
	$node->{_pid} = undef;

	my $until = time + $bound;
	while (grep { kill 0, $_ } @all)
	{
		die 'killed processes are still there' if time > $until;
		sleep 0.01;
	}
}

sub stop_immediate
{
	my ($node) = @_;

	sleep rand 0.15;
	$node->stop('immediate');
}

# --- what must hold

sub by_number { return $a <=> $b }

# Counts what is wrong between the answers of a round and the first slot after it, and
# those of the rounds before, of which "latest" is kept; says what it is.
sub violations
{
	my ($what, $latest, $answers, $next, $now) = @_;
	my $bad = 0;
	my $complain = sub { diag("$what: @_"); $bad++ };

	for my $source (sort keys %interval)
	{
		my $interval = $interval{$source};
		my @slots = sort by_number @{ $answers->{$source} || [] };
		my $before = $latest->{$source};

		if (@slots && $source ne 'late')
		{
			$complain->("$source: slot $slots[0] is not an interval after $before") if defined $before && $slots[0] < $before + $interval;
			for (1 .. $#slots)
			{
				$complain->("$source: slots $slots[ $_ - 1 ] and $slots[$_]") if $slots[$_] - $slots[ $_ - 1 ] < $interval;
			}
		}
		$before = $slots[-1] if @slots && (!defined $before || $slots[-1] > $before);
		if (defined $before)
		{
			my $head = $before + $interval;
			my $reserve = $interval < $reserve_us ? $reserve_us : 0;
			my $unanswered = 3 * $sessions * $interval;
			my $lost = $next->{$source} - $head;

			$complain->("$source: after the crash slot $next->{$source}, told before was $before") if $lost < 0;
			$complain->("$source: $lost us are lost") if $lost > $reserve + $unanswered && $next->{$source} > $now && $source !~ /quota|stopgo|late/;
		}
		$latest->{$source} = $next->{$source};
	}
	return $bad;
}

my %in_window;

# no window has more slots than the quota
sub over_quota
{
	my ($what, @slots) = @_;
	my $bad = 0;

	for (@slots)
	{
		$bad++ if ++$in_window{$what}{ int($_ / $window_us) } > $quota;
	}
	return $bad;
}

sub scenario
{
	my ($what, $n, $node, %how) = @_;
	my @kills = $how{only} ? $how{only} : (\&kill_backend, \&kill_all, \&stop_immediate);
	my ($told_in_all, $bad) = (0, 0);
	my %latest;

	for my $round (1 .. $n)
	{
		my $before = $how{before} ? $how{before}->($node) : undef;
		my @load = start_load($node, $how{beside} || $upkeep);
		my $state = $how{during} ? $how{during}->($node) : undef;
		my $kill = $kills[ $round % @kills ];

		$kill->($node);
		my $answers = collect(@load);
		$how{after}->($node, $before, $state) if $how{after};
		$node->start if $kill != \&kill_backend;

		my %next;
		my $now;
		for my $source (sort keys %interval)
		{
			($next{$source}, $now) = split /\|/, $node->safe_psql('postgres', 'SELECT ' . sprintf($us, 'slot_at') . ', ' . sprintf($us, 'clock_timestamp()') . " FROM pacer.book('$source')");
		}
		$bad += violations("$what, round $round", \%latest, $answers, \%next, $now);
		$bad += over_quota($what, @{ $answers->{quota} || [] }, $next{quota});
		$told_in_all += @$_ for values %$answers;
	}
	is($bad, 0, "$what: $n rounds, $told_in_all answers, nothing taken back");
	cmp_ok($told_in_all, '>', 50 * $n, "$what: that was a load");
	is($node->safe_psql('postgres', "SELECT count(*) FROM verify_heapam('pacer.slot')") + $node->safe_psql('postgres', "SELECT count(*) FROM verify_heapam('pacer.source')"), 0, "$what: the tables are sound");
	unlike(slurp_file($node->logfile), qr/PANIC|XX000|invalid page|leak/, "$what: the log has nothing to complain about");
	$node->stop;
	command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], "$what: checksums are right");
	PacerReport::line($what, $n, "$told_in_all answers", $bad);
	return;
}

scenario('kill -9 of a backend, of everything, immediate stop', $rounds, make_node('crash'));
scenario('full_page_writes = off', $few, make_node('fpw', 'full_page_writes = off'));
scenario('wal_level = replica, wal_compression', $few, make_node('replica', 'wal_level = replica', 'max_wal_senders = 2', 'wal_compression = on'));
scenario('wal_level = logical, wal_log_hints', $few, make_node('logical', 'wal_level = logical', 'max_wal_senders = 2', 'wal_log_hints = on'));

# --- the log is cut in the middle of what was being written
#
# Everything that was answered is flushed and lies before the end of the valid log. Behind
# that a crash can leave whatever was on its way: the beginning of a record, or what the
# segment held in its former life.

sub latest_segment
{
	my ($node) = @_;
	my @segments = sort grep { m{/[0-9A-F]{24}$} } glob $node->data_dir . '/pg_wal/*';
	my ($control) = run_command([ 'pg_controldata', $node->data_dir ]);
	my ($redo_file) = $control =~ /REDO WAL file:\s+(\w+)/;

	return ($node->data_dir . "/pg_wal/$redo_file", $control =~ /REDO location:\s+(\S+)/);
}

# the file and the place in it where the valid log ends
sub end_of_log
{
	my ($node) = @_;
	my (undef, $redo) = latest_segment($node);
	my (undef, $complaint) = run_command([ 'pg_waldump', '-q', '-p', $node->data_dir . '/pg_wal', '-s', $redo ]);
	my ($hi, $lo) = $complaint =~ m{(?:at|record at) ([0-9A-F]+)/([0-9A-F]+)[^/]*$} or die "no end of the log: $complaint";
	my $lsn = (hex($hi) << 32) + hex $lo;
	my $size = 16 * 1024 * 1024;
	my $file = sprintf '%s/pg_wal/%08X%08X%08X', $node->data_dir, 1, $lsn / $size / 256, $lsn / $size % 256;

	return ($file, $lsn % $size);
}

sub tear_log
{
	my ($node) = @_;
	my ($file, $end) = end_of_log($node);
	my $page = 8192 - $end % 8192;
	my $cut = $page > 64 ? 24 + int rand($page - 24) : $page;

	return unless -e $file && $end;
	open my $f, '+<:raw', $file or die "$file: $!";
	sysseek $f, $end, 0;
	# what could be the beginning of a record, a whole page of it at most
	syswrite $f, pack('VV', 8000, 1) . join('', map { chr int rand 256 } 9 .. $cut);
	close $f;
	return;
}

scenario('torn end of the log', $few, make_node('tornlog'), only => \&stop_immediate, after => \&tear_log);

# --- a page is half written
#
# A page may be written as soon as the log up to its LSN is flushed. If the machine fails
# meanwhile, one half is new and the other as the last checkpoint left it; the log has the
# whole page since then. So: a copy of the pages at a checkpoint, their images during the
# load, a flush, and at the end files whose pages have the first half of the image and the
# second half of the copy.

sub slot_file
{
	my ($node) = @_;

	return $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('pacer.slot')");
}

sub checkpoint
{
	my ($node) = @_;

	$node->safe_psql('postgres', 'CHECKPOINT');
	return { file => slot_file($node), bytes => slurp_file(slot_file($node)) };
}

sub images
{
	my ($node) = @_;

	sleep 0.1;
	my $pages = $node->safe_psql('postgres',
		"SELECT string_agg(encode(get_raw_page('pacer.slot', n), 'hex'), ' ' ORDER BY n) FROM generate_series(0, pg_relation_size('pacer.slot') / 8192 - 1) AS n(n)");
	$node->safe_psql('postgres', 'CREATE TABLE IF NOT EXISTS flushed (); DROP TABLE flushed');
	return [ map { pack 'H*', $_ } split / /, $pages ];
}

my $torn = 0;

sub tear_pages
{
	my ($node, $checkpoint, $images) = @_;
	my $bytes = slurp_file($checkpoint->{file});

	for my $n (0 .. $#$images)
	{
		my $old = substr $checkpoint->{bytes}, $n * 8192, 8192;

		next if length($old) < 8192 || $old eq $images->[$n] || length($bytes) < ($n + 1) * 8192;
		substr($bytes, $n * 8192, 8192) = substr($images->[$n], 0, 4096) . substr($old, 4096);
		$torn++;
	}
	open my $f, '>:raw', $checkpoint->{file} or die "$checkpoint->{file}: $!";
	print $f $bytes;
	close $f;
	return;
}

scenario('torn page', $few, make_node('tornpage', 'full_page_writes = on', 'checkpoint_timeout = 1h', 'max_wal_size = 8GB'),
	only => \&stop_immediate, beside => $nothing, before => \&checkpoint, during => \&images, after => \&tear_pages);
cmp_ok($torn, '>=', $few, "$torn pages were torn");

done_testing();
