# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034,SC2317
# Sourced by ./demo and ./check: the Debian packages they need, installing them, building.

# The one list of packages. build: `make`; cluster: a private Slurm; accounting: a private
# Slurm with slurmdbd, without which the test of accounting is skipped; test: what ./check adds.
p4d_packages_build="gcc libc6-dev make autoconf automake libtool autoconf-archive pkg-config scdoc
	libjson-c-dev libsmartcols-dev libslurm-dev libopenblas-dev libxxhash-dev zlib1g-dev
	g++ libsentencepiece-dev libpcre2-dev libutf8proc-dev libyaml-dev libtomlplusplus-dev"
p4d_packages_cluster="slurmctld slurmd slurm-client slurmrestd munge"
p4d_packages_accounting="slurmdbd slurm-wlm-mysql-plugin mariadb-server-core"
# headers: of the Lua in Slurm's job_submit/lua; and what those of SentencePiece include since 0.2.2 (Debian sid), whose package
# does not depend on them
p4d_packages_headers="liblua5.1-0-dev libabsl-dev libprotobuf-dev"
# packages: what ./check packages adds to those of build
p4d_packages_packages="dpkg-dev debhelper lintian rpm $p4d_packages_headers"
p4d_packages_test="procps libcmocka-dev valgrind shellcheck codespell cppcheck clang-format mandoc xz-utils $p4d_packages_headers"

# Links that make init start something at boot, one per line.
p4d_enabled_services()
{
	find /etc/systemd/system /etc/rc[S0-9].d -type l \
		\( -path '*.wants/*' -o -path '*.requires/*' -o -path '/etc/rc?.d/S*' \) 2>/dev/null | sort
}

# Takes away the links that were not in the list $1.
p4d_disable_new_services()
{
	p4d_enabled_services | while IFS= read -r link; do
		case "
$1
" in
		*"
$link
"*) continue ;;
		esac
		# A missing link counts as an administrator's decision and outlives upgrades; for rc.d that takes K links.
		case $link in
		/etc/rc*) update-rc.d "$(basename "$link" | sed 's/^S[0-9]*//')" disable >/dev/null 2>&1 || true ;;
		esac
		rm -f "$link"
	done
}

# Installs packages without starting services (policy-rc.d forbids it) or leaving them enabled. In a subshell: its
# trap restores the old state, however it ends.
p4d_apt_install()
(
	policy=/usr/sbin/policy-rc.d
	enabled=$(p4d_enabled_services)
	export DEBIAN_FRONTEND=noninteractive

	undo()
	{
		rm -f "$policy"
		if [ -e "$policy.p4d-saved" ] || [ -L "$policy.p4d-saved" ]; then
			mv "$policy.p4d-saved" "$policy"
		fi
		p4d_disable_new_services "$enabled"
	}
	trap undo EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP

	# A saved file that already exists is the original one: an earlier run was killed before it could put it back.
	if [ -e "$policy" ] && [ ! -e "$policy.p4d-saved" ]; then
		mv "$policy" "$policy.p4d-saved"
	fi
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"

	get()
	{
		apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 "$@" </dev/null
	}
	# Package lists may be missing or too old; only then they are fetched.
	get install --no-install-recommends "$@" >/dev/null 2>&1 ||
		{ get update >&2 && get install --no-install-recommends "$@" >&2; }
)

# p4d_need PACKAGE...: all of them are installed on return; otherwise says the one line that helps, and fails.
p4d_need()
{
	if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
		echo "p4d: not a Debian system; these packages are assumed to be there: $*" >&2
		return 0
	fi
	missing=
	for package in "$@"; do
		dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
			missing="$missing $package"
	done
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" != 0 ]; then
		echo "p4d: missing packages; as root: apt-get install --no-install-recommends$missing" >&2
		return 1
	fi
	echo "installing$missing" >&2
	# shellcheck disable=SC2086 # a list of words
	p4d_apt_install $missing
}

# p4d_build SRCDIR BUILDDIR OPTION...: configures (unless that was done with the same options) and builds $p4d_targets, by default
# all; what the tools say goes to BUILDDIR/build.log, and its end to the terminal when something fails.
p4d_build()
{
	p4d_into=$2
	mkdir -p "$p4d_into"
	p4d_configure_and_make "$@" >"$p4d_into/build.log" 2>&1 && return 0
	tail -40 "$p4d_into/build.log" >&2
	echo "p4d: the build failed; all of its output is in $p4d_into/build.log" >&2
	return 1
}

p4d_configure_and_make()
{
	p4d_from=$(cd "$1" && pwd)
	p4d_into=$2
	shift 2
	if [ ! -x "$p4d_from/configure" ] || [ ! -f "$p4d_from/Makefile.in" ]; then
		(cd "$p4d_from" && autoreconf -fi) || return 1
	fi
	if [ ! -f "$p4d_into/Makefile" ] || [ "$(cat "$p4d_into/configured-with" 2>/dev/null)" != "$*" ]; then
		(cd "$p4d_into" && CONFIG_SHELL=/bin/sh "$p4d_from/configure" "$@") || return 1
		echo "$*" >"$p4d_into/configured-with"
	fi
	# shellcheck disable=SC2086 # list of words
	make -C "$p4d_into" -j "$(p4d_cores)" ${p4d_targets:-all}
}

# p4d_took SINCE [UNTIL]: " (12 s)", or nothing if it was not long. Seconds since 1970; SINCE is 0 if it is not known.
p4d_took()
{
	p4d_seconds=$((${2:-$(date +%s)} - $1))
	if [ "$1" != 0 ] && [ "$p4d_seconds" -ge 5 ]; then
		echo " ($p4d_seconds s)"
	fi
}

p4d_cores()
{
	nproc 2>/dev/null || echo 1
}

# What the caller's own Slurm, job or shell says must not reach the private clusters.
p4d_clean_environment()
{
	for name in $(env | sed -n 's/^\([A-Za-z_0-9]*\)=.*/\1/p'); do
		case $name in
		SLURM_* | SBATCH_* | SALLOC_* | SINFO_* | SQUEUE_* | SCANCEL_* | P4D_* | _SLURM_*) unset "$name" ;;
		esac
	done
	export LC_ALL=C
	PATH=$PATH:/usr/sbin:/sbin
}
