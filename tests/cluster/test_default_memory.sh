#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job that requests no memory gets Slurm's default: that of the partition, else of slurm.conf. sbatch and p4d check
# compare offloaded tensors with it. Uses its own Slurm.
. "${0%/*}/lib.sh"

own=$work/cluster shared=$SLURM_CONF preload=${LD_PRELOAD:-}
at_end()
{
	"$SOURCE/tests/cluster/cluster.sh" stop "$own"
	export SLURM_CONF="$shared" LD_PRELOAD="$preload"
}
"$SOURCE/tests/cluster/cluster.sh" start --auth=none --plugins="$BUILD/.libs" --no-nodes --memory "$own" || fail "no cluster"
. "$own/env"
printf 'mode = enforce\ngpu h100 { name = "h100-80gb" }\ngpu a100 { name = "a100-40gb" }\nversion = 1\n' >"$own/etc/p4d.conf.new"
put_site "$own/etc/p4d.conf.new" "$own"

# eight ranks, whose states take about 100 GiB of the node
offload="$node --p4d-framework=deepspeed --p4d-model=llama3-8b --p4d-zero-stage=2 --p4d-offload=optimizer --p4d-micro-batch=1 --p4d-seq-len=2048 --p4d-recompute=full --p4d-global-batch=8"
for partition in h100 per-gpu cpus-per-gpu; do # 781 GiB of slurm.conf; 8 x 58.6 GiB; 48 x 19.5 GiB
	run sbatch -H -p $partition $offload job.sh
	accepted
	does_not_say P4D033
	run p4d check --conf "$own/etc/p4d.conf" -p $partition $offload job.sh
	accepted
	does_not_say P4D033
done
got="without --mem, a job in this partition gets"
for few in "small 19.5" "per-cpu 2.0"; do
	partition=${few% *} gib=${few#* }
	run sbatch -H -p "$partition" $offload job.sh
	refused P4D033 spank
	says "$got $gib GiB"
	same "$(printf '%s\n' "$err" | grep -c 'fix: --mem=')" 1
	flags=$(fix)
	run p4d check --conf "$own/etc/p4d.conf" -p "$partition" $offload job.sh
	refused P4D033
	says "$got $gib GiB"
	run sbatch -H -p "$partition" $offload $flags job.sh
	accepted
	does_not_say P4D033
done
# DefCpuPerGPU counts only in jobs that say no CPUs: eight of 20000 MiB, one of them
run sbatch -H -p cpus-per-gpu $offload --ntasks-per-node=8 --cpus-per-task=1 job.sh
accepted
for command in "sbatch -H" "p4d check --conf $own/etc/p4d.conf"; do
	run $command -p cpus-per-gpu $offload --ntasks-per-node=1 --cpus-per-task=1 job.sh
	refused P4D033
	says "$got 19.5 GiB"
	# 60 x 2000 MiB; with tasks --mincpus may only choose the nodes
	run $command -p per-cpu $offload --mincpus=60 job.sh
	refused P4D033
	says "$got 117.2 GiB"
	run $command -p per-cpu $offload --ntasks-per-node=2 --mincpus=10 job.sh
	accepted
	# --mem-per-cpu counts the CPUs of GPUs
	run $command -p per-cpu $offload --ntasks-per-node=8 --mem-per-cpu=4G --cpus-per-gpu=8 job.sh
	accepted
	run $command -p per-cpu $offload --ntasks-per-node=8 --mem-per-cpu=4G job.sh
	refused P4D033
	contains "$(fix)" --mem-per-cpu=
	run $command -p per-cpu $offload --ntasks-per-node=8 --mem-per-cpu=4G $(fix) job.sh
	accepted
done
# slurm.conf's, for all partitions without their own
for line in "DefMemPerGPU=1000" "DefCpuPerGPU=2"; do
	sed -i '/^DefMemPerGPU=1000/d' "$SLURM_CONF"
	echo "$line" >>"$SLURM_CONF"
	reconfigure
	is_default() { scontrol show config | grep -q "^JobDefaults.*$line"; }
	wait_until is_default
	for command in "sbatch -H" "p4d check --conf $own/etc/p4d.conf"; do
		partition=h100 gib=7.8 # eight GPUs of 1000 MiB; 16 CPUs of 2000 MiB
		[ "$line" = DefMemPerGPU=1000 ] || partition=per-cpu gib=31.2
		run $command -p $partition $offload job.sh
		refused P4D033
		says "$got $gib GiB"
		run $command -p per-gpu $offload job.sh
		accepted
	done
done
sed -i '/^DefCpuPerGPU=2/d' "$SLURM_CONF"
reconfigure
is_default() { scontrol show config | grep -q "^JobDefaults.*null"; }
wait_until is_default
# eight CPUs of each rank: 64 x 2000 MiB
run sbatch -H -p per-cpu $offload --ntasks-per-node=8 --cpus-per-task=8 job.sh
refused P4D033 spank
says "$got 125.0 GiB"
