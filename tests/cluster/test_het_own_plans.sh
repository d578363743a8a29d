#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each het component can have a plan of its own.
. "${0%/*}/lib.sh"

run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 : $node --p4d-model=llama7b --p4d-tp=2 job.sh
accepted
contains "$(scontrol -o show job "$id" | grep HetJobOffset=0)" "model=llama13b@u:tp=8@u"
contains "$(scontrol -o show job "$id" | grep HetJobOffset=1)" "model=llama7b@u:tp=2@u"

# the script names the framework of each of them
cat >megatron.sh <<'END'
#!/bin/sh
#SBATCH -N1 --gpus-per-node=8 --p4d-model=llama13b --p4d-tp=8
#SBATCH hetjob
#SBATCH -N1 --gpus-per-node=8 --p4d-model=llama3-8b --p4d-tp=2 --p4d-cp=1 --p4d-pp=1 --p4d-micro-batch=2 --p4d-recompute=none
srun python pretrain_gpt.py $P4D_MEGATRON_ARGS
END
run sbatch -H megatron.sh
refused P4D012
run sbatch -H : --p4d-micro-batch=1 megatron.sh
accepted

# variables of the environment apply to each component: #SBATCH lines and the command line override them
run env SBATCH_P4D_MODEL=llama13b sbatch -H : $node --p4d-tp=8 job.sh
accepted
contains "$(scontrol -o show job "$id" | grep HetJobOffset=1)" "model=llama13b@u:tp=8@u"
cat >script.sh <<'END'
#!/bin/sh
#SBATCH -n1
#SBATCH hetjob
#SBATCH -N1 --gpus-per-node=8 --p4d-model=llama7b --p4d-tp=2
END
run env SBATCH_P4D_MODEL=llama13b sbatch -H script.sh
accepted
contains "$(scontrol -o show job "$id" | grep HetJobOffset=1)" "model=llama13b@u:tp=2@u"
run env SBATCH_P4D_MODEL=llama13b sbatch -H : --p4d-model=mistral-7b script.sh
accepted
contains "$(scontrol -o show job "$id" | grep HetJobOffset=1)" "model=mistral-7b@u:tp=2@u"

# a step gets the variables of the first component, wherever it runs, and a message says so if they are not its own
cat >steps.sh <<'END'
#!/bin/sh
srun --het-group=0 sh -c 'echo "first tp=$P4D_TP"'
srun --het-group=1 sh -c 'echo "second tp=$P4D_TP"'
srun --het-group=0 true : --het-group=1 true
END
a="$node --p4d-model=llama13b --p4d-tp=8"
run sbatch -o differ.out $a : $node --p4d-model=llama13b --p4d-tp=4 steps.sh
accepted
run sbatch -o same.out $a : $a steps.sh
accepted
finished "$id"
finished "$((id - 2))"
cat differ.out same.out
same "$(grep -c 'P4D044.*to another component' differ.out)" 2 "as often as a step ran on the second:"
contains "$(cat differ.out)" "second tp=8"
lacks "$(cat same.out)" P4D
