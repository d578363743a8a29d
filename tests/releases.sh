#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# releases.sh [RELEASE...]: all cluster tests, and those of the readers of configuration files, on other releases of Slurm, each in a Debian release that ships it, which
# debootstrap makes in a temporary folder. As root. Prints one line for each test; the last line is
# `N passed, N failed, N skipped`.
# releases.sh packages [RELEASE...]: Debian packages instead: built in a system that has what debian/control asks for and no daemons,
# then installed, used, upgraded, removed and purged in a bare one.
#
# With P4D_RELEASES_CACHE=DIR the systems are kept in DIR and used again, except the bare ones.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/tests/setup.sh"
run=run_release
if [ "${1:-}" = packages ]; then
	run=run_packages
	shift
	[ $# -gt 0 ] || set -- bookworm trixie sid
fi
[ $# -gt 0 ] || set -- trixie sid

# With its own libraries: their readers of TOML and YAML, and of job scripts; libp4d.so and its example in Python.
read_files()
{
	make -C /p4d/build check check_PROGRAMS="tests/script/config/test_config tests/command/library/ask" \
		TESTS="tests/script/config/test_config tests/command/test_read.sh tests/command/test_read_launch.sh \
		tests/command/test_read_scripts.sh tests/command/library/test_shared.sh" >/p4d/readers.log 2>&1
	sed -n 's,^PASS: tests/,ok    cluster/,p; s,^SKIP: tests/,skip  cluster/,p; s,^\(FAIL\|ERROR\): tests/,FAIL  cluster/,p' /p4d/readers.log
	grep -q '^PASS: ' /p4d/readers.log || echo "FAIL  cluster/readers: did not run"
}

# The first process of a namespace, in the system of a release.
inside()
{
	# shellcheck disable=SC2086 # lists of words
	p4d_need $p4d_packages_build $p4d_packages_headers $p4d_packages_cluster $p4d_packages_accounting procps libcmocka-dev python3 || exit
	(cd "$top" && autoreconf -fi) >/p4d/autoreconf.log 2>&1 || { tail /p4d/autoreconf.log; exit 1; }
	p4d_build "$top" /p4d/build --enable-werror --without-cuda &&
		make -C /p4d/build -j "$(p4d_cores)" tools >&2 || exit
	read_files
	slurmctld -V
	cd /p4d/build && P4D_TEST_ALL=1 "$top/tests/cluster/all.sh" --plugins=/p4d/build/.libs
}

get()
{
	apt-get -q -y -o Dpkg::Use-Pty=0 "$@" >&2
}

# A host that builds for others: Slurm's headers and library are there, its daemons and plugins are not.
inside_build()
{
	get update && get install --no-install-recommends build-essential lintian && get build-dep --no-install-recommends "$top" || exit
	! command -v slurmctld scontrol || { echo "FAIL  packages/build-host: has Slurm"; exit 1; }
	"$top/tests/packages.sh" --next /p4d/packages
}

# What a controller has before p4d, and what p4d's packages need: the tests have no network.
inside_bare()
{
	get update && get install --no-install-recommends slurmctld slurmd slurm-client munge &&
		get install --download-only /p4d/packages/*.deb
}

case $1 in
--inside) inside; exit ;;
--inside-build) inside_build; exit ;;
--inside-bare) inside_bare; exit ;;
esac

skip()
{
	echo "skip  releases: $*"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}

# The machine's own, as its package manager knows them.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' 2>/dev/null | head -1)
eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy 2>/dev/null)"
[ -z "${http_proxy:-}" ] || export http_proxy
[ -z "${https_proxy:-}" ] || export https_proxy

reachable() # RELEASE
{
	[ -z "$mirror" ] || /usr/lib/apt/apt-helper download-file "${mirror%/}/dists/$1/InRelease" "$home/InRelease" >/dev/null 2>&1
}

[ "$(id -u)" = 0 ] || skip "only root can make a system with debootstrap"
command -v apt-get >/dev/null || skip "this is not a Debian system"
p4d_need debootstrap util-linux iproute2 >&2 || skip "debootstrap cannot be installed"

home=${P4D_RELEASES_CACHE:-}
[ -n "$home" ] || home=$(mktemp -d "${TMPDIR:-/tmp}/p4d-releases.XXXXXX") || exit 1
mkdir -p "$home" && home=$(cd "$home" && pwd) || exit 1
results=$(mktemp "$home/results.XXXXXX") || exit 1
running=
clean_up()
{
	# When the first process of a namespace ends, all its processes end, and its mounts are gone.
	[ -z "$running" ] || { kill -KILL "$running"; wait "$running"; } 2>/dev/null
	rm -f "$results" "$home/InRelease"
	[ -n "${P4D_RELEASES_CACHE:-}" ] || rm -rf --one-file-system "$home"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Runs a command and waits for it so that a signal is served at once.
attended()
{
	"$@" &
	running=$!
	wait "$running"
	set -- $?
	running=
	return "$1"
}

# A new Debian in $root, which needs nothing but the mirror.
make_system()
{
	rm -rf --one-file-system "$root"
	attended unshare --mount --pid --fork --kill-child debootstrap --variant=minbase "$1" "$root" ${mirror:+"$mirror"} >"$root.log" 2>&1 ||
		{ tail -5 "$root.log" && return 1; }
	# sid's list of packages is soon out of date on a mirror that is copied seldom
	printf '%s "%s";\n' Acquire::Check-Valid-Until false APT::Get::Assume-Yes true Binary::apt::APT::Keep-Downloaded-Packages true \
		>"$root/etc/apt/apt.conf.d/90p4d"
	# as in a container: nothing starts or restarts daemons
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod 755 "$root/usr/sbin/policy-rc.d"
	mkdir "$root/p4d" && touch "$root/p4d/made"
}

# The sources alone, readable for all: some of the tests are run by a user without rights. What differs from the last copy is
# newer than all that was built of that, also if it was written before.
copy_sources()
{
	local from=$root/p4d/source to=$root/p4d/source.new
	rm -rf "$to"
	mkdir -m 755 "$to"
	{ git -c safe.directory="$top" -C "$top" ls-files -z --cached --others --exclude-standard 2>/dev/null ||
		(cd "$top" && find . -name 'build*' -prune -o -type f -print0); } |
		tar -C "$top" --null --files-from=- --ignore-failed-read --mode=a+rX -cf - 2>/dev/null |
		tar -C "$to" -xmf -
	# shellcheck disable=SC2016 # for the shell of each file
	(cd "$to" && find . -type f -exec sh -c 'cmp -s "$1" "$0/$1" && touch -r "$0/$1" "$1"' "$from" {} \;)
	rm -rf "$from"
	mv "$to" "$from"
	cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
}

# Mounts are those of the namespace alone. Nothing of the caller's environment but the proxies gets there. With $alone, the
# loopback is its only network; it has a second address, without which the C library takes it for no network at all.
alone=
enter() # COMMAND...
{
	attended unshare --mount --pid ${alone:+--net} --fork --kill-child sh -ec '
		root=$1
		alone=$2
		shift 2
		[ -z "$alone" ] || { ip link set lo up && ip address add 10.4.0.1/32 dev lo; }
		mount -t proc proc "$root/proc"
		mount --rbind /sys "$root/sys"
		mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
		exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root \
			${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
			chroot "$root" "$@"' enter "$root" "$alone" "$@" </dev/null
}

# counted NAME FILE: the closing line of what FILE has
counted()
{
	echo "$1$(grep -c '^ok ' "$2") passed, $(grep -c '^FAIL ' "$2") failed, $(grep -c '^skip ' "$2") skipped"
}

run_release()
{
	root=$home/$1
	if [ ! -e "$root/p4d/made" ]; then
		reachable "$1" || { echo "skip  $1: no answer from $mirror"; return; }
		make_system "$1" || { echo "FAIL  $1: debootstrap"; return; }
	fi
	copy_sources
	enter /p4d/source/tests/releases.sh --inside 2>"$root.log" || grep -q ^FAIL "$root.out" ||
		{ echo "FAIL  $1: could not build and run everything"; tail -40 "$root.log" | sed 's/^/      | /'; }
}

# copied RELEASE KIND: $root is a copy of the release's plain system, with these sources
copied()
{
	root=$home/$1-base
	if [ ! -e "$root/p4d/made" ]; then
		reachable "$1" || { echo "skip  $1: no answer from $mirror"; return 1; }
		make_system "$1" || { echo "FAIL  $1: debootstrap"; return 1; }
	fi
	root=$home/$1-$2
	[ -e "$root/p4d/made" ] || { rm -rf --one-file-system "$root" && cp -a "$home/$1-base" "$root"; }
	copy_sources
}

did() # RELEASE WHAT COMMAND...
{
	enter "/p4d/source/tests/$3" "${@:4}" 2>"$root.log" || grep -q ^FAIL "$home/$1.out" ||
		{ echo "FAIL  $1: could not $2"; tail -40 "$root.log" | sed 's/^/      | /'; return 1; }
}

run_packages()
{
	copied "$1" build || return
	did "$1" "build the packages" releases.sh --inside-build
	! grep -q ^FAIL "$home/$1.out" || return
	rm -rf --one-file-system "$home/$1-bare"
	copied "$1" bare && mkdir "$root/p4d/packages" || return
	cp -r "$home/$1-build/p4d/packages"/*.deb "$home/$1-build/p4d/packages/next" "$root/p4d/packages"
	did "$1" "prepare a bare system" releases.sh --inside-bare || return
	alone=1
	did "$1" "use the packages" packages_cluster.sh /p4d/packages
	alone=
	rm -rf --one-file-system "$root"
}

for release in "$@"; do
	: >"$home/$release.out"
	exec {lines}> >(sed -u "s,^\(ok  *\|FAIL  *\|skip  *\)cluster/,\1$release/,; s,^\(ok  *\|FAIL  *\|skip  *\)packages/,\1$release/packages/," | tee "$home/$release.out")
	reader=$!
	"$run" "$release" >&$lines
	exec {lines}>&-
	wait "$reader"
	cat "$home/$release.out" >>"$results"
	counted "$release: " "$home/$release.out"
	[ -n "${P4D_RELEASES_CACHE:-}" ] || rm -rf --one-file-system "${home:?}/$release" "${home:?}/$release"-{base,build,bare}
done
grep '^FAIL ' "$results"
counted '' "$results"
! grep -q '^FAIL ' "$results"
