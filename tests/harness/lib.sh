# Functions for scripts started by tests/harness/run (working directory: the copied tree)
#
#   build_private           copies PostgreSQL into $PACER_TMP/prefix, builds the tree and installs it there
#   cluster_start           makes the cluster if there is none, and starts it
#   cluster_stop [MODE]     fast unless told otherwise; immediate is the crash
#   cluster_restart [MODE]
#   log NAME COMMAND...     runs COMMAND with its output in $PACER_TMP/log/NAME; shows the end of it on failure
#
# Afterwards psql, pgpacer and pg_config in PATH are the private ones, and PGHOST,
# PGPORT and PGUSER lead to the private cluster.
# shellcheck shell=bash

prefix=$PACER_TMP/prefix
cluster=$PACER_TMP/cluster
socket=$PACER_TMP/socket
mkdir -p "$PACER_TMP/log" "$socket"

log() {
	local file=$PACER_TMP/log/$1
	shift
	"$@" >"$file" 2>&1 && return
	local status=$?
	echo "failed: $*" >&2
	tail -n 40 "$file" >&2
	return $status
}

# PostgreSQL finds its other folders from where its programs are, so a copy that
# keeps their places relative to each other is an installation of its own.
copy_postgresql() {
	local from=${PG_CONFIG:-pg_config} bindir what
	bindir=$("$from" --bindir)
	for what in bindir pkglibdir sharedir includedir-server includedir; do
		what=$("$from" "--$what")
		# where everybody's headers are, the compiler looks anyway
		[ "$what" = /usr/include ] || cp -R -P --parents "$what" "$prefix"
	done
	export PG_CONFIG=$prefix$bindir/pg_config
	export PATH="$prefix/bin:$prefix$bindir:$PATH:/usr/sbin"
	export LD_LIBRARY_PATH="$prefix/lib"
	export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
}

build_tree() {
	make -s clean &&
		make -s -j2 all prefix="$prefix" &&
		make -s install prefix="$prefix"
}

build_private() {
	mkdir "$prefix"
	copy_postgresql
	log build build_tree
}

cluster_make() {
	initdb -D "$cluster" -U postgres -A trust -E UTF8 --no-locale --data-checksums --no-sync
	cat >>"$cluster/postgresql.conf" <<-END
		listen_addresses = ''
		unix_socket_directories = '$socket'
		fsync = on
	END
}

cluster_start() {
	[ -e "$cluster" ] || log initdb cluster_make
	log pg_ctl pg_ctl -D "$cluster" -l "$PACER_TMP/log/server" -w start
	export PGHOST=$socket PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
}

cluster_stop() {
	log pg_ctl pg_ctl -D "$cluster" -m "${1:-fast}" -w stop
}

cluster_restart() {
	cluster_stop "$@"
	cluster_start
}
