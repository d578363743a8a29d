#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=4
source $HOME/.bashrc
mamba activate pl
srun python train.py fit --config config.yaml --trainer.devices=4 --trainer.num_nodes=2 --model.lr 1e-4
