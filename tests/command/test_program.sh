#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The user and the site say which program a script's training command is: by an option, a comment of the script, or p4d.conf.
. "${0%/*}/lib.sh"

printf '%s\n' 'mode = enforce' 'scripts = judge' 'partition "*" { gpu = a100-80gb }' 'version = 1' >judge.conf
printf '%s\n' 'program "my/train.py" { is = trainer }' >site.conf
cat judge.conf >>site.conf
printf '%s\n' 'mode = enforce' 'scripts = advise' 'partition "*" { gpu = a100-80gb }' 'version = 1' >advise.conf
arguments='--model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 1 --max_seq_length 2048 --bf16 --mine 3'
job() # job COMMENT [COMMAND]
{
	printf '%s\n' '#!/bin/bash' '#SBATCH -p gpu -N1 --gpus-per-node=4' "$1" 'python prepare.py' \
		"${2:-torchrun --nproc_per_node 4 src/my/train.py $arguments}" 'python merge.py --to out' >job.sh
}
# holds GIB OPTION ...: the job is judged with this memory
holds()
{
	want=$1
	shift
	run p4d check "$@" job.sh
	case $out in *", $want of 79.1 GiB"*) ;; *) fail "$*: not $want GiB" ;; esac
}

# ---- an option ----
job ''
exits 0 p4d check --conf judge.conf job.sh
case $err in "p4d: [P4D117] p4d does not know the program train.py"*) ;; *) fail "an unknown program" ;; esac
says "; with --p4d-program=trainer the job would need 80.2 of 79.1 GiB (101 %)"
case $err in *"fix: --p4d"*) fail "it would be refused" ;; esac
# it may train adapters: no number of all weights
sed 's/train.py/& --lora_r 16/' job.sh >rank.sh
exits 0 p4d check --conf judge.conf rank.sh
says "p4d does not know the program train.py"
case $err in *"would need"* | *"fix: --p4d"*) fail "full finetuning is taken for granted" ;; esac
sed 's/Llama-3.1-8B/Llama-3.2-1B/' job.sh >small.sh
exits 0 p4d check --conf judge.conf small.sh
[ "$(fix)" = --p4d-program=trainer ] || fail "not the program whose arguments these are"
exits 0 p4d check --conf judge.conf --p4d-program=trainer small.sh
# --use_peft is no argument of the Trainer's examples, and all of these are TRL's
printf '#!/bin/sh\naccelerate launch --multi_gpu --num_processes 8 my_sft.py --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 2 --max_length 2048 --gradient_checkpointing --bf16 --use_peft --lora_r 16\n' >peft.sh
exits 0 p4d check --conf judge.conf -N1 --gpus-per-node=8 peft.sh
says "(its arguments are like those of trl)"
[ "$(fix)" = --p4d-program=trl ] || fail "not the program that takes --use_peft"
holds 158.7 --conf judge.conf --p4d-program=trl
holds 80.2 --conf judge.conf --p4d-program=trainer
# of TRL's methods, those that generate have --num_generations
sed 's/--max_length 2048/--num_generations 8 --max_completion_length 512 --max_prompt_length 512/' peft.sh >rl.sh
for name in my_rl grpo_x; do
	sed "s/my_sft/$name/" rl.sh >named.sh
	exits 0 p4d check --conf judge.conf -N1 --gpus-per-node=8 named.sh
	says "(its arguments are like those of trl-grpo)"
	[ "$(fix)" = --p4d-program=trl-grpo ] || fail "not the method of --num_generations"
done
exits 0 p4d check --conf judge.conf -p h100 -N1 --gpus-per-node=8 --p4d-program=trl-grpo named.sh
prints "while it generates"
sed "s/my_sft/my_rloo/" rl.sh >named.sh
exits 0 p4d check --conf judge.conf -N1 --gpus-per-node=8 named.sh
[ "$(fix)" = --p4d-program=trl-rloo ] || fail "not the method of the name"
exits 13 p4d check --conf judge.conf --p4d-program=trl job.sh
exits 5 p4d check --conf judge.conf --p4d-program=trlx job.sh
says "[P4D005] --p4d-program=trlx: p4d does not know this name; nearest: trl, trl-dpo, trl-kto"
# only the user knows what the program does without an argument; an argument of the script counts
holds 35.1 --conf judge.conf --p4d-program=trl --p4d-finetune=lora
exits 46 p4d check --conf judge.conf --p4d-program=trl --p4d-micro-batch=2 job.sh
says "--p4d-micro-batch=2 does not reach the program: job.sh:5 has --per_device_train_batch_size 1"
exits 0 p4d read --program trl job.sh
prints "job.sh: src/my/train.py (trl), started at job.sh:5"
exits 0 p4d read --program=trl-dpo job.sh
prints "workload             preference"
exits 5 p4d read --program=trlx job.sh
says "--program=trlx: p4d does not know this name"
# no program is named that could not be judged either
job '' "torchrun --nproc_per_node 4 src/my/train.py --model_name_or_path meta-llama/Llama-3.1-8B --deepspeed"
exits 0 p4d check --conf judge.conf job.sh
[ -z "$(fix)" ] || fail "a fix without a batch"
# a module, which no launcher starts; what has arguments of the program is the training
job '' "srun python -m my.train $arguments"
exits 0 p4d read --program trl job.sh
prints "my.train (trl), started at job.sh:5"
job '# p4d: program=trl' "python setup.py install; python -m pip install x; torchrun --nproc_per_node 4 other.py; python -m my.train $arguments"
exits 0 p4d read job.sh
prints "my.train (trl), started at job.sh:5"
# a program that p4d knows is not replaced by the site's
job '' "torchrun --nproc_per_node 4 -m trl.scripts.sft $arguments --use_peft"
exits 0 p4d read --program trainer job.sh
prints "(trl), started at job.sh:5"

# ---- a comment ----
job '#  p4d: program=trl finetune=lora lora-rank=16'
holds 35.4 --conf judge.conf
[ -z "$err" ] || fail "p4d speaks of what fits"
holds 35.4 --conf site.conf
holds 34.7 --conf site.conf --p4d-program=trainer
exits 0 p4d read job.sh
prints "finetune             lora           job.sh:3"
prints "global-batch         4 "
job '# p4d: program=trl finetune=lora micro-batch=4'
exits 0 p4d read job.sh
prints "micro-batch          4              job.sh:3"
prints "global-batch         16 "
# all of it, where the program has no arguments
job '# p4d: program=trl finetune=lora model=meta-llama/Llama-3.1-8B seq-len=2048 micro-batch=1 global-batch=4 precision=bf16' \
	'accelerate launch --num_processes 4 train.py'
holds 35.1 --conf judge.conf
# finetune=lora names adapters; that the weights are quantized, the script says
job '# p4d: program=trl finetune=lora' "torchrun --nproc_per_node 4 train.py $arguments --load_in_4bit"
exits 0 p4d read job.sh
prints "finetune             qlora          job.sh:3" "quant                nf4"
# the shape of the adapters is in the script, which only lacks the switch
job '# p4d: program=trl finetune=lora' "torchrun --nproc_per_node 4 train.py $arguments --lora_r 256 --lora_target_modules q_proj k_proj --lora_dropout 0.1"
exits 0 p4d read job.sh
prints "finetune             lora           job.sh:3" "lora-rank            256            job.sh:5" \
	"lora-targets         q_proj,k_proj  job.sh:5" "lora-dropout         0.1            job.sh:5"
case $out in *"Not known"*) fail "the comment settles it" ;; esac
exits 0 p4d check --conf judge.conf job.sh
prints "finetune=lora (job.sh:3), lora-rank=256 (job.sh:5)"
sed 3d job.sh >typed.sh
exits 0 p4d check --conf judge.conf --p4d-program=trl --p4d-finetune=lora typed.sh
prints "lora-rank=256 (typed.sh:4)"
exits 0 p4d read --program trl typed.sh
case $out in *"lora-rank "*) fail "nothing says that there are adapters" ;; esac
# a message for a mistake has its line, and refuses no job
for site in judge advise; do
	job '# p4d: program=trlx'
	exits 0 p4d check --conf $site.conf job.sh
	says "[P4D005] job.sh:3: program=trlx: p4d does not know this name; nearest: trl, trl-dpo, trl-kto"
	job '# p4d: program=trl finetune=lora lora-rang=8'
	exits 0 p4d check --conf $site.conf job.sh
	says "[P4D005] job.sh:3: a comment cannot set \`lora-rang\` for p4d; nearest: lora-rank"
	job '# p4d: program=trl finetune=lora lora-rank=x'
	exits 0 p4d check --conf $site.conf job.sh
	says "[P4D005] job.sh:3: lora-rank=x: not a whole number from 1 to 65536"
	job '# p4d: program=trl finetune=lora override=mine'
	exits 0 p4d check --conf $site.conf job.sh
	says "a comment cannot set \`override\` for p4d"
done

# ---- p4d.conf ----
job ''
holds 80.2 --conf site.conf
holds 158.7 --conf site.conf --p4d-program=trl
job '' "torchrun --nproc_per_node 4 your/train.py $arguments"
exits 0 p4d check --conf site.conf job.sh
says "[P4D117] p4d does not know the program train.py"
exits 0 p4d conf --conf site.conf
prints "p4d reads scripts that start my/train.py as if they started trainer."
exits 0 p4d conf --conf site.conf --json
prints '"my/train.py":"trainer"'
for case in 'is = trainr|[P4D061] bad.conf:1: program=trainr: p4d does not know this name; nearest: trainer' \
	'|[P4D061] bad.conf:1: program `my/train.py`: the key `is` is missing' \
	'mode = off|[P4D060] bad.conf:1: `mode` is not allowed in a `program` section'; do
	sed "s/is = trainer/${case%%|*}/" site.conf >bad.conf
	run p4d conf --conf bad.conf
	[ "$status" != 0 ] || fail "$case: accepted"
	says "${case#*|}"
done
