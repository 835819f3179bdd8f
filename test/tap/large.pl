# Prompts larger than a slot go through, and answers larger than the ring.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use InferTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = node_start('large', 'infer.slot_size' => '16kB');
my $pid  = wait_ready($node);
my $fds  = sub { my @fds = glob "/proc/$pid/fd/*"; return scalar @fds };
$node->safe_psql('postgres', 'SELECT infer_count_tokens($$x$$)');
my $fds_before = $fds->();

for my $n (1_000, 4_000, 12_000, 20_000, 200_000)
{
	my $text = "repeat('long text ', $n)";
	is($node->safe_psql('postgres', "SELECT infer_render(jsonb_build_array(jsonb_build_object('role', 'user', 'content', $text))) LIKE '%' || rtrim($text) || '%'"),
		't', "$n phrases go in and come out whole");
	is($node->safe_psql('postgres', "SELECT array_length(infer_tokenize($text), 1) = infer_count_tokens($text)"), 't', "$n phrases: as many tokens as are counted");
}
my $client = client_finish(client($node, "SELECT infer_generate(repeat('long text ', 100000))"));
is(sqlstate_of($client), '54000', 'a prompt past the context is refused with 54000') or diag $client->{err};
audit_ok($node);
cmp_ok(wait_for('descriptors are closed', sub { my $n = $fds->(); $n <= $fds_before ? $n + 1 : 0 }, 10) // 0, '<=', $fds_before + 1, 'no descriptor is left in the engine');
is(engine_pid($node), $pid, 'all with the same engine');
$node->stop;
done_testing();
