#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
#SBATCH --job-name=grpo
MODEL=Qwen/Qwen2.5-3B-Instruct
accelerate launch --num_processes 8 --use_deepspeed --zero_stage 3 train_grpo.py \
    --model_name_or_path $MODEL --num_generations 8 \
    --per_device_train_batch_size 8 --gradient_accumulation_steps 4 --bf16 \
    --max_prompt_length 1024 --max_completion_length 3072 --beta 0.04 \
    --use_vllm true --vllm_mode colocate --vllm_gpu_memory_utilization 0.45 --vllm_enable_sleep_mode true
