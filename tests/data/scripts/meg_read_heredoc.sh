#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
IFS= read -r -d '' OPTIONS <<'EOF' || true
    --tensor-model-parallel-size 8
    --num-layers 80
    --hidden-size 8192
    --ffn-hidden-size 28672
    --num-attention-heads 64
    --group-query-attention
    --num-query-groups 8
    --seq-length 4096
    --micro-batch-size 1
    --global-batch-size 128
    --bf16
EOF
IFS=$' \t\n'
exec torchrun --nproc_per_node 8 pretrain_gpt.py ${OPTIONS} --max-position-embeddings 4096
