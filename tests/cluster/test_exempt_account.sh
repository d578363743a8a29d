#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d does not touch jobs of an exempt account or user, also not on the node.
. "${0%/*}/lib.sh"

run sbatch -H -A trusted $node $toobig job.sh
accepted
silent
run sbatch -H -A other $node $toobig job.sh
refused P4D013

# What slurmctld lets pass runs: the node has neither the script nor all that slurmctld knows of the user.
policy()
{
	printf 'mode = enforce\ndata = "%s"\n%s\npartition h100 { gpu = "h100-80gb" gpus_per_node = 8 default = true }\nversion = 1\n' \
		"$SOURCE/etc" "$1" >"$CLUSTER/etc/p4d.conf.new"
	put_site "$CLUSTER/etc/p4d.conf.new"
}
completes()
{
	accepted
	finished "$id"
	same "$state" COMPLETED "$(cat "slurm-$id.out")"
}
cp "$CLUSTER/etc/p4d.conf" usual.conf
at_end() { cp "$work/usual.conf" "$CLUSTER/etc/p4d.conf"; }
cat >step.sh <<END
#!/bin/sh
srun -n1 $toobig true
END
policy "exempt_users = { $(id -un) }"
run sbatch $node $toobig step.sh
completes
run srun $node $toobig true
accepted
cat >deepspeed.sh <<'END'
#!/bin/sh
true || deepspeed train.py
srun -n1 true
END
policy "admin_comment = none"
run sbatch $node --p4d-model=llama13b deepspeed.sh
completes
