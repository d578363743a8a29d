#!/bin/bash
#SBATCH -N 1 --gpus-per-node=8
# goes on where it stood: the newest checkpoint is known on the node only
OUT=$WORK/out/llama
LAST=$(ls -td $OUT/checkpoint-* 2>/dev/null | head -n 1)
ARGS="--bf16 --gradient_checkpointing --per_device_train_batch_size 2 --block_size 4096"
if [ -n "$LAST" ]; then
  ARGS="$ARGS --resume_from_checkpoint $LAST"
fi
torchrun --nproc_per_node 8 run_clm.py --model_name_or_path meta-llama/Llama-3.1-8B $ARGS --output_dir $OUT --do_train
