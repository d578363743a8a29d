#!/bin/bash
#SBATCH --nodes=4 --gpus-per-node=8
# two nodes train, two generate
uv run examples/run_grpo.py --config ./nemo_rl_recipe.yaml \
	policy.generation.colocated.enabled=false policy.generation.colocated.resources.num_nodes=2 \
	policy.generation.colocated.resources.gpus_per_node=8 grpo.async_grpo.enabled=true
