#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
CUDA_VISIBLE_DEVICES=0,1 python -m vllm.entrypoints.openai.api_server --model meta-llama/Llama-3.1-8B-Instruct \
   --tensor-parallel-size 2 --port 8000 --max-model-len 8192 --gpu-memory-utilization 0.85 &
until curl -s localhost:8000/health; do sleep 5; done
CUDA_VISIBLE_DEVICES=2,3,4,5,6,7 accelerate launch --num_processes 6 dpo.py --model_name_or_path meta-llama/Llama-3.1-8B-Instruct \
   --per_device_train_batch_size 1 --gradient_accumulation_steps 4 --max_length 2048 --bf16 --gradient_checkpointing
kill %1
