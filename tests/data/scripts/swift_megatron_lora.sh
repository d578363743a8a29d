#!/bin/bash
#SBATCH -N1 --gpus-per-node=2
export NPROC_PER_NODE=2
megatron sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora --lora_rank 8 --target_modules all-linear \
    --tensor_model_parallel_size 2 --sequence_parallel true --micro_batch_size 16 --max_length 2048 --recompute_granularity none
