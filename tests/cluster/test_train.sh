#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A real training: sbatch completes the layout, the ready job script starts p4d-train on two nodes, ranks of a node share memory
# and those of different nodes talk TCP; stopped by a signal the job saves, requeues itself, and ends like an uninterrupted one.
. "${0%/*}/lib.sh"
. "$SOURCE/tests/cluster/training.sh"
steps=200 # of a millisecond or two: they have to last until the signal is there

submit whole $steps
finished "$id"
cat whole.out
same "$state" COMPLETED
losses whole/log.jsonl >whole.txt
same "$(wc -l <whole.txt)" $steps "steps"
awk 'NR == 1 { first = $2 } { last = $2 } END { exit !(last < first - 1) }' whole.txt || fail "it does not learn: $(cat whole.txt)"
contains "$(head -n 1 whole/log.jsonl)" '"ranks":8,"tp":2,"cp":1,"pp":2,"dp":2'

# the same on one rank, here
# shellcheck disable=SC2086 # a list of words
env -u SLURM_JOB_ID p4d-train --model model.json --global-batch 8 --seq-len 32 --data text $rate --steps $steps --local-ranks 1 \
	--log one.jsonl || fail "one rank"
# AdamW hides gradients that are too large all over; their norm shows them
losses one.jsonl | head -n 20 >one.txt
head -n 20 whole.txt | paste -d ' ' - one.txt | awk '
	$1 != $4 || ($2 - $5) ^ 2 > (1e-5 * $2) ^ 2 || ($3 - $6) ^ 2 > (1e-3 * $3) ^ 2 { print; bad = 1 } END { exit bad }' ||
	fail "eight ranks on two nodes and one rank differ"

# stopped in the middle
submit parts $steps
for try in $(seq 400); do
	grep -qs '"step":7,' parts/log.jsonl && break
	sleep 0.02
done
scancel --signal=USR1 "$id"
put_back "$id"
finished "$id"
cat parts.out
same "$(job "$id" Restarts)" 1 "restarts"
same "$state" COMPLETED
grep -q '"event":"stopped".*SIGUSR1' parts/log.jsonl || fail "it was not stopped (try $try)"
losses parts/log.jsonl | cmp -s - whole.txt || fail "it did not go on bit by bit"
nodes_are_up
