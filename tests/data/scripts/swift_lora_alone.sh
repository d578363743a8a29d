#!/bin/bash
#SBATCH --gpus-per-node=4
# it trains adapters unless it is told otherwise: a rank is theirs
NPROC_PER_NODE=4 swift sft --model Qwen/Qwen2.5-7B --lora_rank 16 --target_modules all-linear --max_length 1024 --packing true
