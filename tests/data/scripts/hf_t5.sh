#!/bin/bash
#SBATCH -N1 --gpus-per-node=8
torchrun --nproc_per_node 8 examples/pytorch/summarization/run_summarization.py --model_name_or_path google-t5/t5-large --do_train --per_device_train_batch_size 8 --gradient_accumulation_steps 2 --bf16 --max_source_length 1024 --max_target_length 128 --source_prefix "summarize: "
