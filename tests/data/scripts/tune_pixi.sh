#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=4
cd "$SLURM_SUBMIT_DIR" || exit
pixi run --manifest-path ./pixi.toml -e cuda tune run --nproc_per_node 4 full_finetune_distributed \
    --config llama3_1/8B_full batch_size=4 gradient_accumulation_steps=2 \
    tokenizer.max_seq_len=4096 enable_activation_checkpointing=True compile=False
