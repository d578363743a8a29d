#!/bin/bash
#SBATCH --job-name=qwen-lora --nodes=1 --gpus-per-node=4 --time=08:00:00
source ~/envs/axolotl/bin/activate
export HF_HUB_OFFLINE=1
axolotl train axolotl_kernels.yaml --num-processes 4 --launcher accelerate
