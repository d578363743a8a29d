#!/bin/bash
#SBATCH --nodes=1 --gres=gpu:8
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5
deepspeed train.py --deepspeed ds_visible.json --model_name_or_path facebook/opt-1.3b --per_device_train_batch_size 4 --fp16
