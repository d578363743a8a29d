#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
torchrun --nproc_per_node 8 pretrain_gpt.py --yaml-cfg megatron_yaml_dropout.yaml
