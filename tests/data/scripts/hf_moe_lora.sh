#!/bin/bash
#SBATCH --job-name=mixtral-sft
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
# Adapters on attention; the experts are frozen.
srun accelerate launch --config_file acc_fsdp.yaml --num_processes 8 --num_machines 1 \
    trl/scripts/sft.py \
    --model_name_or_path mistralai/Mixtral-8x7B-v0.1 \
    --use_peft --lora_r 16 --lora_target_modules q_proj k_proj v_proj o_proj \
    --per_device_train_batch_size 1 \
    --gradient_accumulation_steps 4 \
    --max_length 4096 --bf16 --packing \
    --output_dir out/mixtral
