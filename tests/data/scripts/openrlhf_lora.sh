#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=2
readonly ARGS=(
    --pretrain Qwen/Qwen2.5-3B --dataset Open-Orca/OpenOrca --input_key question --output_key response
    --max_len 2048 --train_batch_size 64 --micro_train_batch_size 4 --zero_stage 2 --adam_offload
    --bf16 --attn_implementation flash_attention_2 --gradient_checkpointing --learning_rate 1e-4
    --lora_rank 64 --lora_alpha 64 --target_modules q_proj v_proj --packing_samples
)
srun --ntasks=1 deepspeed --num_gpus 2 --module openrlhf.cli.train_sft "${ARGS[@]}"
