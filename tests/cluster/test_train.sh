#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A real training: sbatch completes the layout, the ready job script starts p4d-train on two nodes, ranks of a node share memory
# and those of different nodes talk TCP; stopped by a signal the job saves, requeues itself, and ends like an uninterrupted one.
. "${0%/*}/lib.sh"
command -v p4d-train >/dev/null || skip "p4d-train is not built"
export OPENBLAS_NUM_THREADS=1 P4D_DATADIR="$SOURCE/etc"

cat >model.json <<'END'
{"name": "tiny", "layers": 4, "hidden": 32, "ffn": 64, "heads": 4, "kv_heads": 2, "head_dim": 8, "vocab": 257,
 "max_seq_len": 32, "norm": "rmsnorm", "glu": "on", "tied": "off", "positions": "rope", "bias": "none", "qk_norm": "off"}
END
p4d data -o text "$SOURCE/CONTRIBUTING.md" "$SOURCE/README.md" >/dev/null || fail "no data"
# Low enough that rounding in another order does not grow: at 1e-2 it was 1e-5 of the loss after 20 steps.
rate="--lr 2e-3"
# losses FILE: "step loss norm", the last ones of a step that was made twice
losses()
{
	sed -n 's/.*"event":"step","step":\([0-9]*\),.*"loss":\([^,]*\),"gradient_norm":\([^,]*\),.*/\1 \2 \3/p' "$1" |
		awk '{ seen[$1] = $0 } END { for (step in seen) print seen[step] }' | sort -n
}
# submit NAME STEPS
submit()
{
	run sbatch -N2 --ntasks-per-node=4 --output="$work/$1.out" --p4d-model="$work/model.json" --p4d-device=cpu --p4d-tp=2 \
		--p4d-pp=2 --p4d-global-batch=8 --p4d-seq-len=32 \
		--export="ALL,P4D_DATA=$work/text,P4D_STEPS=$2,P4D_CHECKPOINT=$work/$1,P4D_TRAIN_ARGS=$rate --save-every 5" \
		"$(p4d job)"
	accepted
}

submit whole 40
finished "$id"
cat whole.out
same "$state" COMPLETED
losses whole/log.jsonl >whole.txt
same "$(wc -l <whole.txt)" 40 "steps"
awk 'NR == 1 { first = $2 } { last = $2 } END { exit !(last < first - 1) }' whole.txt || fail "it does not learn: $(cat whole.txt)"
contains "$(head -n 1 whole/log.jsonl)" '"ranks":8,"tp":2,"cp":1,"pp":2,"dp":2'

# the same on one rank, here
# shellcheck disable=SC2086 # a list of words
env -u SLURM_JOB_ID p4d-train --model model.json --global-batch 8 --seq-len 32 --data text $rate --steps 40 --local-ranks 1 \
	--log one.jsonl || fail "one rank"
# AdamW hides gradients that are too large all over; their norm shows them
losses one.jsonl | head -n 20 >one.txt
head -n 20 whole.txt | paste -d ' ' - one.txt | awk '
	$1 != $4 || ($2 - $5) ^ 2 > (1e-5 * $2) ^ 2 || ($3 - $6) ^ 2 > (1e-3 * $3) ^ 2 { print; bad = 1 } END { exit bad }' ||
	fail "eight ranks on two nodes and one rank differ"

# stopped in the middle
submit parts 40
for try in $(seq 400); do
	grep -qs '"step":7,' parts/log.jsonl && break
	sleep 0.02
done
scancel --signal=USR1 "$id"
for try in $(seq 400); do
	[ "$(job "$id" Restarts)" = 1 ] && break
	sleep 0.05
done
# a job that was put back waits two minutes; in the second of its end the nodes would refuse it as killed
for try in $(seq 400); do
	[ "$(job "$id" JobState)" = PENDING ] && scontrol update JobId="$id" StartTime=now+3 && break
	sleep 0.05
done
finished "$id"
cat parts.out
same "$(job "$id" Restarts)" 1 "restarts"
same "$state" COMPLETED
grep -q '"event":"stopped".*SIGUSR1' parts/log.jsonl || fail "it was not stopped (try $try)"
losses parts/log.jsonl | cmp -s - whole.txt || fail "it did not go on bit by bit"
nodes_are_up
