#!/bin/bash
#SBATCH -N 1 --gpus-per-node=8
uv run --extra megatron -m skyrl.train.entrypoints.main_base \
  trainer.policy.model.path=Qwen/Qwen3-8B trainer.strategy=megatron \
  trainer.policy.megatron_config.tensor_model_parallel_size=4 \
  trainer.placement.policy_num_gpus_per_node=8 trainer.algorithm.use_kl_loss=false
