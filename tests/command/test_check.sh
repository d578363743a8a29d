#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d check: the script is found and read as sbatch does it, and the guard's answer becomes text and status.
. "${0%/*}/lib.sh"
check="p4d check --conf p4d.conf"

exits 0 $check --p4d-tp=8 job.sh
prints "p4d: would pass: llama13b on 1 node of 8 x h100-80gb, tp=8"
says "[P4D110]"
refused P4D013 $check --p4d-model=llama2-70b job.sh
prints "would be refused"
says "p4d: fix: --nodes="
refused P4D020 $check --p4d-tp=3 job.sh
# no candidate was complete, and all were too large: the message is about the user's values
refused P4D029 $check -p strict --p4d-model=llama2-7b --gpus-per-node=3 --p4d-tp=1 --p4d-cp=1 --p4d-pp=1 --p4d-schedule=v-half job.sh
exits 7 $check --p4d-model=nosuch job.sh
exits 5 $check --p4d-tp=8x job.sh
says "--p4d-tp=8x"

# modes and exemptions
exits 0 $check -p debug --p4d-model=llama2-70b job.sh
prints "mode = observe; mode = enforce would refuse it" "[P4D013]"
silent
exits 0 $check -A boss --p4d-model=llama2-70b job.sh
prints "exempt"

# jobs without p4d options
printf '#!/bin/sh\n#SBATCH --gpus-per-node=2\n' >plain.sh
exits 0 $check plain.sh
prints "no p4d options"
silent
refused P4D043 $check -p strict plain.sh

# the environment takes precedence over the script, and the command line over both
SBATCH_P4D_TP=4
export SBATCH_P4D_TP
exits 0 $check job.sh
prints "tp=4"
exits 0 $check --p4d-tp=2 job.sh
prints "tp=2"
# in a job that does not use p4d the variable has no effect
exits 0 $check plain.sh
prints "no p4d options"
unset SBATCH_P4D_TP
exits 0 $check --p4d-tp=4 --p4d-tp=2 job.sh
prints "tp=2"

# where a script comes from
exits 0 $check <job.sh
prints "llama13b"
mkdir there
sed 's/llama13b/llama7b/' job.sh >there/other.sh
exits 0 $check --chdir=there other.sh
prints "llama7b"
cp there/other.sh bin/in_path.sh
exits 0 $check in_path.sh argument --with-dashes
prints "llama7b"
exits 0 $check -p h100 -N1 --gpus-per-node=8 --p4d-model=llama7b --wrap=true
prints "llama7b"
exits 1 $check --wrap=true job.sh
exits 3 $check nosuch.sh
says "nosuch.sh: No such file"
exits 3 $check there
says "not a regular file"
mkfifo pipe
refused P4D003 $check ./pipe
refused P4D001 $check --bogus job.sh
says "--bogus"
exits 1 $check --tp=8 job.sh
says "fix: --p4d-tp=8"
printf '#!/bin/sh\n#SBATCH --p4d-bogus\n' >bad.sh
refused P4D001 $check bad.sh
says "line 2"
printf 'true\n' >bad.sh
exits 1 $check bad.sh
says "#!"

# heterogeneous jobs: each component is judged, and the worst verdict decides
exits 13 $check : -N1 --gpus-per-node=8 -p h100 --p4d-model=llama2-70b job.sh
prints "0: p4d: would pass" "0: p4d: would also fit" "1: p4d: would be refused"
says "1: p4d: [P4D013]"
cat >het.sh <<'JOB'
#!/bin/sh
#SBATCH -p h100 -N1 --gpus-per-node=8 --p4d-model=llama13b
#SBATCH hetjob
#SBATCH -p h100 -N1 --gpus-per-node=8
true
JOB
exits 0 $check het.sh
prints "0: p4d: would pass: llama13b" "1: p4d: would pass: the job has no p4d options"
# if the script has more components than the command line, the command line's last options hold for the rest; --mem,
# unlike -N, does so for later ones, too
exits 13 $check --p4d-model=llama2-70b het.sh
prints "0: p4d: would be refused: llama2-70b" "1: p4d: would be refused: llama2-70b"
exits 33 $check --mem=1G : -p h100 -N1 --gpus-per-node=8 --p4d-model=llama13b het.sh
says "1: p4d: [P4D033]"
exits 0 $check --p4d-model=llama2-70b : -A boss job.sh
# sbatch takes fewer nodes than requested if there are fewer tasks
for nodes in -N2 -N1-2; do
	exits 0 $check "$nodes" -n1 --gpus-per-node=8 --p4d-framework=megatron --p4d-model=llama13b --wrap 'pretrain_gpt.py $P4D_MEGATRON_ARGS'
	prints "on 1 node of 8"
done
refused P4D013 $check -N1 -n1 --gpus-per-node=8 --p4d-framework=megatron --p4d-model=llama3-70b --wrap 'pretrain_gpt.py $P4D_MEGATRON_ARGS'
says "fix: --nodes=3 --ntasks=3 --gpus-per-node=8"

# the breakdown
exits 0 $check --p4d-verbose job.sh
prints "optimizer" "Peak: stage 0"

# an option of another SPANK plugin of the site: only the site's sbatch knows it; p4d's own options are known
printf '%s\n' '#!/bin/sh' '#SBATCH -p h100 -N 1 --gpus-per-node=8' '#SBATCH --quotatype=reserved' '#SBATCH --p4d-model=llama13b' 'srun train' >foreign.sh
exits 0 $check foreign.sh
prints "would pass: llama13b" "p4d does not know --quotatype of the #SBATCH lines; sbatch takes it if another plugin of the site has it"
exits 0 $check --json foreign.sh
prints '"about":"options"'
sed 's/=reserved/ reserved --tenant a/' foreign.sh >foreigns.sh
exits 0 $check foreigns.sh
prints "would pass: llama13b" "p4d does not know --quotatype and 1 other of the #SBATCH lines; sbatch takes them"
case $out in *nearest*) fail "it is no misspelling" ;; esac
sed 's/quotatype=reserved/gpu-per-node=8/' foreign.sh >misspelled.sh
exits 0 $check misspelled.sh
prints "p4d does not know --gpu-per-node of" "nearest: --gpus-per-node"
# Unknown options on the command line need --skip-unknown, for all components; a next word that begins with "-" is not
# the option's value.
refused P4D001 $check --tenant=a foreign.sh
exits 0 $check --skip-unknown --tenant=a --reserved -- foreign.sh
prints "would pass: llama13b" "p4d does not know --tenant and 2 others; sbatch takes them"
exits 0 $check --skip-unknown -N1 --tenant=a : -N1 --tenant=b -- foreign.sh
refused P4D001 $check --tenant=a --skip-unknown foreign.sh
refused P4D001 $check --skip-unknown --p4d-tenant=a foreign.sh
sed 's/quotatype/p4d-quota/' foreign.sh >own.sh
exits 1 $check own.sh
says "line 3 of the batch script: unknown option --p4d-quota"
exits 1 $check --quotatype=reserved job.sh
says "unknown option --quotatype"

# common mistakes that sbatch does not report, and other resources that would also fit: advice, whatever the verdict
cat >late.sh <<'JOB'
#!/bin/sh
#SBATCH -p h100 -N 2 --gpus-per-node=8 --p4d-model=llama3-8b --requeue --mem-update=20@10
srun python pretrain_gpt.py $P4D_MEGATRON_ARGS
#SBATCH --time=1
JOB
printf '#!/bin/sh\ncase $* in *%%M*--partition=h100*) echo CANCEL ;; *) exit 1 ;; esac\n' >bin/sinfo
exits 0 $check late.sh
prints "#SBATCH lines after the first command, such as line 4" "--ntasks-per-node=8" "PreemptMode of the partition is CANCEL" \
	"--mem-update=20@10 lowers the memory limit" "would also fit: 1 x 4 h100-80gb (" "or 2 x 8 a100-40gb in partition strict ("
exits 0 $check --json late.sh
prints '"about":"lines"' '"about":"tasks"' '"about":"requeue"' '"about":"memory"' '"about":"size"'
sed 's/python/torchrun/; s/--requeue.*/--ntasks-per-node=8/; /time/d' late.sh >torchrun.sh
exits 0 $check torchrun.sh
prints "--ntasks-per-node=1"
for text in '#SBATCH lines' --ntasks-per-node=8 PreemptMode --mem-update; do
	case $out in *"$text"*) fail "it said: $text" ;; esac
done
exits 0 $check -N1 --gpus-per-node=4 torchrun.sh
case $out in *' h100-80gb ('*) fail "fewer GPUs do not fit" ;; esac
# a pattern is not the name of a partition
sed 's/partition "strict"/partition "str*"/' p4d.conf >pattern.conf
exits 0 p4d check --conf pattern.conf late.sh
prints "would also fit: 1 x 4 h100-80gb ("
case $out in *'in partition'*) fail "a pattern as a partition" ;; esac
exits 13 $check --p4d-model=llama2-70b -N1 late.sh
case $out in *'would also fit'*) fail "advice on a refused job" ;; esac

# a job that is read but cannot be judged: p4d check says why, and sbatch prints nothing
cat >read.sh <<'JOB'
#!/bin/sh
#SBATCH -p nowhere -N1 --gpus-per-node=8
srun torchrun --nproc_per_node 8 run_clm.py --do_train --model_name_or_path meta-llama/Llama-3.1-8B --bf16 --block_size 4096 --per_device_train_batch_size 1
JOB
exits 0 p4d check read.sh
prints 'would pass: not checked: neither p4d.conf nor the cluster says which GPU partition `nowhere` has; name a type that `p4d gpus` lists: --gpus-per-node=TYPE:N'
[ -z "$err" ] || fail "the job hears: $err"
exits 0 p4d check --gpus-per-node=h100:8 read.sh
sed -i '/^#SBATCH/d' read.sh
exits 0 p4d check read.sh
prints "would pass: not checked: the job requests no GPU from Slurm"

# an option's value may be known only on the node: if it does not affect memory, the job is judged, with a message
cat >resume.sh <<'JOB'
#!/bin/sh
LAST=$(ls -td out/checkpoint-* | head -n 1)
[ -z "$LAST" ] || ARGS="--resume_from_checkpoint $LAST"
torchrun --nproc_per_node 1 run_clm.py --do_train --model_name_or_path meta-llama/Llama-3.1-8B --bf16 --block_size 4096 --per_device_train_batch_size 1 $ARGS
JOB
exits 0 p4d check -N1 --gpus-per-node=h100:1 resume.sh
says "[P4D012] meta-llama/Llama-3.1-8B needs " "[P4D118] p4d read the values in resume.sh:4 (run_clm.py), though p4d does not know the value of --resume_from_checkpoint (output of ls)"

# torchtitan 0.2 takes "selective" as every second layer, unless an option sets p4d's meaning
cat >titan.toml <<'TOML'
[model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 2
seq_len = 8192
[parallelism]
tensor_parallel_degree = 8
pipeline_parallel_degree = 1
[compile]
enable = true
[activation_checkpoint]
mode = "none"
TOML
printf '#!/bin/sh\nsrun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 -m torchtitan.train --job.config_file titan.toml\n' >titan.sh
exits 0 p4d check -N4 --ntasks-per-node=1 --gpus-per-node=h100:8 titan.sh
says 'titan.toml:13: mode = "selective"; titan.toml:13: add selective_ac_option = "op"'
echo 'selective_ac_option = "2"' >>titan.toml
exits 0 p4d check -N4 --ntasks-per-node=1 --gpus-per-node=h100:8 titan.sh
says 'titan.toml:14: selective_ac_option = "op"'
sed -i 's/"2"/"op"/' titan.toml
exits 0 p4d check -N4 --ntasks-per-node=1 --gpus-per-node=h100:8 titan.sh
case $err in *selective_ac_option*) fail "it is there" ;; esac

# the fix for accelerate launch has accelerate's options, and the fixed job fits
cat >zero.sh <<'JOB'
#!/bin/sh
accelerate launch --num_processes 8 --use_deepspeed --zero_stage 2 sft.py --model_name_or_path Qwen/Qwen2.5-32B --bf16 --gradient_checkpointing --per_device_train_batch_size 4 --loss_type chunked_nll --max_length 8192
JOB
exits 0 p4d check -N1 --gpus-per-node=h100:8 zero.sh
# also for the host: a job without --mem is advised to request memory
says "p4d: fix: --mem=" "G; zero.sh:2: --zero_stage 3; zero.sh:2: add --offload_optimizer_device cpu to accelerate launch"
sed -i 's/launch/launch --offload_optimizer_device cpu/; s/zero_stage 2/zero_stage 3/' zero.sh
exits 0 p4d check -N1 --gpus-per-node=h100:8 zero.sh
prints "p4d: would pass: Qwen/Qwen2.5-32B on 1 node of 8 x h100-80gb"

# the framework depends on a file that is missing; a job that does not fit gets no advice about fewer GPUs
printf '#!/bin/sh\naxolotl train nowhere.yml\n' >axolotl.sh
exits 0 p4d check -N1 --gpus-per-node=h100:8 axolotl.sh
says "was not checked: nowhere.yml cannot be read, so p4d does not know what it sets"
printf '#!/bin/sh\ntune run --nproc_per_node 8 full_finetune_distributed --config llama3_1/70B_full batch_size=8 tokenizer.max_seq_len=8192\n' >tune.sh
exits 0 p4d check -N1 --gpus-per-node=h100:8 tune.sh
says "[P4D123] tokenizer.max_seq_len 8192 (tune.sh:2) is an upper bound: the job needs " "; unvalidated: offloading"
case $out in *'would also fit'*) fail "advice on a job that does not fit" ;; esac
# the fix for torchtune has its own form: NAME=VALUE on its line
printf '#!/bin/sh\ntune run --nproc_per_node 8 full_finetune_distributed --config llama3_1/8B_full batch_size=64 tokenizer.max_seq_len=2048\n' >tune.sh
exits 0 p4d check -N1 --gpus-per-node=h100:8 tune.sh
says "p4d: fix: tune.sh:2: batch_size=16; tune.sh:2: gradient_accumulation_steps=4"
sed -i 's/batch_size=64/batch_size=16 gradient_accumulation_steps=4/' tune.sh
exits 0 p4d check -N1 --gpus-per-node=h100:8 tune.sh
prints "p4d: would pass: llama3.1-8b on 1 node of 8 x h100-80gb, tp=1 cp=1"
# torchtune 0.6 needs more than tensor_parallel_dim for its degree, ignores context_parallel_dim, and has no selective recompute
for off in False "False tensor_parallel_dim=1"; do
	printf '#!/bin/sh\ntune run --nproc_per_node 4 full_finetune_distributed --config llama3_1/8B_full batch_size=2 dataset.packed=True tokenizer.max_seq_len=8192 enable_activation_checkpointing=%s compile=True\n' "$off" >tune.sh
	exits 0 p4d check -N1 --gpus-per-node=h100:4 tune.sh
	says "p4d: fix: tune.sh:2: enable_activation_checkpointing=true"
done
sed -i 's/checkpointing=False/checkpointing=true/' tune.sh
exits 0 p4d check -N1 --gpus-per-node=h100:4 tune.sh
prints "p4d: would pass: llama3.1-8b on 1 node of 4 x h100-80gb, tp=1 cp=1"

# a program that only evaluates or predicts needs no gradients and no optimizer: nothing is reported about it
clm='torchrun --nproc_per_node 8 run_clm.py --model_name_or_path Qwen/Qwen2.5-32B --dataset_name x --per_device_train_batch_size 1 --block_size 2048'
meg='torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 80 --hidden-size 8192 --num-attention-heads 64 --seq-length 4096 --micro-batch-size 1'
meg="$meg --max-position-embeddings 4096 --global-batch-size 8 --vocab-size 32000 --tensor-model-parallel-size 8"
printf 'stage: sft\nfinetuning_type: full\nmodel_name_or_path: Qwen/Qwen2.5-32B\ncutoff_len: 2048\npacking: true\ndo_eval: true\n' >eval.yaml
for quiet in "$clm --do_eval" "$clm --do_predict" "$clm --do_train False --eval_strategy steps" "$meg --skip-train" 'llamafactory-cli train eval.yaml'; do
	printf '#!/bin/sh\n%s\n' "$quiet" >quiet.sh
	exits 0 p4d check -N1 --gpus-per-node=h100:8 quiet.sh
	silent
	prints "not checked"
	exits 0 p4d read quiet.sh
	prints "the program only evaluates or predicts"
done
# two evaluations, and one before a training, which is then judged
printf '#!/bin/sh\n%s --do_eval\n%s --do_eval --block_size 4096\n' "$clm" "$clm" >quiet.sh
exits 0 p4d check -N1 --gpus-per-node=h100:8 quiet.sh
silent
printf '#!/bin/sh\n%s --do_eval\n%s --do_train\n' "$clm" "$clm" >loud.sh
run p4d check -N1 --gpus-per-node=h100:8 loud.sh
says " of 79.1 GiB ("
# a training before an evaluation is judged, and two trainings are not
for after in "$clm --do_eval --block_size 4096" "$clm --do_predict --per_device_eval_batch_size 64" "$meg --skip-train" 'llamafactory-cli train eval.yaml'; do
	for train in "$clm --do_train" "$meg"; do
		printf '#!/bin/sh\n%s\n%s\n%s\n' "$train" "$after" "$after" >loud.sh
		run p4d check -N1 --gpus-per-node=h100:8 loud.sh
		says " of 79.1 GiB ("
		case $err in *"start a training"*) fail "it counts an evaluation" ;; esac
	done
done
printf '#!/bin/sh\n%s --do_train\n%s --do_eval\n%s --do_train --block_size 4096\n' "$clm" "$clm" "$clm" >loud.sh
run p4d check -N1 --gpus-per-node=h100:8 loud.sh
says "2 commands start a training; p4d read the command at loud.sh:2"
# these programs train only with --do_train, and a program of the user's own may train without it
for quiet in "$clm" "$clm --eval_strategy steps" 'llamafactory-cli train none.yaml'; do
	sed '/do_eval/d' eval.yaml >none.yaml
	printf '#!/bin/sh\n%s\n' "$quiet" >quiet.sh
	exits 0 p4d check -N1 --gpus-per-node=h100:8 quiet.sh
	silent
	exits 0 p4d read quiet.sh
	prints "the program trains only with --do_train"
done
printf '#!/bin/sh\n%s\n' "$clm" | sed 's/run_clm/own/' >loud.sh
run p4d check --p4d-program=trainer -N1 --gpus-per-node=h100:8 loud.sh
says " of 79.1 GiB ("
for more in '$MORE' '$(cat arguments)'; do
	printf '#!/bin/sh\n[ -f x ] && MORE=--do_train\n%s %s\n' "$clm" "$more" >loud.sh
	exits 0 p4d read loud.sh
	case $out in *"trains only"*) fail "it may have --do_train" ;; esac
done
echo 'do_train: true' >>eval.yaml
for loud in "$clm --do_train --do_eval" "$clm --do_train --do_predict" "$meg" 'llamafactory-cli train eval.yaml'; do
	printf '#!/bin/sh\n%s\n' "$loud" >loud.sh
	run p4d check -N1 --gpus-per-node=h100:8 loud.sh
	says " of 79.1 GiB ("
done

# a length that is only an upper bound refuses no job, unless memory that does not depend on it is too much; with
# packing or padding it is the length
lengths()
{
	printf '#!/bin/sh\n%s\n' "$*" >lengths.sh
}
sft="trl sft --model_name_or_path Qwen/Qwen2.5-7B --dataset_name x --per_device_train_batch_size 16 --bf16 --gradient_checkpointing --max_length 8192"
one="-N1 --gpus-per-node=h100:1"
judged="p4d check --conf judge.conf $one"
sed 's/^mode = enforce/&\nscripts = judge/' p4d.conf >judge.conf
lengths "$sft --use_peft"
exits 0 $judged lengths.sh
says "[P4D123] max_length 8192 (lengths.sh:2) is an upper bound: the job needs " "(158 %) only if a micro-batch has a sequence of this length; sequences of up to about 3904 tokens fit" \
	"p4d: fix: lengths.sh:2: --per_device_train_batch_size 4"
prints "would be submitted, but may not fit" "padding=longest"
refused P4D012 $judged --p4d-seq-len=8192 lengths.sh
# torchtune has modules and an FSDP of its own, which were not compared; its numbers advise. What the shortest sequences
# need is not more than what the full ones need.
sed 's/h100-80gb/rtx4090-24gb/' judge.conf >small.conf
lengths "tune run --nproc_per_node 4 full_finetune_distributed --config llama3_1/8B_full tokenizer.max_seq_len=2048"
exits 0 p4d check --conf small.conf -N1 --gpus-per-node=4 lengths.sh
says "llama3.1-8b needs 22.5 of 23.6 GiB" "even the shortest sequences need more than 22.5 GiB" \
	"though p4d counts torchtune's modules like the modules of another program, so the prediction is unvalidated; the job is submitted as it is"
lengths "$sft --use_peft"
refused P4D012 $judged --p4d-padding=max-length lengths.sh
refused P4D013 p4d check --conf judge.conf $one --p4d-model=llama3-8b --p4d-framework=ddp --p4d-finetune=lora --p4d-seq-len=131072 --wrap=true
exits 0 p4d check --conf judge.conf $one --p4d-model=llama3-8b --p4d-framework=ddp --p4d-finetune=lora --p4d-seq-len=131072 --p4d-padding=longest --wrap=true
says "[P4D123] seq-len 131072 is an upper bound"
lengths "$(printf '%s' "$sft --use_peft" | sed "s/8192/512/")"
exits 0 $judged lengths.sh
silent
lengths "$sft --use_peft --padding max_length"
refused P4D012 $judged lengths.sh
lengths "$sft"
refused P4D013 $judged lengths.sh
says "; even the shortest sequences need more than 120.0 GiB"
lengths "swift sft --model Qwen/Qwen2.5-7B-Instruct --train_type lora --torch_dtype bfloat16 --max_length 16384 --per_device_train_batch_size 16"
exits 0 $judged lengths.sh
says "[P4D123] max_length 16384"
sed -i 's/swift sft/swift pt/' lengths.sh
refused P4D012 $judged lengths.sh
lengths "llamafactory-cli train --do_train --model_name_or_path Qwen/Qwen2.5-7B --stage sft --finetuning_type lora --cutoff_len 8192 --per_device_train_batch_size 16 --bf16"
exits 0 $judged lengths.sh
says "[P4D123] cutoff_len 8192"
sed -i 's/stage sft/stage pt/' lengths.sh
refused P4D012 $judged lengths.sh
sed -i 's/stage pt/stage pt --packing false/' lengths.sh
exits 0 $judged lengths.sh
says "[P4D123] cutoff_len 8192"
printf 'base_model: Qwen/Qwen2.5-7B\nadapter: lora\nlora_r: 8\nlora_target_linear: true\nsequence_len: 16384\nmicro_batch_size: 16\ngradient_checkpointing: true\nbf16: true\n' >bound.yaml
lengths "axolotl train bound.yaml"
exits 0 $judged lengths.sh
says "[P4D123] sequence_len 16384 (bound.yaml:5)"
echo 'pad_to_sequence_len: true' >>bound.yaml
refused P4D012 $judged lengths.sh
# all text is cut into blocks of that length
lengths "python run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --dataset_name x --do_train --per_device_train_batch_size 4 --block_size 4096 --bf16 --output_dir x"
refused P4D012 $judged lengths.sh

# options that repeat the script have no effect; options that do not reach the program are refused, whatever trains
typed()
{
	printf '#!/bin/sh\n%s\n' "$*" >typed.sh
}
same_answer()
{
	run p4d check --conf judge.conf $one typed.sh
	alone="$status $out $err"
	run p4d check --conf judge.conf $one "$@" typed.sh
	[ "$status $out $err" = "$alone" ] || fail "with $* the answer is not: $alone"
}
# contradicts OPTIONS FIX: with the fix the answer is the script's own
contradicts()
{
	# shellcheck disable=SC2086 # options
	refused P4D046 p4d check --conf judge.conf $one $1 typed.sh
	says "p4d: fix: $2"
}
typed "python sft.py --model_name_or_path meta-llama/Llama-3.1-8B --dataset_name x --per_device_train_batch_size 2 --max_length 2048 --gradient_checkpointing --bf16 --use_peft --lora_r 16"
same_answer --p4d-framework=ddp
same_answer --p4d-model=llama3.1-8b
same_answer --p4d-framework=ddp --p4d-model=llama3.1-8b --p4d-micro-batch=2 --p4d-finetune=lora --p4d-lora-rank=16 --p4d-tp=1 --p4d-param-dtype=fp32
contradicts --p4d-model=llama3.2-1b --p4d-model=meta-llama/Llama-3.1-8B
contradicts --p4d-quant=nf4 --p4d-quant=none
contradicts --p4d-param-dtype=bf16 --p4d-param-dtype=fp32
contradicts --p4d-framework=fsdp --p4d-framework=ddp
contradicts --p4d-seq-len=4096 --p4d-seq-len=2048
exits 0 p4d check --conf judge.conf $one --p4d-seq-len=512 --p4d-vocab=128300 typed.sh
typed "python run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --dataset_name x --do_train --per_device_train_batch_size 4 --block_size 4096 --bf16 --output_dir x"
contradicts --p4d-seq-len=128 "--p4d-seq-len=4096; typed.sh:2: --per_device_train_batch_size 1"
contradicts "--p4d-finetune=lora --p4d-recompute=full" "--p4d-finetune=full; typed.sh:2: --per_device_train_batch_size 1; typed.sh:2: add --gradient_accumulation_steps 4 --gradient_checkpointing True"
sed -i 's/size 4/size 1 --gradient_accumulation_steps 4 --gradient_checkpointing True/' typed.sh
same_answer --p4d-recompute=full --p4d-finetune=full
one="-N1 --gpus-per-node=h100:8"
megatron="torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 4096 --max-position-embeddings 4096 --global-batch-size 128 --bf16 --vocab-size 32000 --micro-batch-size 1"
typed "$megatron"
same_answer --p4d-framework=megatron --p4d-tp=1 --p4d-recompute=none
contradicts --p4d-tp=8 "--p4d-tp=1; typed.sh:2: add --pipeline-model-parallel-size 8"
says "--p4d-tp=8 does not reach the program: typed.sh:2 (pretrain_gpt.py) has no --tensor-model-parallel-size and takes tp=1"
contradicts "--p4d-recompute=full --p4d-optimizer-sharding=on" "--p4d-recompute=none --p4d-optimizer-sharding=off; typed.sh:2: add --pipeline-model-parallel-size 8"
contradicts --p4d-recompute=selective "--p4d-recompute=none; typed.sh:2: add --pipeline-model-parallel-size 8"
says "has no --recompute-activations and takes recompute=none"
# as in the releases that have the script's other arguments
typed "$megatron --checkpoint-num-layers 1"
exits 46 p4d check --conf judge.conf $one --p4d-recompute=full typed.sh
says "has no --checkpoint-activations and takes recompute=none"
typed "$megatron --pipeline-model-parallel-size 8"
exits 0 p4d check --conf judge.conf $one --p4d-recompute=full --p4d-optimizer-sharding=on --p4d-recompute=none --p4d-optimizer-sharding=off typed.sh
same_answer --p4d-pp=8
# an argument beside p4d's own is one that p4d's replaces
typed "$megatron "'$P4D_MEGATRON_ARGS'
exits 0 p4d check --conf judge.conf $one --p4d-model=custom --p4d-layers=40 --p4d-hidden=5120 --p4d-ffn=20480 --p4d-heads=40 --p4d-vocab=32000 --p4d-seq-len=4096 --p4d-tp=8 typed.sh
# if nothing is known of the program, no options refuse the job
typed "deepspeed finetune.py"
exits 0 p4d check --conf judge.conf $one --p4d-framework=deepspeed --p4d-seq-len=2048 typed.sh
says "[P4D008] the job was not checked: p4d options were given without --p4d-model"
exits 0 p4d check --conf judge.conf $one --p4d-unmodelled=mine typed.sh
says "[P4D009] p4d does not model the job's program, so the job was not checked: mine"
refused P4D008 p4d check --conf judge.conf $one --p4d-tp=8 --wrap='srun p4d-train'

# an inference engine: what it would report when it starts, in the words of its own command line
printf '#!/bin/sh\nvllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 2 --max-model-len 131072\n' >serve.sh
exits 0 p4d check --gpus-per-node=h100:2 -N1 serve.sh
says "[P4D121] unvalidated: meta-llama/Llama-3.1-70B-Instruct: a sequence of 131072 tokens needs 20.0 GiB" "the job is submitted as it is"
length=$(printf '%s\n' "$err" | sed -n 's/^p4d: fix: serve.sh:2: --max-model-len \([0-9]*\)$/\1/p')
sed -i "s/131072/$length/" serve.sh
exits 0 p4d check --gpus-per-node=h100:2 -N1 serve.sh
prints "starts on 1 node of 2 x h100-80gb, 1 sequence of $length tokens at a time (unvalidated)"
[ -z "$err" ] || fail "the job hears: $err"
exits 0 p4d check --json --gpus-per-node=h100:2 -N1 serve.sh
prints "\"max_model_len\":$length" '"colocated":null'

# several models on the same GPUs: their memory, and that they were judged
cat >rl.sh <<'JOB'
#!/bin/sh
#SBATCH -N1 --gpus-per-node=h100:8
python3 -m verl.trainer.main_ppo data.max_prompt_length=512 data.max_response_length=512 \
    actor_rollout_ref.model.path=meta-llama/Llama-3.1-8B-Instruct actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.tensor_model_parallel_size=2 \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.4 algorithm.adv_estimator=gae \
    trainer.n_gpus_per_node=8 trainer.nnodes=1
JOB
exits 0 p4d check rl.sh
prints "would pass: meta-llama/Llama-3.1-8B-Instruct, reinforcement learning on 1 node of 8 x h100-80gb, " \
	" of 79.1 GiB while it trains, " " while it generates (unvalidated)"
[ -z "$err" ] || fail "the job hears: $err"
exits 0 p4d check --json rl.sh
prints '"colocated":{' '"serving":null'
sed -i 's/8B/70B/' rl.sh
exits 0 p4d check rl.sh
prints "would pass with a warning: meta-llama/Llama-3.1-70B-Instruct, reinforcement learning on"
says "[P4D121] unvalidated: meta-llama/Llama-3.1-70B-Instruct needs " "[P4D118] p4d read the values in rl.sh:3 (verl.trainer.main_ppo)"
printf '#!/bin/sh\naccelerate launch --num_processes 8 --use_fsdp --fsdp_version 2 -m trl.scripts.dpo --model_name_or_path Qwen/Qwen2.5-7B --bf16 --max_length 2048 --per_device_train_batch_size 1 --gradient_checkpointing\n' >dpo.sh
exits 0 p4d check -N1 --gpus-per-node=h100:8 dpo.sh
prints "would pass: Qwen/Qwen2.5-7B, preference training on 1 node of 8 x h100-80gb, "
# pairs are as long as the longest of their micro-batch: max_length is only a bound, unless even short ones do not fit
sed -i 's/2048/32768/; s/batch_size 1/batch_size 8/' dpo.sh
exits 0 p4d check -N1 --gpus-per-node=h100:8 dpo.sh
says "[P4D121] unvalidated: Qwen/Qwen2.5-7B needs " ", if the sequences of a micro-batch have the longest length"
exits 0 p4d check -N1 --gpus-per-node=h100:8 --p4d-seq-len=32768 dpo.sh
says "[P4D121] unvalidated: Qwen/Qwen2.5-7B needs "
case $err in *"longest length"*) fail "the length is typed: $err" ;; esac
sed -i 's/7B/72B/' dpo.sh
exits 0 p4d check -N1 --gpus-per-node=h100:8 dpo.sh
says "[P4D121] unvalidated: Qwen/Qwen2.5-72B needs "
case $err in *"longest length"*) fail "no length fits: $err" ;; esac

# one process on one GPU, without a launcher: the batch is known
printf '#!/bin/sh\n#SBATCH --gres=gpu:h100:1\npython sft.py --model_name_or_path mistralai/Mistral-7B-v0.1 --dataset_name x --max_length 4096 --per_device_train_batch_size 8 --use_peft --lora_r 64 --load_in_4bit --bf16\n' >one.sh
exits 0 p4d check one.sh
prints "would pass: mistralai/Mistral-7B-v0.1 on 1 node of 1 x h100-80gb, tp=1 cp=1 pp=1 dp=1 micro-batch=8, "
sed -i 's/h100:1/h100:2/' one.sh
exits 0 p4d check one.sh
says "p4d cannot tell global-batch"

# logits of a long sequence: the fix that costs nothing, as an option of the program; a larger evaluation micro-batch
# gets a message
cat >zero.sh <<'JOB'
#!/bin/sh
#SBATCH -N2 --gpus-per-node=h100:8 --ntasks-per-node=1
source /nowhere/venv/bin/activate
. /nowhere/site.sh
cat >zero.json <<EOF
{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3}}
EOF
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 trl/scripts/sft.py --deepspeed zero.json \
	--model_name_or_path Qwen/Qwen3-32B --dataset_name x --eval_strategy steps --max_length 32768 --padding max_length --bf16 --gradient_checkpointing \
	--per_device_train_batch_size 2 --per_device_eval_batch_size 8 --gradient_accumulation_steps 4
JOB
# TRL before 1.4 makes all logits
sed -i "s|/nowhere/venv|$PWD/nowhere/venv|" zero.sh
mkdir -p nowhere/venv/bin nowhere/venv/lib/python3.12/site-packages/trl/trainer
: >nowhere/venv/bin/activate
echo 'class SFTConfig' >nowhere/venv/lib/python3.12/site-packages/trl/trainer/sft_config.py
exits 0 p4d check zero.sh
says "[P4D013] Qwen/Qwen3-32B needs" "without more GPUs: --p4d-chunked-loss=on, " \
	"in evaluation (eval-micro-batch=8) with" \
	"p4d read the values in zero.sh:8 (sft.py), though /nowhere/site.sh cannot be read, so p4d does not know what it sets; the job is submitted as it is" \
	"fix: zero.sh:10: --per_device_train_batch_size 1; zero.sh:10: --per_device_eval_batch_size 1; zero.sh:10: --gradient_accumulation_steps 8; zero.sh:8: add --use_liger_kernel"
sed -i 's/--per_device_train_batch_size 2/ --use_liger_kernel --per_device_train_batch_size 1/; s/steps 4/steps 8/; s/eval_batch_size 8/eval_batch_size 1/' zero.sh
exits 0 p4d check zero.sh
case $err in *P4D013* | *evaluation*) fail "the fix was pasted" ;; esac
prints "would pass with a warning: Qwen/Qwen3-32B on 2 nodes"
# an unknown bucket has the default size, and a message says so
sed '/nowhere/d; s/"stage": 3/"stage": 2, "reduce_bucket_size": $BUCKET/' zero.sh >bucket.sh
exits 0 p4d check bucket.sh
says "Qwen/Qwen3-32B needs" "p4d read the values in bucket.sh:6 (sft.py), though \$BUCKET is not set; the job is submitted as it is"
# FSDP behaves the same; a script that does not evaluate has no evaluation
sed 's/--deepspeed zero.json/--fsdp full_shard/; s/eval_batch_size 1/eval_batch_size 8/' zero.sh >sharded.sh
exits 0 p4d check sharded.sh
prints "eval-micro-batch=8 (sharded.sh:10)"
says "sharded.sh:10: --per_device_eval_batch_size 1"
# evaluation is not modelled with modules that differ from the script's
run p4d check --p4d-model-code=torchtitan sharded.sh
says "p4d checked only training, not evaluation with micro-batches of 8 (sharded.sh:10)"
sed -i 's/--eval_strategy steps//' sharded.sh
exits 0 p4d check sharded.sh
case $err in *evaluation* | *eval_batch*) fail "it does not evaluate" ;; esac

# models with experts are judged by torchtitan, transformers' modules with FSDP, and DeepSpeed
cp "$P4D_TEST_SRCDIR"/tests/data/scripts/* .
for of in "titan_moe qwen3-30b-a3b" "hf_moe_lora Mixtral-8x7B" "ds_moe OLMoE-1B-7B"; do
	exits 0 $check -p h100 "${of% *}.sh"
	prints "p4d: would pass: " "${of#* }" " of 79.1 GiB"
done
sed 's/mode full/mode none/; s/seq_len 4096/seq_len 16384/' titan_moe.sh >large.sh
exits 0 $check -p h100 large.sh
says "p4d: [P4D012] qwen3-30b-a3b needs " "p4d: fix: large.sh:10: --parallelism.data_parallel_shard_degree=2; large.sh:9: add --parallelism.context_parallel_degree=16 --training.global_batch_size=64"
sed -i '9s/torchtitan.train/& --parallelism.context_parallel_degree=16 --training.global_batch_size=64/; 10s/degree=*[ ]*[-0-9]*/degree=2/' large.sh
exits 0 $check -p h100 large.sh
prints "p4d: would pass: qwen3-30b-a3b on 4 nodes of 8 x h100-80gb, tp=1 cp=16 pp=1 dp=2"
# experts with a pipeline, whose layers torchtitan splits with its ends counted
exits 0 $check -p h100 titan_deepseek.sh

# with fewer processes than GPUs, a job is not judged as if there were one for each, whatever option completes the
# script
printf '#!/bin/sh\n#SBATCH -p h100 -N1 --gpus-per-node=8\ntorchrun --nproc_per_node 4 run_clm.py --do_train --model_name_or_path gpt2-xl --per_device_train_batch_size 2 --block_size 1024 --bf16 --output_dir x\n' >half.sh
exits 0 $check half.sh
says "half.sh:3 (run_clm.py) was not checked: the script starts it with gpus-per-node=4, but the job has 8"
exits 0 $check --p4d-vocab=50304 half.sh
says "half.sh:3 (run_clm.py) was not checked: the script starts it with gpus-per-node=4, but the job has 8"

# adapters that p4d does not model refuse no job
printf '#!/bin/sh\n#SBATCH -p h100 -N1 --gpus-per-node=1\nswift sft --model Qwen/Qwen2.5-1.5B --tuner_type lora --target_modules all-linear lm_head --torch_dtype bfloat16 --dataset d --max_length 1024\n' >head.sh
exits 0 $check head.sh
says "[P4D009] head.sh:3 (swift sft) was not checked: lora-targets: p4d knows no linear layer named 'lm_head'"

# on a laptop: no cluster, no p4d.conf
unset SLURM_CONF
train="run_clm.py --do_train --model_name_or_path Qwen/Qwen2.5-0.5B --per_device_train_batch_size 1 --block_size 2048 --bf16"
printf '#!/bin/sh\n#SBATCH --gpus-per-node=4\ntorchrun --nproc-per-node 4 %s\n' "$train" >laptop.sh
printf '#!/bin/sh\ntorchrun --nnodes 2 --nproc-per-node 4 %s\n' "$train" >bare.sh
exits 0 p4d check --gpu h100 laptop.sh
prints "on 1 node of 4 x h100-80gb"
exits 0 p4d check --gres=gpu:a100-80gb:4 laptop.sh
prints "on 1 node of 4 x a100-80gb"
exits 0 p4d check --gpus-per-node=a100-80gb:4 laptop.sh
prints "on 1 node of 4 x a100-80gb"
# without a request for GPUs, the GPUs on which the script starts processes
exits 0 p4d check --gpu h100 bare.sh
prints "on 2 nodes of 4 x h100-80gb"
exits 0 p4d check --gpus=h100:8 -N2 bare.sh
prints "on 2 nodes of 4 x h100-80gb"
exits 0 p4d check --gpus=h100:16 --p4d-model=llama13b --wrap=true
prints "on 2 nodes of 8 x h100-80gb"
exits 10 p4d check --gpu h1000 --p4d-model=llama13b laptop.sh
refused P4D001 p4d check --p4d-gpu=h100 laptop.sh
says "there is no option --p4d-gpu" "p4d check --gpu=h100"
printf '#!/bin/sh\n#SBATCH --gpu=h100\ntrue\n' >gpu.sh
refused P4D001 p4d check gpu.sh
says "--gpu is an option of \`p4d check\`"

# a training that is not checked, whose weights alone do not fit: 30.5e9 parameters, experts over two GPUs
swift="megatron sft --model Qwen/Qwen3-30B-A3B --train_type lora --lora_rank 8 --expert_model_parallel_size"
swift_end="--micro_batch_size 1 --global_batch_size 8 --max_length 2048"
printf '#!/bin/sh\n#SBATCH --gpus-per-node=8\nNPROC_PER_NODE=8 %s 2 %s\n' "$swift" "$swift_end" >weights.sh
exits 0 p4d check --gpu rtx4090 weights.sh
says "adapters with Megatron-Core are not modelled" "[P4D012] the weights of Qwen/Qwen3-30B-A3B alone need 29.9 GiB"
exits 0 p4d check --gpu h100 weights.sh
case $err in *P4D012*) fail "they fit" ;; esac
printf '#!/bin/sh\n#SBATCH --gpus-per-node=8\nNPROC_PER_NODE=8 %s 8 %s\n' "$swift" "$swift_end" >weights.sh
exits 0 p4d check --gpu rtx4090 weights.sh
case $err in *P4D012*) fail "an eighth of the experts fits" ;; esac
printf '#!/bin/sh\n#SBATCH --gpus-per-node=8\nNPROC_PER_NODE=8 %s $EP %s\n' "$swift" "$swift_end" >weights.sh
exits 0 p4d check --gpu rtx4090 weights.sh
case $err in *P4D012*) fail "the sharding is not known" ;; esac

# the same for PyTorch's frameworks: only the length is unknown
cat >judging.conf <<'EOF'
mode = enforce
scripts = judge
partition "h100" { gpu = "h100-80gb" gpus_per_node = 8 default = true }
version = 1
EOF
weigh() # PROGRAM AND ARGUMENTS: a job with 8 GPUs
{
	printf '#!/bin/sh\n#SBATCH -N1 --gpus-per-node=8\n%s --per_device_train_batch_size 1 --bf16\n' "$1" >weights.sh
}
factory="llamafactory-cli train --stage sft --do_train --cutoff_len \$LEN --model_name_or_path"
weigh "$factory meta-llama/Llama-3.1-8B --finetuning_type full"
exits 12 p4d check --conf judging.conf weights.sh
says "[P4D012] weights, gradients and optimizer states of meta-llama/Llama-3.1-8B alone need 149.6 GiB on each GPU" \
	"DeepSpeed (--p4d-framework=deepspeed --p4d-zero-stage=2, 36.8 GiB)" "p4d cannot tell seq-len"
weigh "$factory meta-llama/Llama-3.1-70B --finetuning_type lora"
exits 12 p4d check --conf judging.conf weights.sh
says "[P4D012] the weights of meta-llama/Llama-3.1-70B alone need 133.3 GiB on each GPU"
sed 's/^version/allow_override = true\n&/' judging.conf >allowing.conf
exits 0 p4d check --conf allowing.conf --p4d-override="for a test" weights.sh
says "[P4D012] the weights of meta-llama/Llama-3.1-70B alone need 133.3 GiB on each GPU" "overridden: for a test"
sed 's/^version/allow_override = false\n&/' judging.conf >forbidding.conf
exits 12 p4d check --conf forbidding.conf --p4d-override="for a test" weights.sh
says "--p4d-override is not allowed for this job"
sed 's/judge$/advise/' judging.conf >advising.conf
exits 0 p4d check --conf advising.conf weights.sh
says "[P4D012] the weights of meta-llama/Llama-3.1-70B alone need 133.3 GiB on each GPU"
# vision and language: the text part alone, whose weights may be frozen
weigh "$factory Qwen/Qwen2.5-VL-72B-Instruct --finetuning_type full"
exits 12 p4d check --conf judging.conf weights.sh
says "[P4D012] the weights of the text part of Qwen/Qwen2.5-VL-72B-Instruct alone need 137.4 GiB on each GPU"
# not modelled: its weights alone are known
weigh "torchrun --nproc_per_node 8 run_clm.py --do_train --block_size 2048 --model_name_or_path databricks/dbrx-base"
exits 0 p4d check --conf judging.conf weights.sh
says "[P4D009]" "[P4D012] the weights of databricks/dbrx-base alone need 245.1 GiB on each GPU in 16 bits"
# other unknown options may be what makes the job fit
light() # PROGRAM AND ARGUMENTS
{
	weigh "$1"
	exits 0 p4d check --conf judging.conf weights.sh
	case $err in *P4D012*) fail "$1 may fit" ;; esac
}
light "$factory meta-llama/Llama-3.1-8B --finetuning_type lora"
light "$factory meta-llama/Llama-3.1-70B --finetuning_type lora --quantization_bit 4"
light "$factory meta-llama/Llama-3.1-70B --finetuning_type lora --quantization_bit \$BITS"
light "$factory meta-llama/Llama-3.1-70B --finetuning_type lora --deepspeed away.json"
light "$factory meta-llama/Llama-3.1-70B --finetuning_type \$METHOD"
light "$factory meta-llama/Llama-3.1-8B --finetuning_type full \$MORE"
# one process on all GPUs shares the model between them
light "swift sft --model meta-llama/Llama-3.1-70B-Instruct --train_type lora --max_length \$LEN"
light "torchrun --nproc_per_node 8 mine.py --do_train --block_size \$LEN --model_name_or_path meta-llama/Llama-3.1-70B"
light "torchrun --nproc_per_node 8 run_clm.py --do_train --block_size 2048 --model_name_or_path databricks/dbrx-base --deepspeed away.json"

# a launcher without the job's nodes starts on one of them, or on each one separately
spread() # PROGRAM AND ARGUMENTS
{
	printf '#!/bin/sh\n#SBATCH -N2 --gpus-per-node=8 --ntasks-per-node=1\n%s --per_device_train_batch_size 1 --bf16\n' "$1" >spread.sh
}
factory="llamafactory-cli train --stage sft --do_train --cutoff_len 2048 --model_name_or_path meta-llama/Llama-3.1-8B --finetuning_type lora"
clm="run_clm.py --do_train --block_size 2048 --gradient_checkpointing --model_name_or_path meta-llama/Llama-3.2-1B"
for alone in "srun $factory" "$factory" "srun torchrun --nproc_per_node 8 $clm"; do
	spread "$alone"
	exits 0 p4d check --conf judging.conf spread.sh
	says "was not checked: the program starts on one node, but the job has 2 nodes" "fix: --nodes=1 --gpus-per-node=8"
	exits 0 p4d check --conf judging.conf --nodes=1 --gpus-per-node=8 spread.sh
	prints "would pass"
done
for both in "NNODES=2 srun $factory" "srun torchrun --nnodes 2 --nproc_per_node 8 $clm"; do
	spread "$both"
	exits 0 p4d check --conf judging.conf spread.sh
	prints "would pass" "on 2 nodes of 8"
done
# a fix with which the job does not fit is not offered
spread "srun torchrun --nproc_per_node 8 $(echo "$clm" | sed 's/3.2-1B/3.1-70B/')"
exits 0 p4d check --conf judging.conf spread.sh
case $err in *"fix:"*) fail "it does not fit on one node" ;; esac

# a MIG instance, and a partition that has larger ones
cat >mig.conf <<'EOF'
mode = enforce
partition "m" { gpu = {"h100-3g.40gb", "h100-80gb"} gpus_per_node = 4 default = true }
partition "o" { gpu = "h100-3g.40gb" gpus_per_node = 4 }
version = 1
EOF
slice="--p4d-model=llama3-8b --p4d-framework=ddp --p4d-micro-batch=1 --p4d-seq-len=2048 --wrap=true"
exits 13 p4d check --conf mig.conf -p o -N1 --gres=gpu:h100-3g.40gb:1 $slice
says "without more GPUs: LoRA (--p4d-finetune=lora, 20.2 GiB)"
case $err in *"fix:"*) fail "LoRA is another training" ;; esac
exits 13 p4d check --conf mig.conf -N1 --gres=gpu:h100-3g.40gb:1 $slice
says "without more GPUs: LoRA (--p4d-finetune=lora, 20.2 GiB)" "fix: --nodes=1 --gres=gpu:h100-80gb:1"
exits 0 p4d check --conf mig.conf --nodes=1 --gres=gpu:h100-80gb:1 $slice
# without a type the job may get either
exits 13 p4d check --conf mig.conf -N1 --gpus-per-node=1 $slice
says "fix: --nodes=1 --gpus-per-node=h100-80gb:1"
exits 0 p4d check --conf mig.conf --nodes=1 --gpus-per-node=h100-80gb:1 $slice
# two MIG instances do not count as two GPUs; whole GPUs do
exits 37 p4d check --conf mig.conf -N1 --gres=gpu:h100-3g.40gb:4 --p4d-model=llama3-8b --p4d-framework=fsdp --p4d-micro-batch=1 --p4d-seq-len=2048 --p4d-recompute=full --wrap=true
says "fix: --nodes=1 --gres=gpu:h100-80gb:4"
exits 0 p4d check --conf mig.conf -N1 --gres=gpu:h100-80gb:4 --p4d-model=llama3-8b --p4d-framework=fsdp --p4d-micro-batch=1 --p4d-seq-len=2048 --p4d-recompute=full --wrap=true

# many here-documents without an end take no time
{ printf '#!/bin/sh\n' && yes 'a <<E' | head -170000; } >late.sh
exits 0 timeout 10 $check late.sh

# further options of the program are also named for a job that fits; sbatch prints no message
printf '%s\n' '#!/bin/sh' '#SBATCH -N1 --gpus-per-node=h100:8 --ntasks-per-node=8' "$megatron --tensor-model-parallel-size 8 \$NO_SUCH_ARGS" >besides.sh
exits 0 p4d check besides.sh
silent
prints "would pass: custom" 'Not known: $NO_SUCH_ARGS is not set'
exits 0 p4d check --json besides.sh
prints '"not_known":"$NO_SUCH_ARGS is not set"'
sed -i 's/ $NO_SUCH_ARGS//' besides.sh
exits 0 p4d check besides.sh
case $out in *"Not known"*) fail "all is known" ;; esac

# what is missing for the batch is the number of processes, if the program takes it from a variable
printf '%s\n' '#!/bin/sh' '#SBATCH -N1 --gpus-per-node=h100:8' 'swift sft --model Qwen/Qwen3-8B --train_type full --dataset d.jsonl --torch_dtype bfloat16 \' \
	'	--per_device_train_batch_size 1 --gradient_accumulation_steps 1 --max_length 2048 --deepspeed zero3' >processes.sh
exits 0 p4d check processes.sh
says "cannot tell global-batch (NPROC_PER_NODE does not say how many processes start on a node)"
case $(fix) in *global-batch*) fail "a batch does not say how many processes start" ;; esac
sed 's/^swift/NPROC_PER_NODE=8 &/' processes.sh >told.sh
exits 0 p4d check told.sh
prints "would pass: Qwen/Qwen3-8B on 1 node of 8 x h100-80gb"

# Megatron-LM's unfused attention has its own dropout, on by default, which --hidden-dropout does not change
cat >dropouts.sh <<'JOB'
#!/bin/sh
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 8192 \
	--max-position-embeddings 8192 --micro-batch-size 1 --global-batch-size 8 --bf16 --tensor-model-parallel-size 2 \
	--vocab-size 50257 --tokenizer-type NullTokenizer --use-distributed-optimizer --attention-backend unfused DROPOUT
JOB
drops()
{
	sed "s/DROPOUT/$1/" dropouts.sh >"$2.sh"
}
drops "" both
drops "--hidden-dropout 0" attention
drops "--hidden-dropout 0 --attention-dropout 0.05" share
drops "--attention-dropout 0" hidden
drops "--hidden-dropout 0 --attention-dropout 0" neither
one="p4d check --conf judge.conf -p h100 -N1 --gpus-per-node=8"
for script in both attention share; do
	refused P4D012 $one $script.sh
done
says "needs 80.2 of 79.1 GiB"
exits 0 p4d read attention.sh
prints "attention-dropout"
exits 0 $one hidden.sh
silent
prints "43.1 of 79.1 GiB"
exits 0 $one neither.sh
silent
prints "42.3 of 79.1 GiB"
# other kernels hold no mask: an unknown dropout does not matter
drops '--attention-dropout "$(share)"' unknown
exits 0 $one unknown.sh
says "P4D117" "attention-dropout"
sed 's/unfused/flash/' unknown.sh >flash.sh
exits 0 $one flash.sh
silent

# --strict: a warning also fails, and so does a job that is not checked
printf '#!/bin/sh\n#SBATCH --gpus-per-node=1\npython train.py --batch 8\n' >own.sh
exits 0 p4d check --gpu h100 own.sh
exits 117 p4d check --strict --gpu h100 own.sh
exits 117 p4d check --strict --conf judge.conf -p h100 unknown.sh
exits 0 p4d check --strict --conf judge.conf -p h100 -N1 --gpus-per-node=8 flash.sh
exits 12 p4d check --strict --conf judge.conf -p h100 -N1 --gpus-per-node=8 both.sh
printf '#!/bin/sh\n#SBATCH --strict\n' >own.sh
refused P4D001 p4d check own.sh

# a note before the refusal does not change the exit status
run p4d check --gpu l4 -N1 --gpus-per-node=1 --p4d-model=Qwen/Qwen2.5-VL-7B-Instruct --p4d-framework=ddp --wrap='run $P4D_HF_ARGS'
says "[P4D120]" "[P4D01"
[ "$status" = 12 ] || [ "$status" = 13 ] || fail "exit status"

# what enforce would do with a script also depends on scripts
sed 's/^mode = .*/mode = observe/; s/^\( *\)mode = .*/\1mode = observe/; s/scripts = judge/scripts = advise/' judge.conf >observed.conf
exits 0 p4d check --conf observed.conf -p h100 -N1 --gpus-per-node=8 both.sh
prints "mode = enforce and scripts = judge would refuse it"

# options after the script's name are the script's
printf '#!/bin/sh\n#SBATCH -p h100 -N1 --gpus-per-node=8\ntrue\n' >after.sh
exits 0 p4d check after.sh --p4d-model=llama13b
says "--p4d-model=llama13b is an argument of the script" "fix: p4d check --p4d-model=llama13b after.sh"

# a path to a model is from the directory that the program starts in, not from that of p4d
mkdir -p model run/model
model() # HIDDEN FFN LAYERS
{
	printf '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": %s, "intermediate_size": %s, "num_attention_heads": 32, "num_key_value_heads": 4, "num_hidden_layers": %s, "vocab_size": 32000}\n' "$@"
}
model 8192 28672 80 >model/config.json
model 2048 5632 22 >run/model/config.json
started() # WHERE PATH
{
	printf '#!/bin/sh\n%s\ntrl sft --model_name_or_path %s --max_length 1024 --packing --bf16 --per_device_train_batch_size 1 --dataset_name x\n' \
		"$1" "$2" >placed.sh
	run p4d check --conf judge.conf -p h100 -N1 --gpus-per-node=1 placed.sh
}
started "cd run" ./model
[ "$status" = 0 ] || fail "exit status"
prints "model=$PWD/run/model (placed.sh:3)"
started "cd run" ../model
prints "may not fit" "model=$PWD/run/../model (placed.sh:3)"
started 'cd "$(cat where)"' ./model
[ "$status" = 0 ] || fail "exit status"
says "p4d does not know the directory of ./model"
