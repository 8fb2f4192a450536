# 011_verbs.pl - the verbs that steer and show: pause, resume, alter, drop, status, top;
# run --pause-on; awkward names, other encodings, a server that speaks German

use strict;
use warnings;

use Encode ();
use JSON::PP ();
use POSIX ();
use PacerCommand;
use PacerSession;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $tmp = PostgreSQL::Test::Utils::tempdir;

# The names below are in UTF-8, and so is the terminal; Utils.pm has taken LC_ALL away.
$ENV{LC_ALL} = 'C.UTF-8';

# The server may speak German if its locale can be made here, and its translation found.
my $missing = make_german();

sub make_german
{
	my $localedir = qx(pg_config --localedir);
	my ($major) = qx(pg_config --version) =~ /(\d+)/;
	my $from = "/usr/share/locale/de/LC_MESSAGES/postgres-$major.mo";

	chomp $localedir;
	mkdir "$tmp/locale";
	return 'no locale de_DE: localedef or its sources are missing'
	  if system("localedef --no-archive -i de_DE -f UTF-8 $tmp/locale/de_DE.UTF-8 >/dev/null 2>&1") != 0;

	# the tests' copy of PostgreSQL has no translations
	if (!-e "$localedir/de/LC_MESSAGES/postgres-$major.mo" && -e $from)
	{
		system('mkdir', '-p', "$localedir/de/LC_MESSAGES");
		symlink $from, "$localedir/de/LC_MESSAGES/postgres-$major.mo";
	}
	return 'the server has no German translation' unless -e "$localedir/de/LC_MESSAGES/postgres-$major.mo";
	$ENV{LOCPATH} = "$tmp/locale" unless $ENV{LOCPATH};    # before the server starts
	return '';
}

# C.UTF-8 must be found in the same place
delete $ENV{LOCPATH}
  if system("localedef --no-archive -i C -f UTF-8 $tmp/locale/C.UTF-8 >/dev/null 2>&1") != 0
  and $missing = 'no locale C.UTF-8: localedef or its sources are missing';

my $node = PacerSession->node('verbs');
PacerCommand->database($node);

sub value
{
	my ($sql) = @_;

	return $node->safe_psql('postgres', $sql);
}

sub status_of
{
	my ($source, $column) = @_;

	return value("SELECT $column FROM pacer.source_status('$source')");
}

# the command's words for a source that is not there
sub is_unknown
{
	my ($command, $name) = @_;
	my ($out, $err) = status_is($command, 125, "$name: unknown source");

	is($out, '', 'nothing on stdout');
	is($err, qq(pgpacer: source "nowhere" does not exist\n), 'says so');
	return;
}

status_is([qw(pgpacer create quick 1ms)], 0, 'a quick source');
status_is([qw(pgpacer create slow 1h)], 0, 'a slow one');
my $time = qr/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z/;

### pause and resume

my ($out, $err) = status_is([qw(pgpacer pause quick 1h)], 0, 'pause');
like($out, qr/^$time\n$/, 'prints until when');
is($err, '', 'silently');
is(status_of('quick', "paused_until BETWEEN now() + '59 min' AND now() + '1 h'"), 't', 'an hour');
chomp(my $printed = $out);
is(status_of('quick', "paused_until = '$printed'"), 't', 'which is what was printed');
my ($shorter) = status_is([qw(pgpacer pause quick 1ms)], 0, 'a shorter pause');
is($shorter, $out, 'does not shorten it');
status_is([ qw(pgpacer run --try quick -- touch), "$tmp/f" ], 124, 'nothing starts meanwhile');
($out) = status_is([qw(pgpacer pause quick infinity)], 0, 'pause without end');
is($out, "infinity\n", 'prints that');
status_is([ qw(pgpacer run quick -- touch), "$tmp/f" ], 124, 'and nobody waits for it');
($out, $err) = status_is([qw(pgpacer resume quick)], 0, 'resume');
is("$out$err", '', 'says nothing');
is(status_of('quick', 'paused_until IS NULL'), 't', 'ends the pause');
status_is([qw(pgpacer resume quick)], 0, 'resume of what is not paused');
ok(!-e "$tmp/f", 'nothing was started');

# what a Retry-After header holds
($out) = status_is([qw(pgpacer pause quick 120)], 0, 'a number is in seconds');
is(status_of('quick', "paused_until BETWEEN now() + '60 s' AND now() + '120 s'"), 't', 'as in Retry-After');
status_is([qw(pgpacer resume quick)], 0, 'resume');
my $date = POSIX::strftime('%a, %d %b %Y %H:%M:%S GMT', gmtime(time + 3600));
status_is([ qw(pgpacer pause quick), $date ], 0, 'a date');
is(status_of('quick', "paused_until BETWEEN now() + '59 min' AND now() + '3601 s'"), 't', 'is a pause until then');
status_is([qw(pgpacer resume quick)], 0, 'resume');
for my $past ('0', 'Sun, 06 Nov 1994 08:49:37 GMT')
{
	($out) = status_is([ qw(pgpacer pause quick), $past ], 0, "no pause: $past");
	is($out, '', 'prints nothing');
	is(status_of('quick', 'paused_until IS NULL'), 't', 'and does nothing');
}

is_unknown([qw(pgpacer pause nowhere 1s)], 'pause');
is_unknown([qw(pgpacer resume nowhere)], 'resume');
for my $bad ('', 'soon', '-1s', '1x', '1.2.3', '1 s', 'Infinity', '99999999999999999999s', 'Sun, 06 Nov 1994', "$date+1")
{
	status_is([ 'pgpacer', 'pause', '--', 'quick', $bad ], 64, "no time: \"$bad\"");
}
status_is([@$_], 64, "usage: @$_")
  for ([qw(pgpacer pause)], [qw(pgpacer pause quick)], [qw(pgpacer pause quick 1s 2s)], [qw(pgpacer resume)],
	[qw(pgpacer resume quick slow)]);
# what the server can not hold is not cut to what it can
status_is([qw(pgpacer pause quick 106751991d)], 125, 'too long a pause');

### alter

my $all = "concat_ws(',', start_interval, burst, max_waiting, max_wait, quota, quota_window) FROM pacer.source WHERE name =";
($out, $err) = status_is([qw(pgpacer alter slow --interval=2h)], 0, 'alter --interval');
is("$out$err", '', 'says nothing');
is(value("SELECT $all 'slow'"), '02:00:00,1,100', 'and nothing else is changed');
status_is([qw(pgpacer alter --burst 3 --max-waiting 7 slow --max-wait=1d --quota 50/10min)], 0, 'alter the rest');
is(value("SELECT $all 'slow'"), '02:00:00,3,7,24:00:00,50,00:10:00', 'is there');
status_is([qw(pgpacer alter slow --interval 3/s)], 0, 'alter to a rate');
is(value("SELECT $all 'slow'"), '00:00:00.333334,3,7,24:00:00,50,00:10:00', 'rounded up');
status_is([qw(pgpacer alter slow --max-waiting=none --max-wait=none --quota=none --burst=1 --interval=1h)], 0,
	'alter to no bounds');
is(value("SELECT $all 'slow'"), '01:00:00,1', 'there are none');
is_unknown([qw(pgpacer alter nowhere --burst 2)], 'alter');
status_is([@$_], 64, "usage: @$_")
  for ([qw(pgpacer alter)], [qw(pgpacer alter slow)], [qw(pgpacer alter slow 1h)], [qw(pgpacer alter slow --burst 0)],
	[qw(pgpacer alter slow --interval 0)], [qw(pgpacer alter slow --remembered 50)],
	[qw(pgpacer alter slow --quota 5)]);
status_is([qw(pgpacer alter slow --burst 2 --rename), 'x' x 256 ], 125, 'what the server refuses');
is(value("SELECT $all 'slow'"), '01:00:00,1', 'is refused as a whole');

# the schedule stays, whatever the name
status_is([qw(pgpacer book slow)], 0, 'a booking');
my $head = status_of('slow', 'next_request_at');
status_is([qw(pgpacer alter slow --rename slower)], 0, 'alter --rename');
is(status_of('slower', 'next_request_at'), $head, 'keeps the schedule');
status_is([qw(pgpacer alter slower --rename quick)], 125, 'to a name that is taken');
status_is([qw(pgpacer alter slower --rename slow)], 0, 'and back');

### drop

status_is([qw(pgpacer create gone 1s)], 0, 'a source');
($out, $err) = status_is([qw(pgpacer drop gone)], 0, 'drop');
is("$out$err", '', 'says nothing');
is(value("SELECT count(*) FROM pacer.source WHERE name = 'gone'"), 0, 'it is gone');
is_unknown([qw(pgpacer drop nowhere)], 'drop');
status_is([qw(pgpacer drop --if-exists nowhere)], 0, 'unless it need not be there');
status_is([qw(pgpacer drop)], 64, 'usage: drop');

### rights: the verbs of a role that may book, and no more

value('CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA pacer TO app; CREATE ROLE nobody LOGIN');
status_is([ qw(pgpacer -U app), @$_ ], 0, "app may @$_")
  for ([qw(pause quick 1ms)], [qw(resume quick)], [qw(run quick -- true)], [qw(status)], [qw(list)]);
status_is([ qw(pgpacer -U app), @$_ ], 125, "app may not @$_")
  for ([qw(alter quick --burst 2)], [qw(drop quick)], [qw(create other 1s)]);
status_is([ qw(pgpacer -U nobody), @$_ ], 125, "nobody may not @$_")
  for ([qw(pause quick 1s)], [qw(resume quick)], [qw(status)]);
($out, $err) = status_is([qw(pgpacer -d template1 pause quick 1s)], 125, 'a database without pg_pacer');
like($err, qr/^pgpacer: pg_pacer is not installed in this database: /, 'says so');
($out, $err) = status_is([qw(pgpacer -h /nonexistent pause quick 1s)], 125, 'no server');
like($err, qr/^pgpacer: .*nonexistent/, 'says which');
($out, $err) = status_is([qw(pgpacer -q resume nowhere)], 125, '--quiet');
is($err, '', 'is quiet');

### run --pause-on

sub paused { return status_of('quick', "coalesce(paused_until > now() + interval '30 min', false)") }

my @run = qw(pgpacer run --pause-on=3:1h --pause-on 4:infinity quick --);
status_is([ @run, 'true' ], 0, '--pause-on: success');
status_is([ @run, 'sh', '-c', 'exit 5' ], 5, 'another status');
is(paused(), 'f', 'is no reason');
($out) = status_is([ @run, 'sh', '-c', 'echo mine; exit 3' ], 3, 'the status in question');
is($out, "mine\n", 'stdout is still the child\'s alone');
is(paused(), 't', 'pauses the source');
status_is([qw(pgpacer resume quick)], 0, 'resume');
status_is([ @run, 'sh', '-c', 'exit 4' ], 4, 'the other');
is(status_of('quick', 'paused_until'), 'infinity', 'without end');
status_is([qw(pgpacer resume quick)], 0, 'resume');
status_is([ @run, 'sh', '-c', 'kill -9 $$' ], 137, 'a child that is killed');
status_is([ @run, 'sh', '-c', 'kill -TERM $$' ], 143, 'by another signal');
status_is([ @run, '/no/such/file' ], 127, 'no such file');
is(paused(), 'f', 'are no reason');
my ($without) = status_is([ 'env', 'sh', '-c', 'for f in /proc/self/fd/*; do echo "${f##*/}"; done' ], 0,
	'descriptors under env');
my ($with) = status_is([ @run, 'sh', '-c', 'for f in /proc/self/fd/*; do echo "${f##*/}"; done' ], 0,
	'descriptors under --pause-on');
is($with, $without, 'are the same');
($with) = status_is([ 'sh', '-c', "exec @run grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status" ], 0, 'signals of the child');
($without) = status_is([ 'sh', '-c', q(exec grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status) ], 0, 'of any child');
is($with, $without, 'are the same');

my $job = start_it(@run, 'sh', '-c', q(trap 'exit 3' TERM; echo ready; while :; do sleep 0.1; done));
$job->{h}->pump until $job->{out} =~ /ready/;
ok( $node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pgpacer'"),
	'no session while the command runs');
kill 'TERM', $job->{pid};
is(finish_it($job), 3, 'a signal is passed on to the child');
is(paused(), 't', 'whose status still counts');
status_is([qw(pgpacer resume quick)], 0, 'resume');
value("SELECT pacer.create_source('doomed', '1 ms')");
($out, $err) = status_is([ qw(pgpacer run --pause-on=3:1h doomed -- sh -c), 'pgpacer drop doomed; exit 3' ],
	3, 'the status is the child\'s even if the source is gone');
like($err, qr/source "doomed" does not exist/, 'which is said');
status_is([ 'pgpacer', 'run', "--pause-on=$_", qw(quick -- true) ], 64, "no --pause-on: $_")
  for ('', '3', '3:', ':1s', '256:1s', '-1:1s', 'x:1s', '3:0', '3:soon', '0003:1s');

### status --json, and names that need care

my @names = (q(it's), q(a "b"), 'back\\slash', '100%s %n', "two\nlines", "tab\there", '$1; --', 'a,b', "caf\x{e9}",
	"\x{65e5}\x{672c}", 'x' x 63 . 'a', 'x' x 63 . 'b', 'x' x 255, ' ', '--', '{}');
for my $name (map { Encode::encode_utf8($_) } @names)
{
	(my $shown = $name) =~ s/[^ -~]/?/g;
	$shown = substr($shown, 0, 70);
	status_is([ qw(pgpacer create --), $name, '1h' ], 0, "create: $shown");
	($out) = status_is([ qw(pgpacer run --), $name, 'echo', 'on' ], 0, 'starts');
	is($out, "on\n", 'the command');
	status_is([ qw(pgpacer run --try --), $name, 'true' ], 124, 'once');
	($out) = status_is([ qw(pgpacer status --json --), $name ], 0, 'status --json');
	my $json = eval { JSON::PP::decode_json($out) };
	is($json && Encode::encode_utf8($json->[0]{source}), $name, 'is JSON with the name');
	is($json && @$json, 1, 'of this source alone');
	my $hex = unpack('H*', $name);
	is(value("SELECT booked FROM pacer.status WHERE name = convert_from('\\x$hex', 'UTF8')"), 1, 'it is the name in the server, uncut');
}
($out) = status_is([qw(pgpacer status --json)], 0, 'status --json of all');
is(scalar @{ JSON::PP::decode_json($out) }, value('SELECT count(*) FROM pacer.source'), 'has them all');
($out) = status_is([qw(pgpacer list)], 0, 'list');
is(scalar(() = $out =~ /\n/g), 1 + value('SELECT count(*) FROM pacer.source'), 'has a line for each');
like($out, qr/^two\\nlines /m, 'in which no control character is left');
status_is([ 'pgpacer', 'create', '', '1s' ], 125, 'an empty name is refused');
status_is([ 'pgpacer', 'create', 'x' x 256, '1s' ], 125, 'and one that is too long');
status_is([ 'pgpacer', 'run', 'x' x 256, '--', 'true' ], 125, 'which is not cut either');
status_is([ 'pgpacer', 'create', "bad\xff", '1s' ], 125, 'nor is one of another encoding taken');
status_is([ 'pgpacer', 'drop', '--', $_ ], 0, 'drop') for map { Encode::encode_utf8($_) } @names;

### a database in LATIN1, clients in UTF-8 and in LATIN1

value(q(CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'));
$node->safe_psql('latin', 'CREATE EXTENSION pg_pacer');
{
	local $ENV{PGDATABASE} = 'latin';
	status_is([ qw(pgpacer create), "caf\xc3\xa9", '1h' ], 0, 'made by a UTF-8 client');
	is($node->safe_psql('latin', q(SELECT encode(convert_to(name, 'LATIN1'), 'hex') FROM pacer.source)), '636166e9',
		'in the encoding of the database');
	local $ENV{PGCLIENTENCODING} = 'LATIN1';
	status_is([ qw(pgpacer run), "caf\xe9", 'true' ], 0, 'booked by a LATIN1 client');
	delete local $ENV{PGCLIENTENCODING};
	status_is([ qw(pgpacer run --try), "caf\xc3\xa9", 'true' ], 124, 'the same source');
	status_is([ qw(pgpacer run --dsn client_encoding=LATIN1 --try), "caf\xe9", 'true' ], 124, 'named by an option, too');
	($out) = status_is([qw(pgpacer list --csv)], 0, 'listed');
	like($out, qr/^caf\xc3\xa9,/m, 'for the terminal');
	status_is([ qw(pgpacer run), "\xe6\x97\xa5", 'true' ], 125, 'what the database cannot hold');
	local $ENV{LC_ALL} = 'C';
	status_is([ qw(pgpacer run --try), "caf\xe9", 'true' ], 124, 'a client without an encoding');
}

### what the manual offers to be pasted

mkdir "$tmp/bin";
append_to_file("$tmp/bin/curl", "#!/bin/sh\nprintf '%s' \"\$ANSWER\"\n");
append_to_file("$tmp/bin/call", "#!/bin/sh\necho called\n");
chmod 0755, "$tmp/bin/curl", "$tmp/bin/call";
{
	local $ENV{PATH} = "$tmp/bin:$ENV{PATH}";
	my $retry_after = <<'END';
curl -sS -o item -w "%{http_code} %header{retry-after}" "$1" |
{ read -r code after
  case $code in 2??) exit 0 ;; esac
  [ "$code" != 429 ] || pgpacer pause api "${after:-30}"
  exit 1; }
END

	status_is([qw(pgpacer create api 1ms)], 0, 'a source');
	for (
		[ '200 ', 0, 'false' ],
		[ '500 ', 1, 'false' ],
		[ '429 7200', 1, q(api BETWEEN now() + '119 min' AND now() + '2 h') ],
		[ "429 $date", 1, q(api BETWEEN now() + '50 min' AND now() + '61 min') ],
		[ '429 ', 1, q(api BETWEEN now() + '20 s' AND now() + '30 s') ],
	)
	{
		my ($answer, $status, $until) = @$_;
		local $ENV{ANSWER} = $answer;
		(my $condition = $until) =~ s/^api/paused_until/;

		status_is([ qw(pgpacer run api -- sh -c), $retry_after, 'sh', 'url' ], $status, "curl answers $answer");
		is(status_of('api', "coalesce($condition, false)"), $until eq 'false' ? 'f' : 't', 'everybody obeys');
		status_is([qw(pgpacer resume api)], 0, 'resume');
	}

	my $reenter = <<'END';
slot=$(pgpacer book --key="$1" "$2") || exit
set -- $slot "$@"
[ "$3" != 0.000000 ] || exec call
[ "${3%.*}" -lt 20 ] || exit 75
exec pgpacer run --key="$4" "$5" -- call
END
	my @call = ('sh', '-c', $reenter, 'sh');

	status_is([qw(pgpacer create quarter 250ms)], 0, 'a source');
	status_is([qw(pgpacer create minute 1min)], 0, 'another');
	($out) = status_is([ @call, 'job 1', 'quarter' ], 0, 're-entry: at once');
	is($out, "called\n", 'called');
	is(status_of('quarter', 'booked'), 1, 'with one slot');
	value(q(SELECT pacer.advance('quarter', clock_timestamp() + '1 s')));
	($out) = status_is([ @call, 'job 2', 'quarter' ], 0, 're-entry: a short wait');
	is($out, "called\n", 'called');
	is(status_of('quarter', 'booked'), 2, 'with one slot');
	status_is([ @call, "job $_", 'minute' ], $_ == 1 ? 0 : 75, "re-entry: $_") for 1, 2, 2;
	is(status_of('minute', 'waiting'), 1, 'a long wait keeps one slot');
}

### completion

sub completes
{
	my @words = @_;
	my $ask = <<'END';
. client/pgpacer.bash
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_pgpacer
printf '%s\n' "${COMPREPLY[@]}"
END
	my ($status, $words) = run_it('bash', '-c', $ask, 'bash', @words);

	return join(',', split(/\n/, $words));
}

is(completes('pgpacer', 'r'), 'run,release,resume', 'completion of verbs');
is(completes('pgpacer', 'pause', 'q'), 'quarter,quick', 'of sources');
is(completes('pgpacer', '-d', 'latin', 'pause', 'q'), '', 'in the database named');
is(completes('pgpacer', 'alter', 'quick', '--r'), '--rename=', 'of options');
is(completes('pgpacer', 'top', '--'), '--host=,--port=,--username=,--dbname=,--quiet,--help,--every=,--count=',
	'of those that the verb has');
like(completes('pgpacer', 'run', 'quick', 'tru'), qr/\btrue\b/, 'of commands');

### top

status_is([qw(pgpacer create full 1h --max-waiting 4)], 0, 'a source');
status_is([qw(pgpacer book full)], 0, 'booked') for 1 .. 3;
($out) = status_is([qw(pgpacer top --count=2 --every=50ms)], 0, 'top without a terminal');
my @looks = split /\n\n/, $out;
is(scalar @looks, 2, 'prints as many tables as asked for');
like($looks[$_], qr/\AWAITING QUEUE +NEXT +LIMIT +RATE +REFUSED +\/s  SOURCE\n      2 #####\.\.\.\.\. +1\.\d h |^ +2 #####\.\.\.\.\. /m,
	'with the bar of a queue') for 0, 1;
like($looks[1], qr/ 1\/h +\S+ +0 +0  full$/m, 'the limit and the name');
like($looks[1], qr/ now +1000\/s /m, 'and what can start now');
my $booker = start_it('sh', '-c', 'while :; do pgpacer wait quick; pgpacer wait -q --try full; done');
$job = start_it(qw(pgpacer top --every=200ms));
$job->{h}->pump until $job->{out} =~ /^ .* [1-9][\d.]*\/s +\d+ +[\d.]+  quick$/m && $job->{out} =~ /[1-9] +[1-9][\d.]*  full$/m;
pass('bookings and refusals per second');
kill 'INT', $job->{pid};
is(finish_it($job), 130, 'goes on until it is interrupted');
kill 'TERM', $booker->{pid};
finish_it($booker);
status_is([@$_], 64, "usage: @$_")
  for ([qw(pgpacer top quick)], [qw(pgpacer top --every=1ms)], [qw(pgpacer top --every=soon)], [qw(pgpacer top --count=0)]);
status_is([qw(pgpacer top -d template1)], 125, 'top without pg_pacer');

SKIP:
{
	my ($linked) = run_it('sh', '-c', 'ldd "$(command -v pgpacer)" | grep -q ncurses');
	my $pty = eval { require IO::Pty; 1 };

	skip 'the command was built without ncurses', 4 if $linked != 0;
	skip 'no IO::Pty to make a terminal', 4 unless $pty;
	local $ENV{TERM} = 'xterm';
	for my $end ([ 'q', 0 ], [ "\003", 130 ])
	{
		my ($in, $screen) = ('', '');
		my $h = IPC::Run::start([qw(pgpacer top)], '<pty<', \$in, '>pty>', \$screen,
			IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));

		$h->pump until $screen =~ /q quits/ && $screen =~ /full/;
		$in .= $end->[0];
		$h->finish;
		is(PacerCommand::status(), $end->[1], 'a screen, ended by ' . ($end->[1] ? 'an interrupt' : 'q'));
		like($screen, qr/\e\[\?1049l/, 'leaves the terminal as it was');
	}
}

### a server that speaks German: statuses do not depend on words

SKIP:
{
	skip $missing, 10 if $missing;
	value(q(ALTER SYSTEM SET lc_messages = 'de_DE.UTF-8'));
	$node->reload;
	ok($node->poll_query_until('postgres', q(SELECT current_setting('lc_messages') = 'de_DE.UTF-8')), 'the server is told');
	my (undef, undef, $said) = $node->psql('postgres', 'SELECT 1/0');
	like($said, qr/Division durch Null/, 'and speaks German');
	value(q(UPDATE pacer.source SET max_waiting = 0 WHERE name = 'full'));
	status_is([qw(pgpacer run full -- true)], 124, 'queue full');
	status_is([qw(pgpacer run nowhere -- true)], 125, 'unknown source');
	status_is([qw(pgpacer pause nowhere 1s)], 125, 'unknown source to pause');
	status_is([qw(pgpacer drop --if-exists nowhere)], 0, 'unknown source to drop');
	status_is([qw(pgpacer -U stranger run quick -- true)], 125, 'a role that does not exist');
	status_is([qw(pgpacer -d nowhere run quick -- true)], 125, 'nor does the database');
	# a good connection string is tried once: authentication is no reason to try again
	my $start = time;
	status_is([qw(pgpacer -U stranger --database-wait=30s run quick -- true)], 125, 'a wrong role, with --database-wait');
	cmp_ok(time - $start, '<', 20, 'is known for what it is');
}

$node->stop;
done_testing();
