#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sbatch --help lists the options.
. "${0%/*}/lib.sh"

for command in sbatch salloc srun; do
	run "$command" --help
	contains "$out" "--p4d-model=NAME|FILE"
	contains "$out" "--p4d-fix"
done
