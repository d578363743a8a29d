#!/bin/bash
#SBATCH -N 4 --gpus-per-node=8 --ntasks-per-node=1
# Stages of unequal length, and how much runs beside the communication
set -eo pipefail
TP=4 PP=4
LAYOUT=(
    --tensor-model-parallel-size "$TP" --pipeline-model-parallel-size "$PP" --sequence-parallel
    --decoder-first-pipeline-num-layers 9 --decoder-last-pipeline-num-layers 7
    --tp-comm-overlap --overlap-grad-reduce --overlap-param-gather --no-overlap-p2p-communication
    --use-distributed-optimizer --num-distributed-optimizer-instances 2
)
srun --label torchrun --nnodes "$SLURM_NNODES" --nproc-per-node 8 --rdzv-backend c10d \
    pretrain_gpt.py "${LAYOUT[@]}" --transformer-impl local --bf16 \
    --num-layers 40 --hidden-size 5120 --num-attention-heads 40 --swiglu --ffn-hidden-size 13824 \
    --seq-length 4096 --max-position-embeddings 4096 --position-embedding-type rope --normalization RMSNorm \
    --untie-embeddings-and-output-weights --disable-bias-linear --hidden-dropout 0 --attention-dropout 0 \
    --micro-batch-size 1 --global-batch-size 256 --vocab-size 32000
