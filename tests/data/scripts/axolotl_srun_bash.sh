#!/bin/bash
#SBATCH -N 2
#SBATCH --gpus-per-node=4
#SBATCH --ntasks-per-node=1
export HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export GPN=4
CFG=configs/lora-8b.yaml
mkdir -p configs
cat <<YAML > $CFG
base_model: meta-llama/Llama-3.1-8B
sequence_len: 4096
micro_batch_size: 2
gradient_accumulation_steps: 4
adapter: lora
lora_r: 16
lora_dropout: 0
lora_target_modules: [q_proj, k_proj, v_proj, o_proj]
bf16: true
gradient_checkpointing: true
optimizer: adamw_torch
flash_attention: true
YAML
srun --label bash -c "
  source /opt/venv/bin/activate
  torchrun --nnodes \$SLURM_NNODES --nproc_per_node $GPN --node_rank \$SLURM_NODEID \
     --rdzv_id $SLURM_JOB_ID --rdzv_backend c10d --rdzv_endpoint \$HEAD:29500 \
     -m axolotl.cli.train $CFG
"
