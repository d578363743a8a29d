#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tp=3 divides no model's heads; the message says what does.
. "${0%/*}/lib.sh"

run sbatch -H $node --p4d-model=llama13b --p4d-tp=3 job.sh
refused P4D020 spank
says "40"
flags=$(fix)
contains "$flags" "--p4d-tp="
run sbatch -H $node --p4d-model=llama13b $flags job.sh
accepted
