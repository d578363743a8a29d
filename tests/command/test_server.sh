#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A training next to an engine that serves: it is judged on the nodes and GPUs that its launcher gives it.
. "${0%/*}/lib.sh"
sed 's/^mode = enforce/&\nscripts = judge/' p4d.conf >judge.conf
check='p4d check --conf judge.conf'
rl='trl/scripts/grpo.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct --bf16 --gradient_checkpointing --num_generations 8'
rl="$rl --per_device_train_batch_size 4 --max_prompt_length 1024 --max_completion_length 2048 --use_vllm --vllm_mode server"
sizes='--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 4096 --max-position-embeddings 4096'
sizes="pretrain_gpt.py $sizes --micro-batch-size 1 --global-batch-size 512 --bf16 --vocab-size 32000 --tensor-model-parallel-size"
serve='trl vllm-serve --model Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size'
zero='accelerate launch --use_deepspeed --zero_stage 3'
on() { { printf '%s\n' '#!/bin/bash' "#SBATCH -p h100 -N$1 --gpus-per-node=8" 'NODES=($(scontrol show hostnames $SLURM_JOB_NODELIST))'; cat; } >job.sh; }

# GPUs of a node
on 1 <<E
CUDA_VISIBLE_DEVICES=0,1,2,3 $serve 4 &
CUDA_VISIBLE_DEVICES=4,5,6,7 $zero --num_processes 4 $rl
E
exits 0 $check job.sh
prints "would pass: Qwen/Qwen2.5-7B-Instruct, reinforcement learning on 1 node of 4 x h100-80gb" "Not counted: the inference engine that another command starts"
silent
exits 0 p4d read job.sh
prints "one command trains, and 1 serves a model"
on 1 <<E
vllm serve Qwen/Qwen2.5-7B-Instruct --port 8000 &
export CUDA_VISIBLE_DEVICES=1,2,3,4,5,6,7
$zero --num_processes 7 $rl
E
exits 0 $check job.sh
prints "on 1 node of 7 x h100-80gb"

# nodes of the job
for srun in 'srun -N1 -x ${NODES[0]}' 'srun -N 1 -n 1' 'srun --nodes=1 --ntasks=1 --nodelist="${NODES[1]}"'; do
	on 2 <<-E
		srun -N1 -w \${NODES[0]} $serve 8 &
		$srun $zero --num_processes 8 $rl --vllm_server_host \${NODES[0]}
	E
	exits 0 $check job.sh
	prints "on 1 node of 8 x h100-80gb"
done
on 3 <<E
srun -N1 $serve 8 &
srun -N2 $zero --num_processes 16 --num_machines 2 --machine_rank \$SLURM_PROCID $rl
E
exits 0 $check job.sh
prints "on 2 nodes of 8 x h100-80gb"

# a certain result refuses, without other nodes for the whole job
on 2 <<E
srun -N1 vllm serve Qwen/Qwen2.5-7B-Instruct &
srun -N1 torchrun --nproc_per_node 8 $sizes 1
E
exits 12 $check job.sh
prints "would be refused: custom on 1 node of 8 x h100-80gb, tp=1 cp=1 pp=1 dp=8"
case $err in *'fix: --nodes'*) fail "the job's nodes are not the training's" ;; esac
sed -i 's/size 1$/size 8/' job.sh
exits 0 $check job.sh
silent

# if nothing tells which ranks have which GPUs, the job is not judged
on 1 <<E
$serve 4 &
$zero --num_processes 8 $rl
E
exits 0 $check job.sh
says "[P4D117] job.sh:5 (grpo.py) was not checked: the job also serves a model (1 command), and p4d does not know on which GPUs"
on 1 <<E
vllm serve Qwen/Qwen2.5-7B-Instruct &
srun python $sizes 8
E
exits 0 $check job.sh
says "the job also serves a model (1 command), and p4d does not know on which GPUs"
# two trainings are not a training and its server
on 2 <<E
srun -N1 vllm serve Qwen/Qwen2.5-7B-Instruct &
srun -N1 torchrun --nproc_per_node 8 $sizes 1
srun -N1 torchrun --nproc_per_node 8 $sizes 2
E
exits 0 $check job.sh
says "3 commands start a training"
