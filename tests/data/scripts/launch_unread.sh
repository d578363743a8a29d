#!/bin/bash
#SBATCH -N2 --ntasks-per-node=8 --gpus-per-node=8
LAUNCH=/opt/site/launch.sh
ARGS=(--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 4096 --vocab-size 32000 --swiglu --ffn-hidden-size 5632
	--micro-batch-size 4 --global-batch-size 512 --bf16 --position-embedding-type rope)
srun singularity exec --nv -B /scratch image.sif "$LAUNCH" python -u Megatron-LM/pretrain_gpt.py "${ARGS[@]}"
