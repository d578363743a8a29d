#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
# settings may come with sbatch --export
PRESET=${PRESET:-small}
if   [ "$PRESET" = small ]; then M=Qwen/Qwen2.5-0.5B B=16
elif [ "$PRESET" = large ]; then M=Qwen/Qwen2.5-32B  B=1
else exit 2
fi
[[ "$B" =~ ^[0-9]+$ ]] || { echo bad; exit 2; }
if command -v nvidia-smi >/dev/null; then N=8; else N=1; fi
torchrun --nproc_per_node $N run_clm.py --do_train --model_name_or_path $M --per_device_train_batch_size $B --block_size 1024 --bf16 1
