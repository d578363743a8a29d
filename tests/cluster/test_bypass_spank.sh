#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Without SPANK (own SLURM_CONF), options in the environment are refused in slurmctld with the way out.
. "${0%/*}/lib.sh"

without_spank
for name in _SLURM_SPANK_OPTION_p4d_p4d_model SLURM_SPANK__SLURM_SPANK_OPTION_p4d_p4d_model; do
	run env "$name=llama13b" sbatch -H $node job.sh
	refused P4D040 slurmctld
	contains "$(fix)" "p4d plan"
done
# variables that p4d would have set do not make a job p4d's
run env P4D_TP=8 sbatch -H --export=ALL,P4D_PP=2 $node job.sh
accepted
silent
# and a job that has nothing to do with p4d passes
run sbatch -H $node job.sh
accepted
silent
