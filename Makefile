# pg_pacer: the extension (ext/, sql/), its client library and command (client/)
#
#   make, make install, make uninstall     into the PostgreSQL of PG_CONFIG; prefix= and DESTDIR= for the client
#   make demo, make check                  installs nothing there: all in a temporary folder, removed at the end
#   make torture                           the longer proofs, likewise: an hour; writes docs/reliability.md
#   make sanitize                          client and extension under sanitizers and valgrind, likewise
#   make analyse                           cppcheck, gcc -fanalyzer, clang-tidy
#   make fuzz [SECONDS=60]                 libFuzzer on every parser and on the arithmetic
#   make check-versions                    make check on PostgreSQL 15, 17 and 18, each in a Debian of its own (root)
#   make bench-quick                       a hot source against its peers, likewise
#   make bench [ONLY='hot held ...']       every question of docs/performance.md, likewise; results go to bench/results
#
# CI adds its warnings with COPT, as PostgreSQL's own build does.

PG_CONFIG ?= pg_config
VERSION := $(shell sed -n 's/^   "version": "\(.*\)",$$/\1/p' META.json)

# Debian's packages for demo and check. Debian 12 has PostgreSQL 15.
PG_MAJOR ?= $(or $(shell $(PG_CONFIG) --version 2>/dev/null | sed 's/[^0-9]*\([0-9]*\).*/\1/'),15)
PACKAGES = gcc libc6-dev libpq-dev libcmocka-dev libipc-run-perl libncurses-dev libtap-parser-sourcehandler-pgtap-perl \
	locales nginx pgbouncer pkg-config postgresql-$(PG_MAJOR) postgresql-$(PG_MAJOR)-pgtap postgresql-server-dev-$(PG_MAJOR) python3

# What the recipes and the test of TLS use; that of Node is run where node-pg is installed.
CHECK_PACKAGES = curl openssl python3-psycopg

# rate-limiter-flexible comes from npm, if npm is there
BENCH_PACKAGES = gnuplot-nox redis-server

# PGXS adds COPT to its flags by itself; the client is told so.
export PG_CONFIG VERSION
ifdef COPT
export CFLAGS = -O2 -g $(COPT)
endif

parts = ext $(patsubst %/Makefile,%,$(wildcard client/Makefile))

all install uninstall clean:
	@set -e; for part in $(parts); do \
		$(MAKE) -C $$part $@; \
	done

demo: packages
	@bash tests/harness/run tests/demo/demo.sh

check: packages
	@sh tests/harness/packages $(CHECK_PACKAGES)
	@bash tests/harness/run tests/check.sh $(SUITES)

torture: packages
	@sh tests/harness/packages spin sqlsmith
	@found=$$(mktemp) && trap 'rm -f $$found' EXIT && bash tests/harness/run tests/torture.sh 3>$$found && \
		bash tests/harness/run tests/nonsense/run 3>>$$found && \
		if [ -z '$(OPS)$(ROUNDS)$(NONSENSE)' ]; then sh tests/torture/report $$found >docs/reliability.md; fi

sanitize: packages
	@sh tests/harness/packages valgrind
	@bash tests/harness/run tests/sanitize.sh
	@bash tests/harness/run tests/sanitize_server.sh

analyse: packages
	@sh tests/harness/packages clang-tidy cppcheck
	@bash tests/harness/run tests/analyse.sh

fuzz: packages
	@sh tests/harness/packages clang
	@bash tests/harness/run tests/fuzz/run $(or $(SECONDS),60)

check-versions:
	@sh tests/harness/packages debootstrap
	@bash tests/versions.sh

bench-quick: packages
	@bash tests/harness/run bench/quick.sh

# The run has a folder of its own; what it found comes back through descriptor 3.
bench: packages
	@sh tests/harness/packages $(BENCH_PACKAGES)
	@found=$$(mktemp) && trap 'rm -f $$found' EXIT && bash tests/harness/run bench/bench.sh $(ONLY) 3>$$found && \
		mkdir -p docs && tar --no-same-owner -C bench -xf $$found results && tar --no-same-owner -C docs -xf $$found images && \
		if [ -z '$(ONLY)' ]; then python3 bench/report.py bench/results docs/performance.md docs/managed.md; fi

packages:
	@sh tests/harness/packages $(PACKAGES)

.PHONY: all install uninstall clean demo check torture sanitize analyse fuzz check-versions bench bench-quick packages
