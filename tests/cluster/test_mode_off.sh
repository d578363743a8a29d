#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mode = off: nothing is said, nothing refused.
. "${0%/*}/lib.sh"

run sbatch -H -p off $node $toobig job.sh
accepted
silent
