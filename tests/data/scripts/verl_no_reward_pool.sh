#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
policy=Qwen/Qwen2.5-7B-Instruct
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gae algorithm.use_kl_in_reward=False \
	data.max_prompt_length=1024 data.max_response_length=512 \
	actor_rollout_ref.model.path=$policy actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16 \
	actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
	actor_rollout_ref.rollout.gpu_memory_utilization=0.6 critic.model.path=$policy \
	reward_model.enable=False \
	reward_model.enable_resource_pool=$POOL \
	trainer.n_gpus_per_node=4 trainer.nnodes=1
