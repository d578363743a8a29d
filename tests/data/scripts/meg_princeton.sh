#!/bin/bash
#SBATCH --job-name=gpt2          # create a short name for your job
#SBATCH --nodes=1                # node count
#SBATCH --ntasks-per-node=1      # total number of tasks per node
#SBATCH --cpus-per-task=8        # cpu-cores per task
#SBATCH --mem=64G                # total memory per node
#SBATCH --gres=gpu:4             # number of gpus per node
#SBATCH --time=00:59:00          # total run time limit (HH:MM:SS)
#SBATCH --constraint=gpu80
#SBATCH --mail-type=begin

export MASTER_PORT=$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4))
export WORLD_SIZE=$(($SLURM_NNODES * $SLURM_NTASKS_PER_NODE))
echo "WORLD_SIZE="$WORLD_SIZE
module purge
module load anaconda3/2024.6
conda activate torch-env

torchrun --standalone --nnodes=1 --nproc_per_node=4 Megatron-LM/pretrain_gpt.py \
  --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 \
  --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 64 \
  --vocab-size 50257 --fp16 --hidden-dropout 0.1
