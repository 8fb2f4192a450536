#!/bin/bash
# check.sh [SUITE...] - every test of the tree, on a server of its own (started by tests/harness/run)
#
# Each suite is a run of prove or prints like one; what it printed is counted and,
# if anything failed, shown. A suite that has files but ran no test has failed.
set -eu
. tests/harness/lib.sh

[ $# -gt 0 ] || set -- style unit model pgtap managed specs client tap
passed=0 failed=0 skipped=0

# No suite takes long; one that hangs is to be seen, not waited for.
bounded() {
	timeout -k 10 600 "$@"
}

# The version stands in META.json; the server wants it in two more places.
suite_style() {
	local version
	version=$(sed -n 's/^   "version": "\(.*\)",$/\1/p' META.json)
	says() {
		if grep -qs -- "$2" "$3"; then echo "ok - $1"; else echo "not ok - $1"; fi
	}
	says "$version is what pg_pacer.control installs" "^default_version = '$version'\$" sql/pg_pacer.control
	says "$version has its script" '' "sql/pg_pacer--$version.sql"
	says "$version is provided by META.json" "\"file\": \"sql/pg_pacer--$version.sql\"" META.json
	says "$version is in the change log" "^## $version" CHANGELOG.md
}

# The arithmetic alone, where a sanitizer sees every overflow.
suite_unit() {
	local file
	for file in "$@"; do
		# shellcheck disable=SC2086 # a list of options
		"${CC:-cc}" -std=gnu11 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover ${COPT:-} \
			-Iext -o "${file%.c}.test" "$file" ext/schedule.c -lcmocka || return
	done
	CMOCKA_MESSAGE_OUTPUT=TAP bounded prove -v "${@/%.c/.test}"
}

suite_model() {
	bounded python3 tests/model/torture.py --ops 10000 && echo 'ok - the model agrees' || echo 'not ok - the model disagrees'
}

suite_pgtap() {
	createdb pgtap
	bounded pg_prove -v -d pgtap "$@"
}

# The edition in plain SQL: the same files, the same model, the same client.
suite_managed() {
	local database
	for database in managed model client_managed; do
		createdb "$database"
		psql -qX -d "$database" -v ON_ERROR_STOP=1 -f sql/pacer-managed.sql || return
	done
	bounded pg_prove -v -d managed --set managed=1 "$@"
	psql -qX -d model -v ON_ERROR_STOP=1 -f tests/managed/driver.sql || return
	PGDATABASE=model bounded python3 tests/model/torture.py --managed --ops 2000 && echo 'ok - the model agrees' || echo 'not ok - the model disagrees'
	make -s -C client check-build || return
	PGDATABASE=client_managed CMOCKA_MESSAGE_OUTPUT=TAP bounded prove -v client/build/tests/*
}

# The driver looks for specs/NAME.spec and expected/NAME.out side by side.
suite_specs() {
	local regress
	regress=$(dirname "$(pg_config --pgxs)")/../test/isolation
	ln -s specs/expected tests/expected
	mkdir "$PACER_TMP/specs"
	# shellcheck disable=SC2046 # a list of names
	bounded "$regress/pg_isolation_regress" --bindir="$(pg_config --bindir)" --inputdir=tests --outputdir="$PACER_TMP/specs" \
		--load-extension=pg_pacer --host="$PGHOST" --port="$PGPORT" --user="$PGUSER" --dbname=specs \
		$(basename -s .spec "$@") && return
	cat "$PACER_TMP/specs/regression.diffs"
	return 1
}

suite_client() {
	createdb client
	psql -qd client -c 'CREATE EXTENSION pg_pacer'
	make -s -C client check-build || return
	PGDATABASE=client CMOCKA_MESSAGE_OUTPUT=TAP bounded prove -v client/build/tests/*
}

suite_tap() {
	local pgxs
	pgxs=$(dirname "$(pg_config --pgxs)")/../..
	(
		unset PGHOST PGPORT PGUSER PGDATABASE
		# one folder for PostgreSQL 15, two from 16 on
		export TESTDIR=$PACER_TMP/tap TESTDATADIR=$PACER_TMP/tap/tmp_check TESTLOGDIR=$PACER_TMP/tap/log
		export PG_TEST_TIMEOUT_DEFAULT=${PG_TEST_TIMEOUT_DEFAULT:-60}
		export PG_REGRESS=$pgxs/src/test/regress/pg_regress
		mkdir -p "$TESTDATADIR" "$TESTLOGDIR"
		bounded prove -v -I "$pgxs/src/test/perl" -I tests/t "$@"
	)
}

files_of() {
	case $1 in
	style) echo META.json ;;
	unit) echo tests/unit/*.c ;;
	model) echo tests/model/torture.py ;;
	pgtap | managed) echo tests/pgtap/*.sql ;;
	specs) echo tests/specs/*.spec ;;
	client) echo tests/client/*.c ;;
	tap) echo tests/t/*.pl ;;
	esac
}

# Failed tests with what they said about it, then the end.
show() {
	echo "---- $1"
	awk '/^not ok|^test .* FAILED/ { show = 1 } /^ok/ { show = 0 } show || /^[^ ]*#/' "$2" | head -n 120
	echo '----'
	tail -n 25 "$2"
	echo '----'
}

count() {
	grep -cE "$1" "$2" || true
}

run_suite() {
	local name=$1 files log=$PACER_TMP/log/$1 status=0 good bad skip start=$SECONDS
	# shellcheck disable=SC2207 # a list of files
	files=($(shopt -s nullglob; files_of "$name"))
	[ -n "${files[*]}" ] && [ -e "${files[0]}" ] || return 0
	"suite_$name" "${files[@]}" >"$log" 2>&1 || status=$?
	skip=$(count '^ok .*# [Ss][Kk][Ii][Pp]' "$log")
	good=$(($(count '^ok .|^test .* ok +[0-9]+ ms' "$log") - skip))
	bad=$(($(count '^not ok .|^test .* FAILED' "$log") - $(count '^not ok .*# TODO' "$log")))
	# a test that broke off, or none at all
	if [ "$bad" -eq 0 ] && { [ $status -ne 0 ] || [ "$good" -eq 0 ]; }; then
		bad=1
	fi
	[ "$bad" -eq 0 ] || show "$name" "$log"
	printf '%-8s %5d passed, %d failed, %d skipped (%d s)\n' "$name" $good $bad "$skip" $((SECONDS - start))
	passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + skip))
}

build_private
cluster_start
for name; do
	run_suite "$name"
done
# A crash that the tests did not ask for is one more failure, whatever they saw of it.
if ! cluster_stop || grep -nE -A2 'PANIC|terminated by signal' "$PACER_TMP/log/server"; then
	echo 'server: did not stay up'
	failed=$((failed + 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
