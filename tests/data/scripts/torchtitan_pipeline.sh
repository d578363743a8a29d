#!/bin/bash
#SBATCH -N 2
#SBATCH --gres=gpu:h100:8
srun torchrun --nnodes=2 --nproc-per-node=8 -m torchtitan.train --module llama3 --config llama3_70b \
  --parallelism.pipeline_parallel_degree=2 --parallelism.pipeline_parallel_schedule=1F1B \
  --training.local_batch_size=16 --training.seq_len=4096
