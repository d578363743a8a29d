#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the script starts decides which framework's memory is judged, wherever the script comes from.
. "${0%/*}/lib.sh"

# llama3-8b with this layout fits a node with p4d-train, not with Megatron-LM
cat >megatron.sh <<'END'
#!/bin/sh
#SBATCH -N1 --gpus-per-node=8 --p4d-model=llama3-8b --p4d-tp=2 --p4d-cp=1 --p4d-pp=1 --p4d-micro-batch=2
#SBATCH --p4d-recompute=none
srun python pretrain_gpt.py $P4D_MEGATRON_ARGS
END
run sbatch -H megatron.sh
refused P4D012 spank
run sbatch -H "$work/megatron.sh" with arguments
refused P4D012 spank
run sh -c 'sbatch -H <megatron.sh'
refused P4D012 spank
# from a pipe only slurmctld sees it
run sh -c 'cat megatron.sh | sbatch -H'
refused P4D046 slurmctld
says "the script starts Megatron-LM"
run sh -c "cat megatron.sh | sbatch -H $(fix)"
refused P4D012 spank
run sbatch -H --p4d-framework=p4d megatron.sh
refused P4D046 spank
same "$(fix)" "--p4d-framework=megatron"

# nothing that only p4d-train has is chosen for Megatron-LM
sed '/^#SBATCH/d' megatron.sh >open.sh
run sbatch -H -N2 --gpus-per-node=8 --p4d-model=llama30b open.sh
accepted
comment=$(job "$id" AdminComment)
lacks "$comment" vocab-2
lacks "$comment" v-half
contains "$comment" framework=megatron
