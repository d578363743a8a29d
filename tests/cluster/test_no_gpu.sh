#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A plan without GPUs is refused with the option that is missing.
. "${0%/*}/lib.sh"

run sbatch -H -N1 --p4d-model=llama13b --p4d-tp=8 job.sh
refused P4D030 spank
contains "$(fix)" "--gpus-per-node=8"
