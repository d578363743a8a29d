#!/bin/bash
#SBATCH --gres=gpu:a100:8
#SBATCH -N 1
poetry run python -m torch.distributed.launch --use_env --nproc_per_node=8 --master_port=$(shuf -i 20000-30000 -n 1) \
    train.py \
    --model_name_or_path /models/llama-7b-hf \
    --data_path ./alpaca_data.json --bf16 True --output_dir out \
    --num_train_epochs 3 --per_device_train_batch_size 4 --per_device_eval_batch_size 4 \
    --gradient_accumulation_steps 8 --evaluation_strategy "no" --save_strategy steps \
    --fsdp "full_shard auto_wrap" --fsdp_transformer_layer_cls_to_wrap 'LlamaDecoderLayer' --tf32 True
