# sslmode=require: every connection asks for TLS before it says anything else, the one
# that cancels too where libpq can do that (17 and later)
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use PacerCommand;
use PacerSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'no openssl' unless grep { -x "$_/openssl" } split /:/, $ENV{PATH};

use constant { SSL_REQUEST => pack('NN', 8, 80877103), CANCEL_REQUEST => pack('NN', 16, 80877102) };

my $node = PacerSession->node('tls');
my $dir = $node->data_dir;
system_or_bail('openssl', qw(req -new -x509 -days 2 -nodes -newkey rsa:2048 -subj /CN=localhost -keyout), "$dir/server.key", '-out', "$dir/server.crt");
chmod 0600, "$dir/server.key" or die $!;
# on the loopback only, beside the socket of the tests
$node->append_conf('postgresql.conf', "ssl = on\nlisten_addresses = '127.0.0.1'\n");
$node->append_conf('pg_hba.conf', "hostssl all all 127.0.0.1/32 trust\n");
$node->restart;

# --- a proxy that writes down how each connection begins

my $record = PostgreSQL::Test::Utils::tempdir . '/record';
my $listen = IO::Socket::INET->new(Listen => 20, LocalAddr => '127.0.0.1') or die $!;
my $proxy = fork // die $!;
if ($proxy == 0)
{
	my $all = IO::Select->new($listen);
	my (%other, %client);

	while (my @ready = $all->can_read)
	{
		for my $from (@ready)
		{
			if ($from == $listen)
			{
				my $client = $listen->accept or next;
				my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $node->port) or die $!;

				$all->add($client, $server);
				@other{ $client, $server } = ($server, $client);
				$client{$client} = 1;
				next;
			}
			next unless $other{$from};
			my $to = $other{$from};
			my $got = sysread($from, my $bytes, 65536);

			append_to_file($record, unpack('H16', $bytes) . "\n") if $got && delete $client{$from};
			if (!$got || !defined syswrite($to, $bytes))
			{
				$all->remove($from, $to);
				delete @other{ $from, $to };
				close $_ for $from, $to;
			}
		}
	}
	POSIX::_exit(0);
}
my $proxy_port = $listen->sockport;
close $listen;
END { kill 'KILL', $proxy if $proxy }

PacerCommand->database($node);
$ENV{PGUSER} = $node->safe_psql('postgres', 'SELECT current_user');
@ENV{qw(PGHOST PGPORT PGSSLMODE)} = ('127.0.0.1', $proxy_port, 'require');

sub first_words { return map { pack 'H*', $_ } split /\n/, slurp_file($record) }

status_is([qw(pgpacer create slow 100ms)], 0, 'a source is made over TLS');
status_is([qw(pgpacer run slow -- true)], 0, 'a start');
status_is([qw(pgpacer run slow -- true)], 0, 'and one that waits, and confirms');
cmp_ok(scalar(first_words()), '>=', 3, 'connections went through the proxy');
is_deeply([ grep { $_ ne SSL_REQUEST } first_words() ], [], 'each began with a request for TLS');

# --- a booking that hangs in the server is cancelled

my $owner = PacerSession->new($node);
my $watcher = PacerSession->new($node);    # outside of the transaction, where pg_stat_activity moves
$owner->ask('BEGIN; LOCK TABLE pacer.slot');
my $job = start_it(qw(pgpacer run slow -- false));
ok($watcher->poll("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%pacer.book%' AND pid <> pg_backend_pid()"), 'a booking waits in the server');
kill 'INT', $job->{pid};
is(finish_it($job), 130, 'it is cancelled');
$owner->ask('COMMIT');
$_->quit for $owner, $watcher;
my @clear = grep { $_ ne SSL_REQUEST } first_words();
my ($version) = `pg_config --version` =~ /(\d+)/;
if ($version >= 17)
{
	is_deeply(\@clear, [], 'and the request to cancel went over TLS');
}
else
{
	is_deeply([ map { $_ eq CANCEL_REQUEST } @clear ], [1], 'only the request to cancel was in the clear, as this libpq does it');
}

done_testing();
