#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=1 --gres=gpu:h100:8
CONFIG=automodel_squad.yaml EXTRA_ARGS=()
[ -n "" ] && EXTRA_ARGS+=(--x 1)
NPROC=8
srun torchrun --nnodes=$SLURM_NNODES --nproc-per-node "$NPROC" --tee 3 examples/llm_finetune/finetune.py \
	--config "$CONFIG" --distributed.tp_size 2 ${EXTRA_ARGS[@]+"${EXTRA_ARGS[@]}"}
