#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Options next to a script that p4d reads, with `optional p4d.so`: repeated values change nothing, and slurmctld also
# refuses those that do not reach the program, once.
. "${0%/*}/lib.sh"

echo "optional $BUILD/.libs/p4d.so conf=$CLUSTER/etc/p4d.conf" >plugstack.conf
sed "s|^PlugStackConfig=.*|PlugStackConfig=$work/plugstack.conf|" "$SLURM_CONF" >slurm.conf
export SLURM_CONF="$work/slurm.conf"
conf=$CLUSTER/etc/p4d.conf
cp "$conf" kept.conf
at_end()
{
	put_site "$work/kept.conf"
}
judging()
{
	sed "s/^mode = enforce/mode = ${1:-enforce}\nscripts = judge/" kept.conf >new.conf
	put_site new.conf
}
# once TEXT: the user reads it once
once()
{
	same "$(printf '%s\n' "$err" | grep -c -F -- "$1")" 1 "times '$1'"
}
cat >megatron.sh <<'JOB'
#!/bin/sh
torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 --swiglu --normalization RMSNorm --untie-embeddings-and-output-weights --disable-bias-linear --position-embedding-type rope --micro-batch-size 8 --global-batch-size 128 --bf16 --use-distributed-optimizer --vocab-size 128256 --tensor-model-parallel-size 1 --pipeline-model-parallel-size 1
JOB
cat >hf.sh <<'JOB'
#!/bin/sh
python run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --do_train --per_device_train_batch_size 4 --block_size 4096 --bf16 --output_dir x
JOB
cat >lora.sh <<'JOB'
#!/bin/sh
accelerate launch --multi_gpu --num_processes 8 sft.py --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 2 --max_length 2048 --gradient_checkpointing --bf16 --use_peft --lora_r 16
JOB
cat >long.sh <<'JOB'
#!/bin/sh
python sft.py --model_name_or_path Qwen/Qwen2.5-7B --dataset_name x --max_length 8192 --per_device_train_batch_size 16 --bf16 --use_peft --gradient_checkpointing
JOB
one="-N1 --gpus-per-node=1"
judging
for options in "--p4d-tp=8 --p4d-micro-batch=1" --p4d-seq-len=128 --p4d-layers=1 "--p4d-model=llama3.2-1b --p4d-tp=8" --p4d-framework=fsdp; do
	# shellcheck disable=SC2086 # options
	run sbatch -H $node $options megatron.sh
	refused P4D046 slurmctld
	once "refused, for the reason that p4d gave above"
	once "p4d: fix:"
done
run sbatch -H $one --p4d-seq-len=128 hf.sh
refused P4D046 slurmctld
run sbatch -H $one --p4d-finetune=lora --p4d-micro-batch=1 --p4d-recompute=full hf.sh
refused P4D046 slurmctld
# options that repeat the script's values
run sbatch -H $one --p4d-framework=ddp hf.sh
refused P4D012 slurmctld
run sbatch -H $node --p4d-framework=ddp --p4d-model=llama3.1-8b lora.sh
accepted
silent
run sbatch -H $node --p4d-framework=megatron --p4d-tp=1 megatron.sh
refused P4D012 slurmctld
# an upper bound refuses nobody, there either
for options in "" --p4d-framework=ddp --p4d-vocab=152064; do
	# shellcheck disable=SC2086 # options
	run sbatch -H $one $options long.sh
	accepted
	once "[P4D123]"
done
run sbatch -H $one --p4d-seq-len=8192 long.sh
[ "$status" != 0 ] || fail "a typed length refuses nobody"
# a release that nothing says refuses nobody; one that is typed does
echo '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}' >z3.json
cat >gemma.sh <<'JOB'
#!/bin/sh
torchrun --nproc_per_node 8 run_clm.py --do_train --model_name_or_path google/gemma-3-4b-it --block_size 18000 --per_device_train_batch_size 1 --bf16 --gradient_checkpointing --optim adamw_torch_fused --deepspeed z3.json
JOB
run sbatch -H $node gemma.sh
accepted
once "[P4D122] with transformers 4.50 to 4.51"
run sbatch -H $node --p4d-transformers=5.17 gemma.sh
accepted
does_not_say P4D122
run sbatch -H $node --p4d-transformers=4.51 gemma.sh
refused P4D013 slurmctld
# options alone
printf '#!/bin/sh\ndeepspeed finetune.py\n' >unknown.sh
run sbatch -H $node --p4d-framework=deepspeed --p4d-seq-len=2048 unknown.sh
accepted
once "[P4D008]"
run sbatch -H $node --p4d-unmodelled=mine unknown.sh
accepted
once "[P4D009]"
# without GPUs, and with only a framework next to arguments that are not all known
printf '#!/bin/sh\ntorchrun --nproc_per_node 8 -m torchtitan.train --model.name llama3 --model.flavor 8B\n' >titan.sh
run sbatch -H --p4d-model=llama3.1-8b titan.sh
accepted
printf '#!/bin/sh\naccelerate launch --num_processes 8 --use_deepspeed --zero_stage 3 sft.py $A --model_name_or_path Qwen/Qwen2.5-1.5B --gradient_accumulation_steps 4\n' >args.sh
run sbatch -H $node --p4d-framework=deepspeed args.sh
accepted
# a note alone makes no verdict milder, and a refusal in a note counts
run env SLURM_SPANK_P4D_VERDICT="$(printf 'pass\tP4D123\tx\ty\tscript')" sbatch -H $node --p4d-tp=8 megatron.sh
refused P4D046 slurmctld
# in other modes nothing is refused
judging warn
run sbatch -H $node --p4d-tp=8 megatron.sh
accepted
once "[P4D046]"
nodes_are_up

# sbatch leaves what follows the script's name to the script: it says so, once, and submits the job
run sbatch -H $node job.sh --p4d-tp=3
accepted
says "p4d: [P4D045] --p4d-tp=3 is an argument of the script: sbatch takes options before the script's name"
says "p4d: fix: sbatch --p4d-tp=3 job.sh"
same "$(printf '%s\n' "$err" | grep -c P4D045)" 1 "times that it said so"
run sbatch -H $node job.sh "a --p4d-tp=3"
accepted
silent
run sbatch -H -p observe $node job.sh --p4d-tp=3
accepted
silent
run sbatch -H -p off $node job.sh --p4d-tp=3
accepted
silent
run sbatch -Q -H $node job.sh --p4d-tp=3
accepted
silent
