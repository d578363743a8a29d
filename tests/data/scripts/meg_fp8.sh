#!/bin/bash
#SBATCH -N 2 --gpus-per-node=8
# FP8 of Transformer Engine, parameters too
PRECISION="--bf16 --fp8-format e4m3 --fp8-recipe tensorwise --fp8-param-gather"
srun torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py $PRECISION \
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --swiglu --normalization RMSNorm \
  --position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights \
  --micro-batch-size 1 --global-batch-size 128 --seq-length 8192 --max-position-embeddings 8192 --vocab-size 128256 \
  --tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer --hidden-dropout 0
