#!/bin/bash
#SBATCH --gpus-per-node=4
NPROC_PER_NODE=4 swift rlhf --rlhf_type dpo --model_type llama3-8b --sft_type full --dtype bf16 --batch_size 2
