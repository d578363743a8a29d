#!/bin/bash
#SBATCH --gpus-per-node=8
read -r -d '' commands <<EOT
openrlhf.cli.train_sft \
   --max_len 4096 \
   --pretrain meta-llama/Meta-Llama-3-8B \
   --train_batch_size 256 --micro_train_batch_size 2 \
   --zero_stage 2 --bf16 --packing_samples --gradient_checkpointing
EOT
if [[ ${1} != "slurm" ]]; then
    deepspeed --module $commands
fi
