#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A plan edited in the environment is refused in slurmctld.
. "${0%/*}/lib.sh"

run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 job.sh
plan=$(job "$id" AdminComment)
without_spank
P4D_PLAN=$(printf %s "$plan" | sed 's/:layers=[0-9]*@/:layers=4@/')
export P4D_PLAN
run sbatch -H $node job.sh
refused P4D041 slurmctld
P4D_PLAN=p4d1:rubbish
run sbatch -H $node job.sh
refused P4D042 slurmctld
