#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sbatch --test-only judges too.
. "${0%/*}/lib.sh"

run sbatch --test-only $node --p4d-model=llama13b --p4d-tp=8 job.sh
accepted
run sbatch --test-only $node $toobig job.sh
refused P4D013
