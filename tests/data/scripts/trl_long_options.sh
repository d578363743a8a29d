#!/bin/bash
#SBATCH --nodes 1
#SBATCH --gpus-per-node 8
MODEL=meta-llama/Llama-3.2-1B SEQ=1024 BS=8 LORA=0
parse() {
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --model)   MODEL="$2"; shift 2 ;;
      --seq=*)   SEQ="${1#*=}"; shift ;;
      --bs|-b)   BS=$2; shift; shift ;;
      --lora)    LORA=1; shift ;;
      --)        shift; EXTRA=("$@"); break ;;
      -h|--help) sed -n '2,9p' "$0"; exit 0 ;;
      *) echo "unknown: $1" >&2; exit 64 ;;
    esac
  done
}
parse --model meta-llama/Llama-3.2-3B --seq=4096 -b 2 --lora -- --lora_r 64 --lora_target_modules all-linear
((LORA)) && EXTRA+=(--use_peft)
accelerate launch --num_processes 8 --mixed_precision bf16 trl/scripts/sft.py \
  --model_name_or_path "$MODEL" --max_length "$SEQ" --per_device_train_batch_size "$BS" "${EXTRA[@]}"
