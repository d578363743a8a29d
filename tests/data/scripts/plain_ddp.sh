#!/bin/bash
#SBATCH --gpus-per-node=4
export OMP_NUM_THREADS=4
srun torchrun --nproc_per_node=4 train_resnet.py --batch-size 256 --model resnet50 --tensor-dir /data
