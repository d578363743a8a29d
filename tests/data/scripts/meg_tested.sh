#!/bin/bash
#SBATCH -N 1 --gpus-per-node=8
# what depends on the node is not known, but the rest is
if [[ -d /local/scratch ]]; then CACHE=/local/scratch; else CACHE=/tmp; fi
GPU=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
case $GPU in
  *H100*) MBS=4; FP8="--fp8-format hybrid" ;;
  *) MBS=2 FP8= ;;
esac
NPROC=$(nvidia-smi -L | wc -l)
torchrun --standalone --nproc_per_node=$NPROC pretrain_gpt.py --data-cache-path $CACHE \
  --num-layers 16 --hidden-size 2048 --num-attention-heads 16 --micro-batch-size $MBS $FP8 \
  --global-batch-size 128 --seq-length 2048 --vocab-size 32000 --tensor-model-parallel-size 2
