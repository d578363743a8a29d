#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
SFT=OpenRLHF/Llama-3-8b-sft-mixture
ray start --head --num-gpus 8
ray job submit --address=http://127.0.0.1:8265 -- python3 -m openrlhf.cli.train_ppo_ray \
	--actor_num_nodes 1 --actor_num_gpus_per_node 8 --reward_num_nodes 1 --reward_num_gpus_per_node 8 \
	--critic_num_nodes 1 --critic_num_gpus_per_node 8 --ref_num_nodes 1 --ref_num_gpus_per_node 8 \
	--vllm_num_engines 4 --vllm_tensor_parallel_size 2 --colocate_all_models --vllm_gpu_memory_utilization 0.5 \
	--pretrain $SFT --reward_pretrain OpenRLHF/Llama-3-8b-rm-700k --micro_train_batch_size 8 --train_batch_size 128 \
	--prompt_max_len 1024 --generate_max_len 1024 --zero_stage 3 --bf16 --gradient_checkpointing --packing_samples
