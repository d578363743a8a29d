#!/bin/bash
#SBATCH -N 1 --gpus-per-node=4 --time=2:00:00
srun --ntasks=1 deepspeed --num_gpus 4 --module openrlhf.cli.train_sft \
	--model.model_name_or_path Qwen/Qwen2.5-14B --data.dataset /data/sft.jsonl --data.max_len 8192 \
	--train.micro_batch_size 2 --train.batch_size 64 --optim adam --adam.lr 2e-5 \
	--ds.zero_stage 2 --ds.param_dtype bf16 --ds.attn_implementation flash_attention_2 --ds.use_liger_kernel \
	--ds.lora.rank 32 --ds.lora.alpha 64 --ds.lora.target_modules q_proj k_proj v_proj o_proj \
	--model.gradient_checkpointing_enable --ckpt.output_dir ./out
