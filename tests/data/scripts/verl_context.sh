#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8
python3 -m verl.trainer.main_ppo --config-path=config --config-name='ppo_megatron_trainer.yaml' algorithm.adv_estimator=grpo \
	actor_rollout_ref.model.path=Qwen/Qwen3-30B-A3B actor_rollout_ref.actor.use_dynamic_bsz=True \
	actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384 \
	actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 \
	actor_rollout_ref.actor.megatron.context_parallel_size=2 \
	actor_rollout_ref.actor.megatron.expert_model_parallel_size=8 \
	'actor_rollout_ref.actor.megatron.override_transformer_config.recompute_modules=["core_attn"]' \
	actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=selective \
	actor_rollout_ref.actor.optim.override_optimizer_config.optimizer_cpu_offload=True \
	actor_rollout_ref.actor.optim.override_optimizer_config.optimizer_offload_fraction=1 \
	trainer.n_gpus_per_node=8 trainer.nnodes=2
