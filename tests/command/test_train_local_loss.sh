#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --local-loss=stage from the command line: who chooses it and who says so, that layouts of the same stages agree, killed and
# resumed, that heads of stages are in checkpoints and in nothing that leaves p4d.
. "${0%/*}/lib.sh"
released=$P4D_TEST_SRCDIR/tests/data/released
by_hand
make_text

model="--model custom --layers 4 --hidden 32 --ffn 64 --heads 4 --kv-heads 2 --head-dim 8 --vocab 257 --max-seq-len 32
	--norm rmsnorm --glu on --tied off --positions rope --bias none --qk-norm off --seq-len 32"
run="--data text --lr 5e-3 --device cpu"
local="--local-loss stage --pp 2"
# shellcheck disable=SC2086 # lists of words
train() { p4d-train $model $run --global-batch 8 "$@"; }
# losses FILE: "step loss" of every step
losses() { sed -n 's/.*"event":"step","step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' "$1"; }
# same_losses A B: to 1e-6, where both have the step
same_losses()
{
	losses "$1" | sort >left
	losses "$2" | sort >right
	join left right | awk '!($2 > 0) || ($2 - $3) ^ 2 > (1e-6 * $2) ^ 2 { print; bad = 1 } END { exit bad || !NR }' ||
		fail "$1 and $2 differ: $(join left right)"
}
wait_for() { for _ in $(seq 600); do grep -q "$1" "$2" 2>/dev/null && return; sleep 0.1; done; fail "no $1 in $2"; }
validation() { sed -n 's/.*"event":"validation".*"loss":\([^,]*\),.*/\1/p' "$1" | tail -n 1; }

# only the user may choose it, together with the stages: no search, fix or site does; and p4d says what it is
planned="--model llama3-8b --gpu h100 --nodes 2 --gpus-per-node 8"
# shellcheck disable=SC2086
exits 0 p4d plan $planned --framework p4d
printf '%s\n%s\n' "$out" "$err" | grep -q local-loss && fail "plan proposes local losses"
# shellcheck disable=SC2086
exits 0 p4d estimate $planned $local
prints "each stage has its own loss (another model than with full backpropagation)"
# shellcheck disable=SC2086
exits 0 p4d estimate $planned $local --json
prints '"local_loss":"stage"'
# shellcheck disable=SC2086
exits 0 p4d simulate $planned $local --tp 2 --global-batch 32
prints "each stage has its own loss"
# shellcheck disable=SC2086
refused P4D029 p4d estimate $planned --local-loss stage
says "so pp and pipeline-split must be given" "fix: --local-loss=off"
# shellcheck disable=SC2086
refused P4D005 p4d estimate $planned $local --framework megatron
says "Megatron-LM has only one loss, on the last stage"
# shellcheck disable=SC2086
exits 0 p4d plan $planned $local --top 3
printf '%s\n' "$out" | grep -q 'pp *1 ' && fail "plan takes other stages"
cp p4d.conf site.conf
sed 's/^version/defaults { local_loss = "stage" }\nversion/' site.conf >bad.conf
exits 61 p4d conf bad.conf
says "so only users may set it"

# in passes: the bubble is one forward pass for each stage before the last
exits 0 p4d simulate --model llama3-8b --pp 4 --global-batch 8 --local-loss stage
prints "Bubble: 11.1 %, step time 27.0 passes"
exits 0 p4d simulate --model llama3-8b --pp 4 --global-batch 8
prints "Bubble: 27.3 %, step time 33.0 passes"

# layouts of the same stages; not what full backpropagation learns
# shellcheck disable=SC2086
exits 0 train --steps 12 $local --local-ranks 2 --log one.json
grep -q '"local_loss":"stage"' one.json || fail "the log does not say so: $(head -n 1 one.json)"
while read -r layout; do
	rm -f other.json
	# shellcheck disable=SC2086
	exits 0 train --steps 12 $local $layout --log other.json
	same_losses one.json other.json
done <<'END'
--local-ranks 4 --tp 2 --recompute full
--local-ranks 4 --cp 2 --micro-batch 2
--local-ranks 4 --optimizer-sharding off
END
exits 0 train --steps 12 --local-ranks 2 --pp 2 --log full.json
[ "$(losses one.json | tail -n 1)" != "$(losses full.json | tail -n 1)" ] || fail "it learns the same"

# killed, resumed in another layout, and by other stages not
# shellcheck disable=SC2086
exits 0 train --steps 40 $local --local-ranks 2 --log whole.json --eval-every 40 --valid-data text --checkpoint whole
# shellcheck disable=SC2086
p4d-train $model $run --global-batch 8 --steps 40 $local --local-ranks 2 --log killed.json --checkpoint killed --save-every 4 2>killed.err &
parent=$!
wait_for '"event":"saved"' killed.json
victim=$(pgrep -P "$parent" | sort -n | tail -n 1)
kill -9 "$victim" 2>/dev/null
wait "$parent"
# shellcheck disable=SC2086
exits 0 train --steps 40 $local --local-ranks 4 --tp 2 --log killed.json --checkpoint killed
losses killed.json | grep -q '^40 ' || fail "it did not go on"
same_losses whole.json killed.json
refused P4D052 train --steps 41 --local-ranks 4 --pp 4 --local-loss stage --checkpoint whole --resume must
says "whose stages have other losses"
exits 0 train --steps 3 --local-ranks 2 --pp 2 --checkpoint off
# shellcheck disable=SC2086
refused P4D052 train --steps 4 $local --local-ranks 2 --checkpoint off --resume must
says "the checkpoint is of a run with --local-loss=off"
# without the option the model goes on
exits 0 train --steps 41 --checkpoint killed --log goes-on.json
losses goes-on.json | grep -q '^41 ' || fail "it did not go on without"

# evaluated and exported: the model's, in any layout
for layout in "" "--local-ranks 2 --tp 2" "--local-ranks 4 --pp 4"; do
	# shellcheck disable=SC2086
	exits 0 p4d-train --device cpu --eval-only --checkpoint whole --valid-data text --global-batch 8 --eval-batches 1 $layout
	printf '%s\n' "$out" >evaluated
	validation evaluated >/dev/null
done
exits 0 p4d export --fp32 whole exported
prints "without the heads of --local-loss, which are no part of the model"
head -c 20000 exported/model.safetensors | grep -q local_loss && fail "heads of stages were exported"
head -c 20000 exported/model.safetensors | grep -q lm_head.weight || fail "no head of the model"
exits 0 p4d-train --device cpu --eval-only --init-from exported --valid-data text --seq-len 32 --global-batch 8 --eval-batches 1
printf '%s\n' "$out" >exported.json
awk -v a="$(validation evaluated)" -v b="$(validation exported.json)" 'BEGIN { off = a / b - 1; exit !(b > 0 && off * off < 1e-12) }' ||
	fail "what was exported has another loss: $(cat evaluated exported.json)"

# released weights with new heads: the model's loss is that of the weights, and layouts agree
exits 0 p4d data --tokenizer ids --vocab 40 -o ids "$released/ids.jsonl"
tune="--data ids --device cpu --global-batch 1 --seq-len 32 --lr 1e-3 --warmup 0 --init-from $released/llama --steps 4"
# shellcheck disable=SC2086
exits 0 p4d-train $tune --log plain.json
# shellcheck disable=SC2086
exits 0 p4d-train $tune $local --local-ranks 2 --log staged.json
# shellcheck disable=SC2086
exits 0 p4d-train $tune $local --local-ranks 4 --cp 2 --log wide.json
same_losses staged.json wide.json
losses plain.json | head -n 1 >left
losses staged.json | head -n 1 | join left - | awk '{ off = $2 / $3 - 1; exit !(off * off < 1e-12) }' ||
	fail "it does not begin with the released weights: $(head -n 1 staged.json plain.json)"
