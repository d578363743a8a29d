#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fine-tuning in jobs, the way of FINE-TUNING in p4d-train(1): a released model with its tokenizer, conversations, adapters and all
# weights in two layouts each, plot, export, and logits. The words of sbatch reach p4d-train with the plan, layouts have the same
# losses, and an exported model says what the checkpoint does. tests/command/test_fine_tuning.sh has the page itself.
. "${0%/*}/lib.sh"
. "$SOURCE/tests/cluster/training.sh"
stored=$SOURCE/tests/data
cp -r "$stored/released/chat" mistral
gzip -dc "$stored/tokenizers/mistral.json.gz" >mistral/tokenizer.json
p4d data --tokenizer mistral --chat mistral -o chat "$stored/released/conversations.jsonl" >said 2>&1 || {
	grep -q 'built without' said && skip "p4d was built without tokenizer.json"
	fail "no data: $(cat said)"
}

# tune NAME ARGUMENTS OPTION...: a job of four ranks that makes five steps
tune()
{
	name=$1 arguments=$2
	shift 2
	run env P4D_DATA="$work/chat" P4D_STEPS=5 P4D_CHECKPOINT="$work/$name" \
		P4D_TRAIN_ARGS="--init-from $work/mistral --lr 2e-2 --warmup 0 $arguments" \
		sbatch -N2 --ntasks-per-node=2 --output="$work/$name.out" --p4d-model="$work/mistral" --p4d-device=cpu \
		--p4d-global-batch=4 --p4d-seq-len=128 "$@" "$(p4d job)"
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

# the four runs next to each other
p4d plot --svg plot.svg stages/log.jsonl replicas/log.jsonl whole/log.jsonl halves/log.jsonl >plot.txt || fail "no plot"
for name in stages replicas whole halves; do
	grep -q "^$name  *5 " plot.txt && grep -q ">$name<" plot.svg || fail "$name is not drawn: $(cat plot.txt)"
done

# logits_of NAME OPTION...: the logits after each token of a text
logits_of()
{
	of=$1
	shift
	p4d-train "$@" --tokenizer mistral/tokenizer.json --sample "[INST] What is a plan?[/INST]" --sample-tokens 1 --seq-len 128 \
		--logits "$of.npy" >/dev/null || fail "no logits of $of"
	od -An -v -w4 -tf4 -j128 "$of.npy" >"$of.logits"
	[ "$(wc -l <"$of.logits")" -gt 10000 ] || fail "$of has $(wc -l <"$of.logits") logits"
}
# same_logits LIMIT ONE OTHER: off by that, of the length of all
same_logits()
{
	paste "$2.logits" "$3.logits" | awk -v limit="$1" '
		{ off += ($1 - $2) ^ 2; all += $1 ^ 2 } END { print "'"$2, $3"': logits differ by " sqrt(off / all); exit !(all > 0 && off <= limit ^ 2 * all) }'
}
# an export with merged adapters gives the logits of its checkpoint; layouts agree, and differ from the model that
# they began with
logits_of released --init-from mistral
for name in stages replicas whole halves; do
	p4d export --fp32 "$name" "$name.tuned" || fail "no export of $name"
	logits_of "$name" --checkpoint "$name"
	logits_of "$name.tuned" --init-from "$name.tuned"
	same_logits 2e-6 "$name" "$name.tuned" || fail "$name: exported it says something else"
	! same_logits 1e-3 "$name" released || fail "$name: it has learnt nothing"
done
same_logits 2e-5 stages replicas || fail "adapters of two layouts say different things"
same_logits 2e-5 whole halves || fail "weights of two layouts say different things"
! same_logits 1e-3 stages whole || fail "adapters and all weights say the same"
# words that p4d-train does not have are refused at once
run sbatch -N1 --p4d-model="$work/mistral" --p4d-device=cpu --p4d-framework=p4d --p4d-finetune=qlora --p4d-quant=int8 "$(p4d job)"
refused P4D005
says "quant=int8: p4d-train always quantizes to nf4"
nodes_are_up
