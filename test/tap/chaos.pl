# Clients with random timeouts, random cancels and terminations, and an engine that is killed again and
# again: no answer is ever wrong, no session is lost, and at the end nothing is left in use.
#
# INFER_CHAOS_KILLS kills (8), each more than 2 s after the engine was ready. INFER_CHAOS_SEED repeats a run.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use InferTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $n_kills = $ENV{INFER_CHAOS_KILLS} // 8;
my $seed    = $ENV{INFER_CHAOS_SEED}  // time & 0xffff;
srand $seed;
note "seed $seed";

my $node = node_start('chaos', 'infer.kv_memory' => '48MB', 'infer.max_sequences' => 6);
wait_ready($node);
my $started = $node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()');
my @prompts = map { "What is the capital of $_?" } qw(France Italy Spain Norway Japan Egypt);
my @answers = map { $node->safe_psql('postgres', "SELECT infer_generate('$_', max_tokens => 10)") } @prompts;
s/\s+/ /g for @answers;

# One statement of a client: prints "k|answer" on one line, whatever way it asks.
sub statement
{
	my $k       = int rand @prompts;
	my $timeout = rand() < 0.3 ? 20 + int rand 400 : 0;
	my $call    = (
		"SELECT '$k|' || regexp_replace(infer_generate('$prompts[$k]', max_tokens => 10), '\\s+', ' ', 'g')",
		"SELECT '$k|' || regexp_replace(string_agg(piece, '' ORDER BY seq), '\\s+', ' ', 'g') FROM infer_stream('$prompts[$k]', max_tokens => 10)",
		"SELECT '$k|' || regexp_replace(output, '\\s+', ' ', 'g') FROM infer_batch(ARRAY['$prompts[$k]', '$prompts[$k]'], max_tokens => 10)",
		"SELECT '$k|' || regexp_replace(infer_generate('$prompts[$k]', max_tokens => 10, on_error => 'null'), '\\s+', ' ', 'g')",
		"SELECT count(*) > 0 FROM (SELECT piece FROM infer_stream('$prompts[$k]', max_tokens => 100) LIMIT 3) s",
	)[ int rand 5 ];
	return "SET statement_timeout = $timeout;\n$call;\n";
}

my ($n_answers, $n_wrong, $n_terminated, $n_cancelled, %states) = (0, 0, 0, 0);

sub client_judge
{
	my ($client) = @_;
	for my $line (split /\n/, $client->{out})
	{
		next unless $line =~ /^(\d+)\|(.*)$/;
		$n_answers++;
		next if $2 eq $answers[$1];
		$n_wrong++;
		diag "wrong answer to \"$prompts[$1]\": $2";
	}
	$states{$_}++ for split / /, sqlstate_of($client);
	# psql ends with 2 when its session is lost: allowed only where we terminated it.
	$states{lost}++ if $client->{status} eq 'hangs' || ($client->{err} =~ /server closed the connection|connection to server was lost/ && sqlstate_of($client) !~ /57P01/);
}

my @clients = map { client($node, join('', map { statement() } 1 .. 30)) } 1 .. 6;
my ($kills, $ready_since, $ready_pid) = (0, undef, 0);
my $end = time + 30 + 12 * $n_kills;
while ($kills < $n_kills && time < $end)
{
	for my $i (0 .. $#clients)
	{
		$clients[$i]{run}->pump_nb if $clients[$i]{run}->pumpable;
		next if $clients[$i]{run}->pumpable;
		client_judge(client_finish($clients[$i]));
		$clients[$i] = client($node, join('', map { statement() } 1 .. 30));
	}
	if (rand() < 0.15)
	{
		my $name = $clients[ int rand @clients ]{name};
		my $terminate = rand() < 0.2;
		my $done = $node->safe_psql('postgres', sprintf(
			"SELECT count(%s(pid)) FROM pg_stat_activity WHERE application_name = '$name' AND state = 'active'",
			$terminate ? 'pg_terminate_backend' : 'pg_cancel_backend'));
		$terminate ? ($n_terminated += $done) : ($n_cancelled += $done);
	}
	my $health = health($node);
	my $pid = $health->{ready} ? $health->{engine_pid} : 0;
	if (!$pid || $pid != $ready_pid)
	{
		($ready_pid, $ready_since) = ($pid, time);
	}
	elsif (time - $ready_since > 2.1 + rand 1)
	{
		kill +(rand() < 0.7 ? 'KILL' : 'SEGV'), $pid;
		$kills++;
	}
	sleep 0.05;
}
for my $client (@clients)
{
	client_judge(client_finish($client, 180));
}
note "$kills kills, $n_cancelled cancels, $n_terminated terminations, $n_answers answers; " . join ', ', map { "$_: $states{$_}" } sort keys %states;
is($kills, $n_kills, 'the engine was killed as often as planned');
cmp_ok($n_answers, '>', 10, 'clients were answered');
is($n_wrong, 0, 'no answer was wrong');
is($states{lost} // 0, 0, 'no session was lost');
is(join(' ', grep { !/^(57014|57P01|58000|lost)$/ } sort keys %states), '', 'no error but cancellation and engine restart');
wait_ready($node);
audit_ok($node, 'no slot and no page is left in use');
is($node->safe_psql('postgres', 'SELECT pg_postmaster_start_time()'), $started, 'the server never restarted');
$node->stop;
done_testing();
