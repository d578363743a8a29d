#!/bin/bash
#SBATCH -N 4 --gpus-per-node=8
# heads are exchanged by 4 ranks of 8
torchrun --nnodes 4 --nproc_per_node 8 pretrain_gpt.py --bf16 --context-parallel-size 8 --cp-comm-type a2a+p2p \
  --hierarchical-context-parallel-sizes 4 2 --num-layers 16 --hidden-size 2048 --num-attention-heads 16 \
  --micro-batch-size 1 --global-batch-size 128 --seq-length 32768 --max-position-embeddings 32768 --vocab-size 32000
