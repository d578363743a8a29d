#!/bin/bash
#SBATCH -N1 --gpus-per-node=4
uv run --isolated --extra megatron python -m skyrl.train.main_sft strategy=megatron model.path=Qwen/Qwen3-0.6B \
  max_length=2048 batch_size=64 micro_train_batch_size_per_gpu=2 placement.num_nodes=1 placement.num_gpus_per_node=4 \
  megatron_config.tensor_model_parallel_size=2 megatron_config.pipeline_model_parallel_size=2
