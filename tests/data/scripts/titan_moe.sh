#!/bin/bash
#SBATCH --job-name=qwen3-moe
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
# Experts of a node each on one GPU, the rest sharded over all.
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint $(hostname):29500 \
    -m torchtitan.train --model.name qwen3 --model.flavor 30B-A3B \
    --parallelism.data_parallel_shard_degree -1 \
    --parallelism.expert_parallel_degree=8 \
    --training.local_batch_size 2 --training.seq_len 4096 \
    --activation_checkpoint.mode full
