#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
mkdir -p run
{
  echo "base_model: NousResearch/Llama-2-7b-hf"
  echo "sequence_len: 4096"
} > run/c.yml
cat >> run/c.yml <<EOF
micro_batch_size: ${MBS:-2}
gradient_accumulation_steps: 1
EOF
printf '%s: %s\n' optimizer adamw_bnb_8bit bf16 auto gradient_checkpointing true >> run/c.yml
tee -a run/c.yml >/dev/null <<'EOF'
flash_attention: true
sample_packing: true
EOF
cp run/c.yml run/final.yml
sed -i -e 's/^sequence_len:.*/sequence_len: 8192/' -e '/flash_attention/d' run/final.yml
accelerate launch -m axolotl.cli.train run/final.yml
