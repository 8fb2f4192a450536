# new.sh TAR - pg_upgrade of what old.sh made to the PostgreSQL of this system (started by tests/harness/run)
set -eu
. tests/harness/lib.sh

old=$PACER_TMP/old
failed=0
report() {
	if [ "$1" = "$2" ]; then echo "ok - $3"; else echo "not ok - $3: $1" && failed=1; fi
}

build_private
mkdir "$old" "$PACER_TMP/missing"
tar -C "$old" -xf "$1"
# the newer libraries come first: only those that this system does not have
for library in "$old"/libs/*; do
	[ -e "/usr/lib/$(uname -m)-linux-gnu/${library##*/}" ] || cp "$library" "$PACER_TMP/missing"
done
export LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$PACER_TMP/missing"
old_bin=$(dirname "$(find "$old/prefix" -path '*/bin/pg_ctl')")
log initdb cluster_make
cd "$PACER_TMP"
log pg_upgrade pg_upgrade -b "$old_bin" -B "$(pg_config --bindir)" -d "$old/cluster" -D "$cluster" -U postgres -s "$socket" ||
	{ find "$cluster/pg_upgrade_output.d" -name '*.log' -exec grep -hE -A3 'error|ERROR|FATAL' {} + >&2 && exit 1; }
cluster_start

psql -qXAt -c 'SELECT * FROM (SELECT name, (extract(epoch FROM next_request_at) * 1000000)::bigint, paused_until, quota_left FROM pacer.status) s ORDER BY name' >"$PACER_TMP/found"
report "$(diff "$old/expected" "$PACER_TMP/found" | head -n 4)" '' "$("$old_bin/postgres" --version) to $(postgres --version): $(wc -l <"$old/expected") schedules are what they were"
report "$(psql -qXAt -c 'SELECT count(*) FROM pacer.slot' -c "SELECT bool_and(run_ok) FROM pacer.status WHERE booked > 0")" "$(wc -l <"$old/expected")
t" 'their states are read as they were written'
psql -qX -c 'CREATE TABLE expected (name text, head bigint, paused_until timestamptz, quota_left int)' -c "\\copy expected FROM '$old/expected' DELIMITER '|' NULL ''"
report "$(psql -qXAt -U app -c "SELECT wait > '0' FROM pacer.book('waiting')")" t 'a role that may book does'
report "$(psql -qXAt -c "SELECT count(*) FROM expected e, pacer.try_book(e.name, max_wait => NULL) b
	WHERE name <> 'waiting' AND isfinite(b.slot_at) AND (extract(epoch FROM b.slot_at) * 1000000)::bigint < e.head AND name <> 'burst'")" 0 'no slot is given again'
report "$(psql -qXAt -c "SELECT extversion FROM pg_extension WHERE extname = 'pg_pacer'")" "$(sed -n 's/^default_version = .\(.*\).$/\1/p' "$(pg_config --sharedir)/extension/pg_pacer.control")" 'the extension'
cluster_stop immediate
cluster_start
report "$(psql -qXAt -c "SELECT count(*) FROM expected e, pacer.try_book(e.name, max_wait => NULL) b
	WHERE isfinite(b.slot_at) AND (extract(epoch FROM b.slot_at) * 1000000)::bigint < e.head AND name <> 'burst'")" 0 'nor after a crash'
cluster_stop
exit $failed
