#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Options that disagree with the plan in the environment are refused in slurmctld.
. "${0%/*}/lib.sh"

run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 job.sh
P4D_PLAN=$(job "$id" AdminComment)
export P4D_PLAN
without_spank
for name in _SLURM_SPANK_OPTION_p4d_p4d_tp SLURM_SPANK__SLURM_SPANK_OPTION_p4d_p4d_tp P4D_TP; do
	run env "$name=4" sbatch -H $node job.sh
	refused P4D041 slurmctld
done
