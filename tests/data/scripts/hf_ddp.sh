#!/bin/bash
#SBATCH --job-name=clm-ddp
#SBATCH --nodes=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-gpu=10
conda activate hf 2>/dev/null || true
MODEL=EleutherAI/pythia-1.4b
BATCH=8
ACCUM=$((256 / (BATCH * SLURM_GPUS_ON_NODE)))
torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE --master_port=$((29500 + RANDOM % 100)) \
  examples/pytorch/language-modeling/run_clm.py \
  --model_name_or_path $MODEL --tokenizer_name $MODEL \
  --dataset_name wikitext --dataset_config_name wikitext-103-raw-v1 \
  --per_device_train_batch_size $BATCH --per_device_eval_batch_size 4 \
  --gradient_accumulation_steps $ACCUM \
  --block_size 1024 --bf16 --do_train --do_eval \
  --optim adafactor --output_dir /tmp/$SLURM_JOB_ID
