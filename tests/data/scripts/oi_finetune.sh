#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
MODEL_SIZE=7B
NUM_GPUS=8
BATCH_SIZE_PER_GPU=2
TOTAL_BATCH_SIZE=128
GRADIENT_ACC_STEPS=$(($TOTAL_BATCH_SIZE/$NUM_GPUS/$BATCH_SIZE_PER_GPU))
echo "Training llama model ${MODEL_SIZE} using $NUM_GPUS GPUs, $BATCH_SIZE_PER_GPU batch size per GPU, $GRADIENT_ACC_STEPS gradient accumulation steps"

accelerate launch \
    --mixed_precision bf16 \
    --num_machines 1 \
    --num_processes $NUM_GPUS \
    --use_deepspeed \
    --deepspeed_config_file hf_ds_zero3.json \
    open_instruct/finetune.py \
    --model_name_or_path meta-llama/Llama-2-${MODEL_SIZE}-hf \
    --use_flash_attn \
    --tokenizer_name ../hf_llama2_models/${MODEL_SIZE} \
    --max_seq_length 2048 \
    --preprocessing_num_workers 64 \
    --per_device_train_batch_size $BATCH_SIZE_PER_GPU \
    --gradient_accumulation_steps $GRADIENT_ACC_STEPS \
    --learning_rate 2e-5 \
    --num_train_epochs 2 \
    --output_dir output/tulu_v1_${MODEL_SIZE}/ \
    --logging_steps 1
