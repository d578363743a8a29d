#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=4
docker run --rm --gpus '"device=0,1,2,3"' --ipc=host --ulimit memlock=-1 -v "$PWD":/w -w /w -e HF_TOKEN \
  --shm-size 64g nvcr.io/nvidia/pytorch:24.10-py3 \
  bash -lc 'pip install -q trl && accelerate launch --num_processes 4 --use_deepspeed --zero_stage 3 --mixed_precision bf16 \
    run_sft.py --model_name_or_path Qwen/Qwen2.5-3B --max_length 4096 --per_device_train_batch_size 2 --gradient_accumulation_steps 4'
