#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fixes are pasted: jobs of five frameworks at six sites, drawn by a seed. Each fix is accepted, trains the same as before, and the
# edited script is judged as its options are. FIXES_JOBS=1000 takes more jobs, FIXES_SEED=N others. To see one again:
# fixes --seed=N --first=I --count=1 --all --keep.
. "${0%/*}/lib.sh"

jobs=${FIXES_JOBS:-200}
[ -z "${P4D_TEST_ALL:-}" ] || jobs=1500
[ -z "${P4D_TEST_FEW:-}" ] || jobs=40
run "$P4D_TEST_BUILDDIR/fixes" --seed="${FIXES_SEED:-1}" --count="$jobs"
[ "$status" = 0 ] || fail "a fix does not do what it says"
printf '%s\n' "$out"
