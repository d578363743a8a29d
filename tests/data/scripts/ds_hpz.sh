#!/bin/bash
#SBATCH --nodes=4 --gpus-per-node=8 --ntasks-per-node=1
cat > zeropp.json <<'JSON'
{
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 3,
    "reduce_bucket_size": 2e8,
    "zero_quantized_weights": false,
    "zero_hpz_partition_size": 8,
    "contiguous_gradients": false,
    "overlap_comm": false
  },
  "train_micro_batch_size_per_gpu": 1,
  "gradient_accumulation_steps": 4
}
JSON
srun torchrun --nnodes 4 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint "$(hostname):29500" \
    run_clm.py --do_train --deepspeed zeropp.json --model_name_or_path Qwen/Qwen2.5-14B --block_size 4096 \
    --per_device_train_batch_size 1 --gradient_accumulation_steps 4 --gradient_checkpointing --bf16 --output_dir out
