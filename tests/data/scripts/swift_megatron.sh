#!/bin/bash
#SBATCH -N2 --gpus-per-node=8
export NNODES=2 NPROC_PER_NODE=8
megatron sft \
    --model Qwen/Qwen3-30B-A3B --tuner_type full \
    --tensor_model_parallel_size 4 --pipeline_model_parallel_size 2 --sequence_parallel true \
    --micro_batch_size 1 --global_batch_size 32 --max_length 8192 --packing true \
    --recompute_granularity full --recompute_method uniform --recompute_num_layers 1 \
    --attention_backend flash --bf16 true
