#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# stdout of sbatch --parsable is the job id and nothing else, whatever p4d has to say.
. "${0%/*}/lib.sh"

run sbatch -H --parsable $node --p4d-model=llama13b --p4d-tp=8 job.sh
accepted
says "p4d: [P4D110]"
case $out in *[!0-9]* | '') fail "stdout is not a job id" ;; esac
run sbatch -H --parsable -Q $node $toobig job.sh
refused P4D013
same "$out" ""
