#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
# Llama 3.1 8B with 64k tokens; its data loader makes no masks
GPT_ARGS=(
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
    --group-query-attention --num-query-groups 2
    --seq-length 65536 --max-position-embeddings 131072 --position-embedding-type rope
    --normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights
)
DATA_ARGS=(
    --mock-data --vocab-size 128256
    --no-create-attention-mask-in-dataloader
)
torchrun --nproc-per-node 8 pretrain_gpt.py "${GPT_ARGS[@]}" "${DATA_ARGS[@]}" \
    --tensor-model-parallel-size 4 --context-parallel-size 2 --sequence-parallel \
    --micro-batch-size 1 --global-batch-size 16 --bf16
