#!/bin/bash
#SBATCH -N 4 --gres=gpu:8 --ntasks-per-node=1
HOSTFILE=/tmp/hosts.txt
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
  echo "$node slots=8" >> $HOSTFILE
done
STAGE=3
BATCH_SIZE=1024 MICRO=4
python3 -c "print('preparing')"
cat <<JSON > ds_run.json
{
  "train_batch_size": $BATCH_SIZE,
  "train_micro_batch_size_per_gpu": $MICRO,
  "steps_per_print": 10,
  "zero_optimization": { "stage": $STAGE },
  "bf16": { "enabled": true }
}
JSON
deepspeed --hostfile $HOSTFILE --num_nodes 4 --num_gpus 8 --launcher SLURM \
  train.py --deepspeed --deepspeed_config ds_run.json --epochs 3
