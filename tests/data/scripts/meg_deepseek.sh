#!/bin/bash
#SBATCH -N 16 --gpus-per-node=8
PP=8
EP=16
MODEL_ARGS=(
    --num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128
    --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-layernorm
    --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 --no-rope-fusion
    --swiglu --normalization RMSNorm --untie-embeddings-and-output-weights --disable-bias-linear
    --vocab-size 129280 --seq-length 4096 --max-position-embeddings 4096
)
MOE_ARGS=(
    --num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048
    --moe-shared-expert-intermediate-size 2048 --moe-layer-freq '([0]*3+[1]*58)'
    --moe-grouped-gemm --moe-token-dispatcher-type alltoall --moe-permute-fusion
    --expert-model-parallel-size $EP --expert-tensor-parallel-size 1
)
srun python -u pretrain_gpt.py "${MODEL_ARGS[@]}" "${MOE_ARGS[@]}" \
    --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size $PP \
    --use-distributed-optimizer --micro-batch-size 1 --global-batch-size 1024 --bf16 \
    --recompute-granularity selective --recompute-modules moe_act mla_up_proj --moe-shared-expert-overlap \
    --hidden-dropout 0 --attention-dropout 0
