#!/bin/bash
#SBATCH --gpus-per-node=8
python ./deepy.py train.py neox_model.yml neox_local.yml
