#!/bin/bash
#SBATCH -N 8 --gpus-per-node=4 --exclusive
# a Flux instance within the allocation
srun -N 8 -n 8 --mpi=none flux start '
flux run -N 8 -n 32 -g 1 -c 12 python pretrain_gpt.py --num-layers 48 --hidden-size 6144 --num-attention-heads 48 \
  --seq-length 2048 --max-position-embeddings 2048 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 \
  --micro-batch-size 1 --global-batch-size 256 --bf16 --recompute-activations'
