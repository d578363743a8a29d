#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
# a program of one's own before one that p4d knows: what is not known of the first is not said of the second
SIZES="--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048"
torchrun --nproc_per_node 8 make_embeddings.py $SIZES --micro-batch-size $MBS
torchrun --nproc_per_node 8 pretrain_gpt.py $SIZES --micro-batch-size 2 --global-batch-size 64 --bf16 \
	--tokenizer-type NullTokenizer --vocab-size 32000
