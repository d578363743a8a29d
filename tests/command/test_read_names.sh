#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Names of files in a script: words with * and ?, and ls. The values are bash's. A list of files that p4d does not
# know is unknown: it is no list of one element.
. "${0%/*}/lib.sh"

unset TP SITE
mkdir c many case tens
touch tens/1.y tens/10.y
touch c/1.y c/2.y c/4.y c/.hidden case/B.y case/a.y
i=0
while [ $i -le 1024 ]; do
	: >many/$i.y
	i=$((i + 1))
done
# tp VALUE LINE...: --tp is that after these lines, or "open": not known
tp()
{
	tp=$1
	shift
	printf '%s\n' '#!/bin/bash' '#SBATCH --gpus-per-node=8' "$@" \
		'srun python pretrain_gpt.py --tensor-model-parallel-size $TP --num-layers 40' >job.sh
	exits 0 p4d read job.sh
	case $tp in
	open) printf '%s\n' "$out" | grep -qE '^  tp +(the names of the files|output of ls|\$[a-z]+ (changes|depends))' || fail "tp is known: $*" ;;
	*) printf '%s\n' "$out" | grep -qE "^  tp +$tp +job.sh" || fail "tp is not $tp: $*" ;;
	esac
}

tp 3 'f=(c/*.y)' 'TP=${#f[@]}'
tp 4 'f=("c/"*.y)' 'b=${f[-1]##*/}' 'TP=${b%.y}'
tp 1 'f=("c/*.y" )' 'TP=${#f[@]}'
tp 1 'f=(c/\*.y)' 'TP=${#f[@]}'
tp 3 'f="c/*.y"' 'f=($f)' 'TP=${#f[@]}'
tp 3 'cd c' 'f=(*)' 'TP=${#f[@]}'
tp 3 'f=(c/?.y)' 'TP=${#f[@]}'
tp 4 'for f in c/*.y; do TP=$(basename $f .y); done'
tp 3 'i=0' 'for f in c/*.y; do ((i++)); done' 'TP=$i'
tp 3 'set -- c/*' 'TP=$#'
tp 3 'TP=$(echo c/* | wc -w)'
tp 3 'TP=$(ls c/*.y | wc -l)'
tp 2 'TP=$(ls -1 c | sed -n 2p | cut -d. -f1)'
tp 8 'let TP=2*4'
# a name that nothing matches stays as it is, but an array may get its files later
tp 1 'TP=$(echo c/*.gone | wc -w)'
tp open 'f=(c/*.gone)' 'TP=${#f[@]}'
# folders that p4d does not know, or that the script fills
tp open 'f=(/gone/*.y)' 'TP=${#f[@]}'
tp open 'f=(/gone/*.y)' 'TP=${f[1]}'
tp open 'f=(*/*.y)' 'TP=${#f[@]}'
tp open 'f=(many/*.y)' 'TP=${#f[@]}'
tp open 'set -- /gone/*' 'TP=$#'
tp open 'TP=$(ls /gone/* | wc -l)'
tp open 'TP=$(ls c/1.y c/gone | wc -l)'
tp open 'TP=$(ls c case | wc -l)'
tp open 'TP=$(ls -t c | head -n1)'
tp open 'echo x >c/9.y' 'f=(c/*.y)' 'TP=${#f[@]}'
tp open 'date >$SLURM_JOB_ID.y' 'f=(c/*.y)' 'TP=${#f[@]}'
tp open 'touch c/9.y' 'f=(c/*.y)' 'TP=${#f[@]}'
tp open 'rm c/1.y' 'f=(c/*.y)' 'TP=${#f[@]}'
tp open 'mkdir c/9.y' 'f=(c/*.y)' 'TP=${#f[@]}'
tp open 'mv c/1.y .' 'f=(c/*.y)' 'TP=${#f[@]}'
tp 3 'mkdir -p logs' 'touch log.txt' 'f=(c/*.y)' 'TP=${#f[@]}'
tp open './make_files' 'f=(c/*.y)' 'TP=${#f[@]}'
tp 3 'module load cuda' 'conda activate p4d' 'f=(c/*.y)' 'TP=${#f[@]}'
tp open 'f=(/dev/*)' 'TP=${#f[@]}'
tp open 'i=1' 'for f in */*.y; do ((i++)); done' 'TP=$i'
tp open 'count() { TP=$#; }' 'count */*.y'
# B.y is before a.y, and 1.y before 10.y, only in the C locale
tp open 'f=(case/*.y)' 'TP=${#f[@]}'
tp open 'f=(tens/*.y)' 'TP=${#f[@]}'
# sets of characters, and words that only look like them
tp 2 'f=(c/[12].y)' 'TP=${#f[@]}'
tp 2 'f=(c/[!1].y)' 'TP=${#f[@]}'
tp 2 'i=0' 'for f in c/[12].y; do ((i++)); done' 'TP=$i'
tp 2 'f=(x=[0,1] [0,1])' 'TP=${#f[@]}'
tp open 'f=(/gone/[12].y)' 'TP=${#f[@]}'
# options of the shell, and variables
tp 1 'set -f' 'f=(c/*.y)' 'TP=${#f[@]}'
tp 3 'set -o noglob' 'set +f' 'f=(c/*.y)' 'TP=${#f[@]}'
tp 1 'shopt -s nullglob' 'i=1' 'for f in c/*.gone; do ((i++)); done' 'TP=$i'
tp 1 'shopt -s nullglob' 'set -- c/*.gone 1' 'TP=$#'
tp open 'shopt -s dotglob' 'f=(c/*)' 'TP=${#f[@]}'
tp 3 '(shopt -s dotglob)' 'f=(c/*)' 'TP=${#f[@]}'
tp open 'shopt -s globstar' 'f=(c/**)' 'TP=${#f[@]}'
tp open 'GLOBIGNORE=c/1.y' 'f=(c/*.y)' 'TP=${#f[@]}'
tp 2 '(shopt -s nocasematch)' '[[ A == a ]] && TP=4 || TP=2'
tp 4 'shopt -s nocasematch' '[[ A == a ]] && TP=4 || TP=2'
# \| is a bar in extended patterns, and an alternative in basic ones
tp 2 'if grep -qE "a\|b" <<<a; then TP=4; else TP=2; fi'
tp 4 'if grep -q "a\|b" <<<a; then TP=4; else TP=2; fi'
tp 4 're="(a\|b|c)"' 'if [[ c =~ $re ]]; then TP=4; else TP=2; fi'
# xargs -r runs nothing without words
tp 2 'TP=$(printf "" | xargs -r echo 5 | wc -l)' 'TP=$((TP + 2))'
# arithmetic that refers to itself has no value; bash stops, too
printf '%s\n' '#!/bin/bash' '#SBATCH --gpus-per-node=8' 'A=(1)' "i='A[i]'" 'TP=$((A[i]))' \
	'srun python pretrain_gpt.py --tensor-model-parallel-size $TP --num-layers 40' >job.sh
exits 0 p4d read job.sh
prints 'tp                   arithmetic whose variables refer to each other'

# a program gets the word as it is, and each task of an array its own file
printf '%s\n' '#!/bin/bash' '#SBATCH --gpus-per-node=8 --nodes=1' \
	'python -m trl.scripts.sft --model_name_or_path Qwen/Qwen3-8B --dataset_name /gone/*.parquet --max_length 1024 --bf16' >job.sh
exits 0 p4d read job.sh
prints 'seq-len              1024'
for rank in 8 16; do
	printf 'model_name_or_path: Qwen/Qwen2.5-3B\nfinetuning_type: lora\nlora_rank: %s\n' $rank >c/lora$rank.yaml
done
mv c/lora8.yaml c/lora08.yaml
printf '%s\n' '#!/bin/bash' '#SBATCH --gpus-per-node=8 --nodes=1 --array=0-1' 'configs=(c/*.yaml)' \
	'llamafactory-cli train ${configs[$SLURM_ARRAY_TASK_ID]}' >job.sh
exits 0 p4d read job.sh
prints 'Array task 0: model Qwen/Qwen2.5-3B (c/lora08.yaml:1)' 'lora-rank 16 (c/lora16.yaml:3)'
