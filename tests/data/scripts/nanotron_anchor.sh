#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8
cat > nano.yaml <<'EOF'
defaults: &par
  dp: 4
  tp: 2
parallelism:
  <<: *par
  pp: 2
  pp_engine: 1f1b
model:
  model_config: &cfg
    hidden_size: 2048
    intermediate_size: 8192
    num_hidden_layers: 16
    num_attention_heads: 32
    num_key_value_heads: 8
    vocab_size: 128256
    max_position_embeddings: 8192
    tie_word_embeddings: true
  dtype: bfloat16
tokens:
  sequence_length: 8192
  micro_batch_size: 1
  batch_accumulation_per_replica: 16
EOF
CUDA_DEVICE_MAX_CONNECTIONS=1 srun torchrun --nproc_per_node=8 --nnodes=2 run_train.py --config-file nano.yaml
