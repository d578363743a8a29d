#!/bin/bash
#SBATCH -p boost_usr_prod -A iscrb -N1 --gres=gpu:4 --ntasks-per-node=1
. $HOME/venv/bin/activate
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
ARGS=(
  --dataset_name trl-lib/ultrafeedback_binarized
  --model_name_or_path Qwen/Qwen2-0.5B-Instruct
  --learning_rate 5.0e-6
  --num_train_epochs 1
  --per_device_train_batch_size 2
  --gradient_accumulation_steps 8
  --max_steps 1000
  --gradient_checkpointing
  --output_dir "$WORK/dpo"
  --no_remove_unused_columns
)
accelerate launch --multi_gpu --num_processes 4 trl/scripts/dpo.py "${ARGS[@]}"
