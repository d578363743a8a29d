#!/bin/bash -l
#SBATCH --partition=accelerated
#SBATCH --nodes=2
#SBATCH --gres=gpu:4
#SBATCH --ntasks-per-node=4
#SBATCH --time=08:00:00
trap 'scontrol requeue $SLURM_JOB_ID' USR1
ml purge; ml devel/cuda/12.4
cd "${SLURM_SUBMIT_DIR}" || exit 1
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
export MASTER_PORT=$(( 20000 + SLURM_JOB_ID % 10000 ))
SEQ=4096; LAYERS=24
for width in 1024 2048; do
  [ $width -lt 2048 ] && continue
  srun --unbuffered apptainer exec --nv -B $PWD:/work --pwd /work $HOME/images/mcore.sif \
    bash -c "export RANK=\$SLURM_PROCID WORLD_SIZE=\$SLURM_NTASKS LOCAL_RANK=\$SLURM_LOCALID; \
             python pretrain_gpt.py --num-layers $LAYERS --hidden-size $width --num-attention-heads $((width / 64)) \
             --seq-length $SEQ --max-position-embeddings $SEQ --micro-batch-size 2 --tensor-model-parallel-size 4 \
             --context-parallel-size 2 --fp16 --vocab-size 50304 --save ckpt_$width --master \$MASTER_ADDR:\$MASTER_PORT"
done
