# A stream's rows are at the client before the next token is waited for, whatever way it is read, and
# a client that does not read holds up nobody.
#
# Arrival is proved by state, not by time: the engine is stopped in the middle of an answer, and the
# client then has every row up to the token at which it stands, and not the last one.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use InferTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $long = 'Tell me a very long story about a river.';
my $args = "'$long', max_tokens => 1500";
my $node = node_start('arrival', 'infer.max_sequences' => 4);
my $pid  = wait_ready($node);

# What the region says of the slots in use: [{state, phase, output, ring}, ...]
sub peek
{
	my ($out, $err) = run_command(["$ENV{INFER_TEST_ROOT}/region_peek", $pid]);
	die $err if $err ne '';
	return [map { /^\d+ (\w+) (\w+) prompt=(\d+) output=(\d+) ring=(\d+)/
		  ? { state => $1, phase => $2, output => $4, ring => $5 } : () } split /\n/, $out];
}

# ---- the single-row client ----

sub reader
{
	my ($sql) = @_;
	my $reader = { in => '', out => '', err => '', name => 'reader_' . int(rand(1e9)) };
	$reader->{run} = IPC::Run::start(
		['python3', "$FindBin::Bin/single_row_client.py", $node->connstr('postgres') . " application_name=$reader->{name}", $sql],
		'<', \$reader->{in}, '>', \$reader->{out}, '2>', \$reader->{err});
	return $reader;
}

sub reader_ask
{
	my ($reader, $command) = @_;
	$reader->{out} = '';
	$reader->{in} .= "$command\n";
	wait_for("an answer to $command", sub {
		$reader->{run}->pump_nb if $reader->{run}->pumpable;
		return $reader->{out} =~ /\n/ || !$reader->{run}->pumpable;
	});
	my ($line) = split /\n/, $reader->{out};
	return $line // "gone: $reader->{err}";
}

sub reader_end
{
	my ($reader) = @_;
	$reader->{run}->kill_kill;
}

# The engine stands still in the middle of the one request in flight. Returns its token count.
sub engine_stop
{
	kill STOP => $pid;
	my $slots = peek();
	is(scalar(@$slots), 1, 'one request is in flight');
	return $slots->[0]{output} // 0;
}

sub engine_go
{
	kill CONT => $pid;
}

# $columns names the row that ends in output_tokens.
sub rows_arrive
{
	my ($name, $sql) = @_;
	my $reader = reader($sql);
	my $row;
	$row = reader_ask($reader, 'next') for 1 .. 3;
	like($row, qr/\|(\d+)$/, "$name: the third row") or diag($reader->{err});
	my $reached = engine_stop();
	cmp_ok($reached, '<', 1500, "$name: the answer was not complete when its third row was here");

	# A token whose characters are not whole yet makes no row, so the last row may be a few behind.
	my $last = (split /\|/, $row)[-1];
	wait_for("$name: the rows up to token $reached", sub {
		my $next = reader_ask($reader, 'poll');
		$last = $1 if $next =~ /\|(\d+)$/;
		return $last >= $reached - 3;
	}, 5);
	cmp_ok($last, '>=', $reached - 3, "$name: at token $reached the client has the rows up to $last");
	is(reader_ask($reader, 'poll'), 'nothing', "$name: and no more than that") if $last >= $reached;
	engine_go();
	reader_end($reader);
	audit_ok($node, "$name: nothing is left of the client that went away");
}

rows_arrive('FROM', "SELECT piece, output_tokens FROM infer_stream($args)");
rows_arrive('FROM with a filter', "SELECT piece, output_tokens FROM infer_stream($args) WHERE seq > 0");
rows_arrive('target list', "SELECT (s).piece, (s).output_tokens FROM (SELECT infer_stream($args) AS s OFFSET 0) x");
rows_arrive('LATERAL', "SELECT s.piece, s.output_tokens FROM (VALUES ('$long')) t (p), LATERAL infer_stream(t.p, max_tokens => 1500) s");
rows_arrive('WITH ORDINALITY', "SELECT s.ordinality, s.output_tokens FROM infer_stream($args) WITH ORDINALITY s");
rows_arrive('nested loop', "SELECT s.piece, s.output_tokens FROM infer_stream($args) s, generate_series(1, 1) g");

# ---- other ways to read ----

# Output of a client that psql prints as it comes: `$count` counts in what has been printed.
sub lines_arrive
{
	my ($name, $sql, $stream, $where) = @_;
	my $client = client($node, $sql, stream => $stream);
	wait_for("$name: three rows", sub {
		$client->{run}->pump_nb if $client->{run}->pumpable;
		return (() = $client->{$where} =~ /^(?:.*NOTICE.*)?row \d/mg) >= 3 || !$client->{run}->pumpable;
	});
	my $reached = engine_stop();
	cmp_ok($reached, '<', 1500, "$name: the answer is not complete");
	my $last = 0;
	wait_for("$name: rows up to token $reached", sub {
		$client->{run}->pump_nb if $client->{run}->pumpable;
		$last = $1 while $client->{$where} =~ /row (\d+)$/mg;
		return $last >= $reached - 3;
	}, 5);
	cmp_ok($last, '>=', $reached - 3, "$name: at token $reached the client shows the rows up to $last");
	engine_go();
	$client->{run}->kill_kill;
	audit_ok($node, "$name: nothing is left");
}

lines_arrive('psql FETCH_COUNT 1', "SELECT 'row ' || output_tokens FROM infer_stream($args);\n", 1, 'out');
lines_arrive('PL/pgSQL loop in a DO block', "DO \$\$ DECLARE r record; BEGIN FOR r IN SELECT * FROM infer_stream($args) LOOP RAISE NOTICE 'row %', r.output_tokens; END LOOP; END \$\$;\n", 0, 'err');

# A cursor costs what is fetched, and its rows come one by one.
my $session = $node->background_psql('postgres');
$session->query_safe("BEGIN; DECLARE c CURSOR FOR SELECT seq, output_tokens FROM infer_stream($args)");
like($session->query_safe('FETCH 1 FROM c'), qr/^1\|\d+$/, 'FETCH 1: the first row');
is(peek()->[0]{state}, 'RUNNING', 'FETCH 1: the answer is not complete');
like($session->query_safe('FETCH 1 FROM c'), qr/^2\|\d+$/, 'FETCH 1: the second row');
$session->query_safe('CLOSE c; COMMIT');
audit_ok($node, 'a closed cursor gives its slot back');
$session->query_safe("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT seq FROM infer_stream('$long', max_tokens => 8)");
is($session->query_safe('FETCH 3 FROM c; FETCH PRIOR FROM c; FETCH LAST FROM c; FETCH FIRST FROM c'),
	join("\n", 1, 2, 3, 2, $session->query_safe("SELECT count(*) FROM infer_stream('$long', max_tokens => 8)"), 1),
	'a scroll cursor goes back and forth');
$session->query_safe('COMMIT');
$session->quit;

# psycopg's stream() is what Python programs use.
my ($python, $python_err) = run_command(['python3', '-c', <<'PY', $node->connstr('postgres'), "SELECT seq FROM infer_stream($args)"]);
import sys, psycopg
with psycopg.connect(sys.argv[1]) as connection:
    with connection.cursor() as cursor:
        rows = cursor.stream(sys.argv[2])
        print([next(rows)[0] for _ in range(3)])
        rows.close()
PY
is($python, '[1, 2, 3]', "psycopg's stream() yields rows") or diag($python_err);
audit_ok($node);

# ---- the same rows as any other way ----

my $whole = $node->safe_psql('postgres', "SELECT infer_generate('$long', max_tokens => 40)");
my $short = "infer_stream('$long', max_tokens => 40)";
for my $query (
	"SELECT string_agg(piece, '' ORDER BY seq) FROM $short",
	"SELECT string_agg((s).piece, '' ORDER BY (s).seq) FROM (SELECT $short AS s) x",
	"SELECT string_agg(s.piece, '' ORDER BY s.seq) FROM (VALUES ('$long')) t (p), infer_stream(t.p, max_tokens => 40) s",
	"WITH s AS MATERIALIZED (SELECT * FROM $short) SELECT string_agg(piece, '' ORDER BY seq) FROM s")
{
	is($node->safe_psql('postgres', $query), $whole, "pieces add up to the answer: $query");
}
like($node->safe_psql('postgres', "EXPLAIN (COSTS OFF) SELECT * FROM $short"), qr/Infer Stream/, 'EXPLAIN shows the node');
is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT * FROM infer_stream($args) LIMIT 5) s"), 5, 'LIMIT 5');
audit_ok($node, 'LIMIT ends the request');

# An uncorrelated stream runs once however often it is read again.
sub n_submitted
{
	my ($out) = run_command(["$ENV{INFER_TEST_ROOT}/region_peek", $pid]);
	return $out =~ /submitted=(\d+)/ ? $1 : die $out;
}

my $before = n_submitted();
$node->safe_psql('postgres', "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
	SELECT count(*) FROM generate_series(1, 4) g LEFT JOIN infer_stream('$long', max_tokens => 5) s ON s.seq < g");
is(n_submitted() - $before, 1, 'a stream that does not depend on the outer row runs once');
audit_ok($node);

# ---- a client that does not read ----

my $stalled = reader("SELECT piece, repeat('x', 200000) FROM infer_stream($args)");
reader_ask($stalled, 'next');
my $other = sub { $node->safe_psql('postgres', "SELECT length(infer_generate('Say hello.', max_tokens => 8)) > 0") };
is($other->(), 't', 'a stalled client holds up no other session');
my $backend = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = '$stalled->{name}'");
wait_for('the stream is put aside', sub { my $slots = peek(); return @$slots == 0 || $slots->[0]{phase} =~ /PREEMPTED|FINISHED/; });
is($other->(), 't', 'nor does it when its ring is full');
is($node->safe_psql('postgres', "SELECT pg_terminate_backend($backend)"), 't', 'it can be terminated');
ok(wait_for('its end', sub {
	$node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE pid = $backend") == 0;
}), 'and ends');
reader_end($stalled);
audit_ok($node, 'its slot and pages are free');

is(engine_pid($node), $pid, 'all with the same engine');
$node->stop;
done_testing();
