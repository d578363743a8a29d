#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Jobs of an exempt account are left alone.
. "${0%/*}/lib.sh"

run sbatch -H -A trusted $node $toobig job.sh
accepted
silent
run sbatch -H -A other $node $toobig job.sh
refused P4D013
