#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gres=gpu:8
ZERO=${ZERO:-2}
MICRO=2
GPUS=8
cat > ds.json <<JSON
{
  "train_batch_size": $((MICRO * GPUS * 4)),
  "gradient_accumulation_steps": 4,
  "optimizer": { "type": "AdamW", "params": { "lr": 1e-4 } },
  "bf16": { "enabled": true },
  "zero_optimization": {
    "stage": $ZERO,
    "offload_optimizer": { "device": "cpu" },
    "reduce_bucket_size": $BUCKET
  }
}
JSON
deepspeed --num_gpus=$GPUS pretrain_own.py --arch custom --deepspeed --deepspeed_config ds.json
