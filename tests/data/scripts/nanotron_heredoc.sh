#!/bin/bash
#SBATCH --job-name=smol
#SBATCH --nodes=8
#SBATCH --gres=gpu:8
#SBATCH --exclusive
TP=2 DP=$(( SLURM_JOB_NUM_NODES * 8 / 2 ))
tee nano.yaml >/dev/null <<EOF
model:
  dtype: bfloat16
  model_config:
    hidden_size: 3072
    intermediate_size: 8192
    num_attention_heads: 24
    num_hidden_layers: 28
    num_key_value_heads: 8
    vocab_size: 128256
optimizer:
  zero_stage: 1
parallelism:
  dp: $DP
  pp: 1
  tp: $TP
tokens:
  batch_accumulation_per_replica: 4
  micro_batch_size: 2
  sequence_length: 4096
EOF
export CUDA_DEVICE_MAX_CONNECTIONS=1
srun bash -c "torchrun --nproc_per_node 8 --nnodes $SLURM_JOB_NUM_NODES --rdzv_backend c10d \
    --rdzv_endpoint \$(scontrol show hostnames \$SLURM_JOB_NODELIST | head -1):29500 run_train.py --config-file nano.yaml"
