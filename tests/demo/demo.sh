#!/bin/bash
# demo.sh - many processes, one limit, no refusal (started by tests/harness/run)
#
# Four processes send 50 requests each, every request a program of its own, to
# an nginx that tolerates one start per 20 ms: first as they come, then at the pace
# of one source, then at that pace with the database killed on the way. Exits
# non-zero if nginx refused a paced request.
set -eu
. tests/harness/lib.sh

judge_ms=20          # nginx.conf: 50 requests a second
margin_ms=40         # the pace promised below is judge_ms + margin_ms
small_margins='0 1 2 5 10 20'
processes=4

judge=$PACER_TMP/judge

# The judge wants a port, and only asking for one tells whether it is free.
start_judge() {
	mkdir "$judge"
	echo admitted >"$judge/admitted"
	for _ in 1 2 3 4 5; do
		port=$((20000 + RANDOM % 12000))
		sed "s/PORT/$port/" tests/demo/nginx.conf >"$judge/nginx.conf"
		(cd "$judge" && exec nginx -e stderr -p "$judge" -c nginx.conf) 2>"$judge/errors" &
		judge_pid=$!
		while kill -0 $judge_pid 2>/dev/null; do
			[ -s "$judge/nginx.pid" ] && return
			sleep 0.05
		done
	done
	cat "$judge/errors" >&2
	return 1
}

# process RUN NUMBER REQUESTS [PACER...] - one of the four. A start that the pacer
# failed to arrange (125: no database) is reported and tried again.
process() {
	local run=$1 number=$2 requests=$3 status
	shift 3
	while [ "$requests" -gt 0 ]; do
		status=0
		"$@" "$judge/request" "$port" "/$run/$number" 2>>"$judge/$run.errors" || status=$?
		echo $status
		if [ $status -eq 125 ]; then
			sleep 0.2
		else
			requests=$((requests - 1))
		fi
	done >>"$judge/$run.status"
}

# all RUN REQUESTS [PACER...] - four at once, each REQUESTS times
all() {
	local run=$1 requests=$2 number pids=()
	shift 2
	for ((number = 1; number <= processes; number++)); do
		process "$run" $number "$requests" "$@" &
		pids+=($!)
	done
	wait "${pids[@]}"
}

of_run() { grep " /$1/" "$judge/judge.log"; }
refused() { of_run "$1" | grep -c ' 429 ' || true; }
failed() { grep -cx 125 "$judge/$1.status" || true; }

# What ended neither with an answer of the judge nor with the pacer's own report.
lost() { grep -cvxE '0|1|125' "$judge/$1.status" || true; }

row() { of_run "$1" | awk -f tests/demo/report.awk -v mode=row -v title="$2" -v failed="$(failed "$1")"; }

timeline() { of_run "$1" | awk -f tests/demo/report.awk -v mode=timeline -v step="$2" "${@:3}"; }

pace() {
	psql -qc "UPDATE pacer.source SET start_interval = '$1 ms' WHERE name = 'demo'"
}

pgpacer_demo=(pgpacer run demo --)

echo "building, and starting a database and a judge of their own"
build_private
cluster_start
start_judge
log request "${CC:-cc}" -O2 -Wall -o "$judge/request" tests/demo/request.c
psql -qc 'CREATE EXTENSION pg_pacer' -c "INSERT INTO pacer.source (name, start_interval) VALUES ('demo', '1 s')"

# What was just installed and built is written out now, not while starts are timed:
# the database's flushes would wait for it.
sync

echo "nginx admits one start per $judge_ms ms; $processes processes x 50 requests"
all unpaced 50

# A start reaches the judge a varying few milliseconds after its slot: the command
# has to be started and to connect. The margin must cover what varies.
for margin in $small_margins; do
	pace $((judge_ms + margin))
	all "margin$margin" 25 "${pgpacer_demo[@]}"
done

pace $((judge_ms + margin_ms))
all paced 50 "${pgpacer_demo[@]}"

all killed 50 "${pgpacer_demo[@]}" &
run_pid=$!
sleep 3
down=$(date +%s.%3N)
cluster_stop immediate
sleep 1
cluster_start
up=$(date +%s.%3N)
wait $run_pid

echo
printf '%-32s %8s %8s %9s %8s %13s\n' '' requests refused 'exit 125' seconds 'smallest gap'
row unpaced 'unpaced'
for margin in $small_margins; do
	row "margin$margin" "one per $((judge_ms + margin)) ms (margin $margin)"
done
row paced "one per $((judge_ms + margin_ms)) ms (margin $margin_ms)"
row killed '  and the database killed'

held=
for margin in $small_margins $margin_ms; do
	run=margin$margin
	[ "$margin" != $margin_ms ] || run=paced
	if [ "$(refused "$run")" -eq 0 ]; then held=${held:-$margin}; else held=; fi
done
echo
echo "smallest margin that held (as did all above it): ${held:-none} ms"

echo
echo 'unpaced, 5 ms a column (| admitted, x refused)'
timeline unpaced 5
echo 'paced, the first second, 15 ms a column'
timeline paced 15
echo 'database killed after 3 s and back a second later, 180 ms a column'
timeline killed 180 -v down="$down" -v up="$up"

bad=0
for run in paced killed; do
	refused=$(refused $run) lost=$(lost $run)
	if [ "$refused" -gt 0 ] || [ "$lost" -gt 0 ]; then
		echo "$run: $refused refused, $lost ended without an answer" >&2
		bad=1
	fi
done
exit $bad
