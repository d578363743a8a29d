#!/bin/bash
#SBATCH --nodes=8 --gpus-per-node=8
GPT_ARGS="--use-mcore-models --num-layers 48 --hidden-size 2048 --ffn-hidden-size 5120 --num-attention-heads 16 \
  --group-query-attention --num-query-groups 2 --kv-channels 256 --qk-layernorm --attention-output-gate \
  --normalization RMSNorm --apply-layernorm-1p --swiglu --disable-bias-linear --untie-embeddings-and-output-weights \
  --position-embedding-type rope --rotary-percent 0.25 --rotary-base 10000000 --seq-length 4096 --max-position-embeddings 262144 \
  --attention-dropout 0.0 --hidden-dropout 0.0 --vocab-size 151936 --make-vocab-size-divisible-by 128"
LINEAR_ARGS="--experimental-attention-variant gated_delta_net --linear-attention-freq 4 --linear-conv-kernel-dim 4 \
  --linear-key-head-dim 128 --linear-value-head-dim 128 --linear-num-key-heads 16 --linear-num-value-heads 32"
MOE_ARGS="--num-experts 512 --moe-ffn-hidden-size 512 --moe-shared-expert-intermediate-size 512 --moe-shared-expert-gate --moe-router-topk 10 \
  --moe-grouped-gemm --moe-token-dispatcher-type alltoall --moe-router-load-balancing-type aux_loss"
srun torchrun --nproc_per_node 8 --nnodes $SLURM_JOB_NUM_NODES pretrain_gpt.py $GPT_ARGS $LINEAR_ARGS $MOE_ARGS \
  --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --expert-model-parallel-size 16 --use-distributed-optimizer \
  --micro-batch-size 1 --global-batch-size 512 --bf16 --attention-backend flash
