#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# plugin_directory.sh BUILDDIR: configure puts the plugins where the Slurm that it finds looks for them, also without
# daemons; otherwise it asks. Each Slurm is a folder with the headers of this machine's.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$1"
mkdir -p "$1"
build=$(cd "$1" && pwd)
fail() { echo "FAIL: $*"; exit 1; }
[ -f /usr/include/slurm/spank.h ] || fail "libslurm-dev is missing"

# slurm NAME [STRING...]: an installation whose libslurm has these strings
slurm()
{
	mkdir -p "$build/$1/lib" "$build/$1/include"
	ln -sf /usr/include/slurm "$build/$1/include/slurm"
	root=$build/$1
	shift
	[ $# -gt 0 ] || return 0
	{
		for text in "$@"; do
			echo "const char *text_$((number = number + 1)) = \"$text\";"
		done
	} >"$build/strings.c"
	gcc -shared -fPIC -o "$root/lib/libslurm.so" "$build/strings.c"
}
number=0

# configured OPTION...: the directory of plugins by P4D_SLURM in a small configure: the whole one checks much more,
# each time.
mkdir "$build/configure"
cat >"$build/configure/configure.ac" <<'END'
AC_INIT([p4d], [0])
AM_INIT_AUTOMAKE([foreign -Wno-portability])
AC_PROG_CC
P4D_SLURM
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
END
: >"$build/configure/Makefile.am"
(cd "$build/configure" && aclocal -I "$source/m4" && automake --add-missing --copy && autoconf) >"$build/log" 2>&1 ||
	{ tail -5 "$build/log"; fail "no configure"; }

configured()
{
	(cd "$build" && configure/configure -C "$@") >"$build/log" 2>&1 || return 1
	sed -n 's/^slurmplugindir = //p' "$build/Makefile"
}

expect() # DIRECTORY OPTION...
{
	wanted=$1
	shift
	got=$(configured "$@") || { tail -5 "$build/log"; fail "configure $*"; }
	[ "$got" = "$wanted" ] || fail "configure $*: $got, not $wanted"
}

# a build host: what libslurm says is not there
slurm built-in /etc/slurm/slurm.conf /opt/site/lib64/slurm-9 /var/lib/slurm /run/slurm
expect /opt/site/lib64/slurm-9 --prefix=/usr --with-slurm="$build/built-in"
# the user's word counts most
expect /somewhere --prefix=/usr --with-slurm="$build/built-in" --with-slurm-plugindir=/somewhere
# several: the one that is there
slurm several /opt/site/lib/slurm "$build/several/lib/slurm"
mkdir -p "$build/several/lib/slurm"
expect "$build/several/lib/slurm" --prefix=/usr --with-slurm="$build/several"
# no libslurm: where plugins are
slurm plain
mkdir -p "$build/plain/lib64/slurm"
expect "$build/plain/lib64/slurm" --prefix=/usr --with-slurm="$build/plain"
# this machine's own
own=$(scontrol show config 2>/dev/null | sed -n 's/^PluginDir *= *//p')
own=${own:-$(dirname "$(find /usr/lib* -name select_cons_tres.so | head -1)")}
[ "$own" = . ] || expect "$own" --prefix=/usr
# an installation apart
# shellcheck disable=SC2016 # make's variable
expect '${libdir}/slurm-9' --prefix="$build/apart" --with-slurm-plugindir='${libdir}/slurm-9'

slurm nothing /etc/slurm/slurm.conf
! configured --prefix=/usr --with-slurm="$build/nothing" || fail "configure knows where plugins go"
grep -q -- '--with-slurm-plugindir=DIR' "$build/log" || { tail -5 "$build/log"; fail "configure does not ask"; }
