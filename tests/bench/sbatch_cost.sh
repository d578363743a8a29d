#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What p4d costs where jobs are submitted, against a Slurm without any plugin: wall time of sbatch, and submissions per
# second of slurmctld. Two private clusters run side by side and take turns. Prints ratios; never fails by the clock.
# Run from the build directory; PLUGINS is the directory of the two plugins.
set -eu
SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
cluster=$SOURCE/tests/cluster/cluster.sh
PATH=$PWD:$PATH

dir=$(mktemp -d "$("$cluster" home)/p4d.XXXXXX")
chmod 755 "$dir" # munged wants its socket to be reachable
trap '"$cluster" stop "$dir/with"; "$cluster" stop "$dir/without"; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
"$cluster" start --no-nodes --plugins="$PLUGINS" "$dir/with"
"$cluster" start --no-nodes "$dir/without"
with=$dir/with/etc/slurm.conf
without=$dir/without/etc/slurm.conf

job="-H -o /dev/null -N1 --gpus-per-node=8 --wrap true"
echo "sbatch --p4d-model=llama13b --p4d-tp=8, passed, 200 each (1: with p4d, 2: without)"
# shellcheck disable=SC2086 # lists of words
interleave 200 "SLURM_CONF=$with" sbatch $job --p4d-model=llama13b --p4d-tp=8 -- "SLURM_CONF=$without" sbatch $job
echo "sbatch of a job whose layout p4d searches, 200 each (1: with p4d, 2: without)"
# shellcheck disable=SC2086
interleave 200 "SLURM_CONF=$with" sbatch $job --p4d-model=llama13b -- "SLURM_CONF=$without" sbatch $job
echo "sbatch of a job without p4d options, 200 each (1: with p4d, 2: without)"
# shellcheck disable=SC2086
interleave 200 "SLURM_CONF=$with" sbatch $job -- "SLURM_CONF=$without" sbatch $job

plan=$(p4d plan --env --model=llama13b --gpu=h100 --tp=8 --nodes=1 --gpus-per-node=8 |
	sed -n "s/^export P4D_PLAN='\(.*\)'$/\1/p")
rate() # CONF
{
	SLURM_CONF=$1 submit --clients=4 --count=1000 --gpus=8 --env="P4D_PLAN=$plan" | sed -n 's/.*, \([0-9.]*\) s$/\1/p'
}
echo "slurmctld, four clients, jobs with a plan, 1000 each in 7 turns"
for _ in 1 2 3 4 5 6 7; do
	echo "$(rate "$with") $(rate "$without")"
done | awk '
	function median(v,    i, j, t) {
		for (i = 2; i <= NR; i++)
			for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
		return v[(NR + 1) / 2]
	}
	{ a[NR] = 1000 / $1; b[NR] = 1000 / $2 }
	END {
		x = median(a); y = median(b)
		printf "with p4d %.0f/s, without %.0f/s, ratio %.3f\n", x, y, x / y
	}'
