#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
cat > zero2.json <<'JSON'
{
  "bf16": {"enabled": true},
  "optimizer": {"type": "ADAMW", "params": {"lr": 2e-5, "betas": [0.9, 0.95], "torch_adam": true, "adam_w_mode": true}},
  "zero_optimization": {"stage": 2},
  "train_micro_batch_size_per_gpu": 1
}
JSON
deepspeed --num_gpus 8 run_clm.py --deepspeed zero2.json --model_name_or_path Qwen/Qwen2.5-7B --dataset_name c4 \
    --do_train --block_size 2048 --per_device_train_batch_size 1 --gradient_checkpointing --bf16 --output_dir out
