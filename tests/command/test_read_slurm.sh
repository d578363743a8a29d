#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What scripts ask Slurm for, and how they start one training: on each node, once for each seed, next to its server.
. "${0%/*}/lib.sh"

unset DATA_ARGS
sizes='--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 4096 --max-position-embeddings 4096'
model="$sizes --micro-batch-size 1 --global-batch-size 512 --bf16 --vocab-size 32000"
# reads NODES LINE...: p4d read of a job on this many nodes
reads()
{
	printf '%s\n' '#!/bin/bash' "#SBATCH -p h100 --nodes=$1 --gpus-per-node=8 --ntasks-per-node=8" >job.sh
	shift
	printf '%s\n' "$@" >>job.sh
	exits 0 p4d read job.sh
}
has() { printf '%s\n' "$out" | grep -qE "^  $1 +$2" || fail "no $1 $2"; }
lacks()
{
	printf '%s\n' "$out" | grep -qE "^  $1 " && fail "$1 is there"
	return 0
}

# tasks of each node
reads 2 'N=$(echo $SLURM_TASKS_PER_NODE | cut -d "(" -f 1)' 'srun python pretrain_gpt.py --tensor-model-parallel-size $N'
has tp '8 '
reads 1 'srun python pretrain_gpt.py --tensor-model-parallel-size $SLURM_TASKS_PER_NODE'
has tp '8 +[^ ]*SLURM_TASKS_PER_NODE'
reads 2 'srun python pretrain_gpt.py --tensor-model-parallel-size ${SLURM_TASKS_PER_NODE%%(*}'
has tp '8 '
# the directory of the script, of which Slurm runs a copy
echo 'TP=4' >params.inc
for path in '$(scontrol show job "$SLURM_JOB_ID" | awk -F= "/Command=/{print \$2}" | cut -d" " -f1)' \
	'$(scontrol show job $SLURM_JOBID | grep Command | cut -d= -f2)' \
	'$(scontrol show job $SLURM_JOB_ID | awk -F= "/Command=/ {print \$2}")' \
	'$(scontrol show job ${SLURM_JOB_ID} | grep Command= | head -n 1 | cut -d "=" -f 2)'; do
	reads 1 "SELF=$path" 'source $(dirname "$SELF")/params.inc' 'srun python pretrain_gpt.py --tensor-model-parallel-size $TP'
	has tp 4
done
reads 1 'T=$(scontrol show job $SLURM_JOB_ID | grep TimeLimit | cut -d= -f2)' 'srun python pretrain_gpt.py --tensor-model-parallel-size $T'
has tp 'output of scontrol'
# a variable that nothing sets is a doubt; everything after it is known
reads 1 "srun python pretrain_gpt.py --tensor-model-parallel-size 8 $model \$DATA_ARGS"
has precision bf16
has arguments '\$DATA_ARGS is not set'
exits 0 p4d check --conf p4d.conf job.sh
prints "tp=8"
reads 1 'source /site/data.sh' "srun python pretrain_gpt.py --tensor-model-parallel-size 8 $model \$DATA_ARGS"
has arguments '\$DATA_ARGS may be set by /site/data.sh'
# groups of queries that are as many as heads
reads 1 "srun python pretrain_gpt.py $model --num-query-groups 40"
lacks kv-heads
reads 1 "srun python pretrain_gpt.py $model --num-query-groups 8"
has kv-heads '--num-query-groups without'

# one training that is started on each node, with each seed, or in turns
node="torchrun --nnodes \$SLURM_NNODES --nproc_per_node 8"
reads 2 'nodes=($(scontrol show hostnames $SLURM_JOB_NODELIST))' 'for ((i=0; i<SLURM_NNODES; i++)); do' \
	"  srun -N1 -n1 -w \${nodes[\$i]} $node --node_rank \$i --master_addr \${nodes[0]} pretrain_gpt.py $model &" 'done' 'wait'
lacks commands
has nodes 2
reads 2 'for i in 0 1; do' "  ssh node\$i $node --node_rank \$i pretrain_gpt.py $model --save /scratch/\$i &" 'done' 'wait'
lacks commands
reads 2 'for i in 0 1; do' "  accelerate launch --num_machines 2 --machine_rank \$i --num_processes 16 pretrain_gpt.py $model &" 'done'
lacks commands
reads 1 'for lr in 1e-4 3e-4 1e-3; do' "  srun python pretrain_gpt.py $model --lr \$lr --save /scratch/\$lr" 'done'
lacks commands
reads 1 'for seed in 1 2; do' "  srun python pretrain_gpt.py $model --seed=\$seed" 'done'
lacks commands
# a loop over the job's nodes runs, whatever their names are
for hosts in '$(scontrol show hostnames "$SLURM_JOB_NODELIST")' '$nodes' '"${list[@]}"'; do
	reads 2 'nodes=$(scontrol show hostname $SLURM_NODELIST)' 'list=($nodes)' 'rank=0' "for h in $hosts; do" \
		"  ssh \$h \"$node --node_rank=\$rank pretrain_gpt.py $model\" &" '  rank=$((rank + 1))' 'done' 'wait'
	lacks commands
	has nodes 2
	case $out in *"if a condition is true"*) fail "the loop over $hosts may not run" ;; esac
done
# how many words an unread text has is unknown
reads 2 'for h in $(cat hosts.txt); do' "  ssh \$h $node pretrain_gpt.py $model &" 'done'
case $out in *"if a condition is true"*) ;; *) fail "hosts.txt may be empty" ;; esac
reads 2 'mapfile -t list <hosts.txt' 'for h in "${list[@]}"; do' "  ssh \$h $node pretrain_gpt.py $model &" 'done'
case $out in *"if a condition is true"*) ;; *) fail "hosts.txt may be empty" ;; esac
# others are not one
reads 1 'for tp in 1 2; do' "  srun python pretrain_gpt.py $model --tensor-model-parallel-size \$tp" 'done'
has commands '2 commands start a training'
reads 1 'for m in 1 2; do' "  srun python pretrain_gpt.py $sizes --micro-batch-size \$m" 'done'
has commands '2 commands start a training'
# another training after one that fails, which the script expects: the job may run; a repetition is the same training
for other in "srun python pretrain_gpt.py $model || srun python pretrain_gpt.py $sizes --micro-batch-size 1" \
	"(set -e; srun python pretrain_gpt.py $model) || { echo again; srun python pretrain_gpt.py $sizes --micro-batch-size 1; }" \
	"run() { srun python pretrain_gpt.py $sizes --micro-batch-size \$1; }; run 4 || run 1"; do
	reads 1 "$other"
	has commands '2 commands start a training'
done
reads 1 'B=8' 'while ((B >= 1)); do' "  srun python pretrain_gpt.py $sizes --micro-batch-size \$B && break" '  B=$((B / 2))' 'done'
has commands '4 commands start a training'
for other in '|| exit 1' '|| { echo failed; exit 1; }' '|| true' "|| srun python pretrain_gpt.py $model --load /scratch/x" '&& touch done'; do
	reads 1 "srun python pretrain_gpt.py $model $other"
	lacks commands
done
reads 1 'for try in 1 2 3; do' "  srun python pretrain_gpt.py $model && break" '  sleep 60' 'done'
lacks commands
for retry in until 'while !'; do
	reads 1 'B=4' "$retry srun python pretrain_gpt.py $sizes --micro-batch-size \$B; do B=1; sleep 60; done"
	lacks commands
	has micro-batch 4
	reads 1 "$retry srun python pretrain_gpt.py $model; do exit 1; done" "srun python pretrain_gpt.py $sizes --micro-batch-size 1"
	has commands '2 commands start a training'
done
# a file of arguments (argparse's fromfile_prefix_chars) leaves no default standing
reads 1 "srun python pretrain_gpt.py @nowhere.txt $model"
has arguments 'p4d does not read the arguments in the file nowhere.txt'
lacks tp
# accelerate's variables choose the framework, whatever starts the program
clm='torchrun --nproc_per_node 8 run_clm.py --do_train --model_name_or_path gpt2-xl --per_device_train_batch_size 1 --block_size 1024 --bf16'
for name in USE_FSDP USE_DEEPSPEED; do
	reads 1 "export ACCELERATE_$name=true" "$clm"
	case $name in *FSDP) has framework fsdp && has fsdp-version 'p4d does not model FSDP1' ;; *) has framework deepspeed && has zero-stage 'the value is in' ;; esac
	reads 1 "ACCELERATE_$name=false $clm"
	has framework ddp
done
reads 1 "ACCELERATE_USE_FSDP=1 $clm --fsdp 'full_shard auto_wrap'"
has fsdp-version 'the release of transformers'
# modules that a program's command runs
for start in 'python -m llamafactory.cli train' 'FORCE_TORCHRUN=1 llamafactory-cli train'; do
	reads 1 "$start --stage sft --finetuning_type lora --lora_rank 4 --model_name_or_path gpt2-xl --per_device_train_batch_size 3"
	has micro-batch 3
done
reads 1 'llamafactory-cli train --stage cls --finetuning_type full --model_name_or_path gpt2-xl'
has stage 'cls is not modelled: LLaMA-Factory 0.9 has no such stage'
reads 1 'python -m vllm.entrypoints.cli.main serve Qwen/Qwen2.5-7B --tensor-parallel-size 4'
has tp 4
reads 1 'python -m open_r1.sft --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 3 --max_length 512'
has micro-batch 3
# the configuration whose name is not known
reads 1 'llamafactory-cli train conf/base_$1.yaml'
has file 'configuration conf/base_\?.yaml: \$1 is not set'

# one serves, one trains
grpo='trl/scripts/grpo.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct --bf16 --per_device_train_batch_size 8 --num_generations 8 --use_vllm'
reads 2 'srun -N1 -w a trl vllm-serve --model Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 4 &' \
	"srun -N1 -x a accelerate launch --num_processes 8 $grpo --vllm_mode server"
has commands 'one command trains, and 1 serves a model'
# what names the server's host means that mode
for server in '--vllm_server_host node17' '--vllm_server_host $(hostname)' '--vllm_server_base_url http://node17:8000'; do
	reads 1 "accelerate launch --num_processes 8 $grpo $server"
	has colocate off
done
reads 1 "accelerate launch --num_processes 8 $grpo --vllm_mode colocate --vllm_server_host node17"
has colocate on
reads 1 "accelerate launch --num_processes 8 $grpo"
has colocate on

# text for another job is not a line of this one; after the first command sbatch ignores all #SBATCH lines
printf '%s\n' '#!/bin/bash' '#SBATCH -p h100 --gpus-per-node=1' 'srun hostname' 'cat >next.sh <<X' '#!/bin/bash' '#SBATCH --time=1:00:00' X \
	"sbatch <<-'END'" '#SBATCH -N 2' '	END' >late.sh
exits 0 p4d check --conf p4d.conf late.sh
silent
case $out in *ignores*) fail "of a here-document" ;; esac
printf '%s\n' 'N=$((1 << 3))' '#SBATCH -N 2' >>late.sh
exits 0 p4d check --conf p4d.conf late.sh
prints "line 12 of the script"
# a template has 0 nodes, as if it had none
printf '%s\n' '#!/bin/bash' '#SBATCH -p h100 --nodes=0 --gpus-per-node=8' 'srun python train.py' >zero.sh
exits 0 p4d check --conf p4d.conf zero.sh
exits 0 p4d check --conf p4d.conf --nodes=2 zero.sh
exits 5 p4d check --conf p4d.conf --nodes=0-2 zero.sh
