#!/bin/bash
#SBATCH -N 1 --gpus-per-node=8
# NVFP4; gathering parameters in it is not modelled
torchrun --nproc_per_node 8 pretrain_gpt.py --bf16 --fp4-format e2m1 --fp4-recipe nvfp4 --fp4-param-gather \
  --num-layers 16 --hidden-size 2048 --num-attention-heads 16 --micro-batch-size 1 --global-batch-size 128 \
  --seq-length 2048 --max-position-embeddings 2048 --vocab-size 32000
