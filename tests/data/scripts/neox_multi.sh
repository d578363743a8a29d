#!/bin/bash
#SBATCH --nodes=4 --ntasks-per-node=1 --gres=gpu:8
TRAIN_PATH=/fsx/gpt-neox
cd $SLURM_SUBMIT_DIR
cat <<YML > neox_own.yml
{
   "pipe_parallel_size": 2,
   "model_parallel_size": 4,
   "num_layers": 44,
   "hidden_size": 6144,
   "num_attention_heads": 64,
   "seq_length": 2048,
   "max_position_embeddings": 2048,
   "train_micro_batch_size_per_gpu": 4,
   "zero_optimization": { "stage": 1 },
   "precision": "fp16"
}
YML
python $TRAIN_PATH/deepy.py $TRAIN_PATH/train.py neox_own.yml --hostfile hosts neox_more.yml
