#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=4
#SBATCH --mem=0
source ~/.bashrc
conda activate trl

ARGS="--model_name_or_path=trl-lib/qwen1.5-1.8b-sft --per_device_train_batch_size 16 --num_train_epochs 1"
ARGS+=" --learning_rate 5e-7 --lr_scheduler_type cosine --gradient_accumulation_steps 1"
ARGS+=" --bf16 --max_length 1536 --max_prompt_length 1024 --eval_steps 500 --logging_first_step"

# LoRA on request
if [ "${USE_LORA:-0}" = 1 ]; then
  ARGS="$ARGS --use_peft --load_in_4bit --lora_target_modules all-linear --lora_r=16 --lora_alpha=16"
fi
accelerate launch --config_file=trl_zero2.yaml --num_processes=4 trl/scripts/kto.py $ARGS --output_dir=kto-aligned-model
