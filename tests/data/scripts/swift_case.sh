#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=8
set -a; . ./swift_case.env; set +a
METHOD=${METHOD:-lora}
case $METHOD in
  full) tune=() ;;
  lora|qlora)
    tune=(--train_type lora --lora_rank "$RANK" --target_modules all-linear)
    [ $METHOD = qlora ] && tune+=(--quant_bits 4 --quant_method bnb)
    ;;
esac
NPROC_PER_NODE=8 swift sft --model $MODEL_ID "${tune[@]}" --torch_dtype bfloat16 --max_length $MAXLEN \
  --per_device_train_batch_size $BATCH --gradient_accumulation_steps $(( 128 / (BATCH * 8) )) \
  --attn_impl flash_attn --dataset 'AI-ModelScope/alpaca-gpt4-data-en#500'
