#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Validation of several sets, each by its name, and --eval-only: the losses of a checkpoint or of a released model, in any layout,
# without memory for training.
. "${0%/*}/lib.sh"
released=$P4D_TEST_SRCDIR/tests/data/released
by_hand
seq 1 700 >text
seq 300 3 900 | tr 0-9 a-j >other
exits 0 p4d data -o numbers text
exits 0 p4d data -o letters other
exits 0 p4d data --tokenizer ids --vocab 40 -o ids "$released/ids.jsonl"
model="--model custom --layers 4 --hidden 32 --ffn 48 --heads 4 --kv-heads 2 --head-dim 8 --vocab 257 --max-seq-len 64
	--norm rmsnorm --glu on --tied off --positions rope --bias none --qk-norm off --seq-len 32 --global-batch 4 --device cpu"
# shellcheck disable=SC2086 # a list of words
train() { p4d-train $model --data numbers --lr 1e-2 "$@"; }
evaluate() { p4d-train --device cpu --eval-only "$@"; }
# loss_of FILE [NAME]: the last one that is logged
loss_of() { sed -n "s/.*\"event\":\"validation\".*${2:+\"name\":\"$2\",}\"loss\":\([^,]*\),.*/\1/p" "$1" | tail -n 1; }
# near LIMIT ONE OTHER
near() { awk -v limit="$1" -v one="$2" -v other="$3" 'BEGIN { off = one / other - 1; exit !(other > 0 && off * off <= limit * limit) }'; }

exits 0 train --steps 4 --eval-every 2 --valid-data known=numbers --valid-data new=letters --checkpoint run --log log
[ "$(grep -c '"event":"validation","step":[24],"name":"known"' log)" = 2 ] || fail "not each set twice: $(cat log)"
[ "$(grep -c '"event":"validation","step":[24],"name":"new"' log)" = 2 ] || fail "not each set twice: $(cat log)"
near 1e-3 "$(loss_of log known)" "$(loss_of log new)" && fail "the sets have one loss"

# the checkpoint has these losses in the same batches, in any layout, and others of all the data
while read -r layout; do
	# shellcheck disable=SC2086
	exits 0 evaluate $layout --checkpoint run --valid-data new=letters --valid-data known=numbers --global-batch 4 --eval-batches 1
	printf '%s\n' "$out" >some
	for name in known new; do
		near 1e-6 "$(loss_of some $name)" "$(loss_of log $name)" || fail "$layout $name: $out"
	done
done <<'END'
--tp 1
--local-ranks 4 --tp 2 --pp 2
--local-ranks 2 --cp 2
--local-ranks 2
--local-ranks 2 --pp 2 --vocab-parallel vocab-1
--local-ranks 2 --optimizer-sharding gradients
--local-ranks 2 --pp 2 --micro-batch 2 --optimizer-sharding parameters
--local-ranks 4 --tp 2 --optimizer-sharding parameters --resident-layers 3
--local-ranks 4 --cp 2 --optimizer-sharding parameters --shard-degree 2
--offload params --resident-layers 1
--local-ranks 2 --offload optimizer,params,activations
--local-ranks 4 --tp 2 --pp 2 --offload params
--local-ranks 2 --pp 2 --offload activations
--local-ranks 4 --tp 2 --pp 2 --token-slices 3 --slice-lengths 16,10,6
--local-ranks 4 --tp 4 --tp-grid 2,2,1
--local-ranks 4 --tp 2 --tp-grid 1,1,2 --pp 2 --micro-batch 2
--local-ranks 2 --pp 2 --local-loss stage
END
exits 0 evaluate --checkpoint run --valid-data letters
tokens=$(p4d data --json -o again other | sed -n 's/.*"tokens": *\([0-9]*\).*/\1/p')
whole=$(((tokens - 1) / 32 * 32))
prints "\"tokens\":$whole}"
[ "$(echo "$out" | grep -c '"event":"validation"')" = 1 ] || fail "more than one set"
echo "$out" | awk -F '[:,]' '/validation/ { for (i = 1; i < NF; i++) { if ($i ~ /loss/) l = $(i + 1); if ($i ~ /perp/) p = $(i + 1) } }
	END { off = exp(l) / p - 1; exit !(p > 1 && off * off < 1e-12) }' || fail "the perplexity is not that of the loss: $out"

# neither gradients nor optimizer are allocated; runs that train have both
for precision in fp32 bf16; do
	exits 0 evaluate --checkpoint run --valid-data letters --precision $precision
	echo "$out" | grep -q '"planned":{"params":[0-9]*,"activations"' || fail "planned for training: $out"
	echo "$out" | grep -q '"used":{"params":[0-9]*,"activations"' || fail "used for training: $out"
done
grep -q '"planned":{"params":[0-9]*,"grads":[0-9]*,"optimizer"' log || fail "no gradients while training: $(cat log)"

# what is on the host is what the plan of an evaluation has there: parameters, or nothing
# host_of LAYOUT: bytes on the host in an evaluation
host_of()
{
	# shellcheck disable=SC2086
	exits 0 evaluate $1 --checkpoint run --valid-data letters
	printf '%s\n' "$out" | sed -n 's/.*"event":"memory".*"host_offloaded_bytes":\([0-9]*\).*/\1/p'
}
[ "$(host_of "--offload optimizer,activations")" = 0 ] || fail "something is on the host"
[ "$(host_of "--offload optimizer,params,activations")" -gt 100000 ] || fail "no parameters are on the host"

# a released model has the loss that transformers computes; so does its mask count
exits 0 evaluate --init-from "$released/llama" --valid-data ids --seq-len 32
printf '%s\n' "$out" >llama
exits 0 p4d-train --data ids --device cpu --global-batch 1 --seq-len 32 --steps 1 --lr 0 --init-from "$released/llama" --log once
near 2e-6 "$(loss_of llama)" "$(sed -n 's/^llama //p' "$released/losses")" || fail "not the loss of transformers: $(cat llama)"

# adapters: those of the checkpoint give the same as their merged model
exits 0 p4d-train --data ids --device cpu --global-batch 1 --seq-len 32 --steps 3 --lr 0.02 --init-from "$released/llama" --finetune lora \
	--lora-rank 3 --checkpoint adapted
exits 0 p4d export --fp32 adapted merged
exits 0 evaluate --checkpoint adapted --valid-data ids
printf '%s\n' "$out" >adapted.json
exits 0 evaluate --init-from merged --valid-data ids --seq-len 32
printf '%s\n' "$out" >merged.json
near 1e-6 "$(loss_of adapted.json)" "$(loss_of merged.json)" || fail "adapted: $(cat adapted.json), merged: $(cat merged.json)"
near 1e-4 "$(loss_of adapted.json)" "$(loss_of llama)" && fail "adapters say nothing"

# missing or ineffective settings
refused P4D001 evaluate --valid-data letters
says "--eval-only needs --checkpoint"
refused P4D001 evaluate --checkpoint run
says "--eval-only needs data: --valid-data is missing" "fix: --valid-data FILE"
for option in "data numbers" "steps 5" "lr 0.1" "save-every 3" "eval-every 3" "valid-fraction 0.1"; do
	# shellcheck disable=SC2086 # an option and its value
	refused P4D001 evaluate --checkpoint run --valid-data letters --${option}
	says "--eval-only ends without training: leave out --${option% *}"
done
refused P4D001 evaluate --checkpoint run --valid-data letters --model llama3.2-1b
says "--model has no effect"
refused P4D052 evaluate --checkpoint nowhere --valid-data letters
says "nowhere: no checkpoint found"
refused P4D052 evaluate --checkpoint run --valid-data letters --layers 2
says "the checkpoint is of another model: layers is 4, expected 2"
refused P4D051 evaluate --checkpoint run --valid-data known=letters --global-batch 4096
says "--valid-data known: has" "sequences of 32 tokens, less than --global-batch=4096" "fix: use --eval-batches=1"
refused P4D001 evaluate --checkpoint run --valid-data letters --valid-data numbers
says "if there are several validation sets, each needs a name" "fix: --valid-data NAME=letters"
refused P4D001 evaluate --checkpoint run --valid-data a=letters --valid-data a=numbers
says "two validation sets have the name a"
cp letters.bin a=b.bin && cp letters.idx a=b.idx
exits 0 evaluate --checkpoint run --valid-data ./a=b
# shellcheck disable=SC2046 # sixteen of them
refused P4D001 evaluate --checkpoint run $(for i in $(seq 16); do echo "--valid-data s$i=letters"; done)
says "--valid-data is given more than 15 times"
refused P4D001 train --steps 1 --eval-batches 3
says "--eval-batches has no effect without --valid-data or --valid-fraction"

# --save-best names the checkpoint with the lowest loss and keeps it; --stop-after-worse ends the run, also when it is started again
over() { train --steps 60 --lr 3e-2 --valid-data letters --eval-every 3 --save-every 10 --keep 2 --checkpoint best "$@"; }
exits 0 over --save-best --stop-after-worse 4 --log best.log
lowest=$(sed -n 's/.*"event":"validation","step":\([0-9]*\),.*"lowest":true.*/\1/p' best.log | tail -n 1)
end=$((lowest + 12))
grep -q "\"event\":\"end\",\"step\":$end,.*\"early\":true,\"best_step\":$lowest,.*\"worse\":4" best.log || fail "not 12 steps behind $lowest: $(cat best.log)"
[ "$(readlink best/best)" = "step-$(printf %08d "$lowest")" ] || fail "best is not $lowest: $(ls -l best)"
[ "$(find best -name 'step-*' | wc -l)" = 3 ] || fail "not the best and the two newest: $(ls -l best)"
grep -q "\"event\":\"saved\",\"step\":$lowest,\"best\":true" best.log || fail "no word of the best checkpoint: $(cat best.log)"
exits 0 over --save-best --stop-after-worse 4
says "[P4D045] step $end: 4 validations in a row without a loss below" "of step $lowest, so there is nothing to train" "fix: use a larger --stop-after-worse"
exits 0 over --save-best --stop-after-worse 5 --local-ranks 2 --log again.log
grep -q "\"event\":\"end\",\"step\":$((end + 3)),.*\"best_step\":$lowest,.*\"worse\":5" again.log || fail "it does not go on from 4: $(cat again.log)"
exits 0 over --steps $((end + 4)) --stop-after-worse 9
[ -d "best/best" ] || fail "a run without --save-best removed the best: $(ls -l best)"
exits 0 p4d export best/best exported
prints "weights of best/best"
exits 0 evaluate --checkpoint best/best --valid-data letters
prints '"event":"validation","step":'"$lowest,"
refused P4D052 train --steps 3 --checkpoint best/best
says "best/best: is a single checkpoint; give the directory of the run"
# its checkpoint is gone: the next validation is the best one
rm -r "best/step-$(printf %08d "$lowest")"
exits 0 over --steps $((end + 10)) --save-best
[ -f best/best/manifest.json ] && [ "$(readlink best/best)" != "step-$(printf %08d "$lowest")" ] || fail "no new best: $(ls -l best)"
# losses of other data are none of this run: it does not end for them, and has a best of its own
exits 0 train --steps 12 --lr 3e-2 --valid-data letters --eval-every 3 --checkpoint moved --save-best --stop-after-worse 1
ended=$(echo "$out" | sed -n 's/.*"event":"end","step":\([0-9]*\),.*/\1/p')
exits 0 train --steps $((ended + 6)) --lr 3e-2 --valid-data numbers --eval-every 3 --checkpoint moved --save-best --stop-after-worse 1
says "the checkpoint's lowest validation loss, " "comes from other data or another --eval-batches; this run starts without a lowest loss"
prints "\"event\":\"validation\",\"step\":$((ended + 3)),"
exits 0 train --steps $((ended + 9)) --lr 3e-2 --checkpoint moved
exits 0 train --steps $((ended + 12)) --lr 3e-2 --valid-data letters --eval-every 3 --checkpoint moved
says "this run starts without a lowest loss"
refused P4D001 train --steps 3 --save-best --checkpoint best
says "--save-best has no effect without --valid-data"
refused P4D001 train --steps 3 --stop-after-worse 2
says "--stop-after-worse has no effect without --valid-data"

# learned positions begin at 0 in each document: packed, two documents have the loss that they have alone
{
	seq -s, 1 10 | sed 's/.*/{"input_ids": [&]}/'
	seq -s, 30 39 | sed 's/.*/{"input_ids": [&]}/'
} >two.jsonl
exits 0 p4d data --tokenizer ids --vocab 257 -o two two.jsonl
exits 0 p4d-train --model custom --layers 2 --hidden 32 --ffn 48 --heads 4 --kv-heads 4 --head-dim 8 --vocab 257 --max-seq-len 64 \
	--norm layernorm --glu off --activation gelu --tied on --positions learned --bias all --architecture gpt2 --device cpu \
	--data numbers --lr 1e-2 --steps 20 --seq-len 64 --global-batch 4 --checkpoint learned --log learned.log
exits 0 evaluate --checkpoint learned --valid-data two --sequences packed --seq-len 10 --global-batch 2
printf '%s\n' "$out" >some
alone=$(loss_of some)
for layout in "--tp 1" "--local-ranks 2 --cp 2" "--local-ranks 2 --pp 2 --vocab-parallel vocab-1" "--token-slices 2"; do
	# shellcheck disable=SC2086
	exits 0 evaluate $layout --checkpoint learned --valid-data two --sequences packed --seq-len 32 --global-batch 1
	printf '%s\n' "$out" >some
	near 1e-6 "$(loss_of some)" "$alone" || fail "$layout, packed: $out, alone $alone"
done
