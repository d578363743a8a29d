#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8
python3 -m verl.trainer.main_ppo \
	algorithm.adv_estimator=rloo \
	data.train_files=train.parquet data.val_files=val.parquet \
	data.train_batch_size=512 \
	data.max_prompt_length=1024 data.max_response_length=3072 \
	actor_rollout_ref.model.path=Qwen/Qwen2.5-7B \
	actor_rollout_ref.model.enable_gradient_checkpointing=True \
	actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 \
	actor_rollout_ref.actor.fsdp_config.fsdp_size=-1 \
	actor_rollout_ref.rollout.name=vllm \
	actor_rollout_ref.rollout.tensor_model_parallel_size=4 \
	actor_rollout_ref.rollout.gpu_memory_utilization=0.7 \
	trainer.n_gpus_per_node=8 trainer.nnodes=2
