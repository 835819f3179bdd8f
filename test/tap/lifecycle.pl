# The engine dies, hangs, is missing or meets its twin: no other session notices, everyone gets one
# clean answer, and service comes back by itself.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use InferTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $long   = 'Tell me a very long story about a river.';
my $prompt = 'The same words again and again. ' x 150;    # takes the engine a while to read

my $node = node_start('lifecycle', 'infer.retries' => 0, 'restart_after_crash' => 'on');
my $pid  = wait_ready($node);
ok($pid, 'the engine is ready');
my $started = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');

sub uptime_is_same
{
	is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $started, "$_[0]: the server did not restart");
}

# A bystander holds a transaction open over each death, and commits after it.
$node->safe_psql('postgres', 'CREATE TABLE bystander (n int)');
my $bystander = $node->background_psql('postgres', on_error_stop => 0);
my $n_deaths  = 0;

sub bystander_begins
{
	$bystander->query_safe('BEGIN; INSERT INTO bystander VALUES (' . ++$n_deaths . ')');
}

sub bystander_commits
{
	$bystander->query_safe('COMMIT');
	is($node->safe_psql('postgres', 'SELECT max(n) FROM bystander'), $n_deaths, "$_[0]: the bystander commits");
}

# The engine counts a death shortly after READY as quick and backs off: give it the time that the
# issue grants it, measured from what the server says, not from our start.
sub wait_settled
{
	my $ready = wait_ready($node);
	my $since = time;
	wait_for('2 s of service', sub { time - $since > 2.2 });
	return $ready;
}

my %phases = (
	queued => sub {
		# A stopped engine takes nothing out of a slot.
		kill STOP => $pid;
		my $client = client($node, "SELECT infer_generate('$long')");
		backend_of($node, $client);
		return $client;
	},
	prefill => sub {
		my $client = client($node, "SELECT infer_generate('$prompt', max_tokens => 200)");
		backend_of($node, $client);
		return $client;
	},
	decode => sub {
		my $client = client($node, "SELECT piece FROM infer_stream('$long', max_tokens => 500)", stream => 1);
		client_wait_rows($client, 3);
		return $client;
	},
);

for my $signal (qw(KILL SEGV))
{
	for my $phase (sort keys %phases)
	{
		my $name = "SIG$signal in $phase";
		$pid = wait_settled();
		bystander_begins();
		my $client = $phases{$phase}->();
		kill $signal => $pid;
		kill CONT => $pid;
		client_finish($client);
		# What the engine never took is simply asked of the next one.
		is(sqlstate_of($client), $phase eq 'queued' ? '' : '58000', "$name: one error if it had begun, none else")
			or diag $client->{err};
		bystander_commits($name);
		my $next = wait_ready($node, $pid);
		isnt($next, $pid, "$name: a new engine");
		like($node->safe_psql('postgres', "SELECT infer_generate('What is the capital of France?', max_tokens => 30)"),
			qr/Paris/, "$name: the next call is answered");
		audit_ok($node, "$name: nothing is left in use");
		uptime_is_same($name);
	}
}

# Many in flight at once: each session gets one error, none hangs.
$pid = wait_settled();
my @many = map { client($node, "SELECT count(infer_generate(p, max_tokens => 300)) FROM unnest(ARRAY['a story','a song','a joke','a poem']) p") } 1 .. 6;
backend_of($node, $_) for @many;
kill KILL => $pid;
client_finish($_) for @many;
is(join(',', map { sqlstate_of($_) } @many), join(',', ('58000') x 6), 'a kill under load: one error a session');
audit_ok($node, 'a kill under load: nothing is left in use');

# With retries the caller does not even notice.
$pid = wait_settled();
my $retry = client($node, "SET infer.retries = 1; SELECT infer_generate('What is the capital of France?', max_tokens => 30)");
kill STOP => $pid;
backend_of($node, $retry);
kill KILL => $pid;
client_finish($retry);
like($retry->{out}, qr/Paris/, 'with infer.retries = 1 the answer comes from the next engine');

# A hang: nobody answers the heartbeat, the supervisor kills it.
$pid = wait_settled();
my $stuck = client($node, "SELECT infer_generate('$long')");
backend_of($node, $stuck);
kill STOP => $pid;
client_finish($stuck, 90);
is(sqlstate_of($stuck), '58000', 'a hung engine is replaced: its caller gets one error');
ok(!kill(0, $pid), 'the hung engine is gone');

# statement_timeout frees the backend of a hung engine at once.
$pid = wait_settled();
kill STOP => $pid;
my $timed = client_finish(client($node, "SET statement_timeout = '300ms'; SELECT infer_generate('$long')"));
is(sqlstate_of($timed), '57014', 'statement_timeout works while the engine hangs');
kill CONT => $pid;
audit_ok($node, 'and its slot is free once the engine goes on');

# The supervisor is terminated by hand.
$pid = wait_settled();
my $inflight = client($node, "SELECT infer_generate('$long', max_tokens => 500)");
backend_of($node, $inflight);
$node->safe_psql('postgres', q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type ~ 'infer'));
client_finish($inflight);
is(sqlstate_of($inflight), '58000', 'supervisor terminated: in-flight requests fail cleanly');
my $again = wait_ready($node, $pid);
ok($again && $again != $pid, 'supervisor terminated: it comes back with a new engine');
ok(!kill(0, $pid), 'supervisor terminated: the old engine is gone');
uptime_is_same('supervisor terminated');

# pg_cancel_backend(supervisor) signals the whole process group: nothing may happen.
$pid = wait_settled();
$node->safe_psql('postgres', q(SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type ~ 'infer'));
like($node->safe_psql('postgres', "SELECT infer_generate('What is the capital of France?', max_tokens => 30)"),
	qr/Paris/, 'a cancelled supervisor goes on');
is(engine_pid($node), $pid, 'with the same engine');

$bystander->quit;

# A backend dies of SIGKILL: the server restarts everything, and service is back.
$pid = wait_settled();
my $victim = client($node, "SELECT infer_generate('$long', max_tokens => 500)");
kill KILL => backend_of($node, $victim);
client_finish($victim);
wait_for('the server accepts connections', sub { ($node->psql('postgres', 'SELECT 1'))[0] == 0 });
my $after_crash = wait_ready($node, $pid);
ok($after_crash && $after_crash != $pid, 'crash restart: a new engine');
wait_for('old engine gone', sub { !kill 0, $pid });
like($node->safe_psql('postgres', "SELECT infer_generate('What is the capital of France?', max_tokens => 30)"),
	qr/Paris/, 'crash restart: the next call is answered');
audit_ok($node, 'crash restart: nothing is left in use');

# Every way of stopping takes the engine along.
for my $mode (qw(fast immediate))
{
	$pid = wait_ready($node);
	my $running = client($node, "SELECT infer_generate('$long', max_tokens => 2000)");
	backend_of($node, $running);
	$node->stop($mode);
	client_finish($running);
	ok(wait_for('engine gone', sub { !kill 0, $pid }, 10), "stop $mode with a request in flight: no engine is left");
	$node->start;
}

# Smart: the last session is served to its end.
$pid = wait_ready($node);
my $last = client($node, "SELECT 'answer: ' || infer_generate('What is the capital of France?', max_tokens => 40); SELECT 'bye', infer_count_tokens('x')");
backend_of($node, $last);
system('pg_ctl', '-D', $node->data_dir, '-m', 'smart', '-W', '-s', 'stop');
client_finish($last);
like($last->{out}, qr/answer: .*Paris.*bye/s, 'stop smart: the last session is served to its end');
ok(wait_for('engine gone', sub { !kill 0, $pid }, 30), 'stop smart: no engine is left');
wait_for('server gone', sub { !-e $node->data_dir . '/postmaster.pid' });
$node->_update_pid(0);
$node->start;

# kill -9 of the postmaster: the engine does not stay behind.
$pid = wait_ready($node);
my $postmaster = $node->{_pid};
$node->kill9;
ok(wait_for('engine gone', sub { !kill 0, $pid }, 10), 'kill -9 of the postmaster: no engine is left');
wait_for('the postmaster is gone', sub { !kill 0, $postmaster });
$node->start;
ok(wait_ready($node), 'and the server starts again');
$node->stop;

done_testing();
