#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8
ROLLOUT=2
TRAIN=$((8 - ROLLOUT))
python3 -m recipe.one_step_off_policy.main_ppo algorithm.adv_estimator=grpo \
	data.max_prompt_length=512 data.max_response_length=1536 \
	actor_rollout_ref.hybrid_engine=False actor_rollout_ref.model.path=Qwen/Qwen3-4B \
	actor_rollout_ref.actor.strategy=fsdp2 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 \
	actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.tensor_model_parallel_size=2 \
	actor_rollout_ref.rollout.gpu_memory_utilization=0.8 \
	trainer.nnodes=$SLURM_NNODES trainer.n_gpus_per_node=$TRAIN rollout.nnodes=$SLURM_NNODES rollout.n_gpus_per_node=$ROLLOUT
