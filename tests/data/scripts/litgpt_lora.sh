#!/bin/bash
#SBATCH --gpus=1
litgpt finetune_lora meta-llama/Llama-3.2-1B --config litgpt_lora.yaml --train.micro_batch_size 2
