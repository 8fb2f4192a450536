# confirm(): starts stay apart however late the callers wake, whoever is forgotten, whatever crashes
#
# A start takes place at an instant of confirm()'s own, on the server's clock. It is known
# between two readings of that clock, and exactly where status.last_start lies between them.
use strict;
use warnings;
use PacerSession;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PacerSession->node('confirm');
my $me = PacerSession->new($node);

# a caller that waits for its slot, is late by up to so many seconds, and confirms until it may start
$me->ask(<<'END');
CREATE TABLE start (source text, who text, slot_at timestamptz, asked int, before timestamptz, after timestamptz, exact timestamptz);
CREATE FUNCTION sleep(wait interval) RETURNS void LANGUAGE sql AS 'SELECT pg_sleep(extract(epoch FROM $1))';
CREATE FUNCTION start_on(b pacer.booking, who text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	before timestamptz;
	after timestamptz;
	wait interval;
	asked int := 0;
BEGIN
	LOOP
		before := clock_timestamp();
		wait := pacer.confirm(b);
		after := clock_timestamp();
		asked := asked + 1;
		EXIT WHEN wait = '0';
		PERFORM sleep(wait);
	END LOOP;
	INSERT INTO start SELECT b.source, who, b.slot_at, asked, before, after, last_start
		FROM pacer.source_status(b.source);
END $$;
CREATE FUNCTION caller(source text, rounds int, late float) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	b pacer.booking;
BEGIN
	FOR i IN 1 .. rounds LOOP
		b := pacer.book(source);
		IF b.wait > '0' THEN
			PERFORM sleep(b.wait);
			PERFORM pg_sleep(random() * late);
		END IF;
		IF b.wait = '0' THEN
			INSERT INTO start VALUES (source, i, b.slot_at, 0, b.slot_at, b.slot_at, b.slot_at);
		ELSE
			PERFORM start_on(b, i::text);
		END IF;
	END LOOP;
END $$;
END
is($me->error, '', 'set up');

# of any k + 1 starts, the last cannot have been less than k intervals after the first
sub are_apart
{
	my ($source, $interval, $count, $what) = @_;

	is($me->ask("SELECT count(*) FROM start WHERE source = '$source'"), $count, "$what: all start");
	is($me->ask(<<"END"), '', "$what: apart");
WITH s AS (SELECT before, after, row_number() OVER (ORDER BY before) AS a, row_number() OVER (ORDER BY after) AS b FROM start WHERE source = '$source')
SELECT x.before, y.after FROM s x, s y WHERE y.b > x.a
	AND (SELECT count(*) - 1 FROM s z WHERE z.before >= x.before AND z.after <= y.after) * interval '$interval' > y.after - x.before
END
	is($me->ask(<<"END"), '0', "$what: also to the microsecond");
SELECT count(*) FROM (SELECT exact - lag(exact) OVER (ORDER BY exact) AS gap FROM start WHERE source = '$source' AND exact BETWEEN before AND after) g
	WHERE gap < '$interval'
END
	is($me->ask("SELECT count(*) FROM start WHERE source = '$source' AND after < slot_at"), '0', "$what: nobody early");
}

# --- several processes that wake late

$me->ask("SELECT pacer.create_source('late', '40 ms')");
my @session = map { PacerSession->new($node) } 1 .. 6;
$_->send("SELECT caller('late', 6, 0.15)") for @session;
is(join('', map { $_->result; $_->error } @session), '', 'late callers: no error');
are_apart('late', '40 ms', 36, 'late callers');
is($me->ask("SELECT confirmed + (SELECT count(*) FROM start WHERE source = 'late' AND asked = 0) FROM pacer.source_status('late')"), '36',
	'late callers: each start is recorded once');
cmp_ok($me->ask("SELECT late FROM pacer.source_status('late')"), '>', 0, 'late callers: there were some');

# --- more of them than the row remembers

$me->ask("SELECT pacer.create_source('many', '40 ms', remembered => 4, max_waiting => NULL)");
$_->send("SELECT caller('many', 4, 0.05)") for @session;
is(join('', map { $_->result; $_->error } @session), '', 'more than remembered: no error');
are_apart('many', '40 ms', 24, 'more than remembered');

$me->ask("SELECT pacer.create_source('line', '20 ms', remembered => 4, max_waiting => NULL)");
$me->ask("CREATE TABLE line AS SELECT row_number() OVER () AS n, b FROM (SELECT pacer.book('line') AS b FROM generate_series(1, 20)) l");
is($me->ask("SELECT waiting > 4 FROM pacer.source_status('line')"), 't', 'a line longer than remembered: all are counted');
$me->ask("SELECT pg_sleep(0.4)");
$me->ask("SELECT start_on(b, n::text) FROM line WHERE n > 1 ORDER BY n");
is($me->error, '', 'a line longer than remembered: no error');
are_apart('line', '20 ms', 19, 'a line longer than remembered');
is($me->ask("SELECT array_agg(who ORDER BY before) = array_agg(who ORDER BY who::int) FROM start WHERE source = 'line'"), 't',
	'a line longer than remembered: in order');

# --- all late at once: who asks first is assigned the first place, and finds it kept

$me->ask("SELECT pacer.create_source('fifo', '100 ms')");
$me->ask("CREATE TABLE fifo AS SELECT row_number() OVER () AS n, b FROM (SELECT pacer.book('fifo') AS b FROM generate_series(1, 7)) f");
$me->ask("SELECT pg_sleep(0.8)");
my @order = (4, 2, 7, 3, 6, 5);
my @wait = map { $me->ask("SELECT extract(epoch FROM pacer.confirm(b)) FROM fifo WHERE n = $_") } @order;
cmp_ok($wait[0], '==', 0, 'all late: the first to ask may start');
for my $i (1 .. $#order)
{
	$session[$i - 1]->send("SELECT pg_sleep($wait[$i]); SELECT start_on(b, n::text) FROM fifo WHERE n = $order[$i]");
}
$session[$_ - 1]->result for 1 .. $#order;
is($me->ask("SELECT string_agg(who, ' ' ORDER BY before) FROM start WHERE source = 'fifo'"), '2 7 3 6 5', 'all late: the others in the order of asking');
are_apart('fifo', '100 ms', 5, 'all late');
cmp_ok($me->ask("SELECT max(asked) FROM start WHERE source = 'fifo'"), '<=', 2, 'all late: with two more questions at most');

# an immediate booking does not get in between
$me->ask("SELECT pacer.create_source('between', '300 ms')");
my @held = split /\n/, $me->ask("SELECT pacer.book('between') FROM generate_series(1, 2)");
$me->ask("SELECT pg_sleep(0.7)");
is($me->ask("SELECT pacer.confirm('$held[1]'::pacer.booking)"), '00:00:00', 'a late start');
is($me->ask("SELECT b.slot_at >= s.last_start + interval '300 ms' FROM pacer.source_status('between') s, LATERAL (SELECT * FROM pacer.book('between') WHERE s.name IS NOT NULL) b"),
	't', 'the booking after it is an interval away');

# --- a crash: who holds a slot starts on it, in order, and nobody is refused

my %line;
for my $source ('crash', 'burst')
{
	$me->ask("SELECT pacer.create_source('$source', '100 ms', burst => " . ($source eq 'burst' ? 3 : 1) . ")");
	$me->ask("SELECT pacer.advance('$source', clock_timestamp() + interval '5 s')");
	$line{$source} = [ split /\n/, $me->ask("SELECT pacer.book('$source') FROM generate_series(1, 6)") ];
}
$_->quit for @session;
$node->stop('immediate');
$me->quit;
$node->start;
$me = PacerSession->new($node);
@session = map { PacerSession->new($node) } 1 .. 12;
my $in_time = $me->ask("SELECT bool_and((b::pacer.booking).slot_at > clock_timestamp()) FROM unnest('{" .
	join(',', map { s/"/\\"/gr =~ s/(.*)/"$1"/r } @{ $line{crash} }, @{ $line{burst} }) . "}'::text[]) b") eq 't';

my %other = map { $_ => $me->ask("SELECT pacer.book('$_')") } sort keys %line;
my @free = @session;
for my $source (sort keys %line)
{
	# asked in the reverse order
	my $n = @{ $line{$source} };
	(shift @free)->send("SELECT start_on('$_', '" . $n-- . "')") for reverse @{ $line{$source} };
}
is(join('', map { $_->result; $_->error } @session), '', 'crash: nobody is refused');
for my $source (sort keys %line)
{
	is($me->ask("SELECT ('$other{$source}'::pacer.booking).slot_at >= ('$line{$source}[-1]'::pacer.booking).slot_at + interval '100 ms'"), 't',
		"crash, $source: a new booking comes behind those that were told");
	is($me->ask("SELECT count(*) FROM start WHERE source = '$source' AND after < slot_at"), '0', "crash, $source: none early");
	are_apart($source, '100 ms', 6, "crash, $source") if $source eq 'crash';
  SKIP:
	{
		skip 'the server took longer to start than the first one had to wait', 1 unless $in_time;
		is($me->ask("SELECT string_agg(who, ' ' ORDER BY before) FROM start WHERE source = '$source'"), '1 2 3 4 5 6', "crash, $source: in order");
	}
	isnt($me->ask("SELECT pacer.release('$other{$source}'::pacer.booking)"), 'unknown', "crash, $source: what is booked after it is remembered");
}

$_->quit for @session, $me;
$node->stop;
done_testing();
