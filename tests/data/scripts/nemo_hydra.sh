#!/bin/bash
#SBATCH -N 2
#SBATCH --gpus-per-node=8
srun python /opt/NeMo/examples/nlp/language_modeling/megatron_gpt_pretraining.py --config-path=conf --config-name=gpt \
  trainer.devices=8 trainer.num_nodes=2 trainer.precision=bf16 \
  model.micro_batch_size=1 model.global_batch_size=128 \
  model.tensor_model_parallel_size=4 model.pipeline_model_parallel_size=2 ++model.sequence_parallel=True \
  model.num_layers=32 model.hidden_size=4096 model.num_attention_heads=32 model.encoder_seq_length=4096
