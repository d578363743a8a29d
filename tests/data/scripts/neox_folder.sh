#!/bin/bash
#SBATCH --nodes=16 --ntasks-per-node=4 --gres=gpu:4
# configurations in a folder of their own
TRAIN_PATH=${HOME}/gpt-neox
CONFIGS=.
python $TRAIN_PATH/deepy.py $TRAIN_PATH/train.py --conf_dir $CONFIGS neox_model.yml neox_local.yml
