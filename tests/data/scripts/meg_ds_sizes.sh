#!/bin/bash
#SBATCH -N 8 --gpus-per-node=8
# In the manner of Megatron-DeepSpeed's examples: sizes by number, degrees by what fits.
model_size=6.7
if [[ $model_size == 1.3 ]]; then
    num_layers=24; hidden_size=2048; num_attn_heads=16; global_batch_size=512
elif [[ $model_size == 6.7 ]]; then
    num_layers=32; hidden_size=4096; num_attn_heads=32; global_batch_size=1024
else
    num_layers=40; hidden_size=5120; num_attn_heads=40; global_batch_size=1024
fi
mp_size=4
pp_size=2
num_gpus_pernode=8
num_node=${SLURM_NNODES}
num_gpus=$(( ${num_gpus_pernode} * ${num_node} ))
dp_size=$(( ${num_gpus} / ${pp_size} / ${mp_size} ))
batch_size=$(( ${global_batch_size} / ${dp_size} / 16 ))
if [ $batch_size -gt 4 ]; then batch_size=4; fi
seq_len=2048
megatron_options=" \
    --override-opt_param-scheduler \
    --tensor-model-parallel-size ${mp_size} \
    --pipeline-model-parallel-size ${pp_size} \
    --micro-batch-size ${batch_size} \
    --global-batch-size ${global_batch_size} \
    --num-layers ${num_layers} \
    --hidden-size ${hidden_size} \
    --num-attention-heads ${num_attn_heads} \
    --seq-length ${seq_len} \
    --max-position-embeddings ${seq_len} \
    --hysteresis 2 \
    --fp16"
activation_checkpoint="true"
if [ "${activation_checkpoint}" = "true" ]; then
megatron_options="${megatron_options} \
    --recompute-granularity full --recompute-method uniform"
fi
srun --ntasks-per-node=8 python pretrain_gpt.py ${megatron_options} &> train.log
