#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --mem too small for a checkpoint is refused with what would do.
. "${0%/*}/lib.sh"

run sbatch -H $node $full --mem=4G job.sh
refused P4D033
contains "$(fix)" "--mem="
run sbatch -H $node $full $(fix) job.sh
accepted

# in the words of the job
for words in --mem-per-gpu=1G "--mem-per-cpu=1G --ntasks-per-node=8" --mem=1G; do
	run sbatch -H $node $full $words job.sh
	refused P4D033
	contains "$(fix)" "${words%%=*}="
	run sbatch -H $node $full $words $(fix) job.sh
	accepted
done
