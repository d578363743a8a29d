#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --optimizer-dtype=bf16: moments of two bytes train as well as those of four, planned to the byte, and go on from either.
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
