#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rewrite = all: p4d changes a layout that does not fit, and says so.
. "${0%/*}/lib.sh"

bad="--p4d-model=llama13b --p4d-tp=1 --p4d-pp=1 --p4d-cp=1 --p4d-optimizer-sharding=off"
run sbatch -p fixing $node $bad -o out job.sh
accepted
says "p4d: [P4D111]"
finished "$id"
run cat out
lacks "$(variable P4D_PLAN)" ":tp=1@u:pp=1@u:cp=1@u"
# the same for one job, anywhere
run sbatch -H $node $bad --p4d-fix job.sh
accepted
says "p4d: [P4D111]"
