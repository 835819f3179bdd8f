# ALTER SYSTEM SET infer.models and a reload swap a model under load: what runs goes on with the old
# one, what comes gets the new one, and a broken file changes nothing.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use File::Copy qw(copy);
use InferTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $model  = "$ENV{INFER_TEST_MODELS}/" . InferTest::MODEL_FILE;
my $models = PostgreSQL::Test::Utils::tempdir();
my $long   = 'Tell me a very long story about a river.';

# The same weights under another general.name: same answers, another fingerprint.
my $bytes = slurp_file($model);
append_to_file("$models/one.gguf", $bytes);
my $key = "general.name\x08\x00\x00\x00";
my $at  = index $bytes, $key;
die 'no general.name in the model' if $at < 0;
my $name_at = $at + length($key) + 8;
substr($bytes, $name_at, 1) = 'Z';
append_to_file("$models/two.gguf", $bytes);
append_to_file("$models/broken.gguf", substr($bytes, 0, 3_000_000));
undef $bytes;

my $node = node_start('swap', 'infer.model_directory' => $models, 'infer.models' => 'chat=one.gguf');
my $pid  = wait_ready($node);
my $fingerprint = q(SELECT fingerprint FROM infer_generate_detail('hi', max_tokens => 1));
my $one = $node->safe_psql('postgres', $fingerprint);

sub set_models
{
	my ($list) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET infer.models = '$list'");
	$node->reload;
}

my $stream = client($node, "SELECT piece FROM infer_stream('$long', max_tokens => 1200); SELECT 'stream ended'", stream => 1);
client_wait_rows($stream, 3);
set_models('chat=two.gguf');
my $two;
ok(wait_for('the new model answers', sub {
	my $now = $node->safe_psql('postgres', $fingerprint);
	$stream->{run}->pump_nb;
	return $now ne $one && ($two = $now);
}), 'a new-model answer completes');
unlike($stream->{out}, qr/stream ended/, 'while the stream of the old model still runs');
like($node->safe_psql('postgres', q(SELECT string_agg(state, ',' ORDER BY state) FROM infer_models WHERE name = 'chat')), qr/draining/, 'the old one is draining');
client_finish($stream);
is($stream->{err}, '', 'the stream ends without an error');
like($stream->{out}, qr/stream ended/, 'and completely');
wait_for('the old model is unloaded', sub { $node->safe_psql('postgres', q(SELECT count(*) FROM infer_models WHERE state = 'draining')) eq '0' });
is($node->safe_psql('postgres', 'SELECT count(*) FROM infer_models'), '1', 'the old model is unloaded when it is idle');

# A broken file.
my $log_at = -s $node->logfile;
set_models('chat=broken.gguf');
ok(wait_for('a reason appears', sub {
	$node->safe_psql('postgres', q(SELECT count(*) FROM infer_models WHERE name = 'chat' AND coalesce(reason, '') <> '')) eq '1';
}), 'infer_models says why the new file is not served');
is($node->safe_psql('postgres', $fingerprint), $two, 'the old model goes on serving');
ok($node->log_contains(qr/broken\.gguf/, $log_at), 'the log says why');

# Several swaps under load: no request is lost, none is answered wrongly.
set_models('chat=one.gguf');
wait_for('one again', sub { $node->safe_psql('postgres', $fingerprint) eq $one });
my $expected = $node->safe_psql('postgres', q(SELECT infer_generate('What is the capital of France?', max_tokens => 12)));
my @clients = map {
	client($node, q(SELECT infer_generate('What is the capital of France?', max_tokens => 12);) x 15)
} 1 .. 4;
for my $file (qw(two one two))
{
	set_models("chat=$file.gguf");
	my $want = $file eq 'one' ? $one : $two;
	wait_for("$file serves", sub {
		$_->{run}->pump_nb for grep { $_->{run}->pumpable } @clients;
		$node->safe_psql('postgres', $fingerprint) eq $want;
	});
}
client_finish($_) for @clients;
is(join('', map { $_->{err} } @clients), '', 'swaps under load: no request fails');
my $count = 0;
$count += () = $_->{out} =~ /\Q$expected\E\n/g for @clients;
is($count, 60, 'swaps under load: each answer is right');
is(engine_pid($node), $pid, 'all in one engine');
audit_ok($node);
$node->stop;
done_testing();
