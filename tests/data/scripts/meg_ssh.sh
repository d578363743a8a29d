#!/bin/bash
#SBATCH -N 4
#SBATCH --gres=gpu:8
rank=0
for host in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    ssh -q -o StrictHostKeyChecking=no $host \
        python3 -m torch.distributed.run --nnodes 4 --nproc_per_node 8 --node_rank $rank \
            $REPO/pretrain_gpt.py --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 \
            --num-layers 48 --hidden-size 8192 --num-attention-heads 64 --ffn-hidden-size 28672 \
            --activations-checkpoint-method uniform --activations-checkpoint-num-layers 1 \
            --micro-batch-size 1 --global-batch-size 512 --seq-length 4096 --max-position-embeddings 4096 --bf16 &
    rank=$((rank + 1))
done
wait
