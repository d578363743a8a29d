#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
uv run examples/nemo_gym/run_grpo_nemo_gym.py \
	policy.model_name=Qwen/Qwen3-1.7B \
	policy.train_micro_batch_size=2 \
	policy.max_total_sequence_length=8192 \
	cluster.gpus_per_node=8 cluster.num_nodes=1
