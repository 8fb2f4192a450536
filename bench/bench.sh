#!/bin/bash
# bench.sh [QUESTION...] - what it is worth, beside its peers (started by tests/harness/run)
#
# Builds everything, starts the servers of the peers, and lets bench.py ask. What it
# finds goes as a tar to descriptor 3, if that is open: results/*.csv and images/*.svg.
set -eu
. tests/harness/lib.sh

export BENCH=$PACER_TMP/bench
mkdir -p "$BENCH/results" "$BENCH/images"

build_peer() {
	"${CC:-cc}" -O2 -fPIC -shared -I"$(pg_config --includedir-server)" -o "$(pg_config --pkglibdir)/pacer_peer.so" bench/peer.c
	for name in starts waiters; do
			"${CC:-cc}" -O2 -pthread -o "$BENCH/$name" "bench/$name.c" -I"$prefix/include" -I"$(pg_config --includedir)" \
				-L"$prefix/lib" -lpgpacer -lpq
	done
}

build_private
log peer build_peer
cluster_start
echo "max_connections = 200
max_wal_size = 4GB
shared_buffers = 256MB" >>"$cluster/postgresql.conf"
cluster_restart
python3 bench/bench.py "$@"
cluster_stop
if { true >&3; } 2>/dev/null; then
	tar -C "$BENCH" -cf - results images >&3
fi
