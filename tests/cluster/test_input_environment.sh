#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SBATCH_P4D_TP stands in for --p4d-tp; script line and flag win over it.
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
