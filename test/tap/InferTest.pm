# InferTest: what the tests of a whole server share.
#
# scripts/pg-test runs them and says by environment variables where things are:
#
#     INFER_TEST_CONF     settings every server needs: the preload, the staged module, the models
#     INFER_TEST_MODELS   the model directory
#     INFER_TEST_STAGE    the staged installation, INFER_TEST_PKGLIBDIR the folder of modules in it
#
# Nothing here sleeps for a fixed time: wait_for polls for a state, and the bound only keeps a
# broken test from hanging.
package InferTest;

use strict;
use warnings;

use Exporter qw(import);
use File::Temp;
use IPC::Run;
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(
  node_start node_conf wait_for wait_ready wait_idle audit_ok health engine_pid engine_kill
  client client_finish client_wait_rows backend_of sqlstate_of slurp_conf
);

use constant MODEL_FILE => 'SmolLM2-135M-Instruct.Q4_1.gguf';
use constant LIMIT_S    => 120;    # of one wait

# Settings for a new server, with what a test wants besides.
sub node_conf
{
	my (%more) = @_;
	my $conf = slurp_file($ENV{INFER_TEST_CONF});
	$conf .= "max_connections = 250\n";
	$conf .= "$_ = '$more{$_}'\n" for sort keys %more;
	return $conf;
}

# A running server with the extension; %more are settings.
sub node_start
{
	my ($name, %more) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init;
	$node->append_conf('postgresql.conf', node_conf(%more));
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION infer');
	return $node;
}

# Polls until the code returns true, and returns what it returned.
sub wait_for
{
	my ($what, $code, $limit_s) = @_;
	my $end = time + ($limit_s // LIMIT_S);
	while (1)
	{
		my $value = $code->();
		return $value if $value;
		if (time > $end)
		{
			fail("in time: $what");
			return;
		}
		sleep 0.02;
	}
}

sub health
{
	my ($node) = @_;
	my ($rc, $out) = $node->psql('postgres', 'SELECT infer_health()');
	return $rc == 0 && $out ne '' ? JSON::PP::decode_json($out) : {};
}

sub engine_pid
{
	my ($node) = @_;
	return health($node)->{engine_pid};
}

# The engine takes requests and its default model answers. Returns the pid.
sub wait_ready
{
	my ($node, $not_pid) = @_;
	return wait_for('engine ready', sub {
		my $health = health($node);
		return unless $health->{ready} && $health->{engine_pid};
		return if defined $not_pid && $health->{engine_pid} == $not_pid;
		my $state = $node->safe_psql('postgres', q(SELECT string_agg(DISTINCT state, ',') FROM infer_models));
		return $state eq 'ready' ? $health->{engine_pid} : undef;
	});
}

sub engine_kill
{
	my ($node, $signal) = @_;
	my $pid = engine_pid($node);
	kill $signal, $pid if $pid;
	return $pid;
}

# What must be true when nobody asks anything: no request runs or waits, every page and slot is free.
sub audit
{
	my ($node) = @_;
	my $health = health($node);
	return 'no health' unless %$health;
	my $rows = $node->safe_psql('postgres', q(
		SELECT name, state, n_running, n_waiting, kv_pages_total - kv_pages_free
		FROM infer_models WHERE state = 'ready' AND (n_running, n_waiting) <> (0, 0) OR kv_pages_total <> kv_pages_free));
	return "models busy: $rows" if $rows ne '';
	my $slots = $health->{slots};
	return 'slots: ' . join ', ', map { "$_ $slots->{$_}" } sort keys %$slots if $slots->{free} != $slots->{total};
	return '';
}

sub wait_idle
{
	my ($node) = @_;
	my $last;
	return wait_for('idle', sub { ($last = audit($node)) eq '' }, 30) ? '' : $last;
}

sub audit_ok
{
	my ($node, $name) = @_;
	is(wait_idle($node), '', $name // 'no slot and no page is left in use');
}

# ---- clients that run beside the test ------------------------------------------------------------

# Starts psql on a script; errors come with their SQLSTATE. Rows of a query appear as they arrive.
sub client
{
	my ($node, $sql, %options) = @_;
	my $name   = $options{name} // 'client_' . int(rand(1e9));
	# A file, since a pipe would stay open as long as the client does.
	my $client = { name => $name, out => '', err => '', script => File::Temp->new };
	print { $client->{script} } "$sql\n";
	$client->{script}->flush;
	my @command = (
		'psql', '-XAtq', '-v', 'VERBOSITY=verbose',
		($options{stream} ? ('-v', 'FETCH_COUNT=1') : ()),
		'-d', $node->connstr('postgres') . " application_name=$name", '-f', $client->{script}->filename);
	$client->{run} = IPC::Run::start(\@command, '<', \undef, '>', \$client->{out}, '2>', \$client->{err});
	$client->{psql_pid} = $client->{run}{KIDS}[0]{PID};
	return $client;
}

# Waits for its end. Returns the client, with out, err and status.
sub client_finish
{
	my ($client, $limit_s) = @_;
	my $timer = time + ($limit_s // LIMIT_S);
	while ($client->{run}->pumpable && time < $timer)
	{
		$client->{run}->pump_nb;
		sleep 0.01;
	}
	if ($client->{run}->pumpable)
	{
		$client->{run}->kill_kill;
		$client->{status} = 'hangs';
		return $client;
	}
	$client->{run}->finish;
	$client->{status} = $client->{run}->full_result(0);
	return $client;
}

# Waits until that many lines have come out of it.
sub client_wait_rows
{
	my ($client, $n) = @_;
	return wait_for("$n rows at $client->{name}", sub {
		$client->{run}->pump_nb if $client->{run}->pumpable;
		return (($client->{out} =~ tr/\n//) >= $n) || !$client->{run}->pumpable;
	});
}

# Pid of the server process that serves this client, once it has one and runs its statement.
sub backend_of
{
	my ($node, $client) = @_;
	return wait_for("backend of $client->{name}", sub {
		$client->{run}->pump_nb if $client->{run}->pumpable;
		return $node->safe_psql('postgres',
			"SELECT pid FROM pg_stat_activity WHERE application_name = '$client->{name}' AND state = 'active' AND query ~ 'infer_'");
	});
}

# All SQLSTATEs in what psql wrote to stderr, joined by blanks.
sub sqlstate_of
{
	my ($client) = @_;
	return join ' ', $client->{err} =~ /(?:ERROR|FATAL):  ([0-9A-Z]{5}):/g;
}

sub slurp_conf
{
	my ($node, $file) = @_;
	return slurp_file($node->data_dir . "/$file");
}

1;
