#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rewrite = off: p4d searches nothing for the user; open options have their documented defaults.
. "${0%/*}/lib.sh"

run sbatch -H -p frozen $node --p4d-model=llama13b --p4d-tp=8 job.sh
accepted
contains "$(job "$id" AdminComment)" ":micro-batch=1@p:"
run sbatch -H -p h100 $node --p4d-model=llama13b job.sh
accepted
run sbatch -H -p frozen $node --p4d-model=llama13b job.sh
refused P4D012
