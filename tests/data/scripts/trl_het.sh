#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8
#SBATCH hetjob
#SBATCH --nodes=1 --gpus-per-node=8
srun --het-group=1 vllm serve Qwen/Qwen2.5-32B-Instruct --tensor-parallel-size 8 --max-model-len 16384 &
srun --het-group=0 --ntasks-per-node=1 torchrun --nnodes=2 --nproc_per_node=8 grpo.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct \
  --use_vllm --vllm_mode server --vllm_server_host $HOST --per_device_train_batch_size 8 --num_generations 8 --max_completion_length 1024 --bf16
