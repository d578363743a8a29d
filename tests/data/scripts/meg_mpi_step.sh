#!/bin/bash
set -eu -o pipefail
TP=2 PP=2
GPUS=$((NUM_NODES * ${NUM_GPUS_PER_NODE:-8}))
DP=$((GPUS / (TP * PP)))
DATA=""
DATA="${DATA} 14486363187 ${ROOT:-/corpus}/train/code/stack_0000_text_document"
DATA="${DATA} 12799385151 ${ROOT:-/corpus}/train/code/stack_0001_text_document"
python pretrain_gpt.py --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP --context-parallel-size 1 \
  --sequence-parallel --use-distributed-optimizer --num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 \
  --num-attention-heads 40 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 2 \
  --global-batch-size $((DP * 32)) --data-path ${DATA} --bf16 --swiglu --normalization RMSNorm --recompute-activations \
  --untie-embeddings-and-output-weights --position-embedding-type rope --disable-bias-linear --hidden-dropout 0.0
