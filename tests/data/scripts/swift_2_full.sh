#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=1
# ms-swift 2: other words than those of its later releases
NPROC_PER_NODE=8 swift sft --model_type qwen2-7b-instruct --sft_type full --dtype bf16 --max_length 8192 \
	--gradient_checkpointing true --batch_size 4 --gradient_accumulation_steps 8 --use_flash_attn true --deepspeed default-zero3
