#!/bin/bash
#SBATCH --job-name=grpo-30b-a3b
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
#SBATCH --time=4:00:00
export HF_HOME=/scratch/$USER/hf
uv run --extra mcore examples/run_grpo.py \
    --config nemo_rl_megatron.yaml \
    grpo.num_prompts_per_step=32 grpo.num_generations_per_prompt=8 \
    ++policy.megatron_cfg.distributed_data_parallel_config.grad_reduce_in_fp32=true \
    checkpointing.checkpoint_dir=/scratch/$USER/grpo-30b
