#!/bin/bash
# sanitize.sh [TOOL...] - the client's tests and examples under sanitizers (started by tests/harness/run)
#
#   address    AddressSanitizer with leaks, UndefinedBehaviorSanitizer
#   thread     ThreadSanitizer
#   valgrind   memcheck on the ordinary build; leaks are the first one's: a forked child has those of its parent
#
# Needs: libasan, libtsan and libubsan (they come with gcc), valgrind.
set -eu
. tests/harness/lib.sh

[ $# -gt 0 ] || set -- address thread valgrind
failed=0

build_with() {
	log "client-$1" make -s -C client check-build B="build-$1" prefix="$prefix" CFLAGS="-O1 -g -fno-omit-frame-pointer $2"
}

# What each test printed is shown only if it failed; -fno-sanitize-recover makes a finding a failure.
run_tests() {
	local tool=$1 test
	shift
	for test in "client/build-$tool"/tests/test_*; do
		case $test in *.d) continue ;; esac
		log "$tool-$(basename "$test")" timeout -k 10 900 "$@" "$test" || return
	done
}

address() {
	build_with address '-fsanitize=address,undefined -fno-sanitize-recover=all' &&
		ASAN_OPTIONS=detect_leaks=1 run_tests address
}

thread() {
	# at once, or its shadow may find its place taken by where the kernel puts the program
	build_with thread '-fsanitize=thread' && TSAN_OPTIONS=halt_on_error=1 run_tests thread setarch -R
}

valgrind() {
	build_with valgrind '' &&
		PACER_SLOWER=50 run_tests valgrind "$(type -P valgrind)" --quiet --error-exitcode=9 --leak-check=no --child-silent-after-fork=yes
}

build_private
cluster_start
createdb client
psql -qd client -c 'CREATE EXTENSION pg_pacer'
export PGDATABASE=client
for tool; do
	if "$tool"; then echo "ok - client under $tool"; else echo "not ok - client under $tool" && failed=$((failed + 1)); fi
done
cluster_stop
echo "$(($# - failed)) passed, $failed failed"
[ $failed -eq 0 ]
