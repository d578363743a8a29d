#!/bin/bash
#SBATCH --job-name=select-lora
#SBATCH --nodes=1
#SBATCH --gpus-per-node=4
# usage: own_trainer_eval.sh MODEL NAME
model=${1:-meta-llama/Llama-2-13b-hf}
name=${2:-warmup}
source own_trainer_eval.txt

out=runs/select/$name
[[ -d $out ]] || mkdir -p "$out"

if [[ $model == *13b* ]]; then
    common="$common --fsdp 'full_shard auto_wrap'"
fi
args="$common --model_name_or_path $model --output_dir $out"
echo "$start $args"
eval "$start" "$args" 2>&1 | tee "$out/train.log"
