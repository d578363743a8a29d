#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job that cannot fit is refused with numbers and a fix; the pasted fix is accepted.
. "${0%/*}/lib.sh"

run sbatch -H $node $toobig job.sh
refused P4D013 spank
says "h100"
says "GiB"
flags=$(fix)
[ -n "$flags" ] || fail "no fix"
run sbatch -H $node $toobig $flags job.sh
accepted
