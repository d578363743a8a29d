#!/bin/bash
#SBATCH -N 1
#SBATCH --gpus=4
export FORCE_TORCHRUN=1 NNODES=1 NPROC_PER_NODE=4
llamafactory-cli train llamafactory_lora.yaml
