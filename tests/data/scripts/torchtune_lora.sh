#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=2
tune run --nproc_per_node 2 lora_finetune_distributed --config torchtune_lora.yaml \
    batch_size=4 model.lora_rank=16 tokenizer.max_seq_len=4096
