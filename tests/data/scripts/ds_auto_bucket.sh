#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8 --ntasks-per-node=1
export NCCL_DEBUG=WARN
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
cat > zero3.json <<'JSON'
{
  "bf16": {"enabled": "auto"},
  "zero_optimization": {
    "stage": 3,
    "overlap_comm": true,
    "zero_hpz_partition_size": 1,
    "mics_shard_size": -1,
    "contiguous_gradients": true,
    "sub_group_size": 1e9,
    "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto",
    "stage3_gather_16bit_weights_on_model_save": true
  },
  "gradient_accumulation_steps": "auto",
  "gradient_clipping": "auto",
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto"
}
JSON
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint "$head_node:29500" \
    run_clm.py --deepspeed zero3.json --model_name_or_path Qwen/Qwen2.5-7B --dataset_name c4 --do_train \
    --block_size 4096 --per_device_train_batch_size 2 --gradient_accumulation_steps 8 --gradient_checkpointing \
    --bf16 --learning_rate 1e-5 --output_dir out
