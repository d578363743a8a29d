#!/bin/bash
#SBATCH --gpus-per-node=8
srun -N1 --ntasks=1 ray job submit --address=http://127.0.0.1:8265 -- python3 -m openrlhf.cli.train_ppo_ray \
    --ref_num_nodes 1 --ref_num_gpus_per_node 8 \
    --actor_num_nodes 1 --actor_num_gpus_per_node 8 \
    --vllm_num_engines 4 --vllm_tensor_parallel_size 2 \
    --colocate_all_models --vllm_gpu_memory_utilization 0.6 --vllm_enable_sleep --deepspeed_enable_sleep \
    --init_kl_coef 1e-3 --advantage_estimator reinforce_baseline \
    --pretrain Qwen/Qwen2.5-7B-Instruct \
    --micro_train_batch_size 1 --train_batch_size 128 --rollout_batch_size 128 \
    --prompt_max_len 1024 --generate_max_len 7168 \
    --zero_stage 3 --bf16 --gradient_checkpointing --packing_samples
