#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The program that a script's own file stands for: the user names it by an option or a comment, the site in p4d.conf.
# slurmctld, which alone sees a script from a pipe, finds the same one.
. "${0%/*}/lib.sh"

conf=$CLUSTER/etc/p4d.conf
site() # site LINE: of the whole site
{
	sed "s|^mode = enforce|&\nscripts = judge\n$1|" "$CLUSTER/p4d.conf.good" >"$conf.new"
	put_site "$conf.new"
}
cat >own.sh <<'END'
#!/bin/bash
#SBATCH -N1 --gpus-per-node=8
torchrun --nproc_per_node 8 my/train.py --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 1 \
	--max_seq_length 2048 --bf16 --mine 3
END
sed '2a # p4d: program=trl' own.sh >comment.sh
sed '2a # p4d: program=trl finetune=lora lora-rank=16' own.sh >lora.sh
sed '2a # p4d: program=tlr' own.sh >wrong.sh

site ''
run sbatch -H own.sh
accepted
says "p4d: [P4D117] p4d does not know the program train.py"
# it would be refused so
says "; with --p4d-program=trainer the job would need 80.2 of 79.1 GiB (101 %)"
same "$(fix)" "p4d rehearse own.sh"
sed 's/Llama-3.1-8B/Llama-3.2-1B/' own.sh >small.sh
run sbatch -H small.sh
accepted
same "$(fix)" "--p4d-program=trainer"
run sbatch -H --p4d-program=trainer small.sh
accepted
# also of the tasks of an array
sed 's/--max_seq_length 2048/--max_seq_length ${lengths[$SLURM_ARRAY_TASK_ID]}/; 2a lengths=(1024 2048)' small.sh >tasks.sh
run sbatch -H --array=0-1 tasks.sh
accepted
says "p4d: fix: for array task "
contains "$(fix)" "--p4d-program=trainer"
run sbatch -H --p4d-program=trl own.sh
refused P4D013 spank
run sbatch -H --p4d-program=trl --p4d-finetune=lora own.sh
accepted
contains "$(job "$id" AdminComment)" "finetune=lora@u"
run sbatch -H --p4d-program=megatron own.sh
accepted
says P4D117
run sbatch -H --p4d-program=trlx own.sh
refused P4D005 spank
run sbatch -H comment.sh
refused P4D013 spank
run sh -c 'cat comment.sh | sbatch -H'
refused P4D012 slurmctld
run sbatch -H lora.sh
accepted
silent
run sh -c 'cat lora.sh | sbatch -H'
accepted
silent
run sbatch -H wrong.sh
accepted
says "[P4D005] wrong.sh:3: program=tlr: not one of"
does_not_say error

site 'program "my/train.py" { is = trl }'
run sbatch -H own.sh
refused P4D013 spank
run sh -c 'cat own.sh | sbatch -H'
refused P4D012 slurmctld
run sbatch -H lora.sh
accepted
silent

# a program without a word that trainings have
cat >plain.sh <<'END'
#!/bin/bash
#SBATCH -N1 --gpus-per-node=8
torchrun --nproc_per_node 8 bin/start --num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 4096 --bf16 \
	--position-embedding-type rope --vocab-size 32000 --micro-batch-size 1 --global-batch-size 512
END
run sbatch -H plain.sh
accepted
silent
site 'program "bin/start" { is = megatron }'
run sbatch -H plain.sh
refused P4D012 spank
# a name without a slash needs no quotes
site 'program start { is = megatron }'
run sbatch -H plain.sh
refused P4D012 spank
run sh -c 'cat plain.sh | sbatch -H'
refused P4D012 slurmctld
run sbatch -H own.sh
accepted
