#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
#SBATCH --job-name=grpo-llama8b
# what ray.sub runs on its head node
NUM_ACTOR_NODES=${NUM_ACTOR_NODES:-$SLURM_JOB_NUM_NODES}
MODEL=meta-llama/Llama-3.1-8B-Instruct
RUN=grpo-$(basename $MODEL)-${NUM_ACTOR_NODES}n
COMMAND="NRL_FORCE_REBUILD_VENVS=true uv run ./examples/run_grpo_math.py --config examples/configs/grpo_math_8B.yaml \
    cluster.num_nodes=$NUM_ACTOR_NODES cluster.gpus_per_node=8 \
    policy.model_name='$MODEL' \
    policy.train_global_batch_size=512 policy.train_micro_batch_size=1 \
    policy.max_total_sequence_length=4096 \
    policy.dtensor_cfg.tensor_parallel_size=4 policy.dtensor_cfg.activation_checkpointing=True \
    policy.generation.vllm_cfg.tensor_parallel_size=2 \
    checkpointing.checkpoint_dir='results/$RUN' logger.wandb.name='$RUN'"
srun --no-container-mount-home --container-image=/images/nemo-rl.sqsh --container-mounts="$PWD:$PWD" \
    --container-workdir=$PWD -N1 --ntasks=1 bash -c "$COMMAND"
