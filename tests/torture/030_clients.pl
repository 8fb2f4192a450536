# Callers that are killed, frozen or cut off while they wait, and many behind a pooler.
#
# Held against what the server saw: a session looks every few milliseconds when the last
# start of each source was. Whatever happens to callers, starts are an interval apart, everybody
# ends within his bounds, a command runs if and only if its pgpacer exits with its status, and no
# place is lost for longer than until its time has come.
#
# PACER_ROUNDS callers' groups that are killed and stopped, as many connections that are cut,
# a tenth of that of servers that are frozen, and each mode of PgBouncer.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use PacerCommand;
use PacerReport;
use PacerSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $rounds = $ENV{PACER_ROUNDS} || 10;
my $bound = $PostgreSQL::Test::Utils::timeout_default;
my $dir = PostgreSQL::Test::Utils::tempdir_short;
my $us = '(extract(epoch FROM %s) * 1000000)::bigint';
my $interval_ms = 150;
my $lanes = 10;    # sources at a time

my $node = PacerSession->node('clients', 'log_statement = none', "listen_addresses = '127.0.0.1'", 'max_connections = 200');
$node->safe_psql('postgres', "SELECT pacer.create_source('s' || n, '$interval_ms ms') FROM generate_series(1, $lanes) n");
PacerCommand->database($node);
$ENV{PGSSLMODE} = 'disable';
$ENV{PGGSSENCMODE} = 'disable';
$ENV{PGCONNECT_TIMEOUT} = 3;
my $me = PacerSession->new($node);

# --- the one who looks

my $looking = "$dir/look.sql";
my $look = 'SELECT name, ' . sprintf($us, 'last_start') . " FROM pacer.status WHERE last_start IS NOT NULL;\nSELECT pg_sleep(0.005) \\g /dev/null\n";
append_to_file($looking, $look x 200_000);

sub start_looking
{
	return IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', $looking ], '<', \undef, '>', "$dir/looked", '2>', '/dev/null');
}

# how many starts there were, and how many too close to the one before
sub stop_looking
{
	my ($looker) = @_;
	my (%start, $n, $bad);

	$looker->signal('TERM');
	IPC::Run::finish($looker);
	open my $f, '<', "$dir/looked" or die $!;
	while (<$f>) { $start{$1}{$2} = 1 if /^(\w+)\|(\d+)$/ }
	($n, $bad) = (0, 0);
	for my $source (keys %start)
	{
		my @in_order = sort { $a <=> $b } keys %{ $start{$source} };

		$n += @in_order;
		for (1 .. $#in_order)
		{
			my $gap = $in_order[$_] - $in_order[ $_ - 1 ];
			next if $gap >= $interval_ms * 1000;
			diag("$source: starts $gap us apart");
			$bad++;
		}
	}
	return ($n, $bad);
}

# until it has ended; its status, or undef if it hangs
sub ends
{
	my ($job, $seconds) = @_;
	my $until = time + $seconds;

	while (eval { $job->{h}->pump_nb; $job->{h}->pumpable })
	{
		if (time > $until)
		{
			$job->{h}->kill_kill;
			return;
		}
		sleep 0.01;
	}
	return finish_it($job);
}

sub run_one
{
	my ($source, $mark, @options) = @_;

	return start_it('pgpacer', 'run', @options, $source, '--', 'sh', '-c', 'echo >> "$1"', 'sh', $mark);
}

# --- killed, and stopped until the slot is past

sub hurt
{
	my $looker = start_looking();
	my ($hung, $blocked, $ran) = (0, 0, 0);
	my $groups = 0;

	while ($groups < $rounds)
	{
		my %group;

		for my $n (1 .. $lanes)
		{
			$group{"s$n"} = [ map { run_one("s$n", "$dir/ran") } 1 .. 4 ];
		}
		$me->poll("SELECT sum(waiting) >= $lanes FROM pacer.status");
		sleep rand 0.1;
		for my $source (keys %group)
		{
			my @job = sort { rand() <=> 0.5 } @{ $group{$source} };

			kill 'KILL', $job[0]{pid};
			kill 'STOP', $job[1]{pid};
		}
		sleep 5 * $interval_ms / 1000;
		kill 'CONT', map { $_->{pid} } map { @$_ } values %group;
		for my $source (sort keys %group)
		{
			$hung += grep { !defined ends($_, $bound) } @{ $group{$source} };
			# the places of those that were killed are past, or soon will be
			$blocked++ if $me->ask("SELECT wait_ms > 6 * $interval_ms FROM pacer.peek('$source')") ne 'f';
			$groups++;
		}
	}
	my ($starts, $bad) = stop_looking($looker);
	is("$hung $blocked $bad", '0 0 0', "callers killed and stopped: $groups groups of 4, $starts starts, nobody hangs, no place is lost, no start too close");
	cmp_ok($starts, '>', $groups, 'that were many');
	PacerReport::line('callers killed with SIGKILL, and stopped past their slot with SIGSTOP', $groups, "$starts starts", $hung + $blocked + $bad);
	return;
}

# --- the network is cut
#
# A proxy between the command and the server, a process of its own, which after a while drops
# the connection, delays every byte or answers nothing.

sub proxy
{
	my ($how, $after) = @_;
	my $listener = IO::Socket::INET->new(Listen => 10, LocalAddr => '127.0.0.1', Proto => 'tcp') or die "listen: $!";
	my $port = $listener->sockport;
	my $pid = fork() // die "fork: $!";

	if ($pid == 0)
	{
		local $SIG{TERM} = sub { POSIX::_exit(0) };
		relay($listener, $how, time + $after);
		POSIX::_exit(0);
	}
	close $listener;
	return ($port, $pid);
}

sub relay
{
	my ($listener, $how, $then) = @_;
	my $all = IO::Select->new($listener);
	my %peer;

	while (1)
	{
		for my $ready ($all->can_read(0.05))
		{
			if ($ready == $listener)
			{
				my $client = $listener->accept or next;
				my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $ENV{PGPORT}, Proto => 'tcp') or next;

				@peer{ $client, $server } = ($server, $client);
				$all->add($client, $server);
				next;
			}
			my $cut = time >= $then;
			my $got = sysread $ready, my $bytes, 65536;

			sleep 0.3 if $cut && $how eq 'delay';
			if (!$got || $cut && $how eq 'drop')
			{
				for my $end ($ready, $peer{$ready})
				{
					$all->remove($end);
					close $end;
				}
				next;
			}
			syswrite $peer{$ready}, $bytes unless $cut && $how eq 'swallow';
		}
	}
}

sub cut
{
	my $looker = start_looking();
	my ($hung, $wrong, $trials) = (0, 0, 0);
	my %status;

	while ($trials < $rounds)
	{
		my @trial;

		for my $n (1 .. $lanes)
		{
			my $how = (qw(drop delay swallow))[ $trials++ % 3 ];
			my ($port, $pid) = proxy($how, rand 0.4);
			my $mark = "$dir/mark.$n";

			unlink $mark;
			# it waits, and asks again over a connection that may be cut by then
			$me->ask("SELECT pacer.advance('s$n', clock_timestamp() + interval '300 ms')");
			push @trial, { how => $how, pid => $pid, mark => $mark, job => run_one("s$n", $mark, '-h', '127.0.0.1', '-p', $port) };
		}
		for my $t (@trial)
		{
			my $status = ends($t->{job}, $bound);

			$hung++ unless defined $status;
			$status{ $status // 'hung' }++;
			# a command ran if and only if pgpacer says so
			$wrong++ if defined $status && ($status == 0) != (-e $t->{mark} ? 1 : 0);
			diag("$t->{how}: status $status, $t->{job}{err}") if defined $status && $status !~ /^(?:0|124|125)$/ && ++$wrong;
			kill 'KILL', $t->{pid};
			waitpid $t->{pid}, 0;
		}
	}
	my ($starts, $bad) = stop_looking($looker);
	is("$hung $wrong $bad", '0 0 0', "connections cut: $trials, nobody hangs, nothing runs without a slot, no start too close");
	PacerReport::line('network dropped, delayed, silent', $trials, join(', ', map { "$status{$_} x exit $_" } sort keys %status), $hung + $wrong + $bad);
	return;
}

# --- the server is frozen

sub processes
{
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	my @all = ($postmaster);

	for my $stat (glob '/proc/[0-9]*/stat')
	{
		open my $f, '<', $stat or next;
		my $line = <$f> // next;
		push @all, $1 if $line =~ /^(\d+) \(.*\) \S (\d+)/ && $2 == $postmaster;
	}
	return @all;
}

sub freeze
{
	my $trials = int(($rounds + 9) / 10);
	my ($hung, $wrong) = (0, 0);

	for my $trial (1 .. $trials)
	{
		my @mark = map { "$dir/frozen.$_" } 1 .. 4;

		unlink @mark;
		my @job = map { run_one('s1', $_) } @mark;
		sleep rand 0.3;
		my @server = processes();
		kill 'STOP', @server;
		sleep rand 0.3;
		kill 'INT', map { $_->{pid} } @job;
		my @status = map { ends($_, 10) } @job;
		kill 'CONT', @server;
		$hung += grep { !defined } @status;
		for (0 .. $#job)
		{
			# a signal after the start is the command's, and leaves its mark
			$wrong++ if defined $status[$_] && $status[$_] == 0 && !-e $mark[$_];
		}
		is($me->ask('SELECT 1'), '1', 'the server goes on');
	}
	is("$hung $wrong", '0 0', "server frozen: $trials times, who is told to stop does");
	PacerReport::line('server frozen with SIGSTOP, callers told to stop', $trials, 4 * $trials . ' callers', $hung + $wrong);
	return;
}

# --- poolers

sub pool
{
	my ($mode, $clients) = @_;
	my ($bouncer) = grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';
	my $folder = "$dir/$mode";
	my $user = getpwuid($<);
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $log = "$PostgreSQL::Test::Utils::log_path/pgbouncer.$mode";

	mkdir $folder;
	append_to_file("$folder/users", qq("$user" ""\n));
	append_to_file("$folder/ini", <<"END");
[databases]
postgres = host=@{[$node->host]} port=@{[$node->port]} user=$user
[pgbouncer]
listen_addr =
listen_port = $port
unix_socket_dir = $folder
logfile = $log
auth_type = any
auth_file = $folder/users
pool_mode = $mode
default_pool_size = 20
max_client_conn = 2500
END
	my $raise = 'ulimit -n $(ulimit -Hn); exec "$@"';
	my $pooler = IPC::Run::start([ 'sh', '-c', $raise, 'sh', $bouncer, '-q', "$folder/ini" ], '<', \undef, '>&', "$log.out");
	my @pgbench = ('pgbench', '-n', '-M', 'simple', '-j', '2', '-h', $folder, '-p', $port);
	my $tries = 10 * $bound;

	sleep 0.1 until $tries-- <= 0 || (run_it('psql', '-XAtq', '-h', $folder, '-p', $port, '-c', 'SELECT 1'))[0] == 0;
	# in session mode a session of the server is kept for as long as the client is there
	my @who = $mode eq 'session' ? ('-C', '-c', 20, '-t', $clients / 10) : ('-c', $clients, '-t', 3);
	$me->ask("SELECT pacer.create_source('$mode', '1 ms', max_waiting => NULL); SELECT pacer.advance('$mode', now() + interval '1 h')");
	my $before = $me->ask("SELECT next_request_at FROM pacer.source_status('$mode')");
	append_to_file("$folder/book.sql", "SELECT * FROM pacer.book('$mode');\n");
	my ($status, $out, $err) = run_it('sh', '-c', $raise, 'sh', @pgbench, @who, '-f', "$folder/book.sql", 'postgres');
	is($status, 0, "PgBouncer, $mode mode: all book") or diag($err);
	my ($n) = $out =~ m{number of transactions actually processed: (\d+)};
	my $bad = 0;

	# as many places as calls, each an interval wide
	$bad++ if $me->ask("SELECT booked = $n AND next_request_at - '$before' = $n * interval '1 ms' FROM pacer.source_status('$mode')") ne 't';
	# what is left on the pool's sessions
	$bad++ if $me->ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") ne '0';
	$bad++ if (run_it('psql', '-XAtq', '-h', $folder, '-p', $port, '-c', "SELECT count(*) FROM pg_settings WHERE name IN ('statement_timeout', 'lock_timeout', 'search_path', 'synchronous_commit') AND source = 'session'"))[1] ne "0\n";
	is($bad, 0, "PgBouncer, $mode mode: $n bookings, as many places, nothing left behind");
	PacerReport::line("PgBouncer in $mode mode, 20 server connections", 1, "$n bookings by $who[ $mode eq 'session' ? 2 : 1 ] clients" . ($mode eq 'session' ? ', a connection each' : ''), $bad);
	$pooler->kill_kill;
	return;
}

hurt();
cut();
freeze();
pool($_, $rounds >= 100 ? 2000 : 200) for qw(session transaction statement);
$me->quit;
$node->stop;
done_testing();
