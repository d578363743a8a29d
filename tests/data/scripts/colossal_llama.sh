#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
declare -a data=(part-0 part-1)
colossalai run --nproc_per_node 8 --hostfile hosts --master_port 30013 train.py --pretrained meta-llama/Llama-2-7b-hf \
	--dataset ${data[@]} --plugin 3d --tp 4 --pp 2 --zero_stage 1 --microbatch_size 2 --batch_size 16 \
	--max_length 4096 --mixed_precision bf16 --use_grad_checkpoint --use_flash_attn --config_file out.json
