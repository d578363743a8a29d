#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pairs of answers: p4d data writes them, p4d-train learns from them, all weights or adapters, with the same losses in every
# layout and after a resume; and what does not go together.
. "${0%/*}/lib.sh"
by_hand

# 24 pairs; the chosen answer counts on, the rejected one back
awk 'BEGIN {
	for (i = 0; i < 24; i++) {
		prompt = chosen = rejected = ""
		for (k = 0; k < 3 + i % 4; k++) prompt = prompt (i + k) % 10
		for (k = 0; k < 4 + i % 5; k++) { chosen = chosen (i + k + 1) % 10; rejected = rejected (29 - i - k) % 10 }
		printf "{\"prompt\": \"%s\", \"chosen\": \"%s\", \"rejected\": \"%s\"}\n", prompt, chosen, rejected
	}
}' >pairs.jsonl
exits 0 p4d data --pairs --tokenizer bytes -o pairs pairs.jsonl
prints "pairs.bin: 48 documents" "24 pairs" "loss on"
exits 0 p4d data --pairs --tokenizer bytes --json -o pairs pairs.jsonl
prints '"pairs":24'

# the same pairs as conversations, with and without a prompt of their own
sed 's/"prompt": \("[^"]*"\), "chosen": \("[^"]*"\), "rejected": \("[^"]*"\)/"prompt": [{"role": "user", "content": \1}], "chosen": [{"role": "assistant", "content": \2}], "rejected": [{"role": "assistant", "content": \3}]/' pairs.jsonl >prompt.jsonl
sed 's/"prompt": \("[^"]*"\), "chosen": \("[^"]*"\), "rejected": \("[^"]*"\)/"chosen": [{"role": "user", "content": \1}, {"role": "assistant", "content": \2}], "rejected": [{"role": "user", "content": \1}, {"role": "assistant", "content": \3}]/' pairs.jsonl >whole.jsonl
for form in pairs prompt whole; do
	exits 0 p4d data --pairs --tokenizer bytes --chat chatml -o "$form.chat" "$form.jsonl"
	prints "24 pairs" "template chatml"
	cmp pairs.chat.bin "$form.chat.bin" || fail "$form: other tokens"
	cmp pairs.chat.mask "$form.chat.mask" || fail "$form: another mask"
done
# wrong lines are left out as whole pairs
{ echo '{"prompt": "1", "chosen": "2"}'; cat pairs.jsonl; } >wrong.jsonl
exits 0 p4d data --pairs --tokenizer bytes --bad-lines 1 -o right wrong.jsonl
cmp pairs.bin right.bin || fail "half a pair was written"
refused P4D004 p4d data --pairs --tokenizer bytes --bad-lines 0 -o right wrong.jsonl
says "wrong.jsonl:1: needs a chosen and a rejected text"
refused P4D004 p4d data --pairs --tokenizer bytes --bad-lines 0 -o right prompt.jsonl
says "lists of messages need --chat"

# a model of bytes to begin with
seq 1 400 >text
exits 0 p4d data -o text text
shape="--model custom --layers 4 --hidden 32 --ffn 48 --heads 4 --kv-heads 2 --head-dim 8 --max-seq-len 128 --norm rmsnorm
	--glu on --tied off --positions rope --bias none --qk-norm off"
# shellcheck disable=SC2086
exits 0 p4d-train $shape --vocab 257 --data text --seq-len 32 --global-batch 4 --steps 5 --device cpu --checkpoint base
exits 0 p4d export --fp32 base begin

losses() { sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' "$1"; }
references() { sed -n 's/.*"event":"reference","steps":\([0-9]*\).*/\1/p' "$1" | tr '\n' ' '; }
# alike LOG LOG
alike() {
	losses "$1" >left
	losses "$2" >right
	paste left right | awk '{ off = $1 / $2 - 1; if (off * off > 2.5e-11) bad = 1; n++ } END { exit bad || !n }' ||
		fail "other losses: $(paste left right)"
}
run="--workload preference --data pairs --init-from begin --device cpu --global-batch 4 --seq-len 48 --beta 0.3 --warmup 0"
# shellcheck disable=SC2086
learn() { p4d-train $run "$@"; }

for method in "--lr 1e-3" "--finetune lora --lora-rank 4 --lr 2e-2 --lora-dropout 0.1"; do
	rm -rf one.json other.json halves halves.json thirds thirds.json
	# shellcheck disable=SC2086
	exits 0 learn $method --steps 10 --log one.json
	# it begins with log 2, and learns; the margin follows
	losses one.json | awk 'NR == 1 { first = $1 } END { exit !(first > 0.69314 && first < 0.69316 && $1 < first - 0.02) }' ||
		fail "$method learns nothing: $(losses one.json)"
	grep -q '"step":10,.*"margin":0.*"preferred":.*"pairs":4,.*"pairs_per_second":' one.json || fail "no margin: $(cat one.json)"
	while read -r layout; do
		rm -f other.json
		# shellcheck disable=SC2086
		exits 0 learn $method $layout --steps 10 --log other.json
		alike one.json other.json
	done <<END
--local-ranks 4 --cp 2 --pp 2 --recompute full
--local-ranks 2 --tp 2 --micro-batch 2
--local-ranks 4 --micro-batch 1
--local-ranks 2 --pp 2 --schedule zb1p --vocab-parallel off
END
	# in two parts: the reference is that of the beginning
	# shellcheck disable=SC2086
	exits 0 learn $method --steps 10 --checkpoint halves --save-every 5 --log halves.json
	rm -rf halves/step-00000010
	# shellcheck disable=SC2086
	exits 0 learn $method --steps 10 --checkpoint halves --log halves.json
	[ "$(losses halves.json | tail -n 1)" = "$(losses one.json | tail -n 1)" ] || fail "resumed, the losses are others"
	# a pass has six steps, so the first run measures six, and the other the five to come
	[ "$(references halves.json)" = "6 5 " ] || fail "the reference was measured for steps: $(references halves.json)"
	# the newest checkpoint is damaged: more steps are to come than was expected
	# shellcheck disable=SC2086
	exits 0 learn $method --steps 10 --checkpoint thirds --save-every 3 --log thirds.json
	rm -rf thirds/step-00000010
	printf x >>thirds/step-00000009/manifest.json
	# shellcheck disable=SC2086
	exits 0 learn $method --steps 10 --checkpoint thirds --log thirds.json
	[ "$(losses thirds.json | tail -n 1)" = "$(losses one.json | tail -n 1)" ] || fail "resumed from step 6, the losses are others"
	[ "$(references thirds.json)" = "6 1 3 " ] || fail "the reference was measured for steps: $(references thirds.json)"
done
# a pass has six steps: the seventh shows pairs again
exits 0 learn --epochs 2 --lr 1e-3
prints '"step":12,"steps":12'

# what does not go together
while IFS=/ read -r code options text fix; do
	# shellcheck disable=SC2086
	refused "$code" learn --steps 1 $options
	says "$text" "fix: $fix"
done <<'END'
P4D001/--valid-data pairs/preference training has no validation/leave out --valid-data and --valid-fraction
P4D001/--z-loss 0.1/preference training has no z-loss/leave out --z-loss
P4D009/--local-ranks 2 --pp 2 --token-slices 2/token slices need the gradients of a slice/--token-slices=1
P4D009/--local-ranks 2 --pp 2 --local-loss stage/local-loss has no loss for pairs/--local-loss=off
END
small="--device cpu --global-batch 4 --seq-len 48 --steps 1"
# shellcheck disable=SC2086
refused P4D001 p4d-train $shape --vocab 257 $small --workload preference --data pairs
says "workload=preference: preference training starts from the weights of a released model: --init-from is missing"
# shellcheck disable=SC2086
refused P4D001 p4d-train --init-from begin $small --data text --beta 0.2
says "--beta has no effect without workload=preference"
# shellcheck disable=SC2086
refused P4D051 p4d-train --init-from begin $small --data pairs
says "pairs: has pairs of answers" "fix: --workload=preference"
# shellcheck disable=SC2086
refused P4D051 p4d-train --init-from begin $small --data text --workload preference --sequences packed --document-mask on
says "text: has no pairs" "fix: p4d data --pairs"
# shellcheck disable=SC2086
refused P4D009 p4d-train --init-from begin $small --data text --workload serve
says "workload: p4d-train supports only train and preference"

# the estimate is the plan of the training
pref="p4d estimate --model llama3.2-1b --workload preference --framework p4d --nodes 1 --gpus-per-node 1 --seq-len 1024 --global-batch 1"
# shellcheck disable=SC2086
exits 0 $pref --device cpu
prints "Verdict: "
# shellcheck disable=SC2086
exits 0 $pref --gpu h100
prints "Verdict: "
# shellcheck disable=SC2086
refused P4D005 $pref --device cpu --reference host
says "reference has no effect with p4d-train"
