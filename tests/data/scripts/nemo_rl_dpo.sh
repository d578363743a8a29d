#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
uv run examples/run_dpo.py --config nemo_rl_base.yaml \
	policy.model_name=meta-llama/Llama-3.1-8B-Instruct policy.train_micro_batch_size=1 policy.train_global_batch_size=64 \
	policy.max_total_sequence_length=2048 policy.dtensor_cfg.tensor_parallel_size=4 policy.sequence_packing.enabled=false \
	dpo.reference_policy_kl_penalty=0.1 cluster.gpus_per_node=8
