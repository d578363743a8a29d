#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gres=gpu:4
cat <<YML > fft.yml
base_model: meta-llama/Llama-3.1-8B
sequence_len: 4096
sample_packing: true
gradient_accumulation_steps: ${GAS:-2}
micro_batch_size: 1
optimizer: adamw_torch_fused
bf16: true
fsdp:
  - full_shard
  - auto_wrap
fsdp_config:
  fsdp_offload_params: false
  fsdp_activation_checkpointing: true
YML
accelerate launch --num_processes=4 -m axolotl.cli.train fft.yml --sequence_len 2048
