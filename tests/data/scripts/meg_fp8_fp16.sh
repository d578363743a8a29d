#!/bin/bash
#SBATCH -N 1 --gpus-per-node=8
# FP8 beside fp16 is no recipe that p4d has; the feed-forward parts are captured in CUDA graphs
torchrun --nproc_per_node 8 pretrain_gpt.py --fp16 --fp8-format hybrid --fp8-recipe custom --cuda-graph-impl transformer_engine --cuda-graph-scope mlp \
  --num-layers 16 --hidden-size 2048 --num-attention-heads 16 --micro-batch-size 1 --global-batch-size 128 \
  --seq-length 2048 --max-position-embeddings 2048 --vocab-size 32000
