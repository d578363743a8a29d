#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
add() { local -n list=$1; shift; list+=("$@"); }
preset() {
  case ${1,,} in
    llama*-8b) add ARGS --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 ;;&
    llama*|mistral*) add ARGS --swiglu --normalization RMSNorm --group-query-attention --num-query-groups 8 ;;
    gpt*) add ARGS --num-layers 24 ;;
  esac
}
ARGS=()
preset Llama3-8B
(( ${#ARGS[@]} > 4 )) && add ARGS --bf16
unset 'ARGS[-1]'
add ARGS --fp16
torchrun --nproc_per_node=${SLURM_GPUS_ON_NODE:-8} pretrain_gpt.py "${ARGS[@]}" --tensor-model-parallel-size 2 \
 --seq-length 8192 --max-position-embeddings 8192 --micro-batch-size 1 --global-batch-size 128
