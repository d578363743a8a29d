#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
set -- --tp 4 --pp 2 --model-size=7b --extra "--use-flash-attn --disable-bias-linear" -- "$@"
TP=1 PP=1 MODEL_SIZE=1b EXTRA=
while [[ $# -gt 0 ]]; do
  key="$1"
  case $key in
    --tp|-t)
      TP="$2"; shift; shift ;;
    --pp)
      PP="$2"
      shift 2
      ;;
    --model-size=*)
      MODEL_SIZE="${key#*=}"; shift ;;
    --extra) EXTRA=$2; shift 2 ;;
    --) shift; break ;;
    -*) echo "Unknown option $1"; exit 1 ;;
  esac
done
if [ "${MODEL_SIZE,,}" = 7b ]; then
  L=32 H=4096 A=32
elif [ "$MODEL_SIZE" = 1b ]; then
  L=16 H=2048 A=32
fi
[[ $TP -gt 1 ]] && SP="--sequence-parallel" || SP=""
until [ $((H % TP)) -eq 0 ]; do TP=$((TP / 2)); done
srun python pretrain_gpt.py $SP $EXTRA --num-layers $L --hidden-size $H --num-attention-heads $A \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP --seq-length $((2 ** 12)) \
  --micro-batch-size 1 --global-batch-size $((TP * PP * 32)) --bf16 --vocab-size 32000 "$@"
