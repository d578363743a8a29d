#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
#SBATCH --requeue
max=5
for ((try = 1; try <= max; try++)); do
    echo "attempt $try"
    if torchrun --nproc-per-node=8 --max-restarts=0 -m torchtune._cli.tune run lora_finetune_distributed --config x; then break; fi
    torchrun --standalone --nproc-per-node 8 run_clm.py --do_train --model_name_or_path gpt2-xl --block_size 1024 --per_device_train_batch_size 2 --fp16 && break
    sleep 30
done
