#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An unknown model is refused with the names that are near.
. "${0%/*}/lib.sh"

run sbatch -H $node --p4d-model=llama14b --p4d-tp=8 job.sh
refused P4D007 spank
says "llama13b"
