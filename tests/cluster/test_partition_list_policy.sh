#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A list of partitions is no way around the policy of one of them.
. "${0%/*}/lib.sh"

run sbatch -H -p off,h100 $node $toobig job.sh
refused P4D013
run sbatch -H -p warn,h100 $node $toobig job.sh
refused P4D013
run sbatch -H -p h100,strict $node job.sh
refused P4D043
