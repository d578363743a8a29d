#!/bin/bash
#SBATCH --gres=gpu:8
# a program of its own, with a configuration that is no program's that p4d knows
python tools/train_net.py --num-gpus 8 --config-file configs/mask_rcnn_R_50_FPN.yaml SOLVER.IMS_PER_BATCH 16
colossalai run --nproc_per_node 8 train.py --plugin zero2 --config_file run.json --micro_batch_size 8
