#!/bin/bash
# quick.sh - one hot source against its peers, as ratios (started by tests/harness/run)
#
# Every statement runs in turn for SECONDS_EACH seconds, ROUNDS times over, on
# one server in one run; printed are medians and what they are of SELECT 1.
# Timings of a shared machine mean something only side by side.
set -eu
. tests/harness/lib.sh

rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-1} clients=${CLIENTS:-32}
queries=$PACER_TMP/queries
results=$PACER_TMP/results

query() { # NAME SQL
	echo "$2" >"$queries/$1.sql"
	names="$names $1"
}

build_peer() {
	"${CC:-cc}" -O2 -fPIC -shared -I"$(pg_config --includedir-server)" -o "$(pg_config --pkglibdir)/pacer_peer.so" bench/peer.c
}

prepare() {
	psql -qX -v ON_ERROR_STOP=1 <<-'END'
		CREATE EXTENSION pg_pacer;
		CREATE SCHEMA peer;
		CREATE FUNCTION peer.row(source text, permits int DEFAULT 1, max_wait interval DEFAULT NULL, key text DEFAULT NULL)
			RETURNS SETOF pacer.booking ROWS 1 VOLATILE LANGUAGE C AS 'pacer_peer', 'peer_row';
		CREATE SEQUENCE peer.seq;
		CREATE TABLE peer.source (name text PRIMARY KEY, next_at timestamptz, start_interval interval);
		INSERT INTO peer.source VALUES ('hot', now(), '1 us');
		INSERT INTO pacer.source (name, start_interval, max_waiting) VALUES ('hot', '1 us', NULL), ('held', '1 us', NULL);
		INSERT INTO pacer.source (name, start_interval, max_waiting, burst, quota, quota_window)
			VALUES ('rules', '1 us', 100, 5, 2000000000, '1 day');
	END
}

# somebody else's open transaction: an old snapshot and an uncommitted change of the source
hold() {
	mkfifo "$PACER_TMP/hold"
	psql -qX <"$PACER_TMP/hold" >/dev/null &
	holder=$!
	exec 7>"$PACER_TMP/hold"
	echo "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; UPDATE pacer.source SET max_wait = '1 h' WHERE name = 'held';" >&7
}

measure() {
	pgbench -n -M prepared -c "$clients" -j 2 -T "$seconds" -f "$queries/$1.sql" 2>/dev/null |
		sed -n "s/^tps = \([0-9.]*\).*/$1 \1/p" >>"$results"
}

median() {
	awk -v name="$1" '$1 == name { print $2 }' "$results" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

build_private
log peer build_peer
cluster_start
log prepare prepare
mkdir "$queries"
names=
query select_1 'SELECT 1'
query nextslot "SELECT pacer.nextslot('hot')"
query nextval "SELECT nextval('peer.seq')"
query update "UPDATE peer.source SET next_at = greatest(next_at, now()) + start_interval WHERE name = 'hot' RETURNING next_at - start_interval"
query book "SELECT * FROM pacer.book('hot')"
query row_only "SELECT * FROM peer.row('hot')"
query book_rules "SELECT * FROM pacer.book('rules')"
query nextslot_held "SELECT pacer.nextslot('held')"

size=$(psql -XAtc "SELECT pg_relation_size('pacer.slot')")
for ((i = 0; i < rounds; i++)); do
	for name in $names; do
		if [ "$name" = nextslot_held ]; then
			[ -p "$PACER_TMP/hold" ] || hold
		fi
		measure "$name"
	done
done
grew=$(($(psql -XAtc "SELECT pg_relation_size('pacer.slot')") - size))
exec 7>&-
wait $holder || true
cluster_stop

ratio() { awk -v a="$(median "$1")" -v b="$(median "$2")" -v n="$1 / $2" 'BEGIN { printf "%-28s %6.2f\n", n, a / b }'; }
echo "one hot source, $clients clients, -M prepared, synchronous_commit on; medians of $rounds x $seconds s"
echo
for name in $names; do printf '%-16s %8.0f a second\n' "$name" "$(median "$name")"; done
echo
for pair in nextslot:select_1 nextslot:nextval nextslot:update book:select_1 book:row_only book_rules:book nextslot_held:nextslot; do
	ratio "${pair%:*}" "${pair#*:}"
done
echo "pacer.slot grew by $grew bytes"
