# Whatever ends a statement, in whatever phase, its slot and pages are free at once.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use InferTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = node_start('cancel', 'infer.max_sequences' => 2);
my $pid  = wait_ready($node);
my $long = 'Tell me a very long story about a river.';
my $text = 'One two three four five six seven. ' x 150;

# Each phase returns a client whose request is in it, and clients that only make it so.
my %phases = (
	# both places are taken, so that it waits
	queued => sub {
		my @fill = map { client($node, "SELECT count(*) FROM infer_stream('$long $_', max_tokens => 1500)") } 1 .. 2;
		wait_for('both places are taken', sub { $node->safe_psql('postgres', 'SELECT sum(n_running) FROM infer_models') == 2 });
		my $client = client($node, "SELECT infer_generate('$long')", name => 'queued');
		backend_of($node, $client);
		wait_for('one waits', sub { $node->safe_psql('postgres', 'SELECT sum(n_waiting) FROM infer_models') >= 1 });
		return ($client, @fill);
	},
	prefill => sub {
		my $client = client($node, "SELECT infer_generate('$text ' || clock_timestamp(), max_tokens => 400)");
		backend_of($node, $client);
		wait_for('it runs', sub { $node->safe_psql('postgres', 'SELECT sum(n_running) FROM infer_models') == 1 });
		return $client;
	},
	decode => sub {
		my $client = client($node, "SELECT piece FROM infer_stream('$long', max_tokens => 1500)", stream => 1);
		client_wait_rows($client, 2);
		return $client;
	},
	# in the target list a row goes out as soon as it is there: rows of 2 KB fill the socket of a client that stopped
	stopped_client => sub {
		my $client = client($node, "SELECT piece, repeat('x', 200000) FROM infer_stream('$long', max_tokens => 1500)");
		backend_of($node, $client);
		kill STOP => $client->{psql_pid};
		wait_for('the backend waits for its client', sub {
			$node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE application_name = '$client->{name}'
				AND wait_event IS NOT NULL AND state = 'active'") == 1;
		});
		return $client;
	},
);

my %ends = (
	'Ctrl-C' => sub { my ($client, $backend) = @_; $node->safe_psql('postgres', "SELECT pg_cancel_backend($backend)"); return '57014'; },
	'terminate' => sub { my ($client, $backend) = @_; $node->safe_psql('postgres', "SELECT pg_terminate_backend($backend)"); return '57P01'; },
	'lost client' => sub { my ($client) = @_; kill KILL => $client->{psql_pid}; return ''; },
);

for my $phase (sort keys %phases)
{
	for my $end (sort keys %ends)
	{
		my $name = "$end, $phase";
		my ($client, @fill) = $phases{$phase}->();
		my $backend = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = '$client->{name}'");
		my $state   = $ends{$end}->($client, $backend);

		# A client that stopped cannot be told of a cancel before it goes on; termination needs no client.
		kill CONT => $client->{psql_pid} if $phase eq 'stopped_client' && $end eq 'Ctrl-C';
		if ($end ne 'Ctrl-C')
		{
			ok(wait_for("backend of $name is gone", sub {
				$node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE pid = $backend") == 0;
			}), "$name: the backend is gone");
		}
		kill CONT => $client->{psql_pid};
		client_finish($client);
		is(sqlstate_of($client), $state, "$name: one clean error") if $state ne '' && $phase ne 'stopped_client';
		$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = '$_->{name}'") for @fill;
		client_finish($_) for @fill;
		audit_ok($node, "$name: nothing is left in use");
	}
}

# statement_timeout, in a queue and while it decodes.
my $decode = client_finish(client($node, "SET statement_timeout = '700ms'; SELECT infer_generate('$long', max_tokens => 2000)"));
is(sqlstate_of($decode), '57014', 'statement_timeout while decoding');
audit_ok($node);
my @fill = map { client($node, "SELECT count(*) FROM infer_stream('$long $_', max_tokens => 1500)") } 1 .. 2;
wait_for('both places are taken', sub { $node->safe_psql('postgres', 'SELECT sum(n_running) FROM infer_models') == 2 });
my $queued = client_finish(client($node, "SET statement_timeout = '200ms'; SELECT infer_generate('$long', max_tokens => 2000)"));
is(sqlstate_of($queued), '57014', 'statement_timeout in the queue');
$node->safe_psql('postgres', q(SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'client_%'));
client_finish($_) for @fill;
audit_ok($node);

# A batch whose statement ends early leaves nothing either.
my $batch = client_finish(client($node, "SET statement_timeout = '600ms';
	SELECT * FROM infer_batch(ARRAY(SELECT '$long ' || g FROM generate_series(1, 40) g), max_tokens => 500)"));
is(sqlstate_of($batch), '57014', 'statement_timeout in a batch of 40');
audit_ok($node);

# A subtransaction that fails, a cursor that is closed early, LIMIT.
$node->safe_psql('postgres', "DO \$\$ BEGIN PERFORM infer_submit('$long'); RAISE EXCEPTION 'x'; EXCEPTION WHEN OTHERS THEN NULL; END \$\$");
audit_ok($node, 'a submitted request ends with its subtransaction');
is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT piece FROM infer_stream('$long', max_tokens => 1500) LIMIT 2) s"), '2', 'LIMIT on a stream');
audit_ok($node, 'LIMIT ends the request');
$node->safe_psql('postgres', "BEGIN; DECLARE c CURSOR FOR SELECT piece FROM infer_stream('$long', max_tokens => 1500); FETCH 2 FROM c; CLOSE c; COMMIT");
audit_ok($node, 'a closed cursor ends the request');

is(engine_pid($node), $pid, 'all with the same engine');
$node->stop;
done_testing();
