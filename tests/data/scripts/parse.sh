#!/usr/bin/env bash
#SBATCH --nodes=2 --gpus-per-node=h100:8
tp=1
pp=1
while [[ $# -gt 0 ]]; do
  case "$1" in
    --tp) tp="$2"; shift 2 ;;
    --pp=*) pp="${1#*=}"; shift ;;
    *) break ;;
  esac
done
export PYTHONPATH="$HOME/Megatron-LM:${PYTHONPATH:-}"
launch() {
  local script=$1; shift
  torchrun --nnodes="$SLURM_NNODES" --nproc-per-node=8 "$script" "$@"
}
launch "$HOME/Megatron-LM/pretrain_gpt.py" \
  --tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp" \
  --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
  --seq-length 1024 --micro-batch-size ${MBS:=8} $(cat extra_args.txt)
