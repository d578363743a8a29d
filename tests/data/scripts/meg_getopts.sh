#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:a100:8
# usage: sbatch meg_getopts.sh [-m 1b|7b|13b] [-t TP] [-p PP] [-s]
usage() { echo "usage: $0 [-m MODEL] [-t TP] [-p PP] [-s]" >&2; exit 2; }

declare -A LAYERS=([1b]=24 [7b]=32 [13b]=40)
declare -A HIDDEN=([1b]=2048 [7b]=4096 [13b]=5120)
declare -A HEADS=([1b]=16 [7b]=32 [13b]=40)
declare -A FFN
FFN[1b]=5504
FFN[7b]=11008
FFN[13b]=13824

model=13b tp=2 pp=1
extra=()
while getopts ":m:t:p:sh" opt; do
    case "$opt" in
        m) model=$OPTARG ;;
        t) tp=$OPTARG ;;
        p) pp=$OPTARG ;;
        s) extra+=(--sequence-parallel) ;;
        h|*) usage ;;
    esac
done
shift $((OPTIND - 1))
[[ -n "${LAYERS[$model]}" ]] || usage

gpus=$(( SLURM_NNODES * SLURM_GPUS_ON_NODE ))
dp=$(( gpus / tp / pp ))
torchrun --nnodes=$SLURM_NNODES --nproc_per_node=$SLURM_GPUS_ON_NODE \
    pretrain_gpt.py \
    --tensor-model-parallel-size $tp --pipeline-model-parallel-size $pp \
    --num-layers ${LAYERS[$model]} --hidden-size ${HIDDEN[$model]} \
    --ffn-hidden-size ${FFN[$model]} --num-attention-heads "${HEADS[$model]}" \
    --micro-batch-size 4 --global-batch-size $(( dp * 4 * 8 )) \
    --seq-length 4096 --vocab-size 32000 --bf16 "${extra[@]}" "$@"
