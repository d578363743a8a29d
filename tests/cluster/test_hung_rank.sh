#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A rank of a training hangs, as in a driver or a file system that does not answer: the others end and say which one it is, srun
# ends the rest of the step, and the job goes on from its newest checkpoint.
. "${0%/*}/lib.sh"
. "$SOURCE/tests/cluster/training.sh"
rate="$rate --watchdog 10" # seconds
sed 's/{SLURM_WAIT:-60}/{SLURM_WAIT:-3}/' "$(p4d job)" >job.sh # seconds

submit hung 1000 job.sh
saved() { grep -qs '"event":"saved"' hung/log.jsonl; }
until_true 300 saved || fail "no checkpoint: $(cat hung.out)"
victim=$(pgrep -f "^[^ ]*p4d-train .*--checkpoint $work/hung " | sed -n 3p)
kill -STOP "$victim" || fail "no rank to stop"
put_back "$id"
grep -q "^p4d-train: \[P4D050\] rank [0-7] (h[12]).* hangs in .*: process $victim " hung.out || fail "it does not name it: $(cat hung.out)"
same "$(grep -c '^p4d-train: ' hung.out)" 1 "lines of p4d-train"
finished "$id"
cat hung.out
same "$state" COMPLETED
begins=$(sed -n 's/.*"event":"start".*"resumed_step":\([0-9]*\).*/\1/p' hung/log.jsonl | tr '\n' ' ')
case $begins in
"0 "[1-9]*) ;;
*) fail "it began at steps $begins" ;;
esac
nodes_are_up
