#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
RM=""
POLICY=Qwen/Qwen2.5-7B-Instruct
accelerate launch --num_processes 8 trl/scripts/grpo.py --model_name_or_path "$POLICY" --dataset_name trl-lib/tldr \
	--reward_model_name_or_path "$RM" --max_prompt_length 512 --max_completion_length 256 \
	--per_device_train_batch_size 4 --num_generations 8 --bf16 --dtype bfloat16 --use_peft --lora_r 16
