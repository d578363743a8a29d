#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=4
#SBATCH --ntasks-per-node=4
export NCCL_DEBUG=WARN
srun litgpt pretrain pythia-1.4b \
  --data TextFiles --data.train_data_path /data/txt \
  --train.micro_batch_size 4 --train.global_batch_size=128 --train.max_seq_length 2048 \
  --precision bf16-true --devices 4 --num_nodes 1 --optimizer AdamW --out_dir out
