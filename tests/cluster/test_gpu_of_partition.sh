#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same job that fits on h100 is refused on the smaller a100.
. "${0%/*}/lib.sh"

run sbatch -H $node $full --p4d-micro-batch=8 --p4d-seq-len=2560 job.sh
accepted
run sbatch -H -p a100 $node $full --p4d-micro-batch=8 --p4d-seq-len=2560 job.sh
refused P4D012
says a100
