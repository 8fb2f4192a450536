# A psql session that goes on while the test does something else, and the node to have it with.
#
#	my $node = PacerSession->node('name', 'setting = value', ...);
#	my $s = PacerSession->new($node);
#	$s->ask('SELECT 1');                       # waits for the answer
#	$s->send('SELECT pg_sleep(3600)');         # does not
#	my $answer = $s->result;                   # waits; $s->error is what went to stderr
#
# Every wait is bounded by the timeout of PostgreSQL's own tests (PG_TEST_TIMEOUT_DEFAULT).
package PacerSession;

use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

sub node
{
	my ($class, $name, @settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(extra => ['--data-checksums']);
	$node->append_conf('postgresql.conf', join("\n", 'fsync = on', 'max_connections = 60', @settings, ''));
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_pacer');
	return $node;
}

sub new
{
	my ($class, $node) = @_;
	my $self = bless { in => '', out => '', err => '', asked => 0, error => '' }, $class;
	my @command = ('psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-f', '-');

	$self->{run} = IPC::Run::start(\@command, '<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err});
	$self->{pid} = $self->ask('SELECT pg_backend_pid()');
	return $self;
}

# process ids: of the backend, and of the client
sub pid { return $_[0]{pid} }
sub client_pid { return $_[0]{run}{KIDS}[0]{PID} }

sub send
{
	my ($self, $sql) = @_;
	my $mark = 'answered ' . ++$self->{asked};

	$self->{out} = $self->{err} = '';
	$self->{in} .= "$sql;\n\\echo $mark\n\\warn $mark\n";
	$self->{run}->pump_nb;
	return;
}

# the answer to what was sent, or what there was of it when the session ended
sub result
{
	my ($self) = @_;
	my $mark = "answered $self->{asked}\n";
	my $bound = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);

	$bound->start;
	while ($self->{out} !~ /^\Q$mark\E/m || $self->{err} !~ /\Q$mark\E/)
	{
		$bound->check;
		last unless eval { $self->{run}->pump_nb; 1 } && $self->{run}->pumpable;
		select(undef, undef, undef, 0.002);
	}
	(my $out = $self->{out}) =~ s/\Q$mark\E.*//s;
	($self->{error} = $self->{err}) =~ s/\Q$mark\E//;
	chomp $out;
	return $out;
}

sub error { return $_[0]{error} }

# is there an answer yet?
sub has_answered
{
	my ($self) = @_;

	eval { $self->{run}->pump_nb };
	return $self->{out} =~ /^answered $self->{asked}$/m;
}

sub ask
{
	my ($self, $sql) = @_;

	$self->send($sql);
	return $self->result;
}

sub quit
{
	my ($self) = @_;

	$self->{in} .= "\\q\n";
	eval { $self->{run}->finish };
	return;
}

# until "sql" answers t; false if it has not by then
sub poll
{
	my ($self, $sql) = @_;
	my $tries = $PostgreSQL::Test::Utils::timeout_default * 100;

	while ($tries-- > 0)
	{
		return 1 if $self->ask($sql) eq 't';
		select(undef, undef, undef, 0.01);
	}
	return 0;
}

# until the other session sleeps in acquire()
sub poll_asleep
{
	my ($self, $other) = @_;

	return $self->poll("SELECT state = 'active' AND wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = " . $other->pid);
}

1;
