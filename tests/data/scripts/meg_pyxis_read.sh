#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=8
#SBATCH --exclusive --mem=0
CONT=${CONT:="nvcr.io/nvidia/nemo:25.04"}
MOUNTS="/lustre:/lustre"
read -r -d '' CMD <<EOF
echo "*** starting on $SLURM_NNODES nodes ***"
cd /opt/megatron-lm
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
python -u pretrain_gpt.py \
  --tensor-model-parallel-size 8 \
  --context-parallel-size 2 \
  --cp-comm-type a2a \
  --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 \
  --num-attention-heads 64 --group-query-attention --num-query-groups 8 \
  --seq-length 16384 --micro-batch-size 1 --global-batch-size 64 \
  --vocab-size 128256 --swiglu --bf16 --log-dir /logs/\$SLURM_JOB_ID
EOF
srun --container-image="${CONT}" --container-mounts="${MOUNTS}" bash -c "${CMD}"
