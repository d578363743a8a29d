#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What README.md, doc/ADMINS.md and p4d-spank(8) say of packages and files is what the tree says: the packages of tests/setup.sh, every module
# that `make install` puts somewhere, and no newer release of autoconf or json-c than they name. All packages have p4d's version.
set -u
source=$(cd "$(dirname "$0")/../.." && pwd)
cd "${P4D_TEST_BUILDDIR:-.}" || exit 2
. "$source/tests/setup.sh"
failed=0
fault() { echo "FAIL: $*"; failed=1; }

# doc/ADMINS.md lists all packages, README.md those of the plugins and the command
packages_of() { sed -n '/^apt-get install/,/[^\\]$/p' "$1" | tr -d '\\' | tr -s ' \t' '\n' | grep -vxE '|apt-get|install|--.*'; }
listed=$(packages_of "$source/doc/ADMINS.md")
for package in $p4d_packages_build; do
	echo "$listed" | grep -qxF "$package" || fault "$package is not in doc/ADMINS.md"
done
for document in README.md doc/ADMINS.md; do
	[ -n "$(packages_of "$source/$document")" ] || fault "$document lists no packages"
	for package in $(packages_of "$source/$document"); do
		case " $(echo $p4d_packages_build) " in *" $package "*) ;; *) fault "$document names $package" ;; esac
	done
done

table=$(sed -n '/^| where | file |/,/^$/p' "$source/doc/ADMINS.md")
files=$(sed -n '/^# FILES/,/^# SEE ALSO/p' "$source/man/p4d-spank.8.scd")
modules=$(sed -n 's/^installed_modules += //p' "$source"/*/fragment.mk "$source"/runtime/device/cuda/fragment.mk |
	tr ' ' '\n' | sed 's,.*/,,')
[ "$(echo "$modules" | grep -c .)" -ge 9 ] || fault "these modules are installed: $modules"
for module in $modules; do
	echo "$table" | grep -qF "\`$module.so\`" || fault "$module.so is not in doc/ADMINS.md's table"
	echo "$files" | grep -qF "_$module.so_" || fault "$module.so is not in FILES of p4d-spank(8)"
done
for built in .libs/*.so; do
	built=$(basename "$built" .so)
	echo "$modules" | grep -qx -- "$built" || fault "$built.so is built and not installed"
done

version=$(sed -n 's/^AC_INIT(\[p4d\], \[\(.*\)\], \[\], .*/\1/p' "$source/configure.ac")
# has_version FILE PATTERN: what the pattern finds first in FILE is the version
has_version()
{
	found=$(sed -n "s/$2/\\1/p" "$source/$1" | head -n 1)
	[ "$found" = "$version" ] || fault "$1 has version $found, configure.ac $version"
}
has_version debian/changelog '^p4d (\([^)]*\)).*'
has_version packaging/p4d.spec '^Version: *\(.*\)'
has_version packaging/p4d.eb "^version = '\\(.*\\)'"
has_version packaging/spack/package.py '^    version("\([^"]*\)".*'
has_version packaging/spack/package.py '.*p4d-\(.*\)\.tar.*'
has_version NEWS '^\([0-9.]*\) (.*'

# RHEL 9 has these.
grep -qxF 'AC_PREREQ([2.69])' "$source/configure.ac" || fault "configure.ac wants another autoconf"
grep -qF '[json-c >= 0.14]' "$source/configure.ac" || fault "configure.ac wants another json-c"
if command -v objdump >/dev/null; then
	objdump -p p4d .libs/*.so | grep -oE 'JSONC_[0-9.]+' | grep -vx JSONC_0.14 && fault "newer than json-c 0.14"
fi
if command -v autoreconf2.69 >/dev/null; then
	copy=$(mktemp -d) || exit 2
	(cd "$source" && tar cf - configure.ac Makefile.am m4/p4d_*.m4 */fragment.mk runtime/device/cuda/fragment.mk) | tar xf - -C "$copy"
	(cd "$copy" && autoreconf2.69 -fi) >"$copy/log" 2>&1 || { tail "$copy/log"; fault "autoconf 2.69 does not do"; }
	rm -rf "$copy"
fi
exit $failed
