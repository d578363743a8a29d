#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A number of GPUs that the degrees do not divide is refused.
. "${0%/*}/lib.sh"

run sbatch -H -N1 --gpus-per-node=8 --p4d-model=llama13b --p4d-tp=4 --p4d-pp=4 job.sh
refused P4D027 spank
