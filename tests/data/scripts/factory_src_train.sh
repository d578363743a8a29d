#!/bin/bash
#SBATCH --partition=gpu --gpus-per-node=4
cd $SLURM_SUBMIT_DIR
torchrun --nnodes 1 --nproc_per_node 4 --master_port 29511 src/train.py factory_src_train.yaml
