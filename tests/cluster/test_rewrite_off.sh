#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rewrite = off: nothing is chosen for the user; what is open has its stated default.
. "${0%/*}/lib.sh"

run sbatch -H -p frozen $node --p4d-model=llama13b --p4d-tp=8 job.sh
does_not_say "[P4D110]"
run sbatch -H -p frozen $node $full job.sh
accepted
silent
