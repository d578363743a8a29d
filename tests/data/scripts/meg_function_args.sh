#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8

launch() {
    local nnodes=$1 gpus=$2; shift 2
    srun --ntasks-per-node=1 torchrun --nnodes="$nnodes" --nproc-per-node="$gpus" \
        --rdzv-backend=c10d --rdzv-endpoint="$MASTER:29400" "$@"
}
pretrain() {
    local model=$1
    local -r tp=${2:?tensor parallel size} pp=${3:-1}
    local sizes
    case "$model" in
        1.3b) sizes="--num-layers 24 --hidden-size 2048 --num-attention-heads 32" ;;
        6.7b) sizes="--num-layers 32 --hidden-size 4096 --num-attention-heads 32" ;;
        13b)  sizes="--num-layers 40 --hidden-size 5120 --num-attention-heads 40" ;;
    esac
    # shellcheck disable=SC2086
    launch "$SLURM_NNODES" 8 pretrain_gpt.py $sizes \
        --tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp" \
        "${@:4}"
}
MASTER=$(hostname -f)
pretrain 13b 4 2 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 2 \
    --global-batch-size 512 --bf16 --recompute-granularity full --recompute-method uniform \
    --recompute-num-layers 1
