#!/bin/bash
#SBATCH -N 8 --gpus-per-node=8
MOE_ARGS=(--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 8)
srun python pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \
  --group-query-attention --num-query-groups 8 --seq-length 4096 --micro-batch-size 1 \
  --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 \
  --num-layers-per-virtual-pipeline-stage 8 "${MOE_ARGS[@]}" --bf16 --vocab-size 32000
