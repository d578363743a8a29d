#!/bin/bash
#SBATCH -N 1 --gres=gpu:8
read -r -d '' training <<EOF
openrlhf.cli.train_dpo
   --save_path ./out --logging_steps 1 --eval_steps -1
   --train_batch_size 256 --micro_train_batch_size 1
   --pretrain OpenRLHF/Llama-3-8b-sft-mixture
   --bf16 --max_len 8192 --zero_stage 3 --learning_rate 5e-7 --beta 0.1 --ref_offload
   --packing_samples --flash_attn --gradient_checkpointing
EOF
if [[ $1 != slurm ]]; then
    deepspeed --num_gpus 8 --module $training
fi
