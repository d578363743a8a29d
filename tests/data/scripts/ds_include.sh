#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8
deepspeed --hostfile=hosts.txt --include="worker-0:0,1,2,3@worker-1:0,1,2,3" --master_port 12345 \
  main.py --model_name_or_path facebook/opt-6.7b --per_device_train_batch_size 8 --max_seq_len 512 \
  --gradient_accumulation_steps 1 --gradient_checkpointing --zero_stage 3 --deepspeed --output_dir out
