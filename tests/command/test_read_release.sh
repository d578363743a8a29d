#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The release of transformers that a job runs: of the environment that its script activates, and what is said where it is not known.
. "${0%/*}/lib.sh"
unset VIRTUAL_ENV CONDA_PREFIX

# environment NAME VERSION
environment()
{
	mkdir -p "$1/bin" "$1/lib/python3.11/site-packages/transformers"
	printf 'VIRTUAL_ENV=%s\nexport VIRTUAL_ENV\n' "$work/$1" >"$1/bin/activate"
	printf '# %s\n__version__ = "%s"\n' "$1" "$2" >"$1/lib/python3.11/site-packages/transformers/__init__.py"
}
environment old 4.57.1
environment new 5.2.0
head='#!/bin/bash
#SBATCH -N1 --gpus-per-node=8'
run='torchrun --nproc_per_node 8 run_clm.py --model_name_or_path Qwen/Qwen3-4B --block_size 2048 --per_device_train_batch_size 1 --bf16 --gradient_checkpointing'

# script LINE...: of a job that runs these
script()
{
	printf '%s\n' "$head" "$@" >train.sh
}
# finds RELEASE, or "" for none
finds()
{
	exits 0 p4d read train.sh
	got=$(printf '%s\n' "$out" | sed -n 's/^  transformers  *\([0-9]*\)  *\(.*\)/\1 \2/p')
	[ "$got" = "${1:+$1 $work/$2/lib/python3.11/site-packages/transformers/__init__.py:2}" ] || fail "$(cat train.sh): $got"
}
script "source $work/old/bin/activate" "$run"
finds 4 old
script ". new/bin/activate" "$run"
finds 5 new
script "$work/old/bin/$run"
finds 4 old
script "conda activate $work/new" "$run"
finds 5 new
script "$run"
finds ""
VIRTUAL_ENV=$work/old
export VIRTUAL_ENV
finds 4 old
script "module load pytorch" "$run"
finds ""
script "srun --container-image=pytorch $run"
finds ""
unset VIRTUAL_ENV
script "source old/bin/activate" "apptainer exec --nv pytorch.sif $run"
finds ""
script "if [ -e \$SCRATCH/x ]; then . old/bin/activate; else . new/bin/activate; fi" "$run"
finds ""
script "conda activate train" "$run"
finds ""
script "source old/bin/activate" "$run --deepspeed z.json" # which holds parameters in another type
echo '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}' >z.json
finds ""
# no file, or no regular one
script "source gone/bin/activate" "$run"
finds ""
rm old/lib/python3.11/site-packages/transformers/__init__.py
mkfifo old/lib/python3.11/site-packages/transformers/__init__.py
script "source old/bin/activate" "$run"
finds ""
rm old/lib/python3.11/site-packages/transformers/__init__.py
environment old 4.57.1

# Weights are fp32 before release 5: the job does not fit then, which is said where the release is not known.
script "source new/bin/activate" "$run"
exits 0 p4d check --conf p4d.conf train.sh
case $out$err in *"before 5"*) fail "the release is known" ;; esac
script "source old/bin/activate" "$run"
p4d check --conf p4d.conf train.sh >answer 2>&1
grep -q 'P4D013.*needs .* GiB' answer || fail "fp32 weights do not fit: $(cat answer)"
needs=$(sed -n 's/.*needs \([0-9.]* of [0-9.]* GiB\) .*/\1/p' answer | head -n 1)
script "$run"
exits 0 p4d check --conf p4d.conf train.sh
says "P4D122" "with transformers before 5, which loads weights in fp32, it needs $needs" "--p4d-transformers=5"
script "$run --dtype bfloat16"
exits 0 p4d check --conf p4d.conf train.sh
case $out$err in *"before 5"*) fail "the script says the type" ;; esac

# The Trainer's FSDP is version 1 before 5.10, unless its configuration says another.
# shards VERSION ENVIRONMENT [ARGUMENT...]: "" for none that is read, and so p4d's
shards()
{
	version=$1
	script "${2:+source $2/bin/activate}" "$run --fsdp 'full_shard auto_wrap' ${3:-}"
	exits 0 p4d read train.sh
	got=$(printf '%s\n' "$out" | sed -n 's/^  fsdp-version  *\([0-9]*\) .*/\1/p')
	[ "$got" = "$version" ] || fail "$(cat train.sh): FSDP$got"
}
environment nine 5.9.2
environment ten 5.10.0.dev0
echo '{"fsdp_version": 2}' >two.json
shards 1 old
shards 1 nine
case $out in *"before 5.10"*) fail "the release is known" ;; esac
shards "" ten
case $out in *"before 5.10"*) fail "the release is known" ;; esac
shards "" ""
prints "release of transformers: before 5.10 it is FSDP1"
shards 2 nine "--fsdp_config two.json"
shards 2 "" "--fsdp_config two.json"
prints "before 5.0 it is FSDP1, whatever fsdp_config says"
# releases that took no version from there, or kept parameters gathered
shards 1 old "--fsdp_config two.json"
environment three 5.3.1
shards 2 three "--fsdp_config two.json"
prints "reshard-after-forward off"
echo '{"fsdp_version": 2, "fsdp_reshard_after_forward": true}' >again.json
shards 2 three "--fsdp_config again.json"
case $out in *"reshard-after-forward off"*) fail "it was told to reshard" ;; esac
script "source nine/bin/activate" "$run --fsdp full_shard"
exits 0 p4d read train.sh
prints "FSDP1 whose units are not the layers"

# What FSDP1 gathers ahead of a forward pass is counted, and what it gathers without a limit said.
echo '{"forward_prefetch": true, "limit_all_gathers": false}' >ahead.json
shards 1 nine "--fsdp_config ahead.json"
prints "forward-prefetch" "limit_all_gathers" "gathers run ahead of the passes"

# Typed, and where it has no effect.
exits 0 p4d estimate --framework ddp --model llama3.2-1b --gpu h100 --gpus-per-node 8 --transformers 4 --micro-batch 1
prints "param-dtype=fp32"
exits 0 p4d estimate --framework ddp --model llama3.2-1b --gpu h100 --gpus-per-node 8 --transformers 5 --micro-batch 1
prints "param-dtype=bf16"
exits 5 p4d estimate --framework deepspeed --model llama3.2-1b --gpu h100 --gpus-per-node 8 --transformers 4
says "transformers" "DeepSpeed holds parameters in --precision"

# Experts that are quantized, and refuse nobody, or left in bf16, as was compared with transformers 5.23.
moe="--framework ddp --model qwen3-30b-a3b --gpu h100 --gpus-per-node 1 --finetune qlora --lora-rank 8 --lora-targets attention --seq-len 1024 --micro-batch 1 --global-batch 1"
exits 0 p4d estimate $moe --transformers 4
prints "unvalidated: experts, which transformers before 5 quantizes"
old=$(printf '%s\n' "$out" | awk '$1 == 0 { print $3 }')
exits 0 p4d estimate $moe --transformers 5
case $out in *unvalidated*) fail "was compared" ;; esac
new=$(printf '%s\n' "$out" | awk '$1 == 0 { print $3 }')
awk -v old="$old" -v new="$new" 'BEGIN { exit !(old * 2.5 < new) }' || fail "params: $old and $new GiB"
