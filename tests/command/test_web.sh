#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The calculator answers 200 random requests as p4d does, byte for byte, and is no larger than 3 MB. Only if `make web` made it: its
# compilation takes minutes.
. "${0%/*}/lib.sh"

page=$P4D_TEST_BUILDDIR/web/calculator/index.html
[ -f "$page" ] || { echo "skip: no calculator (make web)"; exit 77; }
command -v node >/dev/null || { echo "skip: no node"; exit 77; }
[ "$(wc -c <"$page")" -le 3000000 ] || fail "the calculator has $(wc -c <"$page") bytes"
node "$P4D_TEST_SRCDIR"/tests/web/compare.js "$P4D_TEST_BUILDDIR"/web/p4d.js "$P4D_TEST_BUILDDIR"/p4d \
	"$P4D_TEST_SRCDIR"/tests/data/models.jsonl 200 || exit 1
