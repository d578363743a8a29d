#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=2
ulimit -s unlimited
trap 'echo caught; kill -TERM $pid' USR1
( cd /opt/work && \
  CUDA_VISIBLE_DEVICES=0,1 numactl --cpunodebind=0 --membind=0 nice -n 5 stdbuf -oL -eL timeout -k 30 3h \
  nsys profile -t cuda,nvtx -o prof --force-overwrite true \
  litgpt finetune_full EleutherAI/pythia-410m --devices 2 --train.micro_batch_size 4 --train.global_batch_size 32 \
     --train.max_seq_length 512 --precision bf16-true ) > log 2>&1 & pid=$!
wait $pid
