#!/bin/bash
#SBATCH -N 4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH -p gh
module load tacc-apptainer
TP=4; PP=2
GPT="--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096"
PAR="--tensor-model-parallel-size ${TP} --pipeline-model-parallel-size ${PP} --sequence-parallel --use-distributed-optimizer"
ibrun -n 32 -o 0 apptainer exec --nv --bind $WORK:/w $SCRATCH/megatron.sif \
    python /opt/Megatron-LM/pretrain_gpt.py $GPT $PAR --micro-batch-size 2 --global-batch-size 512 --bf16 \
    --recompute-granularity selective --lr 1e-4 --train-iters 1000 --mock-data --tokenizer-type NullTokenizer --vocab-size 50256
