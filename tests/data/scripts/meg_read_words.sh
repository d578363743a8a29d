#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8
IFS=, read -r TP PP CP <<< "4,2,1"
read -r MBS GBS < meg_batch.txt
IFS=x read -r L H <<< 48x6144
torchrun --nnodes=2 --nproc-per-node=8 pretrain_gpt.py --tensor-model-parallel-size=$TP \
  --pipeline-model-parallel-size=$PP --context-parallel-size=$CP --micro-batch-size=$MBS --global-batch-size=$GBS \
  --num-layers=$L --hidden-size=$H --num-attention-heads=48 --seq-length=$((4*1024)) --max-position-embeddings=4096 --bf16
