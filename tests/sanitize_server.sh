#!/bin/bash
# sanitize_server.sh - the server's part under AddressSanitizer, UBSan and valgrind (started by tests/harness/run)
#
#   sanitizers   the extension built with both, in an ordinary server: pgtap, specs, NONSENSE random statements (20000)
#   valgrind     the ordinary extension in a server under valgrind: pgtap
#
# An argument chooses one of the two.
#
# Debian's PostgreSQL is not built for valgrind, so memory of its own contexts looks like
# one block to both. An error of the server's own is not ours: of valgrind's, only those
# count in whose stacks (of the access or of the memory's origin) pg_pacer.so appears.
# Needs: gcc, libasan, python3, valgrind.
set -eu
. tests/harness/lib.sh

passed=0 failed=0

report() {
	local name=$1
	shift
	if "$@"; then echo "ok - $name" && passed=$((passed + 1)); else echo "not ok - $name" && failed=$((failed + 1)); fi
}

suite_pgtap() {
	dropdb --if-exists pgtap 2>/dev/null && createdb pgtap && log "$1" pg_prove -d pgtap tests/pgtap/*.sql
}

suite_specs() {
	local regress
	regress=$(dirname "$(pg_config --pgxs)")/../test/isolation
	ln -sfn specs/expected tests/expected
	mkdir -p "$PACER_TMP/specs"
	# shellcheck disable=SC2046 # a list of names
	log specs "$regress/pg_isolation_regress" --bindir="$(pg_config --bindir)" --inputdir=tests --outputdir="$PACER_TMP/specs" \
		--load-extension=pg_pacer --host="$PGHOST" --port="$PGPORT" --user="$PGUSER" --dbname=specs \
		$(basename -s .spec -a tests/specs/*.spec)
}

# What a sanitizer has to say it writes to a file, and ends the process.
no_file() {
	local file
	for file in "$1"/*; do
		[ -e "$file" ] || return 0
		head -n 40 "$file"
	done
	return 1
}

# build_with SANITIZERS - pg_pacer.so alone is instrumented
build_with() {
	log build_sanitized make -s -C ext clean
	log build_sanitized make -s -C ext install COPT="-O1 -g -fno-omit-frame-pointer -fsanitize=$1 -fno-sanitize-recover=all"
}

# Only the server itself is started in this way: the programs beside it gain nothing from it.
# start_through COMMAND... - as cluster_start does, with COMMAND before the server's program
start_through() {
	[ -e "$cluster" ] || log initdb cluster_make
	printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$*" "$(pg_config --bindir)/postgres" >"$PACER_TMP/server"
	chmod 755 "$PACER_TMP/server"
	export PGHOST=$socket PGPORT=5432 PGUSER=postgres PGDATABASE=postgres PGCTLTIMEOUT=300
	log pg_ctl pg_ctl -D "$cluster" -l "$PACER_TMP/log/server" -p "$PACER_TMP/server" -o '-c jit=off' -w start
}

with_sanitizers() {
	local reports=$PACER_TMP/sanitizer preload sanitizers=address,undefined
	# PostgreSQL keeps what it needs to its end, and measures its stack
	local asan=detect_leaks=0:detect_stack_use_after_return=0:use_sigaltstack=0:abort_on_error=1:log_path=$reports/asan
	local ubsan=print_stacktrace=1:halt_on_error=1:abort_on_error=1:log_path=$reports/ubsan
	mkdir "$reports"
	# The runtime has to come first, so the server is started with it. Debian 12's hangs in
	# bindtextdomain() then, on some machines; there the other sanitizer is what there is.
	preload="$(runtime libasan.so) $(runtime libubsan.so)"
	if ! LD_PRELOAD=$preload ASAN_OPTIONS=$asan timeout -k 1 10 postgres -V >/dev/null 2>&1; then
		echo 'ok - AddressSanitizer # SKIP the server does not start with it'
		preload=$(runtime libubsan.so) sanitizers=undefined
	fi
	build_with $sanitizers
	start_through env "'LD_PRELOAD=$preload'" "ASAN_OPTIONS=$asan" "UBSAN_OPTIONS=$ubsan"
	report "$sanitizers: pg_pacer.so is instrumented" instrumented
	report "$sanitizers: pgtap" suite_pgtap sanitized_pgtap
	report "$sanitizers: specs" suite_specs
	report "$sanitizers: ${NONSENSE:-20000} random statements" python3 tests/nonsense/nonsense.py --statements "${NONSENSE:-20000}"
	cluster_stop
	report "$sanitizers: nothing was found" no_file "$reports"
}

runtime() {
	"${CC:-gcc}" -print-file-name="$1"
}

instrumented() {
	nm -D --undefined-only "$(pg_config --pkglibdir)/pg_pacer.so" | grep -qE '__(asan_report|ubsan_handle)' &&
		psql -qc 'CREATE EXTENSION IF NOT EXISTS pg_pacer' && psql -Atqc "SELECT pacer.every(1, '1 s')" >/dev/null
}

ran_to_end() {
	grep '^Files=' "$1" && ! grep -E 'Parse errors|Non-zero|No plan' "$1" && psql -Atqc 'SELECT 1' >/dev/null
}

# The XML names the library of each frame; the readable form does only where debug symbols lack.
valgrind_findings() {
	python3 - "$1"/*.xml <<-'END'
		import re, sys
		found = set()
		for name in sys.argv[1:]:
		    # a process that was killed leaves its file unfinished
		    for error in re.findall(r'<error>.*?</error>', open(name, errors='replace').read(), re.S):
		        frames = re.findall(r'<frame>(.*?)</frame>', error, re.S)
		        if not any('pg_pacer.so<' in f for f in frames):
		            continue
		        what = re.search(r'<(?:what|text)>(.*?)</', error).group(1)
		        # the bytes that align records in the WAL's buffers; PostgreSQL's own suppressions name them
		        if 'pwrite64(buf)' in what and re.search(r'<fn>XLog(Write|Flush|BackgroundFlush)</fn>', error):
		            continue
		        where = [re.sub(r'\s+', ' ', ' '.join(re.findall(r'<(?:fn|file|line)>(.*?)</', f))) for f in frames]
		        found.add(what + '\n    ' + '\n    '.join(where[:12]))
		print('\n'.join(sorted(found)))
		sys.exit(bool(found))
	END
}

with_valgrind() {
	local reports=$PACER_TMP/valgrind
	mkdir "$reports"
	log build make -s -C ext clean
	log build make -s -C ext install COPT='-O1 -g'
	start_through valgrind --quiet --trace-children=yes --leak-check=no --track-origins=yes --error-limit=no \
		--xml=yes "--xml-file=$reports/%p.xml"
	# thirty times slower, some of what was to be ahead is past: what is told then is not judged
	suite_pgtap valgrind_pgtap >/dev/null 2>&1 || true
	report 'valgrind: pgtap runs to its end' ran_to_end "$PACER_TMP/log/valgrind_pgtap"
	cluster_stop
	report "valgrind: nothing in pg_pacer.so, $(find "$reports" -name '*.xml' | wc -l) processes" valgrind_findings "$reports"
}

build_private
[ $# -gt 0 ] || set -- sanitizers valgrind
for part; do
	"with_$part"
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
