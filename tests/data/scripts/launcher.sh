#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=4
source ./cluster.env
export TP MICRO
cat > node.sh <<EOF
#!/bin/bash
export RANK=\$SLURM_PROCID
exec python train/pretrain_gpt.py --tensor-model-parallel-size $TP --micro-batch-size $MICRO "\$@"
EOF
chmod +x node.sh
srun --ntasks-per-node=4 ./node.sh --num-layers 12 --hidden-size 768 --num-attention-heads 12 --bf16
