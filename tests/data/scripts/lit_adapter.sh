#!/bin/bash
#SBATCH --gpus=2
module load cuda/12.6 python/3.11
litgpt finetune_adapter checkpoints/microsoft/phi-2 --devices 2 --train.micro_batch_size 4 --precision bf16-true
