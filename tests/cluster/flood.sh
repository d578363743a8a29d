#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# flood.sh --plugins=DIR: 2,000 submissions from four clients at once, half of them to be refused, to a slurmctld with
# p4d and to one without. Prints one line for each thing that has to hold. Run from the build directory.
set -u
SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
cluster=$SOURCE/tests/cluster/cluster.sh
PATH=$PWD:$PATH
plugins=${1#--plugins=}

dir=$(mktemp -d "$("$cluster" home)/p4d.XXXXXX") || exit 1
trap '"$cluster" stop "$dir/with"; "$cluster" stop "$dir/without"; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP

# After many threads, the memory that remains is then what was kept, not what malloc and the threads' stacks hold in
# reserve: one arena, freed memory is returned, and buffers of whole requests and of the saved state do not make holes
# in the heap.
export MALLOC_ARENA_MAX=1 MALLOC_TOP_PAD_=0 MALLOC_TRIM_THRESHOLD_=0 MALLOC_MMAP_THRESHOLD_=16384
export GLIBC_TUNABLES=glibc.pthread.stack_cache_size=0
if ! "$cluster" start --no-nodes --auth=none --plugins="$plugins" "$dir/with" ||
	! "$cluster" start --no-nodes --auth=none "$dir/without"; then
	echo "FAIL  cluster/flood: no cluster"
	exit 1
fi

failed=0
check() # NAME CONDITION...
{
	name=cluster/flood/$1
	shift
	if test "$@"; then
		echo "ok    $name ($detail)"
	else
		echo "FAIL  $name ($detail)"
		failed=1
	fi
}

rss_kib() { awk '/^VmRSS/ { print $2 }' "/proc/$(cat "$dir/$1/run/slurmctld.pid")/status"; }

# flood WHERE GOOD BAD: GOOD and BAD are options of `submit`; sets $answers, $seconds, $jobs, $refusals and $growth (KiB)
flood()
{
	export SLURM_CONF="$dir/$1/etc/slurm.conf"
	# the first few make slurmctld allocate what it keeps anyway
	# shellcheck disable=SC2086
	submit --clients=4 --count=200 $2 --or $3 >/dev/null 2>&1
	before=$(rss_kib "$1")
	jobs_before=$(squeue -h | wc -l)
	# shellcheck disable=SC2086
	result=$(submit --clients=4 --count=2000 $2 --or $3 2>"$dir/messages")
	answers=${result%,*}
	seconds=${result##*, }
	jobs=$(($(squeue -h | wc -l) - jobs_before))
	# a line may have those of two clients
	refusals=$(grep -o 'p4d: \[P4D012\]' "$dir/messages" | wc -l)
	growth=$(($(rss_kib "$1") - before))
}

export SLURM_CONF="$dir/with/etc/slurm.conf"
# plan OPTION...: a complete plan for one node
plan()
{
	p4d plan --env --nodes=1 --gpus-per-node=8 "$@" | sed -n "s/^export P4D_PLAN='\(.*\)'$/\1/p"
}
plan=$(plan --model=llama13b --gpu=h100 --tp=8)
[ -n "$plan" ] || { echo "FAIL  cluster/flood: p4d made no plan"; exit 1; }

# A plan that is whole, but made for a larger GPU than the nodes have: the refusal takes a full judgement.
toobig=$(plan --model=llama2-70b --gpu=b200)
[ -n "$toobig" ] || { echo "FAIL  cluster/flood: no plan for a larger GPU"; exit 1; }

expected="1000 accepted 0 refused, 0 accepted 1000 refused"
flood with "--gpus=8 --env=P4D_PLAN=$plan" "--gpus=8 --env=P4D_PLAN=$toobig"
detail="$answers, $seconds"
check every_answer_right "$answers" = "$expected"
detail="$jobs in the queue"
check no_job_lost "$jobs" = 1000
detail="$refusals"
check every_refusal_explained "$refusals" = 1000
with=$growth

# The same jobs, with the plan stored by hand, and a refusal that is Slurm's own.
flood without "--gpus=8 --env=P4D_PLAN=$plan --admin-comment=$plan" \
	"--gpus=8 --env=P4D_PLAN=$toobig --partition=none"
detail="$answers, $seconds"
check same_without_p4d "$answers" = "$expected"
detail="$with KiB with p4d, $growth KiB without"
check memory_growth "$with" -le $((growth + 1024))

detail="slurmctld $(cat "$dir/with/run/slurmctld.pid")"
export SLURM_CONF="$dir/with/etc/slurm.conf"
check controller_alive "$(scontrol ping | grep -c 'is UP')" = 1
exit $failed
