#!/bin/bash
#SBATCH -N 2 --gpus-per-node=8 --ntasks-per-node=1
NNODES=$(scontrol show hostnames $SLURM_JOB_NODELIST | wc -l)
export NPROC_PER_NODE=8 NNODES=$SLURM_NNODES
srun megatron sft --model Qwen/Qwen3-30B-A3B --tensor_model_parallel_size 2 --expert_model_parallel_size 8 \
	--expert_tensor_parallel_size 1 --micro_batch_size 1 --global_batch_size 16 --max_length 8192 --packing true --sequence_parallel true
