#!/bin/bash
#SBATCH --gres=gpu:1
ROOT=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
source $ROOT/qlora_paged.env
[ -d peft ] || { git clone https://example.org/peft; pushd peft; pip install .; popd; }
python qlora_sft.py \
	--model_name_or_path $BASE \
	--output_dir out \
	--use_peft --lora_r $RANK --lora_target_modules q_proj v_proj \
	--load_in_4bit \
	--optim paged_adamw_32bit \
	--bf16 \
	--gradient_checkpointing \
	--per_device_train_batch_size 1 \
	--gradient_accumulation_steps 16 \
	--max_length 1024
