#!/bin/bash
# analyse.sh - static analysis of extension, library and command (started by tests/harness/run)
#
#   cppcheck                        warning, performance, portability
#   gcc -fanalyzer                  with -Wall -Wextra
#   clang-tidy                      bugprone-*, clang-analyzer-*
#
# A finding is an error unless tests/analyse.known names it, with the reason why it is none.
# Needs: clang-tidy, cppcheck, gcc.
set -eu

found=$PACER_TMP/found
failed=0
server=$("${PG_CONFIG:-pg_config}" --includedir-server)
libpq=$("${PG_CONFIG:-pg_config}" --includedir)
ext_flags=(-std=gnu11 -Iext -isystem "$server" '-DPACER_VERSION="0"')
# shellcheck disable=SC2207 # a list of words
client_flags=(-std=gnu11 -Iclient -Iext -isystem "$libpq" -pthread '-DPGPACER_VERSION="0"'
	$(pkg-config --cflags ncursesw 2>/dev/null && echo -DHAVE_CURSES))

# Not asked for: an opinion on parameter lists, names that C and PostgreSQL prescribe
# (_GNU_SOURCE, _PG_init), and functions of Annex K that no libc has (memcpy_s).
checks='-*,bugprone-*,clang-analyzer-*,-bugprone-easily-swappable-parameters,-bugprone-reserved-identifier'
checks+=',-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling'

# Without the server's headers: cppcheck reads no macro of theirs, and takes calls for calls.
cppcheck_file() {
	cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
		--template='{file}:{line}:{column}: {severity}: {message} [{id}]' --template-location='' -Iext -Iclient "$1"
}

analyzer_file() {
	"${CC:-gcc}" "${flags[@]}" -O2 -g -Wall -Wextra -Wno-unused-parameter -fanalyzer -c -o /dev/null "$1"
}

# A process each: from the second file on, clang 14 takes every va_list for uninitialized.
tidy_file() {
	clang-tidy --quiet --checks="$checks" "$1" -- "${flags[@]}"
}

# "file:line:col: warning: message [check]" of a file of ours is a finding, whoever prints it
findings() {
	sed -nE "s,^$PWD/,,; /^(ext|client)\/[^ :]*:[0-9]+:[0-9]+: (warning|error|style|performance|portability):/p" | sort -u
}

# file, check and a piece of the line must agree with what is known
is_known() {
	local finding=$1 file line check text known_file known_check piece reason
	IFS=: read -r file line _ <<<"$finding"
	check=${finding##*[}
	check=${check%]}
	text=$(sed -n "${line}p" "$file")
	while IFS='|' read -r known_file known_check piece reason; do
		[ "$file" = "$known_file" ] && [[ $check == *"$known_check"* ]] && [[ $text == *"$piece"* ]] && return
	done < <(sed '/^#/d; /^$/d; s/ *| */|/g' tests/analyse.known)
	return 1
}

analyse() {
	local tool=$1 part=$2 file finding new=0 known=0
	shift 2
	for file; do
		# a tool that cannot read the file says so, or says nothing: then its status counts
		"${tool}_file" "$file" >"$found" 2>&1 || grep -qE ': (warning|error)' "$found" ||
			{ cat "$found"; new=$((new + 1)); }
		while read -r finding; do
			if is_known "$finding"; then
				known=$((known + 1))
			else
				echo "# $finding"
				new=$((new + 1))
			fi
		done < <(findings <"$found")
	done
	if [ $new -eq 0 ]; then echo "ok - $tool, $part: $# files, $known known"; else echo "not ok - $tool, $part: $new new" && failed=$((failed + 1)); fi
}

for tool in cppcheck analyzer tidy; do
	flags=("${ext_flags[@]}")
	analyse $tool ext ext/*.c
	flags=("${client_flags[@]}")
	analyse $tool client client/*.c client/cli/*.c client/local/*.c client/examples/*.c
done
echo "$((6 - failed)) passed, $failed failed"
[ $failed -eq 0 ]
