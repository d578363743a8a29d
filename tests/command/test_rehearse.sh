#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d rehearse with a program that is no PyTorch (tests/rehearsal/played.c): what it answers, and that nothing is left.
. "${0%/*}/lib.sh"

played=$P4D_TEST_BUILDDIR/tests/rehearsal/played
[ -x "$played" ] || exit 77
TMPDIR=$work/left
export TMPDIR
mkdir "$TMPDIR"

# what it holds: 10 GiB and the context, on a GPU of 79.1 GiB
exits 0 p4d rehearse --gpu h100-80gb -- "$played" 10240
prints "Verdict: pass on 1 x h100-80gb" "Rank 0: 10.5 of 79.1 GiB on the GPU (13 %)"
exits 0 p4d rehearse --json "$played" 1024
prints '"verdict": "pass"' '"device_bytes": 1598029824' '"schema": 1'
# the same program on a GPU that is too small gets CUDA's error
exits 12 p4d rehearse --gpu a100-40gb -- "$played" 40960
prints "Verdict: reject: it asked for 40.00 GiB when 0.5 of 39.4 GiB were taken on 1 x a100-40gb"
says "CUDA error: out of memory"
exits 0 p4d rehearse --gpu a100-80gb -- "$played" 78336
prints "Verdict: warn: above 95 % of the GPU"

# what cannot be said
exits 9 p4d rehearse -- "$played" missing
prints "Verdict: incomplete: it called cudaArrayGetInfo, which the rehearsal does not play"
exits 9 p4d rehearse -- "$played" none
prints "Verdict: incomplete: the program used no GPU"
exits 9 p4d rehearse -- "$work/nosuch"
prints "Verdict: incomplete: the program ended with status 127"
says "nosuch: No such file"
exits 9 p4d rehearse --timeout 1 -- "$played" hang
prints "Verdict: incomplete: it did not end within 1 s"

# ranks of several nodes, one after the other, with a store that answers for the others
exits 0 p4d rehearse --nodes 2 --gpus-per-node 8 -- "$played" store
prints "Verdict: pass on 16 x h100-80gb" "Rank 0: " "Rank 15: "
exits 0 p4d rehearse --nodes=2 --gpus-per-node=8 --ranks=3,5 -- "$played" store
prints "Rank 3: " "Rank 5: "

exits 1 p4d rehearse
says "no program given" "p4d help rehearse"
exits 1 p4d rehearse --node 2 -- "$played" 1
says "unknown option --node; nearest: --nodes"
exits 5 p4d rehearse --steps many -- "$played" 1
says "--steps=many: not a whole number from 0 to 1000"
exits 5 p4d rehearse --gpus-per-node 2 --ranks 2 -- "$played" 1
says "--ranks=2: not a whole number from 0 to 1"
exits 10 p4d rehearse --gpu nosuch -- "$played" 1
says 'unknown GPU "nosuch"'
exits 11 p4d rehearse --gpu a100 -- "$played" 1
exits 9 p4d rehearse --gpu mi250x -- "$played" 1
says "has no CUDA"

# an interrupt ends the program, and removes what was made for it
setsid "$P4D_TEST_BUILDDIR/p4d" rehearse --timeout 60 -- "$played" hang >"$work/out" 2>&1 &
command=$!
tries=100
while [ $((tries -= 1)) -gt 0 ]; do
	child=$(pgrep -P $command -f "played hang") && break
	sleep 0.1
done
[ -n "$child" ] || fail "the program was not started"
kill -INT $command
wait $command && fail "an interrupt is no success"
! kill -0 "$child" 2>/dev/null || fail "the program goes on after an interrupt"
[ -z "$(ls -A "$TMPDIR")" ] || fail "left: $(ls -R "$TMPDIR")"
