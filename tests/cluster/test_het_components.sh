#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Options of one het component do not leak into later ones.
. "${0%/*}/lib.sh"

run sbatch -H $node --p4d-model=llama13b --p4d-tp=8 : -N1 -n1 -p a100 job.sh
accepted
contains "$(scontrol -o show job "$id" | grep HetJobOffset=0)" "AdminComment=p4d1:"
lacks "$(scontrol -o show job "$id" | grep HetJobOffset=1)" "p4d1:"
scancel "$id"
# the same layout on smaller GPUs: the message is about that component only
run sbatch -H -N1 -n1 : $node $toobig job.sh
refused P4D013
