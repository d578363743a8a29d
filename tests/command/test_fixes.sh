#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fixes are pasted: jobs of five frameworks at six sites, drawn by a seed. Each fix is accepted, trains the same as before, and the
# edited script is judged as its options are. FIXES_JOBS=1000 takes more jobs, FIXES_SEED=N others. To see one again:
# fixes --seed=N --first=I --count=1 --all --keep.
. "${0%/*}/lib.sh"

jobs=${FIXES_JOBS:-200}
[ -z "${P4D_TEST_ALL:-}" ] || jobs=1500
[ -z "${P4D_TEST_FEW:-}" ] || jobs=40
run "$P4D_TEST_BUILDDIR/fixes" --seed="${FIXES_SEED:-1}" --count="$jobs"
[ "$status" = 0 ] || fail "a fix does not do what it says"
printf '%s\n' "$out"

# the nearest name is another model: nothing to paste, but where its file comes from
exits 0 p4d check --conf p4d.conf -p h100 -N1 --gpus-per-node=1 --wrap='trl sft --model_name_or_path ibm-granite/granite-4.0-micro --bf16 --max_length 4096 --per_device_train_batch_size 1 --use_peft'
says "nearest: granite-4.0-h-micro" "(hf download ibm-granite/granite-4.0-micro config.json)"
[ -z "$(fix)" ] || fail "a fix that is another model"
