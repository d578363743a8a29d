#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Malformed values are refused at once, each by name.
. "${0%/*}/lib.sh"

for value in 0 8x -1 99999999999999999999 '' 1.5; do
	run sbatch -H $node --p4d-model=llama13b --p4d-tp=$value job.sh
	refused P4D005
	says "tp"
done
run sbatch -H $node --p4d-model=llama13b --p4d-schedule=fast job.sh
refused P4D005
says "1f1b"
