#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d plans the nodes and GPUs that Slurm then gives. Where it says that they are not fixed, Slurm gives them unevenly.
. "${0%/*}/lib.sh"

# What p4d plans: "NODESxGPUS", or a code.
planned()
{
	p4d check "$@" --p4d-model=llama3.2-1b job.sh 2>&1 |
		sed -n 's/.* on \([0-9]*\) nodes* of \([0-9]*\) x .*/\1x\2/p; s/.*\[\(P4D03[0-9]\)\].*/\1/p' | head -1
}

# What Slurm gives: "NODESxGPUS", "uneven", or nothing when it refuses.
given()
{
	# shellcheck disable=SC2016 # for the shell of the job
	(without_spank && timeout 20 salloc -Q -I5 "$@" sh -c 'scontrol -d -o show job $SLURM_JOB_ID' 2>&1) | tr ' ' '\n' |
		sed -n 's/^NumNodes=/nodes /p; s/^GRES=gpu:[a-z0-9]*:\([0-9]*\)(.*/gpus \1/p' | awk '
		/^nodes/ { nodes = $2 }
		/^gpus/ { if (gpus && gpus != $2) uneven = 1; gpus = $2 }
		END { if (nodes) print uneven ? "uneven" : nodes "x" gpus }'
}

printf '# both\nh1\nh2\n' >hosts
compare() # with lines of options on standard input
{
	while read -r request; do
		case $request in '' | '#'*) continue ;; esac
		# shellcheck disable=SC2086 # a list of words
		{
			plan=$(planned $request)
			real=$(given $request)
		}
		echo "$request: planned $plan, given $real"
		# 24.11 and 26.05 refuse some of these themselves, and spread -n2 -c64 --gpus=8 evenly
		case $(sinfo -V):$plan:$real in
		*" 22."*) ;;
		*: | *:P4D035:*) continue ;;
		esac
		case $plan in
		P4D035) same "$real" uneven "$request: refused, but Slurm gives" ;;
		*) same "$plan" "$real" "$request: planned" ;;
		esac
	done
}
compare <<'END'
--gpus-per-node=8
--gpus-per-node=h100:4
--gres=gpu:8
--gres=gpu:2,gpu:4
-N2 --gres=gpu:4
-N2 --gpus-per-node=8
--gpus=4
--gpus=8
--gpus=16
--gpus=12
--gpus=9
-N2 --gpus=2
-N2 --gpus=8
-N2 --gpus=16
-N2 --gpus=14
--gpus=16 --gpus-per-node=8
--gpus=8 --gpus-per-node=4
--gpus=8 -n8
-n8 --ntasks-per-node=4 --gpus=8
-n8 --ntasks-per-node=8 --gpus=16
--ntasks-per-node=8 --gpus=16
-n8 --ntasks-per-node=4 --gpus-per-node=8
-n8 --ntasks-per-node=8 --gpus-per-node=8
--ntasks-per-node=8 --gpus-per-node=8
-n2 --gpus-per-task=4
-n4 --gpus-per-task=4
-n3 --gpus-per-task=4
-n16 --gpus-per-task=1
-n12 --gpus-per-task=1
-N2 -n4 --gpus-per-task=2
-N2 --ntasks-per-node=4 --gpus-per-task=2
--ntasks-per-node=4 --gpus-per-task=2
-N2 --gpus-per-task=8
--gpus=8 --gpus-per-task=2
-N2 -n4 --ntasks-per-node=2 --gpus-per-task=1 --gpus=4
--ntasks-per-gpu=1 --gpus=16
--ntasks-per-gpu=1 -n8
--ntasks-per-gpu=2 -n8
# tasks whose CPUs need more nodes
-n2 -c64 --gpus-per-node=8
-n2 -c32 --gpus-per-node=8
-n8 -c10 --gpus-per-node=8
-n65 --gpus-per-node=8
-O -n65 --gpus-per-node=8
-n2 -c64 --gpus=8
-n2 -c64 --gpus=16
-n2 -c64 --gpus-per-task=4
-n4 -c32 --gpus-per-task=2
--cpus-per-gpu=16 --gpus=8
-c4 --ntasks-per-gpu=2 --gpus-per-node=8
# lists of nodes
-w h1,h2 --gpus-per-node=8
-w h[1-2] --gpus=16
-w h[1-2] --gpus=8
-w h1 --gpus-per-node=8
-w h1 --gpus=16
-n1 -w h2,h1 --gpus-per-node=8
-p mixed -w a1,h1 --gpus-per-node=8
-p mixed -x h1,h2 --gpus-per-node=8
--gpus-per-socket=2 --sockets-per-node=1
-N2 --gpus-per-socket=4 --sockets-per-node=1
# whole nodes come with their GPUs
--exclusive
--exclusive -N2
--exclusive -w h1,h2
-n128 --exclusive
-p whole
-p whole -N2
--exclusive --ntasks-per-gpu=1 -N1
--exclusive --ntasks-per-gpu=1 -n16
# lists of nodes in a file
-F hosts --gpus-per-node=8
-n1 -F hosts --gpus-per-node=8
-w ./hosts -G16
END

# only what the nodes of a list have counts
run sbatch -H -p mixed -w h1 $node $full --p4d-micro-batch=8 --p4d-seq-len=2560 job.sh
accepted
silent
run sbatch -H -p mixed -x a1,a2 $node $full --p4d-micro-batch=8 --p4d-seq-len=2560 job.sh
accepted
silent
run sbatch -H -p mixed -x a1,a1 $node $full --p4d-micro-batch=8 --p4d-seq-len=2560 job.sh
says "a100"
[ "$status" != 0 ] || fail "a2 has a100, too"
run sbatch -H -p mixed -w h1 -N2 --gpus-per-node=8 $full --p4d-micro-batch=8 --p4d-seq-len=2560 job.sh
says "a100-40gb" # which the second node may have
run sbatch -H -p whole $full job.sh
accepted
silent
run sbatch -H -p nowhere $node $full job.sh
says "no partition \`nowhere\`"
does_not_say "p4d.conf"
# each is a partition of another cluster's for all that is known here
run p4d check -M other -p nowhere $node $full job.sh
says "p4d does not know the GPUs of cluster \`other\` on this host"
run p4d check -M p4d $node $full job.sh # this one
accepted
silent
run p4d check -M other -p nowhere -N1 --gpus-per-node=h100:8 $full job.sh
accepted
silent

# Where cores have two threads, the job may use one of each.
own=$work/cluster shared=$SLURM_CONF preload=${LD_PRELOAD:-}
at_end()
{
	"$SOURCE/tests/cluster/cluster.sh" stop "$own"
	export SLURM_CONF="$shared" LD_PRELOAD="$preload"
}
"$SOURCE/tests/cluster/cluster.sh" start --threads --plugins="$BUILD/.libs" "$own" || fail "no cluster"
. "$own/env"
compare <<'END'
-n40 --gpus-per-node=8
-n40 --hint=nomultithread --gpus-per-node=8
-n40 --hint=compute_bound --gpus-per-node=8
-n40 --hint=multithread --gpus-per-node=8
-n33 --threads-per-core=1 --gpus-per-node=8
-n32 --threads-per-core=1 --gpus-per-node=8
-n40 --ntasks-per-core=1 --gpus-per-node=8
-n32 --ntasks-per-core=1 --gpus-per-node=8
-n40 --ntasks-per-core=2 --gpus-per-node=8
-n8 -c8 --ntasks-per-core=1 --gpus-per-node=8
-n8 -c8 --hint=nomultithread --gpus-per-node=8
-n8 -c8 --threads-per-core=2 --gpus-per-node=8
-n2 -c32 --hint=nomultithread --gpus-per-node=8
--cpus-per-gpu=8 --gpus=8
--cpus-per-gpu=4 --gpus=8 --hint=nomultithread
--cpus-per-gpu=8 --gpus=8 --hint=nomultithread
-B 2:16:1 -n40 --gpus-per-node=8
-B *:*:1 -n40 --gpus-per-node=8
-B 1:4:1 -n8 --gpus-per-node=8
-N2 -B 2:4 --gpus-per-node=8
-N1 -B 1 --gpus-per-socket=4
END
# and slurmctld counts them as sbatch does
for words in "-n40 --hint=nomultithread" "-n40 --hint=compute_bound" "-n33 --threads-per-core=1" "-n40 --ntasks-per-core=1" "-B 2:16:1 -n40" "-N2 -B 2:4"; do
	run sbatch -H $words --gpus-per-node=8 --p4d-model=llama3-8b job.sh
	accepted
	says P4D110
done
