#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nproc_per_node=8 run_train.py --config-file nanotron_smol.yaml
