#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# distcheck.sh BUILDDIR: the tarball holds every file of the repository. Without Slurm and without p4d-train's
# libraries it configures, builds from read-only sources, installs and uninstalls, with its own manual pages if there
# is no scdoc. Tests run elsewhere: on the sources from which it was made.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
. "$source/tests/setup.sh"
fail() { echo "FAIL: $*"; exit 1; }

XZ_OPT=-0 make -C "$1" -j "$(p4d_cores)" distcheck AM_MAKEFLAGS="TESTS= check_PROGRAMS= check_LTLIBRARIES=" \
	DISTCHECK_CONFIGURE_FLAGS="--without-slurm --without-sentencepiece --without-cuda CFLAGS=-O0 \
	PKG_CONFIG='$source/tests/pkg_config.sh openblas,libxxhash' ac_cv_prog_SCDOC="
tar -tf "$1"/p4d-*.tar.xz >"$1/tarball.files"
for page in "$source"/man/*.scd; do
	page=$(basename "$page" .scd)
	grep -q "/man/$page\$" "$1/tarball.files" || fail "the tarball has no man/$page"
done
# a clone knows its files; an unpacked tarball has nothing to compare with
[ -e "$source/.git" ] || exit 0
tar -tf "$1"/p4d-*.tar.xz | sed 's,^[^/]*/,,' | sort >"$1/tarball.files"
git -C "$source" ls-files >"$1/repository.files" # no pipe: where git fails nothing is compared
missing=$(grep -v '^\.gitignore$' "$1/repository.files" | sort | comm -23 - "$1/tarball.files")
[ -z "$missing" ] || fail "not in the tarball: $(echo "$missing" | head -20)"
