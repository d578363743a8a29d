#!/bin/bash
for lr in 1e-4 3e-4; do
	torchrun --standalone --nproc_per_node=2 pretrain_gpt.py --num-layers 2 --lr $lr --tensor-model-parallel-size 2
done
