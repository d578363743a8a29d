#!/bin/bash
#SBATCH --job-name=sweep-lf
#SBATCH --nodes=1
#SBATCH --gres=gpu:4
# a template is filled in for each job, and one key of it is changed afterwards
export BASE_MODEL=Qwen/Qwen2.5-7B-Instruct BATCH=2
NOT_EXPORTED=7
run=configs/run_${SLURM_JOB_ID}.yaml
mkdir -p configs
envsubst '$BASE_MODEL ${BATCH}' <lf_template.yaml >"$run"
sed -i -e "s|^cutoff_len:.*|cutoff_len: 16384|" -e '/^# /d' "$run"
sed 's/"stage": [0-9]/"stage": 3/; s/"none"/"cpu"/g' lf_template.json >ds_zero3.json
sed -i "s/DS_FILE/ds_zero3.json/" "$run"
uv run --no-sync llamafactory-cli train "$run"
