#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
# sizes of a run, one a line
while IFS='=' read -r key value; do
	[[ -z $key || $key == \#* ]] && continue
	export "$key=$value"
done <<EOF
# 13B
LAYERS=40
HIDDEN=5120

SEQ=4096
EOF
{
	read -r TP
	read -r PP
} < <(printf '%s\n' 4 2)
until [[ -n $MBS ]]; do
	read -r MBS
done <<<"2"
srun --ntasks-per-node=1 bash -c "torchrun --nnodes \$SLURM_NNODES --nproc-per-node 8 pretrain_gpt.py \
	--num-layers $LAYERS --hidden-size $HIDDEN --num-attention-heads 40 --seq-length ${SEQ:-2048} \
	--max-position-embeddings ${SEQ:-2048} --micro-batch-size $MBS --global-batch-size 256 \
	--tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP --bf16"
