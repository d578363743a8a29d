#!/bin/bash -l
#SBATCH --nodes=1
#SBATCH --gpus=1
. ~/miniconda3/etc/profile.d/conda.sh
conda run --no-capture-output -n qlora python qlora.py \
    --model_name_or_path huggyllama/llama-13b --dataset oasst1 --bits 4 --bf16 \
    --per_device_train_batch_size 1 --gradient_accumulation_steps 16 --source_max_len 16 --target_max_len 512 \
    --lora_r 64 --lora_alpha 16 --lora_dropout 0.1 --optim paged_adamw_32bit --gradient_checkpointing
