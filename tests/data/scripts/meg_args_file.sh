#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
# one argument per line, # for comments
mapfile -t LINES < meg_args.txt
ARGS=()
for line in "${LINES[@]}"; do
  [[ -z "$line" || "$line" == \#* ]] && continue
  ARGS+=($line)
done
torchrun --nproc-per-node gpu pretrain_gpt.py "${ARGS[@]}" $(cat meg_more.txt) $(<meg_last.txt)
