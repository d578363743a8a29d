#!/bin/bash
#SBATCH --gpus-per-node=8
torchrun --standalone --nproc_per_node=8 examples/pytorch/language-modeling/run_clm.py \
    --model_name_or_path=facebook/opt-1.3b --dataset_name=wikitext --block_size=1024 --do_train \
    --per_device_train_batch_size=4 --gradient_accumulation_steps=2 --label_smoothing_factor=0.1 \
    --neftune_noise_alpha=5 --bf16 --output_dir=out
