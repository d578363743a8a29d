#!/bin/bash
#SBATCH --nodes=4 --ntasks-per-node=8 --gpus-per-node=8 --exclusive
srun --container-image=nvcr.io/nvidia/nemo:25.02 --container-mounts=$PWD:/ws --no-container-mount-home \
  nemo llm pretrain --yes --factory llama3_8b trainer.num_nodes=4 trainer.devices=8 \
  trainer.strategy.tensor_model_parallel_size=4 trainer.strategy.pipeline_model_parallel_size=1 \
  trainer.strategy.context_parallel_size=2 data.micro_batch_size=1 data.global_batch_size=512 data.seq_length=8192
