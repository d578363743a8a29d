#!/bin/bash
#SBATCH -N 2 --gpus-per-node=8
uv run --isolated --extra megatron -m skyrl.train.entrypoints.main_base \
  trainer.policy.model.path=Qwen/Qwen3-30B-A3B trainer.strategy=megatron \
  trainer.placement.policy_num_nodes=2 trainer.placement.policy_num_gpus_per_node=8 \
  trainer.policy.megatron_config.tensor_model_parallel_size=4 \
  trainer.policy.megatron_config.pipeline_model_parallel_size=1 \
  trainer.policy.megatron_config.context_parallel_size=1 \
  trainer.policy.megatron_config.expert_model_parallel_size=8 \
  trainer.policy.megatron_config.expert_tensor_parallel_size=null \
  trainer.policy.megatron_config.transformer_config_kwargs.recompute_granularity=full \
  trainer.policy.megatron_config.transformer_config_kwargs.recompute_method=uniform \
  trainer.policy.megatron_config.transformer_config_kwargs.recompute_num_layers=1 \
  trainer.max_tokens_per_microbatch=16384 trainer.critic.model.path=null \
  generator.inference_engine.tensor_parallel_size=4
