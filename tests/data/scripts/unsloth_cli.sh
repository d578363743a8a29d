#!/bin/bash
#SBATCH --gres=gpu:1
eval "$(conda shell.bash hook)"
conda activate unsloth
python unsloth-cli.py --model_name unsloth/llama-3-8b --max_seq_length 8192 --load_in_4bit --r 64 --lora_alpha 32 \
	--per_device_train_batch_size 4 --gradient_accumulation_steps 8 --dataset yahma/alpaca-cleaned
