#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8
python examples/nlp/language_modeling/megatron_gpt_pretraining.py --multirun \
  trainer.num_nodes=2 trainer.devices=8 trainer.precision=bf16 \
  model.encoder_seq_length=4096 model.max_position_embeddings=4096 \
  model.num_layers=32 model.hidden_size=4096 model.num_attention_heads=32 model.ffn_hidden_size=11008 \
  model.micro_batch_size=1,2,4 model.global_batch_size=128 model.tensor_model_parallel_size=2,4 \
  ++model.pipeline_model_parallel_size=1 hydra.run.dir='outputs/${now:%Y-%m-%d}'
