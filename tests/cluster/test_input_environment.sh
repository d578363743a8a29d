#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SBATCH_P4D_TP replaces --p4d-tp, and an option overrides it; a job that is not p4d's does not notice it.
. "${0%/*}/lib.sh"

export SBATCH_P4D_MODEL=llama13b SBATCH_P4D_TP=4
run sbatch -H $node job.sh
accepted
contains "$(job "$id" AdminComment)" ":tp=4@u:"
run sbatch -H $node --p4d-tp=8 job.sh
accepted
contains "$(job "$id" AdminComment)" ":tp=8@u:"
SBATCH_P4D_TP=3
run sbatch -H $node job.sh
refused P4D020 spank
SBATCH_P4D_TP=eight
run sbatch -H $node job.sh
refused P4D005 spank
says "SBATCH_P4D_TP"

# no GPUs, or no model: not p4d's
run sbatch -H -N1 job.sh
accepted
silent
SBATCH_P4D_TP=4
run sbatch -H -N1 job.sh
accepted
silent
same "$(job "$id" AdminComment)" ""
unset SBATCH_P4D_MODEL
run sbatch -H $node job.sh
accepted
silent
# the same for srun, and for its steps in a job, whatever that is
unset SBATCH_P4D_TP
export SLURM_P4D_FRAMEWORK=megatron SLURM_P4D_TP=3
run srun -N1 -n1 true
accepted
silent
run sbatch $node --p4d-model=llama13b --p4d-tp=8 -o "$work/steps" --wrap "srun -n1 sh -c 'echo tp=\$P4D_TP'"
accepted
finished "$id"
same "$(cat steps)" "tp=8"
SLURM_P4D_MODEL=llama13b
export SLURM_P4D_MODEL
run srun -N1 --gpus-per-node=8 -n1 true
refused P4D020
says "--p4d-tp"
