#!/bin/bash
# torture.sh - the longer proofs (started by tests/harness/run): three quarters of an hour
#
#   the arithmetic against the model    OPS operations (a million)
#   the arithmetic on its own           as many, with sanitizers
#   the storage protocol                every interleaving of a model, with and without each of its rules
#   torture/*.pl                        crashes, fail-overs, hurt callers, many sources: ROUNDS (300) of what comes first there
#
# What was tried goes to descriptor 3, if that is open: a line for each scenario, for
# docs/reliability.md.
set -eu
. tests/harness/lib.sh

ops=${OPS:-1000000}
rounds=${ROUNDS:-300}
export PACER_REPORT=$PACER_TMP/report
: >"$PACER_REPORT"
failed=0 passed=0

# report NAME ROUNDS TRIED COMMAND...
report() {
	local name=$1 rounds=$2 tried=$3
	shift 3
	if "$@"; then
		echo "ok - $name"
		passed=$((passed + 1))
		[ -z "$tried" ] || printf '%s\t%s\t%s\t0\n' "$name" "$rounds" "$tried" >>"$PACER_REPORT"
	else
		echo "not ok - $name"
		failed=$((failed + 1))
	fi
}

random_units() {
	"${CC:-cc}" -std=gnu11 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover -Iext \
		-o tests/unit/random.test tests/unit/test_random.c ext/schedule.c -lcmocka && PACER_OPS=$ops tests/unit/random.test
}

tap() {
	local pgxs
	pgxs=$(dirname "$(pg_config --pgxs)")/../..
	export TESTDIR=$PACER_TMP/tap TESTDATADIR=$PACER_TMP/tap/tmp_check TESTLOGDIR=$PACER_TMP/tap/log
	export PG_REGRESS=$pgxs/src/test/regress/pg_regress PG_TEST_TIMEOUT_DEFAULT=${PG_TEST_TIMEOUT_DEFAULT:-120}
	mkdir -p "$TESTDATADIR" "$TESTLOGDIR"
	PACER_ROUNDS=$2 prove -I "$pgxs/src/test/perl" -I tests/t "tests/torture/$1"
	local status=$?
	rm -rf "$TESTDATADIR"
	return $status
}

build_private
report 'the arithmetic agrees with a model written a second time' 1 "$ops random operations" python3 tests/model/torture.py --ops "$ops"
report 'the arithmetic under sanitizers' 1 "$ops random operations" random_units
report 'the storage protocol, every interleaving of two bookers, checkpointer, flush and crash' 1 'about 10^7 states; without any one of its rules the model fails' bash tests/promela/run
report 'crashes' "$rounds" '' tap 010_crash.pl "$rounds"
report 'fail-overs' $(((rounds + 9) / 10)) '' tap 020_failover.pl $(((rounds + 9) / 10))
report 'callers' $(((rounds * 2 + 2) / 3)) '' tap 030_clients.pl $(((rounds * 2 + 2) / 3))
report 'many' "$rounds" '' tap 040_many.pl "$rounds"
echo "$passed passed, $failed failed"
if { true >&3; } 2>/dev/null; then
	cat "$PACER_REPORT" >&3
fi
[ $failed -eq 0 ]
