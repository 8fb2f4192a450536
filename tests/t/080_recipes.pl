# The recipes of docs/recipes, run as they stand: a page's blocks in their order, in a database of
# its own; then what its comments say is to be found there.
use strict;
use warnings;
use File::Basename qw(basename);
use IO::Socket::INET;
use PacerCommand;
use PacerSession;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PacerSession->node('recipes', 'log_statement = none');
my $pages = "$ENV{PACER_TMP}/tree/docs/recipes";
my %missing;
PacerCommand->database($node);
$ENV{PGUSER} = getpwuid $<;                  # a driver that is not libpq does not find out by itself
$ENV{NODE_PATH} //= '/usr/share/nodejs';    # where Debian's node-pg is
$missing{'node.md'} = 'no node with pg' unless succeeds('node', '-e', "require('pg')");
$missing{'python.md'} = 'no psycopg' unless succeeds('python3', '-c', 'import psycopg');
$missing{'retry-after.md'} = 'no curl' unless succeeds('curl', '--version');

sub succeeds
{
	my $out;
	return eval { IPC::Run::run(\@_, '>', \$out, '2>&1') };
}

# --- a service that is busy at first

my $service = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die $!;
$ENV{API} = 'http://127.0.0.1:' . $service->sockport . '/';
my $server = fork // die $!;
if ($server == 0)
{
	my $calls = 0;

	while (my $client = $service->accept)
	{
		1 until <$client> eq "\r\n";
		print $client $calls++
			? "HTTP/1.0 200 OK\r\nContent-Length: 8\r\n\r\nwelcome\n"
			: "HTTP/1.0 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 5\r\n\r\nbusy\n";
		close $client;
	}
	POSIX::_exit(0);
}
close $service;
END { kill 'KILL', $server if $server }

# --- a page: ([language, file or undef, text], ...), (["sql" or "file", what, expected], ...)

sub read_page
{
	my ($page) = @_;
	my $text = slurp_file($page);
	my (@blocks, @checks);

	push @blocks, [ $1, $2, $3 ] while $text =~ /^```(\w+)(?: file=(\S+))?\n(.*?)^```$/msg;
	push @checks, [ $1 eq 'check' ? 'sql' : 'file', $2, $3 ] while $text =~ /^<!-- (check|file): (.*) = (\S+) -->$/mg;
	return (\@blocks, \@checks);
}

sub run_block
{
	my ($language, $file, $text, $dir) = @_;
	my %command = (sh => [ 'sh', '-euc', $text ], sql => [ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1' ]);
	my $in = $language eq 'sql' ? $text : '';
	my $out;

	if ($file)
	{
		append_to_file("$dir/$file", $text);
		return 1;
	}
	IPC::Run::run($command{$language} // die("no idea how to run $language"), '<', \$in, '>', \$out, '2>&1',
		init => sub { chdir $dir or die $! }, PacerCommand::bound()) and return 1;
	diag("$text\n$out");
	return 0;
}

for my $page (sort glob "$pages/*.md")
{
	my $name = basename($page);
	my ($blocks, $checks) = read_page($page);

	next if $name eq 'README.md' || $name eq 'go-and-rust.md';
SKIP:
	{
		skip "$name: $missing{$name}", 1 if $missing{$name};
		my $dir = PostgreSQL::Test::Utils::tempdir;

		$ENV{PGDATABASE} = $name =~ s/\W/_/gr;
		$node->safe_psql('postgres', "CREATE DATABASE $ENV{PGDATABASE}");
		$node->safe_psql($ENV{PGDATABASE}, 'CREATE EXTENSION pg_pacer') unless grep { $_->[2] =~ /CREATE EXTENSION/ } @$blocks;
		my $nth = 0;
		ok(run_block(@$_, $dir), "$name: block " . ++$nth) for @$blocks;
		for (@$checks)
		{
			my ($kind, $what, $expected) = @$_;

			is($kind eq 'sql' ? $node->safe_psql($ENV{PGDATABASE}, $what) : (slurp_file("$dir/$what") =~ tr/\n//), $expected, "$name: $what");
		}
		cmp_ok(scalar @$checks, '>', 0, "$name is checked");
	}
}

unlike(slurp_file($node->logfile), qr/PANIC|XX000/, 'nothing in the log');
done_testing();
