#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gres=gpu:h100:8
#SBATCH --container-image=axolotlai/axolotl:main-latest
cat > sft.yml <<YAML
base_model: NousResearch/Meta-Llama-3.1-8B
load_in_8bit: true
load_in_4bit: false
adapter: lora
lora_r: 64
lora_alpha: 16
lora_target_modules: [q_proj, v_proj]
sequence_len: ${SEQ:-16384}
sample_packing: true
gradient_accumulation_steps: 2
micro_batch_size: 1
optimizer: adamw_torch_fused
bf16: true
gradient_checkpointing: true
flash_attention: true
output_dir: /scratch/${SLURM_JOB_ID}
YAML
accelerate launch -m axolotl.cli.train sft.yml
