#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --offload: offloading changes no loss, is planned to the byte, and a killed run continues as it would have.
. "${0%/*}/lib.sh"
by_hand
make_text

train()
{
	p4d-train --model custom --layers 4 --hidden 32 --ffn 64 --heads 4 --kv-heads 2 --head-dim 8 --vocab 257 --max-seq-len 32 \
		--norm rmsnorm --glu on --tied off --positions rope --bias none --qk-norm off --seq-len 32 --data text --lr 5e-3 \
		--global-batch 8 --micro-batch 2 "$@"
}

losses() { sed -n 's/.*"event":"step","step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' "$1"; }
# member NAME FILE: from the line about memory
member() { sed -n "s/.*\"event\":\"memory\".*\"$1\":\([0-9]*\).*/\1/p" "$2"; }

for layout in "--precision fp32 --local-ranks 2 --tp 2" "--precision bf16 --local-ranks 4 --pp 2"; do
	rm -f plain away swapped
	# shellcheck disable=SC2086
	exits 0 train $layout --steps 12 --log plain
	# shellcheck disable=SC2086
	exits 0 train $layout --steps 12 --log away --offload optimizer
	# shellcheck disable=SC2086
	exits 0 train $layout --steps 12 --log swapped --offload activations
	[ "$(losses plain | wc -l)" = 12 ] || fail "there are no losses"
	[ "$(losses plain)" = "$(losses away)" ] || fail "$layout: losses are others on the host: $(losses plain; losses away)"
	[ "$(losses plain)" = "$(losses swapped)" ] || fail "$layout: losses are others with swaps: $(losses plain; losses swapped)"
	[ "$(member host_offloaded_bytes swapped)" -gt 10000 ] || fail "no activation is on the host: $(cat swapped)"
	[ "$(member planned_bytes swapped)" = "$(member allocated_bytes swapped)" ] || fail "the arena is not the plan's"
	[ "$(member planned_bytes swapped)" -lt "$(member planned_bytes plain)" ] || fail "the arena is as large as without"
	[ "$(member host_offloaded_bytes plain)" = 0 ] || fail "something is on the host: $(cat plain)"
	[ "$(member host_offloaded_bytes away)" -gt 100000 ] || fail "nothing is on the host: $(cat away)"
	[ "$(member planned_bytes away)" = "$(member allocated_bytes away)" ] || fail "the arena is not the plan's"
	[ "$(member planned_bytes away)" -lt "$(member planned_bytes plain)" ] || fail "the arena is as large as without"
done

for layout in "--precision bf16" "--precision fp32 --local-ranks 2 --tp 2" "--precision bf16 --local-ranks 4 --pp 2 --resident-layers 1"; do
	rm -f away
	# shellcheck disable=SC2086
	exits 0 train $layout --steps 2 --log away --offload optimizer,params
	[ "$(member planned_bytes away)" = "$(member allocated_bytes away)" ] || fail "the arena is not the plan's"
	[ "$(member host_offloaded_bytes away)" -gt 100000 ] || fail "nothing is on the host: $(cat away)"
done

# a run that was killed after a checkpoint continues like one that nobody killed
steps=300
for offload in optimizer optimizer,params,activations; do
	rm -rf whole killed again kept
	exits 0 train --steps $steps --log whole --offload $offload --local-ranks 2
	train --steps $steps --log killed --offload $offload --local-ranks 2 --checkpoint kept --save-every 5 2>killed.err &
	parent=$!
	waited=0
	until grep -q '"event":"saved"' killed 2>/dev/null; do
		waited=$((waited + 1))
		[ $waited -lt 1200 ] || fail "no checkpoint: $(cat killed.err)"
		sleep 0.05
	done
	kill -9 "$(pgrep -P "$parent" | sort -n | tail -n 1)"
	wait "$parent"
	status=$?
	[ $status = 137 ] || fail "a killed rank ends with $status: $(cat killed.err)"
	exits 0 train --steps $steps --log again --offload $offload --local-ranks 2 --checkpoint kept --resume must
	first=$(losses again | head -n 1 | cut -d ' ' -f 1)
	[ "$first" -gt 5 ] || fail "it began again: $first"
	losses whole | awk -v first="$first" '$1 >= first' >expected
	losses again | cmp -s - expected || fail "from step $first on it is another run: $(losses again | diff - expected | head)"
done

# and where states are on the device
exits 0 train --steps $((steps + 2)) --log here --local-ranks 2 --tp 2 --checkpoint kept --resume must
[ "$(losses here | wc -l)" = 2 ] || fail "it did not go on: $(losses here)"

refused P4D009 train --steps 1 --offload activations --recompute full
says "offload=activations: with recompute=full, layers store only their inputs" "--offload=none"
refused P4D009 train --steps 1 --local-ranks 2 --pp 2 --schedule zb1p --offload activations
says "offload=activations: this schedule uses activations a second time, for weight gradients" "--schedule=1f1b"
refused P4D009 train --steps 1 --local-ranks 2 --pp 2 --token-slices 2 --offload activations
says "offload=activations: each token slice needs the keys and values of earlier slices" "--token-slices=1"
refused P4D005 train --steps 1 --local-ranks 2 --offload params --optimizer-sharding states
says "offload=params: 2 ranks share optimizer states, so each rank's host has only a part of the parameters" "--optimizer-sharding=parameters"
refused P4D005 train --steps 1 --resident-layers 4
says "resident-layers=4: all layers are on the GPU unless parameters are sharded or on the host" "--offload=params"
refused P4D009 train --steps 1 --local-ranks 2 --pp 2 --offload params --local-loss stage
says "offload=params cannot be combined with local-loss: the heads of stages stay on the GPU" "--offload=optimizer"
