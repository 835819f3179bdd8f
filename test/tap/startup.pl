# What is missing, damaged or forbidden at start is said in a clean error, and repaired without a restart.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Copy qw(copy);
use InferTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $model  = "$ENV{INFER_TEST_MODELS}/" . InferTest::MODEL_FILE;
my $models = PostgreSQL::Test::Utils::tempdir();

# A damaged file beside a good one: the good one serves, the other says why not.
copy($model, "$models/good.gguf") or die $!;
truncate_copy("$models/cut.gguf", 1_000_000);
scribble("$models/noise.gguf");

sub truncate_copy
{
	my ($to, $n_bytes) = @_;
	open my $in,  '<:raw', $model or die $!;
	open my $out, '>:raw', $to    or die $!;
	my $bytes;
	read $in, $bytes, $n_bytes;
	print $out $bytes;
	close $out;
}

sub scribble
{
	my ($to) = @_;
	open my $out, '>:raw', $to or die $!;
	print $out 'GGUF', pack('L<Q<Q<', 3, 2**60, 2**60), "\xff" x 100_000;
	close $out;
}

my $node = node_start('startup',
	'infer.model_directory' => $models,
	'infer.models'          => 'good=good.gguf, cut=cut.gguf, noise=noise.gguf, gone=gone.gguf');
wait_for('models settle', sub {
	$node->safe_psql('postgres', q(SELECT count(*) = 4 AND bool_and(state IN ('ready', 'failed')) FROM infer_models)) eq 't';
});
is($node->safe_psql('postgres', q(SELECT string_agg(name || ':' || state, ' ' ORDER BY name) FROM infer_models)),
	'cut:failed gone:failed good:ready noise:failed', 'damaged and missing files fail, the good one serves');
is($node->safe_psql('postgres', q(SELECT count(*) FROM infer_models WHERE state = 'failed' AND coalesce(reason, '') = '')),
	'0', 'each failed model says why');
for my $name (qw(cut noise gone))
{
	my $client = client_finish(client($node, "SELECT infer_generate('hi', model => '$name')"));
	is(sqlstate_of($client), '55000', "model $name: 55000");
	like($client->{err}, qr/\Q$name\E/, "model $name: the message names it");
}
my $unknown = client_finish(client($node, "SELECT infer_generate('hi', model => 'nobody')"));
is(sqlstate_of($unknown), '42704', 'an unknown model: 42704');
like($node->safe_psql('postgres', "SELECT infer_generate('What is the capital of France?', max_tokens => 30)"), qr/Paris/, 'the good model answers');
audit_ok($node);

# No model at all, then one by ALTER SYSTEM and reload.
$node->safe_psql('postgres', "ALTER SYSTEM SET infer.models = ''");
$node->reload;
wait_for('no models', sub { $node->safe_psql('postgres', q(SELECT count(*) FROM infer_models WHERE state <> 'draining')) eq '0' });
my $none = client_finish(client($node, "SELECT infer_generate('hi')"));
like(sqlstate_of($none), qr/^(55000|42704)$/, 'without models a call fails with a reason') or diag $none->{err};
$node->safe_psql('postgres', "ALTER SYSTEM SET infer.models = 'good=good.gguf'");
$node->reload;
wait_ready($node);
like($node->safe_psql('postgres', "SELECT infer_generate('What is the capital of France?', max_tokens => 30)"), qr/Paris/, 'a model by reload answers');
$node->stop;

# The engine program is not there: errors at once, and recovery without a restart.
{
	my $stage   = PostgreSQL::Test::Utils::tempdir() . '/stage';
	my $program = "$stage$ENV{INFER_TEST_PKGLIBDIR}/infer-engine";
	system('cp', '-r', $ENV{INFER_TEST_STAGE}, $stage) == 0 or die 'cp failed';
	rename $program, "$program.away" or die $!;
	my $bare = PostgreSQL::Test::Cluster->new('bare');
	$bare->init;
	(my $conf = node_conf()) =~ s/\Q$ENV{INFER_TEST_STAGE}\E/$stage/g;
	$bare->append_conf('postgresql.conf', $conf);
	$bare->start;
	$bare->safe_psql('postgres', 'CREATE EXTENSION infer');
	my $client = client_finish(client($bare, "SET statement_timeout = '30s'; SELECT infer_generate('hi')"));
	is(sqlstate_of($client), '55000', 'engine program missing: a clean error') or diag $client->{err};
	rename "$program.away", $program or die $!;
	ok(wait_ready($bare), 'it recovers without a restart once the program is there');
	$bare->stop;
}

# Not preloaded.
my $plain = PostgreSQL::Test::Cluster->new('plain');
$plain->init;
(my $without = node_conf()) =~ s/^(shared_preload_libraries|infer\.).*$//mg;
$plain->append_conf('postgresql.conf', $without);
$plain->start;
$plain->safe_psql('postgres', 'CREATE EXTENSION infer');
my $not_preloaded = client_finish(client($plain, "SELECT infer_generate('hi')"));
is(sqlstate_of($not_preloaded), '55000', 'not preloaded: 55000');
like($not_preloaded->{err}, qr/HINT:.*shared_preload_libraries/s, 'not preloaded: the hint says what to set');
$plain->stop;

# Single-user mode starts nothing and says so.
my ($out, $err) = ('', '');
IPC::Run::run([ 'postgres', '--single', '-D', $node->data_dir, 'postgres' ],
	'<', \"SELECT infer_generate('hi');\n", '>', \$out, '2>', \$err);
like("$out$err", qr/ERROR: /, 'single-user mode: an error, not an engine');
unlike($out, qr/infer_generate = "/, 'single-user mode: no answer');

done_testing();
