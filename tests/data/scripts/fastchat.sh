#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=4
torchrun --nproc_per_node=4 --master_port=20001 fastchat/train/train_mem.py \
    --model_name_or_path lmsys/vicuna-7b-v1.5 --data_path data/dummy_conversation.json --bf16 True --output_dir output_vicuna \
    --num_train_epochs 3 --per_device_train_batch_size 2 --per_device_eval_batch_size 2 --gradient_accumulation_steps 16 \
    --evaluation_strategy "no" --save_strategy "steps" --learning_rate 2e-5 --fsdp "full_shard auto_wrap" \
    --fsdp_transformer_layer_cls_to_wrap 'LlamaDecoderLayer' --tf32 True --model_max_length 2048 \
    --gradient_checkpointing True --lazy_preprocess True
