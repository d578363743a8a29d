#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What p4d costs where jobs are submitted, against a Slurm without any plugin: wall time of sbatch, and submissions per
# second of slurmctld. Two private clusters run side by side and take turns, new ones for each figure. Plugins are in one
# directory with Slurm's, as they are installed. Prints ratios; never fails by the clock.
# Run from the build directory; PLUGINS is the directory of the two plugins.
set -eu
SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
cluster=$SOURCE/tests/cluster/cluster.sh
PATH=$PWD:$PATH

dir=$(mktemp -d "$("$cluster" home)/p4d.XXXXXX")
chmod 755 "$dir" # munged wants its socket to be reachable
trap '"$cluster" stop "$dir/with"; "$cluster" stop "$dir/without"; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
with=$dir/with/etc/slurm.conf
without=$dir/without/etc/slurm.conf

export XDG_CACHE_HOME="$dir/cache" # of a user who has rehearsed nothing: else every script is read

# The files themselves: a link is another look-up for each.
mkdir "$dir/plugins" "$dir/own"
cp "$("$cluster" system-plugins)"/*.so "$dir/own"
cp "$dir/own"/*.so "$PLUGINS/p4d.so" "$PLUGINS/libp4d-client.so" "$PLUGINS/libp4d-json.so" "$PLUGINS/libp4d-reader.so" "$PLUGINS/job_submit_p4d.so" "$dir/plugins"

new_clusters()
{
	"$cluster" stop "$dir/with"
	"$cluster" stop "$dir/without"
	"$cluster" start --no-nodes --plugins="$dir/plugins" --plugin-dir="$dir/plugins" "$dir/with"
	"$cluster" start --no-nodes --plugin-dir="$dir/own" "$dir/without"
}

# compare WHAT OPTION...: sbatch of a job with these options, with p4d installed, and of the job without them, without
# p4d
compare()
{
	echo "sbatch of a job $1, 200 each (1: with p4d, 2: without)"
	shift
	new_clusters
	# shellcheck disable=SC2086 # a list of words
	interleave 200 "SLURM_CONF=$with" sbatch $job "$@" $script -- "SLURM_CONF=$without" sbatch $job $script
}
job="-H -o /dev/null -N1 --gpus-per-node=8" script="--wrap true"
compare "with --p4d-model=llama13b --p4d-tp=8, passed" --p4d-model=llama13b --p4d-tp=8
compare "whose layout p4d searches" --p4d-model=llama13b
compare "without p4d options"
script=$dir/simulate.sh
cat >"$script" <<'END'
#!/bin/bash
#SBATCH --job-name=lattice
#SBATCH --ntasks-per-node=8
set -euo pipefail
module purge
module load gcc/13 openmpi/5 fftw
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
SIZE=${1:-512}
STEPS=$((SIZE * 40))
INPUT=$HOME/lattice/input-$SIZE.dat
SCRATCH=/scratch/$USER/$SLURM_JOB_ID
ARGS=(--size "$SIZE" --steps "$STEPS" --input "$INPUT")
mkdir -p "$SCRATCH"
if [ -f "$SCRATCH/restart.h5" ]; then
	ARGS+=(--restart "$SCRATCH/restart.h5")
fi
echo "running on $(hostname) with $SLURM_NTASKS tasks"
for beta in 5.7 5.9 6.1; do
	srun --cpu-bind=cores ./lattice "${ARGS[@]}" --beta "$beta" --output "$SCRATCH/out-$beta.h5"
done
python analyse.py --input "$SCRATCH" --plot
END
compare "of a script without a training, without p4d options"

# rate CONF [OPTION]: seconds of a thousand
rate()
{
	conf=$1
	shift
	SLURM_CONF=$conf submit --clients=4 --count=1000 --gpus=8 "$@" | sed -n 's/.*, \([0-9.]*\) s$/\1/p'
}

# rates WHAT [OPTION]
rates()
{
	echo "slurmctld, four clients, jobs $1, 1000 each in 7 turns"
	shift
	new_clusters
	for _ in 1 2 3 4 5 6 7; do
		echo "$(rate "$with" "$@") $(rate "$without" "$@")"
	done | awk '
		function median(v,    i, j, t) {
			for (i = 2; i <= NR; i++)
				for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
			return v[(NR + 1) / 2]
		}
		{ a[NR] = 1000 / $1; b[NR] = 1000 / $2 }
		END {
			x = median(a); y = median(b)
			printf "with p4d %.0f/s, without %.0f/s, ratio %.3f; best %.0f/s and %.0f/s\n", x, y, x / y, a[NR], b[NR]
		}'
}
plan=$(p4d plan --env --model=llama13b --gpu=h100 --tp=8 --nodes=1 --gpus-per-node=8 |
	sed -n "s/^export P4D_PLAN='\(.*\)'$/\1/p")
rates "with a plan" --env="P4D_PLAN=$plan"
rates "without"
