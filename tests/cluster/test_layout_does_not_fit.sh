#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A layout that does not fit, where another one does, is refused with that one.
. "${0%/*}/lib.sh"

run sbatch -H $node --p4d-model=llama13b --p4d-tp=1 --p4d-pp=1 --p4d-cp=1 --p4d-optimizer-sharding=off job.sh
refused P4D012 spank
flags=$(fix)
run sbatch -H $node --p4d-model=llama13b --p4d-optimizer-sharding=off $flags job.sh
accepted
