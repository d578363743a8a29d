#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mode = warn: the refusal is printed, and the job accepted.
. "${0%/*}/lib.sh"

run sbatch -H -p warn $node $toobig job.sh
accepted
says "p4d: [P4D013]"
