#!/bin/bash
#SBATCH -N2 --gpus-per-node=4
# LoRA beside a model whose weights are gathered once a step
srun accelerate launch --use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP \
    --fsdp_use_orig_params false --fsdp_backward_prefetch NO_PREFETCH --mixed_precision bf16 \
    --num_machines 2 --num_processes 8 sft.py \
    --model_name_or_path meta-llama/Llama-3.1-8B --dtype bfloat16 --use_peft --lora_r 16 \
    --lora_target_modules q_proj v_proj --per_device_train_batch_size 1 --max_length 2048
