# old.sh - the server to upgrade from, as a tar on stdout (started by tests/harness/run)
#
#   prefix     PostgreSQL with the extension
#   cluster    stopped; with sources in every state
#   libs       what its programs load, but for libc's own: the newer system may lack it
#   expected   next_request_at, paused_until and quota_left of each source
set -eu
. tests/harness/lib.sh

build_private >&2
cluster_start
psql -qX -v ON_ERROR_STOP=1 <<'END'
CREATE EXTENSION pg_pacer;
CREATE ROLE app LOGIN;
GRANT USAGE ON SCHEMA pacer TO app;
SELECT pacer.create_source('waiting', '1 h', remembered => 200) \g /dev/null
SELECT pacer.book('waiting') FROM generate_series(1, 50) \g /dev/null
SELECT pacer.create_source('burst', '1 h', burst => 5) \g /dev/null
SELECT pacer.book('burst') FROM generate_series(1, 3) \g /dev/null
SELECT pacer.create_source('paused', '1 s'), pacer.create_source('stopped', '1 s'), pacer.create_source('never', '1 s') \g /dev/null
SELECT pacer.pause('paused', '1 day'), pacer.pause('stopped', 'infinity') \g /dev/null
SELECT pacer.create_source('quota', '1 min', quota => 5, quota_window => '1 day', quota_origin => now(), max_waiting => NULL) \g /dev/null
SELECT pacer.book('quota') FROM generate_series(1, 3) \g /dev/null
SELECT pacer.create_source('many ' || n, '1 h') FROM generate_series(1, 1000) n \g /dev/null
SELECT pacer.book('many ' || n) FROM generate_series(1, 1000) n \g /dev/null
END
psql -qXAt -c 'SELECT * FROM (SELECT name, (extract(epoch FROM next_request_at) * 1000000)::bigint, paused_until, quota_left FROM pacer.status) s ORDER BY name' >"$PACER_TMP/expected"
# Debian's 17.12 gives every column of every table an option that 18.6 does not know, so that
# pg_upgrade fails for any table; what is to be tried here is ours.
for database in postgres template1; do
	psql -qX -d $database -c "UPDATE pg_attribute SET attoptions = NULL WHERE attoptions::text LIKE '{pg_attver=%}'"
done
cluster_stop

mkdir "$PACER_TMP/libs"
for program in "$(pg_config --bindir)"/*; do ldd "$program" 2>/dev/null || true; done | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u |
	grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so' | xargs cp -t "$PACER_TMP/libs"
tar -C "$PACER_TMP" -cf - prefix cluster libs expected
