# Every code block of README.md and docs/*.md is real: SQL runs, output is what comes out, settings are
# accepted, commands exist.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Cwd qw(getcwd);
use InferTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# [language, text] of each block, in order.
sub blocks_of
{
	my ($file) = @_;
	my @blocks;
	my $text = slurp_file($file);
	push @blocks, [ $1, $2 ] while $text =~ /^```(\w+)\n(.*?)^```$/msg;
	return @blocks;
}

# Output as psql prints it, without the blanks at line ends that editors take away.
sub trimmed
{
	my ($text) = @_;
	$text =~ s/[ \t]+$//mg;
	$text =~ s/\n+\z/\n/;
	return $text;
}

my @blocks = blocks_of('README.md');
cmp_ok(scalar @blocks, '>', 8, 'README.md has code blocks');

my $node = PostgreSQL::Test::Cluster->new('readme');
$node->init;
my $conf = node_conf();
for my $ini (grep { $_->[0] eq 'ini' } @blocks)
{
	(my $lines = $ini->[1]) =~ s/^infer\.model_directory.*$//m;    # /srv/models is not ours to fill
	$conf .= $lines;
}
$node->append_conf('postgresql.conf', $conf);
$node->start;
is($node->safe_psql('postgres', 'SHOW shared_preload_libraries'), 'infer', 'the settings of README.md are accepted');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_settings WHERE name LIKE 'infer.%' AND pending_restart"), '0', 'and need no further restart');

my ($n_sql, $output) = (0, '');
for my $block (@blocks)
{
	my ($language, $text) = @$block;
	if ($language eq 'sql')
	{
		my ($out, $err) = ('', '');
		my $ok = IPC::Run::run([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', '-' ],
			'<', \$text, '>', \$out, '2>', \$err);
		ok($ok, 'runs: ' . (split /\n/, $text)[0]) or diag $err;
		$output = $out;
		$n_sql++;
	}
	elsif ($language eq 'text' && $text =~ /^\(\d+ rows?\)$/m)
	{
		is(trimmed($output), trimmed($text), 'prints what README.md shows');
	}
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM review WHERE summary IS NOT NULL'), '2', 'the table was enriched');

# Settings named in the table of README.md have the default that it says.
my $readme = slurp_file('README.md');
while ($readme =~ /^\| `(infer\.\w+)` \| (\S+) \|/mg)
{
	my ($name, $default) = ($1, $2);
	my $boot = $node->safe_psql('postgres', qq(SELECT coalesce(nullif(CASE unit WHEN 'MB' THEN boot_val || 'MB' ELSE boot_val END, ''), 'none')
		FROM pg_settings WHERE name = '$name'));
	$default =~ s/`//g;
	is($boot, $default, "default of $name");
}
$node->stop;

# Commands: scripts with a usage line of their own, or targets of make.
my $root = $ENV{INFER_TEST_ROOT};
SKIP:
{
	skip 'no source tree', 1 unless defined $root && -e "$root/Makefile";
	for my $file ('README.md', glob 'docs/*.md')
	{
		for my $line (map { split /\n/, $_->[1] } grep { $_->[0] eq 'sh' } blocks_of($file))
		{
			next if $line =~ /^\s*(#|$)/;
			my ($program, @rest) = split ' ', $line;
			if ($program eq 'make')
			{
				my @targets = grep { !/=/ } @rest;
				for my $target (@targets ? @targets : 'all')
				{
					my $make = slurp_file("$root/Makefile") . slurp_file("$root/scripts/dev.mk") . slurp_file("$root/test/fuzz/fuzz.mk");
					ok($make =~ /^[\w\s-]*\b\Q$target\E\b[\w\s-]*:/m || $target =~ /^(install|installcheck)$/, "$file: make $target");
				}
			}
			else
			{
				ok(-x "$root/$program", "$file: $program");
				like(slurp_file("$root/$program"), qr/\Q$rest[0]\E/, "$file: $program $rest[0]") if @rest;
			}
		}
	}
}
done_testing();
