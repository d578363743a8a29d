#!/bin/bash
#SBATCH --nodes=4 --gpus-per-node=8
SUITE=grpo-8b
CONFIG=./nemo_rl_recipe.yaml
ray start --head --port=6379
uv run examples/run_grpo.py --config $CONFIG grpo.max_num_steps=500 logger.log_dir=logs/$SUITE checkpointing.enabled=True "$@" 2>&1 | tee $SUITE.log
