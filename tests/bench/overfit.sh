#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# 0.85 million parameters, 300 steps of 2,048 bytes of the licenses that every Debian has: the loss in nats per byte every 25
# steps. Fails when the last is not below 2.2.
set -u
build=${P4D_TEST_BUILDDIR:?}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# without links, which are other names of the same files
find /usr/share/common-licenses -type f -print0 | sort -z | xargs -0 "$build/p4d" data -o text >/dev/null || exit 1
began=$(date +%s)
"$build/p4d-train" --data text --steps 300 --lr 3e-3 --warmup 20 --valid-fraction 0.1 --model custom --layers 4 --hidden 128 \
	--ffn 384 --heads 4 --kv-heads 2 --head-dim 32 --vocab 257 --max-seq-len 256 --norm rmsnorm --glu on --tied off \
	--positions rope --bias none --qk-norm off --seq-len 256 --micro-batch 8 --global-batch 8 --local-ranks 1 --log log.json || exit 1
echo "overfit: 300 steps in $(($(date +%s) - began)) s"
sed -n 's/.*"event":"step","step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' log.json |
	awk '$1 == 1 || $1 % 25 == 0 { printf "  step %3d  %.3f nats per byte\n", $1, $2; last = $2 } END { exit !(last < 2.2) }'
