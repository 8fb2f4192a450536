# Many at once, and many errors: what is admitted is exact, nothing is left behind
use strict;
use warnings;
use PacerSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = PacerSession->node('errors', 'log_statement = none', 'log_min_messages = warning');
my $me = PacerSession->new($node);
my $dir = PostgreSQL::Test::Utils::tempdir;
my $files = 0;

# Runs a script in so many sessions at once; they begin when all are connected.
sub at_once
{
	my ($clients, $script, %more) = @_;
	my $file = "$dir/script." . ++$files;
	my ($out, $err);

	append_to_file($file, $script);
	my $ok = IPC::Run::run(
		[ 'pgbench', '-n', '-c', $clients, '-j', 2, '-t', $more{times} // 1, '-M', $more{protocol} // 'simple', '-D', 'n=0', '--max-tries', $more{tries} // 1, '-f', $file, $node->connstr('postgres') ],
		'<', \undef, '>', \$out, '2>', \$err, init => sub { $ENV{PGOPTIONS} = $more{options} if $more{options} },
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	# a failure to serialize is no error to pgbench
	ok($ok && $err !~ /error|abort/i && $out =~ /^number of failed transactions: 0 /m, $more{name}) or diag("$out$err");
	return;
}

$me->ask('CREATE TABLE got (source text, ticket bigint, slot_at timestamptz, wait interval, wait_ms float8, at timestamptz DEFAULT clock_timestamp())');

# --- A18: exactly so many are admitted

for my $protocol ('simple', 'extended', 'prepared')
{
	my $s = "line_$protocol";

	$me->ask("SELECT pacer.create_source('$s', '10 s', max_waiting => 10)");
	at_once(50, "INSERT INTO got SELECT * FROM pacer.try_book('$s', max_wait => NULL);\n", name => "50 callers, $protocol", protocol => $protocol);
	is($me->ask("SELECT count(*) FILTER (WHERE wait = '0'), count(ticket), count(*) FROM got WHERE source = '$s'"), '1|11|50', 'one at once, ten wait, 39 are refused');
	is($me->ask("SELECT array_agg(extract(epoch FROM slot_at - first)::int ORDER BY slot_at) FROM (SELECT slot_at, min(slot_at) OVER () AS first FROM got WHERE source = '$s' AND ticket IS NOT NULL) t"),
		'{0,10,20,30,40,50,60,70,80,90,100}', 'ten seconds apart');
	is($me->ask("SELECT booked, refused, waiting FROM pacer.source_status('$s')"), '11|39|10', 'as status has it');
	is($me->ask("SELECT next_request_at - (SELECT min(slot_at) FROM got WHERE source = '$s') FROM pacer.source_status('$s')"), '00:01:50', 'the head is behind eleven');
	is($me->ask("SELECT count(DISTINCT ticket) FROM got WHERE source = '$s'"), '11', 'tickets differ');
}

$me->ask("SELECT pacer.create_source('none', '10 s', max_waiting => 0)");
at_once(50, "INSERT INTO got SELECT * FROM pacer.try_book('none', max_wait => NULL);\n", name => '50 callers, none may wait');
is($me->ask("SELECT count(ticket), count(*) FROM got WHERE source = 'none'"), '1|50', 'one is admitted');

# many on a row that is written without a record most of the time
$me->ask("SELECT pacer.create_source('fast', '1 ms', max_waiting => NULL)");
at_once(20, "INSERT INTO got SELECT * FROM pacer.book('fast');\nSELECT pacer.nextslot('fast');\n", times => 100, name => '20 callers, 4000 slots');
is($me->ask("SELECT count(*), bool_and(gap >= interval '1 ms') FROM (SELECT slot_at - lag(slot_at) OVER (ORDER BY slot_at) AS gap FROM got WHERE source = 'fast') t"), '2000|t', 'none twice, none too close');
is($me->ask("SELECT booked FROM pacer.source_status('fast')"), '4000', 'all are counted');

# --- A03: two release one ticket at the same instant, over and over

$me->ask("SELECT pacer.create_source('twice', '1 h', max_waiting => NULL, remembered => 200); SELECT pacer.book('twice')");
$me->ask("CREATE TABLE held AS SELECT row_number() OVER () AS n, ticket FROM (SELECT (pacer.book('twice')).* FROM generate_series(1, 100)) b; CREATE TABLE outcome (n int, outcome text)");
at_once(8, <<'END', times => 100, name => '8 sessions release the same 100 tickets');
\set n :n + 1
INSERT INTO outcome SELECT n, pacer.release('twice', ticket) FROM held WHERE n = :n;
END
is($me->ask("SELECT outcome, count(*), count(DISTINCT n) FROM outcome GROUP BY 1 ORDER BY 1"), "released|100|100\nunknown|700|100", 'one of the eight gives a slot back, each time');
is($me->ask("SELECT released FROM pacer.source_status('twice')"), '100', 'and status has it so');

# --- B06: a stricter isolation level as the default

for my $level ('repeatable read', 'serializable')
{
	my $s = $level =~ s/ /_/r;

	$me->ask("SELECT pacer.create_source('$s', '1 s', max_waiting => NULL, remembered => 200)");
	at_once(20, <<"END", times => 25, name => "20 sessions book and release, $level", options => '-c default_transaction_isolation=' . $level =~ s/ /\\ /r);
BEGIN;
SELECT 1 FROM pg_class LIMIT 1;
SELECT ticket FROM pacer.book('$s') \\gset
SELECT pacer.release('$s', :ticket);
SELECT pacer.book('$s');
END;
END
	is($me->ask("SELECT booked, next_request_at - last_start >= interval '500 s' FROM pacer.source_status('$s')"), '1000|t', 'all are booked');
}

# --- the configuration changes all the time: a look-up must not miss the row between its versions

$me->ask("SELECT pacer.create_source('busy', '1 us', max_waiting => NULL)");
at_once(8, <<'END', times => 150, name => 'bookings while the source is updated');
UPDATE pacer.source SET burst = 1 + (random() * 5)::int WHERE name = 'busy' AND :client_id < 2;
SELECT pacer.book('busy');
SELECT pacer.nextslot('busy');
SELECT name FROM pacer.source_status('busy');
END

# --- creation is safe to race

$me->ask('CREATE TABLE made (n int, made boolean)');
for my $level ('read committed', 'repeatable read', 'serializable')
{
	my $s = 'race ' . $level;

	# creating is part of its transaction, which the server may fail to serialize at its commit; then
	# pgbench begins the script anew, with its variables as they are
	at_once(20, <<"END", times => 30, tries => $level eq 'serializable' ? 20 : 1, name => "20 sessions make 30 sources, $level", options => '-c default_transaction_isolation=' . $level =~ s/ /\\ /r);
SELECT pacer.create_source('$s' || :n, '1 h', if_not_exists => true) AS made \\gset
SELECT pacer.book('$s' || :n);
\\set n :n + 1
END
	is($me->ask("SELECT count(*), sum(booked), count(DISTINCT booked) FROM pacer.status WHERE name LIKE '$s%'"), '30|600|1', 'each once, and everyone booked it');
}
# without if_not_exists the losers get one documented error
my @one = map { PacerSession->new($node) } 1 .. 10;
$_->send("SELECT pacer.create_source('only once', '1 s')") for @one;
my %answer;
for (@one)
{
	my $answer = $_->result;
	$answer = $1 if $_->error =~ /ERROR:  (\w+: .*)/;
	$answer{$answer}++;
}
is_deeply(\%answer, { t => 1, '42710: source "only once" already exists' => 9 }, 'one makes it, nine are told that it exists');
$_->quit for @one;
is($me->ask('SELECT count(*) = (SELECT count(*) FROM pacer.source) FROM pacer.slot'), 't', 'each source has one state');

# --- pacer.status after rows have come and gone (dead index entries)

at_once(1, <<'END', times => 50, name => 'sources come and go');
\set n :n + 1
SELECT pacer.create_source('come ' || :n, '1 s');
UPDATE pacer.source SET burst = 2 WHERE name = 'come ' || :n;
SELECT pacer.drop_source('come ' || (:n - 1)) WHERE :n > 1;
END
is(PacerSession->new($node)->ask("SELECT count(*) > 100, count(*) FILTER (WHERE name LIKE 'come %') FROM pacer.status"), 't|1', 'status lists those that are there') for 1 .. 3;

# --- B14: errors while locks are held, in one session, over and over

my $s = PacerSession->new($node);
my $blocker = PacerSession->new($node);
$me->ask(<<'END');
SELECT pacer.create_source('e', '1 h', max_waiting => NULL);
SELECT pacer.create_source('endless', '2000000000 hours');
SELECT pacer.book('endless');
SELECT pacer.create_source('full', '1 h', max_waiting => 0);
SELECT pacer.book('full');
SELECT pacer.book('e');
END
$s->ask("SELECT pacer.book('e')");    # it knows the row
# what one session remembers, after the first time
my $memory = 'SELECT sum(total_bytes) FROM pg_backend_memory_contexts';
my $rounds = 300;
my ($before, %seen);

for my $round (1 .. $rounds)
{
	my $ticket = $s->ask("SELECT ticket FROM pacer.book('e')");
	my @errors = (
		"SELECT pacer.book('nobody')", "SELECT pacer.book('endless')", "SELECT pacer.book('full')", "SELECT pacer.book('e', 0)", "SELECT pacer.book(NULL)",
		"SELECT pacer.release('nobody', 1)", "SELECT pacer.book('endless', 2)", "BEGIN READ ONLY; SELECT pacer.book('e'); ROLLBACK");

	$s->ask(join ';', @errors);
	$seen{$_}++ for $s->error =~ /ERROR:  (\w+):/g;
	my $answers = join ' ', map { $s->ask("SELECT pacer.release('e', $ticket)") } 1 .. 2;
	$seen{$answers}++;
	$before = $s->ask($memory) if $round == 20;
}
is_deeply(\%seen,
	{ '42704' => 2 * $rounds, '22008' => 2 * $rounds, PC001 => $rounds, '22023' => $rounds, '22004' => $rounds, '25006' => $rounds, 'released unknown' => $rounds },
	"$rounds rounds of errors, each as it should be") or diag explain \%seen;
cmp_ok($s->ask($memory), '<=', $before, 'the session has not grown');
is($me->ask("SELECT next_request_at - last_start FROM pacer.source_status('e')"), '02:00:00', 'nothing is left on the schedule');

# cancelled while it waits for the one lock that can delay it: the owner's on the whole table
for my $round (1 .. 20)
{
	$blocker->ask('BEGIN; LOCK TABLE pacer.slot IN ACCESS EXCLUSIVE MODE');
	$s->send($round % 2 ? "SELECT pacer.book('e')" : "SELECT pacer.nextslot('e')");
	$me->poll("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = " . $s->pid) or die 'does not wait';
	$me->ask('SELECT pg_cancel_backend(' . $s->pid . ')');
	$s->result;
	$seen{cancelled}++ if $s->error =~ /ERROR:  57014:/;
	$blocker->ask('ROLLBACK');
}
is($seen{cancelled}, 20, 'cancelled 20 times while blocked');
is($me->ask("SELECT next_request_at - last_start FROM pacer.source_status('e')"), '02:00:00', 'none of them booked');
is($s->ask("SELECT wait > '0' FROM pacer.book('e')"), 't', 'the session books');

# lock_timeout, and terminated while blocked
$blocker->ask('BEGIN; LOCK TABLE pacer.slot IN ACCESS EXCLUSIVE MODE');
$s->ask("SET lock_timeout = '20ms'; SELECT pacer.book('e')");
like($s->error, qr/ERROR:  55P03:/, 'lock_timeout is heeded');
$s->ask('RESET lock_timeout');
$s->send("SELECT pacer.book('e')");
$me->poll("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = " . $s->pid) or die 'does not wait';
$me->ask('SELECT pg_terminate_backend(' . $s->pid . ')');
$s->result;
like($s->error, qr/FATAL:  57P01:/, 'terminated');
$blocker->ask('ROLLBACK');
is($me->ask("SELECT wait > '0' FROM pacer.book('e')"), 't', 'others book');

# --- opposite orders cannot be a deadlock: nothing is held

$me->ask("SELECT pacer.create_source('left', '1 us', max_waiting => NULL); SELECT pacer.create_source('right', '1 us', max_waiting => NULL)");
at_once(10, <<'END', times => 100, name => 'two sources in both orders, in transactions');
\set first :client_id % 2
BEGIN;
SELECT pacer.book(CASE WHEN :first = 0 THEN 'left' ELSE 'right' END);
SELECT pacer.book(CASE WHEN :first = 0 THEN 'right' ELSE 'left' END);
END;
END

# --- a held snapshot and an uncommitted UPDATE of the source: no row gets a second version

$me->ask("SELECT pacer.create_source('old', '1 us', max_waiting => NULL)");
$blocker->ask('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pacer.source');
$s = PacerSession->new($node);
$s->ask("BEGIN; UPDATE pacer.source SET burst = 2 WHERE name = 'old'");
my $size = $me->ask("SELECT pg_relation_size('pacer.slot')");
at_once(8, "SELECT pacer.book('old');\n", times => 1000, protocol => 'prepared', name => '8000 bookings under a held snapshot');
is($me->ask("SELECT booked FROM pacer.source_status('old')"), '8000', 'each counts');
is($me->ask("SELECT pg_relation_size('pacer.slot') - $size"), '0', 'the table does not grow');
$blocker->ask('COMMIT');
$s->ask('ROLLBACK');
$s->quit;
ok($me->poll("SELECT n_tup_upd = 0 FROM pg_stat_user_tables WHERE relid = 'pacer.slot'::regclass"), 'and nothing in it was updated, so nothing is to be vacuumed');

# --- nothing is left behind

is($me->ask("SELECT count(*) FROM pg_locks WHERE pid <> pg_backend_pid() AND (locktype = 'advisory' OR relation::regclass::text LIKE 'pacer.%')"), '0', 'no lock is left');
my $log = slurp_file($node->logfile);
unlike($log, qr/WARNING|leak|PANIC|XX000|terminated by signal/, 'the log has nothing to complain about');

done_testing();
