#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fine-tuning in jobs, from a released model: the words of sbatch reach p4d-train with the plan, two layouts have the same losses,
# with adapters and with all weights, and what is allocated is what slurmctld checked.
. "${0%/*}/lib.sh"
. "$SOURCE/tests/cluster/training.sh"
released=$SOURCE/tests/data/released
p4d data --tokenizer ids --vocab 40 -o ids "$released/ids.jsonl" >/dev/null || fail "no data"

# tune NAME ARGUMENTS OPTION...: a job of four ranks that makes five steps
tune()
{
	name=$1 arguments=$2
	shift 2
	run env P4D_DATA="$work/ids" P4D_STEPS=5 P4D_CHECKPOINT="$work/$name" \
		P4D_TRAIN_ARGS="--init-from $released/llama --lr 2e-2 --warmup 0 $arguments" \
		sbatch -N2 --ntasks-per-node=2 --output="$work/$name.out" --p4d-model="$released/llama" --p4d-device=cpu \
		--p4d-global-batch=4 --p4d-seq-len=8 "$@" "$(p4d job)"
	accepted
	finished "$id"
	cat "$name.out"
	same "$state" COMPLETED "$name"
	losses "$name/log.jsonl" >"$name.txt"
	same "$(wc -l <"$name.txt")" 5 "steps of $name"
}
# alike ONE OTHER
alike()
{
	paste -d ' ' "$1.txt" "$2.txt" |
		awk '$1 != $4 || ($2 - $5) ^ 2 > (1e-6 * $2) ^ 2 || ($3 - $6) ^ 2 > (1e-4 * $3) ^ 2 { print; bad = 1 } END { exit bad }' ||
		fail "$1 and $2 differ"
}
lora="--p4d-finetune=lora --p4d-lora-rank=3 --p4d-lora-targets=q_proj,v_proj,down_proj"
# shellcheck disable=SC2086 # a list of words
{
	tune stages "--lora-alpha 6" $lora --p4d-tp=1 --p4d-cp=1 --p4d-pp=2
	tune replicas "--lora-alpha 6" $lora --p4d-tp=1 --p4d-cp=2 --p4d-pp=1
}
alike stages replicas
awk 'NR == 1 { first = $2 } END { exit !($2 < first - 0.01) }' stages.txt || fail "adapters learn nothing: $(cat stages.txt)"
contains "$(head -n 1 stages/log.jsonl)" '"ranks":4,"tp":1,"cp":1,"pp":2,"dp":2'
tune whole "" --p4d-tp=1 --p4d-cp=1 --p4d-pp=2
tune halves "" --p4d-tp=1 --p4d-cp=2 --p4d-pp=1
alike whole halves
# the same model at first, and then not
paste -d ' ' whole.txt stages.txt | awk '
	{ off = ($2 / $5 - 1) ^ 2 } NR == 1 && off > 1e-12 || NR == 5 && off < 1e-6 { print; bad = 1 } END { exit bad }' ||
	fail "all weights and adapters begin with other losses, or end with the same"

# adapters of one job, merged here
p4d export stages merged || fail "no export"
[ -s merged/model.safetensors ] || fail "nothing is exported"
# words that p4d-train does not have are refused at once
run sbatch -N1 --p4d-model="$released/llama" --p4d-device=cpu --p4d-framework=p4d --p4d-finetune=qlora "$(p4d job)"
refused P4D005
says "finetune=qlora: p4d-train does not quantize weights"
nodes_are_up
