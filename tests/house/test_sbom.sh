#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The bill of materials names every library that the programs and modules were linked with, once, with a version.
set -u
cd "${P4D_TEST_BUILDDIR:-.}" || exit 2
failed=0
fault() { echo "FAIL: $*"; failed=1; }
bill=$(MAKEFLAGS="" make -s sbom SBOM=/dev/stdout) || exit 1
printf '%s\n' "$bill" | grep -q '^SPDXVersion: SPDX-2.3$' || fault "not SPDX: $bill"
[ "$(printf '%s\n' "$bill" | sed -n 's/^PackageVersion: //p' | grep -c '[0-9N]')" = \
	"$(printf '%s\n' "$bill" | grep -c '^PackageName: ')" ] || fault "a component has no version: $bill"
printf '%s\n' "$bill" | sed -n 's/^SPDXID: //p' | sort | uniq -d | grep . && fault "named twice"
if command -v readelf >/dev/null; then
	for needed in $(for file in p4d p4d-train .libs/*.so; do
		[ ! -f "$file" ] || readelf -dW "$file" | sed -n 's/.*NEEDED.*\[lib\(.*\)\.so.*/\1/p'
	done | sort -u); do
		case $needed in
		c | m | gcc_s | stdc++ | dl | pthread | rt | gomp | asan | ubsan) continue ;;
		esac
		printf '%s\n' "$bill" | grep -q "^PackageName: $needed\$" || fault "lib$needed is linked and not named"
	done
fi
exit $failed
