#!/bin/bash
# versions.sh [MAJOR...] - the whole `make check` on each PostgreSQL that a Debian release has (root; several minutes each)
#
#   15  Debian 12    17  Debian 13    18  Debian forky    (16 is in no release)
#
# Each runs in a Debian of its own, made by debootstrap below PACER_CHROOTS and kept
# there for the next time; without PACER_CHROOTS in a temporary folder that is removed.
# At last each but the first is upgraded to with pg_upgrade. SUITES='unit tap' limits what is run (SUITES=none: only the
# upgrades), TARGET names another target than check, DEBIAN_MIRROR says where packages come from.
#
# The mounts and processes of a run live in namespaces of their own, so they are gone
# when it ends, however it ends. The checkout is seen read-only.
set -eu

tree=$(cd "$(dirname "$0")/.." && pwd -P)
[ $# -gt 0 ] || set -- 15 17 18

for command in debootstrap unshare chroot; do
	command -v $command >/dev/null || { echo "versions: needs $command" >&2; exit 1; }
done
[ "$(id -u)" -eq 0 ] || { echo 'versions: only root can make and enter another Debian' >&2; exit 1; }

temporary=
finish() {
	[ -z "$temporary" ] || rm -rf --one-file-system "$temporary"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
if [ -z "${PACER_CHROOTS:-}" ]; then
	temporary=$(mktemp -d "${TMPDIR:-/tmp}/pacer_versions.XXXXXX")
	chmod 755 "$temporary"
	PACER_CHROOTS=$temporary
fi

release_of() {
	case $1 in
	15) echo bookworm ;;
	17) echo trixie ;;
	18) echo forky ;;
	*) echo "versions: no Debian release has PostgreSQL $1" >&2; return 1 ;;
	esac
}

# A folder is complete when it has its name: what was interrupted stays behind as .part.
make_root() {
	local release=$1 root=$2 script=/usr/share/debootstrap/scripts/$1
	[ ! -e "$root" ] || return 0
	[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid # one newer than this debootstrap
	rm -rf --one-file-system "$root.part"
	mkdir -p "$PACER_CHROOTS"
	echo "making Debian $release in $root"
	debootstrap --variant=minbase --include=make "$release" "$root.part" \
		"${DEBIAN_MIRROR:-$(mirror)}" "$script" >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; return 1; }
	mv "$root.part" "$root"
}

# what this Debian gets its packages from, else debootstrap's own
mirror() {
	local from
	from=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian$' || true)
	echo "${from:-$(sed -n 's/^DEF_MIRROR="\(.*\)"$/\1/p' "$(command -v debootstrap)")}"
}

# Runs a command in the other Debian, which sees the checkout at /mnt.
# shellcheck disable=SC2016 # expanded by the inner shell
inside() {
	local root=$1
	shift
	unshare --mount --propagation private --pid --fork --kill-child \
		sh -euc 'root=$1 tree=$2
			shift 2
			mount -t proc proc "$root/proc"
			mount -t tmpfs -o mode=755 tmpfs "$root/dev"
			for node in null zero full random urandom tty; do
				: >"$root/dev/$node"
				mount --bind "/dev/$node" "$root/dev/$node"
			done
			ln -s /proc/self/fd "$root/dev/fd"
			mkdir "$root/dev/shm" "$root/dev/pts"
			mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
			ln -s pts/ptmx "$root/dev/ptmx"
			mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
			mount --bind "$tree" "$root/mnt"
			mount -o remount,bind,ro "$root/mnt"
			exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
				DEBIAN_FRONTEND=noninteractive "$@"' sh "$root" "$tree" "$@"
}

check() {
	local major=$1 root=$2
	# A release that is still being made is served from mirrors that may be behind.
	echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/90pacer"
	# an installation that was interrupted is completed
	inside "$root" dpkg --configure -a >"$root.log" 2>&1 || true
	inside "$root" make -s -C /mnt "${TARGET:-check}" PG_MAJOR="$major" ${SUITES:+"SUITES=$SUITES"}
}

# pg_upgrade from one to the next: the older server comes along as a tar
upgrade() {
	local old=$PACER_CHROOTS/$(release_of "$1") new=$PACER_CHROOTS/$(release_of "$2")
	inside "$old" bash /mnt/tests/harness/run tests/upgrade/old.sh >"$new/tmp/pacer_old.tar" &&
		inside "$new" bash /mnt/tests/harness/run tests/upgrade/new.sh /tmp/pacer_old.tar
	local status=$?
	rm -f "$new/tmp/pacer_old.tar"
	return $status
}

failed=0
for major; do
	release=$(release_of "$major")
	root=$PACER_CHROOTS/$release
	start=$SECONDS
	make_root "$release" "$root"
	echo "== PostgreSQL $major, Debian $release"
	if [ "${SUITES:-}" = none ] || check "$major" "$root"; then verdict=ok; else verdict='not ok' failed=$((failed + 1)); fi
	version=$(inside "$root" "/usr/lib/postgresql/$major/bin/postgres" --version | sed 's/^postgres (PostgreSQL) //') || true
	echo "$verdict - PostgreSQL $version ($((SECONDS - start)) s)"
done
before=
for major; do
	if [ -n "$before" ]; then
		echo "== pg_upgrade from $before to $major"
		upgrade "$before" "$major" || failed=$((failed + 1))
	fi
	before=$major
done
echo "versions: $failed failed"
[ "$failed" -eq 0 ]
