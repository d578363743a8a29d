#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An option given twice counts once: the last one, as sbatch does it.
. "${0%/*}/lib.sh"

run sbatch -H $node --p4d-model=llama13b --p4d-tp=2 --p4d-tp=8 job.sh
accepted
contains "$(job "$id" AdminComment)" ":tp=8@u:"
lacks "$(job "$id" AdminComment)" "tp=2@"
