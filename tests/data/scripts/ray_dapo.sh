#!/usr/bin/env bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
set -xeuo pipefail
model=${MODEL_DIR:-/models/Qwen2.5-32B}
args=" \
    actor_rollout_ref.actor.fsdp_config.param_offload=True \
    actor_rollout_ref.actor.fsdp_config.optimizer_offload=True"
critic="${args//actor_rollout_ref.actor/critic.model}"
ray job submit --no-wait --address=http://127.0.0.1:8265 --runtime-env-json='{"working_dir": "/work"}' \
    -- python3 -m recipe.dapo.main_dapo \
    data.max_prompt_length=$((1024 * 2)) \
    actor_rollout_ref.model.path="${model}" \
    +actor_rollout_ref.model.enable_gradient_checkpointing=True \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 \
    actor_rollout_ref.rollout.tensor_model_parallel_size=4 \
    trainer.n_gpus_per_node=8 trainer.nnodes=2 $args $critic
