#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The calculator. Its compilation by emscripten takes minutes and is not part of the build. So these tests find what would break it:
# a function of json-c that web/json-c lacks, and a source that web/fragment.mk does not list. If `make web` was run, the calculator
# answers 200 random requests as p4d does, byte for byte, and is no larger than 3 MB.
. "${0%/*}/lib.sh"

# shellcheck disable=SC2034 # fail prints them
status='' out='' err=''

cd "$P4D_TEST_BUILDDIR" || exit 99
MAKEFLAGS="" MAKELEVEL="" make -s --no-print-directory web-sources >"$work/make" || fail "make web-sources"
compile=$(head -n 1 "$work/make")
sed 1d "$work/make" >"$work/sources"
[ "$(wc -l <"$work/sources")" -gt 100 ] || fail "make web-sources lists $(wc -l <"$work/sources") files"

# Each object that the build made of a listed source, without its copy for static libraries.
while read -r source; do
	folder=${source%/*} name=${source##*/}
	find "$folder/.libs" -maxdepth 1 -name "*-${name%.c}.o" | head -n 1
done <"$work/sources" >"$work/objects"
[ "$(wc -l <"$work/objects")" -eq "$(wc -l <"$work/sources")" ] || fail "not every source of the calculator has an object"
$compile -c "$P4D_TEST_SRCDIR/web/web.c" -o "$work/web.o" || fail "web.c does not compile"
echo "$work/web.o" >>"$work/objects"
# shellcheck disable=SC2046 # a list of files without spaces
nm $(cat "$work/objects") >"$work/symbols"
awk '$1 == "U" && $2 ~ /^p4d_/ {print $2}' "$work/symbols" | sort -u >"$work/wanted"
awk 'NF == 3 {print $3}' "$work/symbols" | sort -u >"$work/defined"
# p4d_job_read reads job scripts: the page has none, and emcc drops the functions that call it.
comm -23 "$work/wanted" "$work/defined" | grep -v '^p4d_job_read$' >"$work/missing"
[ ! -s "$work/missing" ] || fail "no source in web/fragment.mk defines: $(tr '\n' ' ' <"$work/missing")"

sed "s,^,$P4D_TEST_SRCDIR/," "$work/sources" | xargs ls 2>/dev/null | xargs grep -l json_ >"$work/json"
while read -r source; do
	$compile -fsyntax-only -Werror=implicit-function-declaration "$source" || fail "${source##*/} does not compile with web/json-c"
done <"$work/json"

page=web/calculator/index.html
[ -f "$page" ] || exit 0
command -v node >/dev/null || { echo "skip: no node"; exit 77; }
[ "$(wc -c <"$page")" -le 3000000 ] || fail "the calculator has $(wc -c <"$page") bytes"
cd "$work" || exit 99
node "$P4D_TEST_SRCDIR"/tests/web/compare.js "$P4D_TEST_BUILDDIR"/web/p4d.js "$P4D_TEST_BUILDDIR"/p4d \
	"$P4D_TEST_SRCDIR"/tests/data/models.jsonl 200 || exit 1
