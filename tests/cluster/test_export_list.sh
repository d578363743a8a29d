#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --export=LIST neither.
. "${0%/*}/lib.sh"

run sbatch -H --export=PATH,HOME $node --p4d-model=llama13b --p4d-tp=8 job.sh
accepted
contains "$(job "$id" AdminComment)" ":tp=8@u:"
