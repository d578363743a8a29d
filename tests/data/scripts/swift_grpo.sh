#!/bin/bash
#SBATCH --gpus-per-node=4
NPROC_PER_NODE=4 CUDA_VISIBLE_DEVICES=0,1,2,3 \
swift rlhf \
    --rlhf_type grpo \
    --model Qwen/Qwen2.5-7B-Instruct \
    --reward_funcs accuracy \
    --use_vllm true --vllm_mode colocate \
    --per_device_train_batch_size 2 --gradient_accumulation_steps 8 \
    --torch_dtype bfloat16 --train_type lora --lora_rank 32 --target_modules all-linear \
    --max_length 4096 --deepspeed zero2
