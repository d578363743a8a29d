#!/bin/bash
#SBATCH --gpus-per-node=2
torchrun --nproc_per_node 2 run_clm.py --model_name_or_path meta-llama/Llama-3.2-1B --torch_dtype bfloat16 \
    --per_device_train_batch_size 1 --block_size 4096 --do_train
