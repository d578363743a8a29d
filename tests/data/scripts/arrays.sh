#!/bin/bash
#SBATCH --job-name=llama
#SBATCH --nodes=8
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96

# Llama 3 8B on eight nodes.
set -euxo pipefail

GPUS_PER_NODE=8
NUM_NODES=${SLURM_JOB_NUM_NODES:-1}
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$((10000 + SLURM_JOB_ID % 50000))
WORLD_SIZE=$((GPUS_PER_NODE * NUM_NODES))

CHECKPOINT_PATH=${1:-checkpoints/llama3_8b}
DATA_ARGS_PATH=${2:-MOCK}

TP_SIZE=2
CP_SIZE=2
PP_SIZE=1
MICRO_BATCH_SIZE=1
GLOBAL_BATCH_SIZE=$((WORLD_SIZE * 4))
NUM_LAYERS=32
DTYPE="bf16"
SEQ_LENGTH=8192

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --rdzv_endpoint $MASTER_ADDR:$MASTER_PORT
    --rdzv_backend c10d
)

MODEL_ARGS=(
    --use-mcore-models
    --num-layers $NUM_LAYERS
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --kv-channels 128
    --seq-length $SEQ_LENGTH
    --max-position-embeddings $SEQ_LENGTH
    --position-embedding-type rope
    --rotary-base 1000000
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --swiglu
    --normalization RMSNorm
    --untie-embeddings-and-output-weights
    --disable-bias-linear
)

TRAINING_ARGS=(
    --micro-batch-size $MICRO_BATCH_SIZE
    --global-batch-size $GLOBAL_BATCH_SIZE
    --train-samples 1953125000
    --lr 0.00015
    --cross-entropy-loss-fusion --cross-entropy-fusion-impl te
    --"${DTYPE}"
)

# Only some of these runs quantize.
if [[ "$DTYPE" == "fp8" ]]; then
    TRAINING_ARGS+=(--fp8-format hybrid)
fi

MODEL_PARALLEL_ARGS=(
    --tensor-model-parallel-size $TP_SIZE
    --context-parallel-size $CP_SIZE
    --pipeline-model-parallel-size $PP_SIZE
    --sequence-parallel
)

DDP_ARGS=(
    --use-distributed-optimizer
    --overlap-grad-reduce
)

DATA_ARGS=()
if [[ "$DATA_ARGS_PATH" == "MOCK" ]]; then
    DATA_ARGS+=(
        --mock-data
        --tokenizer-type NullTokenizer
        --vocab-size 128256
    )
else
    DATA_ARGS+=(--data-path "$DATA_ARGS_PATH" --tokenizer-type HuggingFaceTokenizer)
fi

srun torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
    "${MODEL_ARGS[@]}" \
    "${TRAINING_ARGS[@]}" \
    "${MODEL_PARALLEL_ARGS[@]}" \
    "${DDP_ARGS[@]}" \
    "${DATA_ARGS[@]}" \
    --save "$CHECKPOINT_PATH"
