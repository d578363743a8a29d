#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
# OFFLOAD, TOKENS and VPP come from whoever submits it
python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer \
	actor_rollout_ref.model.path=Qwen/Qwen3-8B algorithm.adv_estimator=grpo \
	actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 \
	actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2 \
	actor_rollout_ref.actor.megatron.virtual_pipeline_model_parallel_size=$VPP \
	actor_rollout_ref.actor.megatron.param_offload=$OFFLOAD \
	actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=$TOKENS \
	actor_rollout_ref.actor.use_kl_loss=$KL trainer.n_gpus_per_node=8 trainer.nnodes=1
