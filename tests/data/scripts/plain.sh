#!/bin/bash
#SBATCH --ntasks=4
echo "pretrain_gpt.py --num-layers 4"
for f in *.csv; do
	python3 analyse.py --tensor 3 "$f" &
done
wait
