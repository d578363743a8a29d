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
dry 15 facts
dry 11 ratio
dry 7 depth --only 'losses|check'
for kind in txt json; do
	grep -q 'commit' out/*.$kind || fail "no results as $kind"
done

# a GPU that p4d-train cannot open: the first row says why, and is the last
cat >bin/nvidia-smi <<'END'
#!/bin/sh
case "$*" in
*query-gpu=name*) echo "NVIDIA H200" ;;
*compute_cap*) echo 9.0 ;;
*-L*) echo "GPU 0: NVIDIA H200" ;;
*) echo 1 ;;
esac
END
status=0
env -u P4D_LIBDIR CUDA_VISIBLE_DEVICES= kit/tests/gpu/run --results closed --part facts >said 2>&1 || status=$?
[ "$status" = 1 ] || { cat said >&2; fail "with a GPU that does not open it ends with $status"; }
grep -q '^device  *FAIL' said && grep -q 'P4D054' said && grep -q 'nothing else was run' said || { cat said >&2; fail "why it does not open is not said"; }
! grep -q 'not run  ' said || fail "it goes on where the GPU does not open: $(cat said)"
grep -q '"name":"device","status":"FAIL"' closed/*.json || fail "no results where the GPU does not open"

# stopped in a row that heeds no signal: the rows before are written, and nothing runs on
printf '#!/bin/sh\ntrap "" TERM\necho $$ >%s/stuck\nwhile :; do sleep 1; done\n' "$work" >kit/build/p4d-train
env -u P4D_LIBDIR kit/tests/gpu/run --results stopped --part facts >said 2>&1 &
run=$!
waited=0
until [ -s stuck ]; do
	[ $((waited += 1)) -lt 600 ] || fail "p4d-train was not started: $(cat said)"
	sleep 0.1
done
kill "$run"
status=0
wait "$run" || status=$?
[ "$status" = 143 ] || fail "stopped, it ends with $status: $(cat said)"
grep -q '"rows":\[' stopped/*.json && grep -q 'commit' stopped/*.txt || fail "stopped, it leaves no results: $(ls stopped)"
waited=0
while kill -0 "$(cat stuck)" 2>/dev/null; do
	[ $((waited += 1)) -lt 200 ] || fail "stopped, it leaves $(cat stuck) behind"
	sleep 0.1
done
