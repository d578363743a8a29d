#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is taken to a machine with a GPU is whole: the checks compile, and tests/gpu/run goes through all its rows where there is
# no GPU, from what tests/gpu/pack made, and says that none was run.
set -eu
source=$P4D_TEST_SRCDIR build=$P4D_TEST_BUILDDIR
[ -e "$build/.libs/libp4d-cuda.so" ] || { echo "built without CUDA"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/p4d-kit.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
fail() { echo "FAILED: $*" >&2; exit 1; }

"$source/tests/gpu/pack" "$build" "$work/kit" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "tests/gpu/pack"; }
mkdir "$work/bin" # a machine without a GPU, here, too
printf '#!/bin/sh\nexit 9\n' >"$work/bin/nvidia-smi"
chmod +x "$work/bin/nvidia-smi"
PATH=$work/bin:$PATH
export PATH
cd "$work"

# dry COUNT PART WORDS...: this many rows of a part, none of which fails
dry()
{
	wanted=$1 part=$2
	shift 2
	status=0
	env -u P4D_LIBDIR P4D_COMMIT=given kit/tests/gpu/run --results out --part "$part" "$@" >said 2>&1 || status=$?
	[ "$status" = 77 ] || { cat said >&2; fail "the dry run of $part ends with $status"; }
	! grep -q ' FAIL ' said || fail "rows of $part fail: $(cat said)"
	grep -q 'commit given' said || fail "another commit: $(head -1 said)"
	rows=$(grep -c ' not run  ' said || true)
	[ "$rows" = "$wanted" ] || fail "$part has $rows rows, not $wanted: $(cat said)"
}
dry 11 facts
dry 11 ratio
dry 7 depth --only 'losses|check'
for kind in txt json; do
	grep -q 'commit' out/*.$kind || fail "no results as $kind"
done
