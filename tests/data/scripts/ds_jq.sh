#!/bin/bash
#SBATCH -N 1
#SBATCH --gpus-per-node=8
jq '.zero_optimization.stage = 2 | .train_micro_batch_size_per_gpu = 4' ds_jq.json > ds_run.json
deepspeed --num_gpus 8 train.py --deepspeed --deepspeed_config ds_run.json --model bigscience/bloom-3b
