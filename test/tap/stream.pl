# Rows reach the client while the answer still grows, whatever way it reads them; whole characters, in
# order, nothing missing; a client that stops reading holds up nobody.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use InferTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = node_start('stream', 'infer.max_sequences' => 4);
my $pid  = wait_ready($node);
my $long = 'Tell me a very long story about a river.';
my $n    = 400;

sub running
{
	return $node->safe_psql('postgres', 'SELECT coalesce(sum(n_running), 0) FROM infer_models');
}

# Proof of streaming without a clock: a row is here while the request still runs.
sub arrives_early
{
	my ($name, $client) = @_;
	client_wait_rows($client, 2);
	my $running = running();
	cmp_ok($running, '>', 0, "$name: rows are here while the answer still grows");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = '$client->{name}'");
	client_finish($client);
	is(sqlstate_of($client), '57014', "$name: cancelled in the middle") or diag $client->{err};
	audit_ok($node, "$name: nothing is left in use");
}

arrives_early('psql with FETCH_COUNT, FROM',
	client($node, "SELECT piece FROM infer_stream('$long', max_tokens => $n)", stream => 1));
arrives_early('psql with FETCH_COUNT, target list',
	client($node, "SELECT (infer_stream('$long', max_tokens => $n)).piece", stream => 1));
arrives_early('join with FROM',
	client($node, "SELECT s.seq, t.x FROM (VALUES (1)) t(x), infer_stream('$long', max_tokens => $n) s", stream => 1));

# a loop in PL/pgSQL: its notices are the rows
my $loop = client($node, "DO \$\$ DECLARE r record; BEGIN FOR r IN SELECT piece FROM infer_stream('$long', max_tokens => $n) LOOP
	RAISE NOTICE '%', r.piece; END LOOP; END \$\$");
wait_for('two notices', sub { $loop->{run}->pump_nb if $loop->{run}->pumpable; my $notices = () = $loop->{err} =~ /NOTICE/g; return $notices >= 2; });
cmp_ok(running(), '>', 0, 'a loop in PL/pgSQL sees rows while the answer still grows');
$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = '$loop->{name}'");
client_finish($loop);
audit_ok($node);

# psycopg's stream(), that is libpq's single-row mode
for my $query (
	"SELECT piece FROM infer_stream('$long', max_tokens => $n)",
	"SELECT infer_stream('$long', max_tokens => $n)")
{
	my $client = { name => 'psycopg', out => '', err => '' };
	$client->{run} = IPC::Run::start(
		[ 'python3', "$FindBin::Bin/stream_client.py", $node->connstr('postgres') . ' application_name=psycopg', $query ],
		'>', \$client->{out}, '2>', \$client->{err});
	client_wait_rows($client, 2);
	cmp_ok(running(), '>', 0, "psycopg: rows are here while the answer still grows: $query");
	$node->safe_psql('postgres', q(SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'psycopg'));
	client_finish($client);
	like($client->{err}, qr/QueryCanceled/, 'psycopg: cancelled in the middle');
	audit_ok($node);
}

# Order, completeness, and the last row.
my $whole = $node->safe_psql('postgres', "SELECT infer_generate('$long', max_tokens => 60)");
my $glued = $node->safe_psql('postgres', "SELECT string_agg(piece, '' ORDER BY seq) FROM infer_stream('$long', max_tokens => 60)");
is($glued, $whole, 'the pieces are the answer');
is($node->safe_psql('postgres', "SELECT bool_and(seq = n) FROM (SELECT seq, row_number() OVER () AS n FROM infer_stream('$long', max_tokens => 60)) s"),
	't', 'seq counts the rows from one, in order');
is($node->safe_psql('postgres', "SELECT count(finish_reason), max(finish_reason), max(output_tokens) FROM infer_stream('$long', max_tokens => 60)"),
	'1|length|60', 'the last row says why it ended and how many tokens there were');
is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT piece FROM infer_stream('$long', max_tokens => $n) LIMIT 3) s"), '3', 'LIMIT');
is($node->safe_psql('postgres', "SELECT count(*) FROM infer_stream(NULL)"), '0', 'NULL asks nothing');
is($node->safe_psql('postgres', "BEGIN; DECLARE c CURSOR FOR SELECT seq FROM infer_stream('$long', max_tokens => 30); FETCH 2 FROM c; FETCH 1 FROM c; COMMIT"),
	"1\n2\n3", 'a cursor');
is($node->safe_psql('postgres', "SELECT count(*) FROM infer_stream('Ein Gedicht mit Umlauten: äöü 東京 🙂', max_tokens => 60) WHERE piece <> convert_from(convert_to(piece, 'UTF8'), 'UTF8')"),
	'0', 'pieces are whole characters');
audit_ok($node);

# A client that stops reading: others are served, and it can be ended.
my $stopped = client($node, "SELECT piece, repeat('x', 100000) FROM infer_stream('$long', max_tokens => 1500)");
my $backend = backend_of($node, $stopped);
kill STOP => $stopped->{psql_pid};
wait_for('its backend waits', sub {
	$node->safe_psql('postgres', "SELECT wait_event IS NOT NULL FROM pg_stat_activity WHERE pid = $backend") eq 't';
});
like($node->safe_psql('postgres', "SELECT infer_generate('What is the capital of France?', max_tokens => 30)"), qr/Paris/, 'a stopped client holds up nobody');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($backend)");
ok(wait_for('its backend is gone', sub { $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE pid = $backend") eq '0' }),
	'a stopped client can be terminated');
kill CONT => $stopped->{psql_pid};
client_finish($stopped);
audit_ok($node);

# Outputs larger than the ring, prompts larger than the slot.
my $big = $node->safe_psql('postgres', "SELECT length(infer_render(jsonb_build_array(jsonb_build_object('role', 'user', 'content', repeat('long text ', 200000)))))");
cmp_ok($big, '>', 1_999_999, 'a prompt and an answer of two megabytes go through');
audit_ok($node);
is(engine_pid($node), $pid, 'all with the same engine');
$node->stop;
done_testing();
