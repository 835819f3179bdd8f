# 200 sessions ask at once: each gets its own answer.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use InferTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = node_start('sessions');
my $pid  = wait_ready($node);
my @prompts = map { "What is the capital of $_?" } qw(France Italy Spain Norway Japan Egypt Peru Kenya);
$node->safe_psql('postgres', 'CREATE TABLE expected (k int PRIMARY KEY, prompt text, answer text);');
for my $k (0 .. $#prompts)
{
	$node->safe_psql('postgres', "INSERT INTO expected SELECT $k, '$prompts[$k]', infer_generate('$prompts[$k]', max_tokens => 8)");
}
$node->safe_psql('postgres', 'CREATE TABLE got (k int, answer text)');
my $script = $node->basedir . '/sessions.sql';
append_to_file($script, join "\n",
	'\\set k random(0, 7)',
	'INSERT INTO got SELECT k, infer_generate(prompt, max_tokens => 8) FROM expected WHERE k = :k;', '');
command_ok([ 'pgbench', '-n', '-c', 200, '-j', 4, '-t', 2, '-f', $script, '-d', $node->connstr('postgres') ],
	'200 sessions of two requests each');
is($node->safe_psql('postgres', 'SELECT count(*) FROM got'), '400', 'every request was answered');
is($node->safe_psql('postgres', 'SELECT count(*) FROM got JOIN expected USING (k) WHERE got.answer <> expected.answer'), '0', 'each with its own answer');
is(engine_pid($node), $pid, 'by one engine');
audit_ok($node);

# Idle means idle: the engine's CPU clock stands still but for its heartbeat (a tick is 10 ms).
sub engine_ticks
{
	my @stat = split ' ', (slurp_file("/proc/$pid/stat") =~ s/^.*\) //sr);
	return $stat[11] + $stat[12];
}
my $ticks = engine_ticks();
$node->safe_psql('postgres', 'SELECT pg_sleep(3)');
cmp_ok(engine_ticks() - $ticks, '<=', 2, 'an idle engine uses no CPU');
$node->stop;
done_testing();
