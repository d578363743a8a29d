#!/bin/bash
#SBATCH --gpus-per-node=4 --nodes=1
NPROC_PER_NODE=4 swift pt --model_type llama3-8b --sft_type full --dtype fp16 --packing true --deepspeed default-zero2
