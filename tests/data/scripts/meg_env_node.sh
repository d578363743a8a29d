#!/bin/bash
torchrun --nproc-per-node=$SLURM_GPUS_ON_NODE --nnodes=$SLURM_NNODES pretrain_gpt.py \
  --num-layers $LAYERS --hidden-size $HIDDEN --num-attention-heads $HEADS \
  --group-query-attention --num-query-groups $KV_HEADS \
  --tensor-model-parallel-size $TP --global-batch-size $GBS --micro-batch-size 2 \
  --seq-length 8192 "$@"
