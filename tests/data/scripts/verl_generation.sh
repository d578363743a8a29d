#!/bin/bash
#SBATCH -N1 --gpus-per-node=8
python3 -m verl.trainer.main_generation trainer.nnodes=1 trainer.n_gpus_per_node=8 \
	model.path=deepseek-ai/deepseek-llm-7b-chat rollout.tensor_model_parallel_size=2 rollout.gpu_memory_utilization=0.8
