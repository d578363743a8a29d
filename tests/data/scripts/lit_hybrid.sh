#!/bin/bash
#SBATCH --nodes=4 --gpus-per-node=8 --ntasks-per-node=8
srun litgpt pretrain Llama-3.2-3B --devices 8 --num_nodes=4 --train.micro_batch_size 2 --train.global_batch_size 512 \
    --train.max_seq_length 4096 --precision bf16-mixed --data.path /data/slim
