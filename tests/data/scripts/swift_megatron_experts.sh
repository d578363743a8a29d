#!/bin/bash
#SBATCH -N1 --gpus-per-node=8
NPROC_PER_NODE=8 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True megatron pt \
    --model moonshotai/Moonlight-16B-A3B --pipeline_model_parallel_size 2 --decoder_last_pipeline_num_layers 13 \
    --expert_model_parallel_size 4 --moe_grouped_gemm true --moe_token_dispatcher_type flex --moe_shared_expert_overlap false \
    --use_distributed_optimizer true --packing true --max_length 8192 --torch_dtype bfloat16 \
    --recompute_modules core_attn moe --attention_backend flash_3 --use_precision_aware_optimizer true --exp_avg_dtype bf16
