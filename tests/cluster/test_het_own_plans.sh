#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each het component can have a plan of its own.
. "${0%/*}/lib.sh"

run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 : $node --p4d-model=llama7b --p4d-tp=2 job.sh
accepted
contains "$(scontrol -o show job "$id" | grep HetJobOffset=0)" "model=llama13b@u:tp=8@u"
contains "$(scontrol -o show job "$id" | grep HetJobOffset=1)" "model=llama7b@u:tp=2@u"
