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

# the nearest name is another model: the message has no fix to paste, but says where the file comes from
exits 0 p4d check --conf p4d.conf -p h100 -N1 --gpus-per-node=1 --wrap='trl sft --model_name_or_path ibm-granite/granite-4.0-micro --bf16 --max_length 4096 --per_device_train_batch_size 1 --use_peft'
says "nearest: granite-4.0-h-micro" "(hf download ibm-granite/granite-4.0-micro config.json)"
[ -z "$(fix)" ] || fail "a fix that is another model"

# torchtune's recipe recomputes everything and has no option for less, so there is nothing to paste
printf '#!/bin/bash\ntune run --nnodes 2 --nproc_per_node 1 full_finetune_distributed --config llama3_2/1B_full batch_size=1 gradient_accumulation_steps=64 tokenizer.max_seq_len=16384\n' >tune.sh
printf 'mode = enforce\nscripts = judge\npartition l4 {\n\tgpu = "l4-24gb"\n\tgpus_per_node = 8\n}\nversion = 1\n' >l4.conf
run p4d check --conf l4.conf -p l4 --nodes=2 --gpus-per-node=1 tune.sh
says "P4D123"
case $err in *without*) fail "leaves out what is not there" ;; esac

# an option that does not reach the program is not a fix
cat >factory.sh <<'JOB'
#!/bin/sh
export NNODES=2
llamafactory-cli train --model_name_or_path Qwen/Qwen2.5-1.5B --stage sft --finetuning_type lora --cutoff_len 4096
JOB
exits 0 p4d check --conf p4d.conf -p h100 -N2 --gpus-per-node=8 factory.sh
says "P4D118"
[ -z "$(fix)" ] || fail "a fix that is refused"
exits 46 p4d check --conf p4d.conf -p h100 -N2 --gpus-per-node=8 --p4d-micro-batch=1 factory.sh
[ "$(fix)" = --p4d-micro-batch=8 ] || fail "the fix contradicts the script as well"
