#!/bin/bash
#SBATCH --job-name=reinforce-8b
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
MODEL=meta-llama/Llama-3.1-8B-Instruct
ray start --head --num-gpus 8
ray job submit --address=http://127.0.0.1:8265 -- python3 -m openrlhf.cli.train_ppo_ray \
	--actor.model_name_or_path $MODEL \
	--actor.num_nodes 1 --actor.num_gpus_per_node 8 \
	--ref.num_nodes 1 --ref.num_gpus_per_node 8 \
	--vllm.num_engines 4 --vllm.tensor_parallel_size 2 --vllm.gpu_memory_utilization 0.6 --vllm.enable_sleep \
	--train.colocate_all --ds.enable_sleep --ds.zero_stage 3 --ds.param_dtype bf16 --ds.packing_samples \
	--actor.gradient_checkpointing_enable \
	--train.dynamic_batch_enable --train.max_tokens_per_gpu 12288 \
	--train.micro_batch_size 4 --train.batch_size 128 --rollout.batch_size 128 --rollout.n_samples_per_prompt 8 \
	--data.max_len 4096 --data.prompt_dataset OpenRLHF/prompt-collection-v0.1 --data.input_key context_messages \
	--algo.advantage.estimator reinforce_baseline --algo.kl.init_coef 0 --adam.lr 5e-7
