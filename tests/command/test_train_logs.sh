#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What p4d-train writes for those who watch: event files for TensorBoard, and logs that cannot be written.
. "${0%/*}/lib.sh"
by_hand
seq 1 400 >text
exits 0 p4d data -o tokens text
model="--model custom --layers 2 --hidden 32 --ffn 48 --heads 4 --kv-heads 2 --head-dim 8 --vocab 257 --max-seq-len 64
	--norm rmsnorm --glu on --tied off --positions rope --bias none --qk-norm off --seq-len 32 --global-batch 4 --device cpu"
# shellcheck disable=SC2086 # a list of words
train() { p4d-train $model --data tokens --lr 1e-2 "$@"; }
# count TEXT FILE: lines or records that have it
count() { grep -ao "$1" "$2" | wc -l; }

# each step and each validation once in each file; a run that goes on has a file of its own
exits 0 train --steps 4 --save-every 2 --checkpoint run --tensorboard board --valid-data own=tokens --eval-every 2 --log log
silent
first=$(ls board)
[ "$(count train/loss "board/$first")" = 4 ] || fail "not four steps: $(ls -l board)"
[ "$(count validation/own "board/$first")" = 2 ] || fail "not two validations"
for tag in train/gradient_norm train/learning_rate performance/tokens_per_second performance/memory_gib; do
	[ "$(count $tag "board/$first")" = 4 ] || fail "no $tag"
done
[ "$(count performance/mfu "board/$first")" = 0 ] || fail "an MFU of a processor whose peak nobody knows"
rm -r run/step-00000004
exits 0 train --local-ranks 2 --tp 2 --steps 5 --save-every 2 --checkpoint run --tensorboard board --log log
second=$(ls board | grep -vxF "$first")
[ "$(echo "$second" | wc -l)" = 1 ] && [ "$(count train/loss "board/$second")" = 3 ] || fail "not the steps 3, 4 and 5: $(ls -l board)"
# Event.step 3 and SessionLog.START: readers drop steps 3 and 4 of the first file
head -c 200 "board/$second" | od -An -v -tx1 | tr -d ' \n' | grep -q 10033a020801 || fail "nothing says that it goes on with step 3"

# a folder that cannot be made; logs that cannot be written are said once, and training goes on
refused P4D003 train --steps 1 --tensorboard nosuch/board
says "--tensorboard nosuch/board: cannot be created: No such file"
refused P4D003 train --steps 1 --log nosuch/log
says "--log nosuch/log: No such file"
if [ -c /dev/full ]; then
	exits 0 train --steps 3 --log /dev/full --checkpoint full
	says "[P4D003] --log /dev/full cannot be written: No space left on device; training goes on without it"
	[ "$(echo "$err" | wc -l)" = 1 ] || fail "it is said more than once"
	[ -d full/step-00000003 ] || fail "it did not go on"
fi
