#!/usr/bin/env bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=1
cd "${PROJECT_ROOT:-$HOME/projects/tuning}" || exit 1
: "${EPOCHS:=3}" "${RANK_:=32}"
poetry run python scripts/run_sft.py --model_name_or_path google/gemma-2-2b --use_peft --lora_r "$RANK_" --lora_alpha $((RANK_ * 2)) \
  --lora_target_modules q_proj k_proj v_proj o_proj --load_in_4bit --num_train_epochs "$EPOCHS" --max_length 1024 \
  --per_device_train_batch_size 1 --gradient_accumulation_steps 16 --optim paged_adamw_8bit --output_dir runs/$SLURM_JOB_ID
