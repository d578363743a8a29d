#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job that says everything and fits passes without a word.
. "${0%/*}/lib.sh"

run sbatch -H $node $full job.sh
accepted
silent
same "$out" "Submitted batch job $id"
