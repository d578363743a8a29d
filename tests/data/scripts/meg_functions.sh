#!/usr/bin/env bash
#SBATCH --nodes=4
#SBATCH --gpus-per-node=4
set -euo pipefail

log() { echo "[$(date '+%H:%M:%S')] $*" >&2; }

layers_of() {
  case "$1" in
    small)  echo 12 ;;
    medium) echo 24 ;;
    large)  echo 36 ;;
  esac
}

width_of() { local layers; layers=$(layers_of "$1"); echo $(( layers * 64 )); }

model_args() {
  local size=$1
  printf '%s ' --num-layers "$(layers_of "$size")" --hidden-size "$(width_of "$size")"
  printf -- '--num-attention-heads %d' $(( $(width_of "$size") / 128 ))
}

main() {
  local size=${1:-large}
  log "training $size on $SLURM_NNODES nodes"
  local -a parallel=(--tensor-model-parallel-size 2)
  (( SLURM_NNODES > 2 )) && parallel+=(--pipeline-model-parallel-size $(( SLURM_NNODES / 2 )))
  srun python pretrain_gpt.py $(model_args "$size") "${parallel[@]}" \
    --seq-length 1024 --micro-batch-size 8 --global-batch-size 128 --vocab-size 50304
}

main "$@"
