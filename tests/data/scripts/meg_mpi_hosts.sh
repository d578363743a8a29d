#!/bin/bash
#SBATCH --job-name=gpt-8b
#SBATCH --nodes=4
#SBATCH --gres=gpu:h100:8
#SBATCH --ntasks-per-node=8
module purge; module load openmpi/4.1.6 cuda/12.4
HOSTS=(gpu01 gpu02 gpu03 gpu04)
per=8
hostlist=$(IFS=,; echo "${HOSTS[*]/%/:$per}")
np=$(( ${#HOSTS[@]} * per ))
TP=4
model_args=(
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336
  --num-attention-heads 32 --group-query-attention --num-query-groups 8
  --seq-length 8192 --max-position-embeddings 8192
  --normalization RMSNorm --swiglu --disable-bias-linear
  --position-embedding-type rope --untie-embeddings-and-output-weights
)
mpirun -np "$np" --host "$hostlist" --map-by ppr:$per:node --bind-to none \
  -x LD_LIBRARY_PATH -x NCCL_DEBUG=WARN --mca btl ^openib \
  python3 -u /opt/Megatron-LM/pretrain_gpt.py "${model_args[@]}" \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size 2 --sequence-parallel \
  --micro-batch-size 1 --global-batch-size $(( np * 8 )) \
  --use-distributed-optimizer --bf16 --vocab-size 128256
