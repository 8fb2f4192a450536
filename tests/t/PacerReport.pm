# A line of docs/reliability.md: what was tried, how often, and what was lost.
#
#	PacerReport::line('kill -9 of one backend', $rounds, "$answers answers", $lost);
#
# It is printed for everybody, and appended to the file $PACER_REPORT where there is one.
package PacerReport;

use strict;
use warnings;
use Test::More;

sub line
{
	my ($scenario, $rounds, $tried, $lost) = @_;

	note("$scenario: $rounds rounds, $tried, lost: $lost");
	return unless $ENV{PACER_REPORT};
	open my $f, '>>', $ENV{PACER_REPORT} or die "$ENV{PACER_REPORT}: $!";
	print $f join("\t", $scenario, $rounds, $tried, $lost), "\n";
	close $f or die "$ENV{PACER_REPORT}: $!";
	return;
}

1;
