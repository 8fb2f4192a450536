#!/bin/bash
# torture.sh - the longer proofs (started by tests/harness/run): half an hour
#
#   the arithmetic against the model    OPS operations (a million)
#   the arithmetic on its own           as many, with sanitizers
#   crashes under load                  ROUNDS (300)
#   the storage protocol                every interleaving of a model, with and without each of its rules
set -eu
. tests/harness/lib.sh

ops=${OPS:-1000000}
failed=0

report() {
	local name=$1
	shift
	if "$@"; then echo "ok - $name"; else echo "not ok - $name" && failed=$((failed + 1)); fi
}

random_units() {
	"${CC:-cc}" -std=gnu11 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover -Iext \
		-o tests/unit/random.test tests/unit/test_random.c ext/schedule.c -lcmocka && PACER_OPS=$ops tests/unit/random.test
}

crashes() {
	local pgxs
	pgxs=$(dirname "$(pg_config --pgxs)")/../..
	export TESTDIR=$PACER_TMP/tap TESTDATADIR=$PACER_TMP/tap/tmp_check TESTLOGDIR=$PACER_TMP/tap/log
	export PG_REGRESS=$pgxs/src/test/regress/pg_regress
	mkdir -p "$TESTDATADIR" "$TESTLOGDIR"
	PACER_ROUNDS=${ROUNDS:-300} prove -I "$pgxs/src/test/perl" -I tests/t tests/t/020_crash.pl
}

build_private
report "the model agrees after $ops operations" python3 tests/model/torture.py --ops "$ops"
report "nothing overflows in $ops operations" random_units
report "${ROUNDS:-300} crashes under load" crashes
report 'the storage protocol, as a model' bash tests/promela/run
echo "$((4 - failed)) passed, $failed failed"
[ $failed -eq 0 ]
