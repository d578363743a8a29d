#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Moments of one and two bytes, and Muon, which has one moment. --optimizer-dtype=bf16: they train as well as those of four, planned to the byte,
# and go on from either.
. "${0%/*}/lib.sh"
by_hand
make_text

train()
{
	p4d-train --model custom --layers 2 --hidden 32 --ffn 64 --heads 4 --kv-heads 2 --head-dim 8 --vocab 257 --max-seq-len 32 \
		--norm rmsnorm --glu on --tied off --positions rope --bias none --qk-norm off --seq-len 32 --data text --lr 5e-3 \
		--precision bf16 --global-batch 8 --micro-batch 4 "$@"
}

# last FILE: the mean of the last twenty losses
last() { sed -n 's/.*"event":"step",.*"loss":\([^,]*\),.*/\1/p' "$1" | tail -20 | awk '{ sum += $1 } END { print sum / NR }'; }
# bytes FILE: those of the arena
bytes() { sed -n 's/.*"event":"memory".*"planned_bytes":\([0-9]*\).*"allocated_bytes":\([0-9]*\).*/\1 \2/p' "$1"; }

exits 0 train --steps 300 --log whole
exits 0 train --steps 300 --log half --optimizer-dtype bf16 --checkpoint kept --save-every 150
whole=$(last whole) half=$(last half)
echo "mean of the last 20 losses of 300: $whole with moments in fp32, $half in bf16"
awk "BEGIN { exit !($whole < 2.5 && ($half - $whole) ^ 2 < (0.01 * $whole) ^ 2) }" || fail "losses $whole and $half"
[ "$(last whole)" != "$(last half)" ] || fail "moments in bf16 change nothing"

# two bytes less for each of two moments of 35,040 parameters, apart from the padding of shards
planned=$(bytes whole | cut -d ' ' -f 1) less=$(bytes half | cut -d ' ' -f 1)
[ -n "$less" ] && [ "$less" = "$(bytes half | cut -d ' ' -f 2)" ] || fail "planned and allocated: $(bytes half)"
saved=$((planned - less))
[ $saved -ge $((4 * 35040)) ] && [ $saved -lt $((4 * 35040 + 4096)) ] || fail "$saved bytes are saved"

# resumed on other ranks, and with moments of the other type: checkpoints have both in fp32
cp -r kept other
exits 0 train --steps 310 --resume must --checkpoint kept --optimizer-dtype bf16 --local-ranks 2 --tp 2 --log two
exits 0 train --steps 310 --resume must --checkpoint other --log one
for log in two one; do
	awk "BEGIN { exit !(($(last $log) - $half) ^ 2 < (0.1 * $half) ^ 2) }" || fail "$log does not go on: $(last $log) after $half"
done

# --optimizer adamw-8bit: codes of one byte. Blocks of 256 lie across the shards of two ranks; checkpoints have codes and scales,
# so a resumed run is the run that was not interrupted, on other ranks too
exits 0 train --steps 300 --log eight --optimizer adamw-8bit --local-ranks 2 --checkpoint codes --save-every 290
eight=$(last eight)
echo "mean of the last 20 losses of 300: $eight with moments in 8 bits"
awk "BEGIN { exit !($eight < 2.5 && ($eight - $whole) ^ 2 < (0.05 * $whole) ^ 2) }" || fail "losses $whole and $eight"
losses() { sed -n 's/.*"event":"step","step":\(29[1-9]\|300\),.*"loss":\([^,]*\),.*/\1 \2/p' "$1"; }
mv codes/step-00000300 away
cp -r codes elsewhere
exits 0 train --steps 300 --resume must --checkpoint codes --optimizer adamw-8bit --local-ranks 2 --log again
[ "$(losses eight)" = "$(losses again)" ] && [ -n "$(losses again)" ] || fail "resumed: $(losses again), not $(losses eight)"
exits 0 train --steps 300 --resume must --checkpoint elsewhere --optimizer adamw-8bit --log alone
mean() { losses "$1" | awk '{ sum += $2 } END { print sum / NR }'; }
awk "BEGIN { exit !(($(mean alone) - $(mean eight)) ^ 2 < (0.01 * $(mean eight)) ^ 2) }" || fail "alone: $(mean alone), not $(mean eight)"
exits 52 train --steps 310 --resume must --checkpoint elsewhere
says "the checkpoint is of a run with --optimizer=adamw-8bit, but this run has --optimizer=adamw"

# two codes in place of 8 bytes for each parameter, and a scale for 256 of them or moments of norms in fp32
[ "$(bytes eight | cut -d ' ' -f 1)" = "$(bytes eight | cut -d ' ' -f 2)" ] || fail "planned and allocated: $(bytes eight)"

# --optimizer muon: a resumed run is the run that was not interrupted, on the same ranks bit by bit, on others nearly so
exits 0 train --steps 300 --lr 2e-3 --log orthogonal --optimizer muon --local-ranks 2 --checkpoint matrices --save-every 290
echo "mean of the last 20 losses of 300: $(last orthogonal) with Muon"
awk "BEGIN { exit !($(last orthogonal) < 2.5) }" || fail "losses $whole and $(last orthogonal)"
mv matrices/step-00000300 away-too
cp -r matrices nowhere
exits 0 train --steps 300 --lr 2e-3 --resume must --checkpoint matrices --optimizer muon --local-ranks 2 --log twice
[ "$(losses orthogonal)" = "$(losses twice)" ] && [ -n "$(losses twice)" ] || fail "resumed: $(losses twice), not $(losses orthogonal)"
exits 0 train --steps 300 --lr 2e-3 --resume must --checkpoint nowhere --optimizer muon --local-ranks 2 --tp 2 --log split
awk "BEGIN { exit !(($(mean split) - $(mean orthogonal)) ^ 2 < (0.01 * $(mean orthogonal)) ^ 2) }" ||
	fail "split: $(mean split), not $(mean orthogonal)"
[ "$(bytes twice | cut -d ' ' -f 1)" = "$(bytes twice | cut -d ' ' -f 2)" ] || fail "planned and allocated: $(bytes twice)"

# what has parts of blocks is refused, with a fix
refuses()
{
	run train --steps 1 $1
	[ "$status" -ne 0 ] || fail "$1 is accepted"
	says "$2"
	says "$3"
}
refuses "--optimizer adamw-8bit --local-ranks 2 --tp 2" "not whole blocks of 256" "--optimizer=adamw"
refuses "--optimizer adamw-8bit --optimizer-dtype bf16" "optimizer-dtype=bf16 is for AdamW" "--optimizer-dtype=fp32"
refuses "--optimizer adamw-8bit --offload optimizer" "update subgroups of the shard with AdamW" "--offload=none"
refuses "--optimizer muon --optimizer-dtype bf16" "optimizer-dtype=bf16 is for AdamW" "--optimizer-dtype=fp32"
refuses "--optimizer muon --offload params" "update subgroups of the shard with AdamW" "--offload=none"
refuses "--optimizer muon --local-ranks 4 --tp 4 --tp-grid 2,2,1" "Muon needs Y = Z = 1" "--optimizer=adamw"
refuses "--optimizer sgd" "p4d-train has adamw, adamw-8bit and muon" "--optimizer=adamw"
