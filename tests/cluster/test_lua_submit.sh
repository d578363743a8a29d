#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Together with a site's job_submit.lua. After it, p4d judges the partition to which it moved a job, and both texts
# reach the user; before it, p4d judges the user's request.
. "${0%/*}/lib.sh"

directory=$(sed -n 's/^PluginDir=\([^:]*\).*/\1/p' "$SLURM_CONF")
[ -e "$directory/job_submit_lua.so" ] || skip "no job_submit_lua.so"
own=$work/cluster shared=$SLURM_CONF preload=${LD_PRELOAD:-} cluster=$SOURCE/tests/cluster/cluster.sh
at_end()
{
	"$cluster" stop "$own"
	export SLURM_CONF="$shared" LD_PRELOAD="$preload"
}
"$cluster" start --auth=none --plugins="$BUILD/.libs" --no-nodes "$own" || fail "no cluster"
. "$own/env"
cat >"$own/etc/job_submit.lua" <<'END'
function slurm_job_submit(job, partitions, uid)
	slurm.log_user("lua was here")
	if job.name == "routed" then
		job.partition = "a100"
	end
	return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
	return slurm.SUCCESS
end
return slurm.SUCCESS
END

# restarted PLUGINS
restarted()
{
	"$cluster" crash "$own" controller
	sed -i "s/^JobSubmitPlugins=.*/JobSubmitPlugins=$1/" "$own/etc/slurm.conf"
	"$cluster" boot "$own" controller || {
		grep -qi 'liblua' "$own"/log/slurmctld.* && skip "job_submit_lua.so finds no liblua of its version"
		fail "slurmctld did not start with $1: $(cat "$own"/log/slurmctld.*)"
	}
}
unplanned() { run env _SLURM_SPANK_OPTION_p4d_p4d_model=llama13b SLURM_CONF="$work/slurm.conf" sbatch -H $node job.sh; }

for order in lua,p4d p4d,lua; do
	echo "-- $order"
	restarted "$order"
	(without_spank)
	unplanned
	refused P4D040 slurmctld
	[ "$order" = p4d,lua ] || says "lua was here"
	run sbatch -H $node $full job.sh
	accepted
	says "lua was here"
	does_not_say rror
	same "$(job "$id" Partition)" h100
	contains "$(job "$id" AdminComment)" p4d:
	run sbatch -H -J routed $node $full job.sh
	if [ "$order" = lua,p4d ]; then
		[ "$status" != 0 ] || fail "the partition that lua chose was not judged"
		says "p4d: [P4D0"
		says "lua was here"
	else
		accepted
		same "$(job "$id" Partition)" a100
	fi
done

# a script without options that another plugin moves: the answer says so, and how to ask p4d check
cat >meg.sh <<'JOB'
#!/bin/bash
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 40 --hidden-size 5120 --ffn-hidden-size 13824 --num-attention-heads 40 --seq-length 4096 \
	--max-position-embeddings 4096 --swiglu --normalization RMSNorm --untie-embeddings-and-output-weights --position-embedding-type rope \
	--disable-bias-linear --vocab-size 32000 --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 64 --bf16 \
	--tensor-model-parallel-size 4 --use-distributed-optimizer --no-create-attention-mask-in-dataloader
JOB
restarted lua,p4d
for scripts in advise judge; do
	sed "1i scripts = $scripts" "$own/etc/p4d.conf" >"$own/etc/p4d.conf.$scripts"
	put_site "$own/etc/p4d.conf.$scripts" "$own"
	run sbatch -H -J kept $node meg.sh
	accepted
	does_not_say "slurmctld has"
	run sbatch -H -J routed $node meg.sh
	[ "$scripts" = advise ] && accepted || refused P4D012 slurmctld
	says "of 39.4 GiB"
	says "; sbatch judged h100-80gb, and slurmctld has the job in partition a100"
	says "p4d: fix: p4d check --partition=a100 JOB.sh"
	sed -i 1d "$own/etc/p4d.conf"
done
