#!/bin/bash
#SBATCH -A m0000_g
#SBATCH -C gpu&hbm80g
#SBATCH -q regular
#SBATCH -N 16
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH -c 32
#SBATCH --image=nvcr.io/nvidia/pytorch:25.04-py3

export MASTER_ADDR=$(hostname)
export MASTER_PORT=29500
# Slurm numbers the ranks; PyTorch wants other names for that.
cat > rank_env.sh <<'EOF'
export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID
export WORLD_SIZE=$SLURM_NTASKS
EOF

args=" \
  --tensor-model-parallel-size 4 \
  --pipeline-model-parallel-size 4 \
  --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \
  --seq-length 2048 --max-position-embeddings 2048 \
  --micro-batch-size 2 --global-batch-size 512 \
  --swiglu --normalization RMSNorm --disable-bias-linear \
  --use-rotary-position-embeddings --untie-embeddings-and-output-weights \
  --bf16 --use-flash-attn --sequence-parallel --use-distributed-optimizer \
  --recompute-activations \
"
srun -l shifter --module=gpu,nccl-plugin bash -c "
  source rank_env.sh
  python -u pretrain_gpt.py ${args}
"
