# Running the command pgpacer in tests: what it says, its status as a shell shows it.
#
#	PacerCommand->database($node);             # PGHOST and so on for every pgpacer below
#	my ($out, $err) = status_is([qw(pgpacer list)], 0, 'list');
#	my $job = start_it(qw(pgpacer run slow -- true));
#	my $status = finish_it($job);              # $job->{pid}, $job->{out}, $job->{err}
#
# Every wait is bounded by the timeout of PostgreSQL's own tests (PG_TEST_TIMEOUT_DEFAULT).
package PacerCommand;

use strict;
use warnings;
use Exporter qw(import);
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(run_it status_is start_it finish_it);

sub bound { return IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default) }

sub database
{
	my ($class, $node) = @_;

	$ENV{PGHOST} = $node->host;
	$ENV{PGPORT} = $node->port;
	$ENV{PGDATABASE} = 'postgres';
	delete $ENV{PGAPPNAME};    # the tests', which would be pgpacer's, too
	return;
}

# of the last command
sub status { return $? & 127 ? 128 + ($? & 127) : $? >> 8 }

# (status, stdout, stderr)
sub run_it
{
	my @command = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>', \$err, bound());
	return (status(), $out, $err);
}

sub status_is
{
	my ($command, $expected, $name) = @_;
	my ($status, $out, $err) = run_it(@$command);

	is($status, $expected, $name) or diag($err);
	return ($out, $err);
}

# in the background
sub start_it
{
	my @command = @_;
	my %job = (out => '', err => '');

	$job{h} = IPC::Run::start(\@command, '<', \undef, '>', \$job{out}, '2>', \$job{err}, bound());
	$job{pid} = $job{h}{KIDS}[0]{PID};
	return \%job;
}

sub finish_it
{
	my ($job) = @_;

	$job->{h}->finish;
	return status();
}

1;
