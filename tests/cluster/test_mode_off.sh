#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mode = off: p4d prints nothing and refuses nothing.
. "${0%/*}/lib.sh"

run sbatch -H -p off $node $toobig job.sh
accepted
silent
