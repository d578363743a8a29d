#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
NGPU=8 MODULE=llama3 CONFIG=llama3_8b ./run_train.sh \
    --training.local_batch_size 2 --compile.enable --parallelism.data_parallel_replicate_degree 2 activation_checkpoint:full
