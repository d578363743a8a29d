#!/bin/bash
#SBATCH --nodes=8 --ntasks-per-node=8 --gpus-per-node=8 --exclusive
# weights of a mixture of languages, each with its shards
ROOT=/flash/projects/europa/tokenized/2024-02/merged
DATA=""
for lang in bg cs da de el en es et fi fr ga hr hu is it lt lv mt nl no pl pt; do
	DATA=${DATA}" 0.03846 $ROOT/$lang/culturax-hplt-deduplicated/merged-train.jsonl_text_document"
	DATA=${DATA}" 0.00754 $ROOT/$lang/wikipedia-20240201-cleaned-and-deduplicated/merged-train.jsonl_text_document"
	DATA=${DATA}" 0.00211 $ROOT/$lang/europarl/merged-train.jsonl"
done
GPT="--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
	--group-query-attention --num-query-groups 8 --seq-length 4096 --max-position-embeddings 4096
	--swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights"
CMD="pretrain_gpt.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --sequence-parallel \
	--micro-batch-size 1 --global-batch-size $((SLURM_JOB_NUM_NODES * 32)) --bf16 --use-distributed-optimizer \
	$GPT --data-path $DATA --split 99,1,0 --vocab-size 131072"
echo "$CMD"
srun python -u $CMD
