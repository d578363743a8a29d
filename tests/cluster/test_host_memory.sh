#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --mem too small for a checkpoint is refused with what would do.
. "${0%/*}/lib.sh"

run sbatch -H $node $full --mem=4G job.sh
refused P4D033
contains "$(fix)" "--mem="
run sbatch -H $node $full $(fix) job.sh
accepted
