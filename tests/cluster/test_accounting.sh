#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# With accounting a job counts with the account and the QOS that it gets: the user's default account, the accounts
# above it, the default QOS, the QOS of the partition. An account that is not the user's exempts nobody. Uses its own
# Slurm and database.
. "${0%/*}/lib.sh"

PARAMETERS="PartitionName=qos Nodes=h1,h2 QOS=large
AccountingStoreFlags=job_script,job_env"
. "$SOURCE/tests/cluster/accounting.sh"
start_accounting

# Jobs that run while p4d.conf is changed below, for p4d backtest: their end and the verdict are known.
mkdir bin
cat >bin/python <<'END'
#!/bin/sh
case $RESULT in
oom) echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB" ;;
long) exec sleep 300 ;;
esac
[ "$RESULT" = good ]
END
chmod +x bin/python
cat >small.sh <<'END'
#!/bin/bash
#SBATCH --gpus-per-node=1
python sft.py --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 2 --max_length 2048 --gradient_checkpointing --bf16 \
	${ADAPTER---use_peft --lora_r 16} --output_dir out
END
sed 's/sft.py/of_my_own.py/' small.sh >own.sh
# ends RESULT OPTIONS... SCRIPT: prints the job
ends() { result=$1; shift; RESULT=$result PATH="$work/bin:$PATH" sbatch --parsable -N1 "$@" 2>/dev/null; }
{
	echo "$(ends good --comment='two words' small.sh) completed passed"
	echo "$(ends good --export=ALL,ADAPTER= small.sh) completed refused"
	echo "$(ends oom small.sh) gpu_memory_said passed"
	echo "$(ends oom -J other --export=ALL,ADAPTER= small.sh) gpu_memory_said refused"
	echo "$(ends bad small.sh) failed passed"
	echo "$(ends bad --export=ALL,ADAPTER= small.sh) gpu_memory_early refused"
	echo "$(ends good own.sh) completed not_judged"
	tasks=$(ends good -a 0-1 small.sh)
	echo "${tasks}_0 completed passed"
	echo "${tasks}_1 completed passed"
	echo "$(ends long small.sh) cancelled passed"
} | LC_ALL=C sort >expected
srun -N1 --gpus-per-node=1 true &

# site TEXT: waits until slurmctld has read it
site()
{
	printf 'mode = enforce\ndata = "%s"\n%s\nversion = 1\n' "$SOURCE/etc" "$1" >"$own/etc/p4d.conf.new"
	put_site "$own/etc/p4d.conf.new" "$own"
}
# comes_to CHECK COMMAND...: runs the command until the check holds. slurmctld reads the accounts after p4d.conf, and again after half
# a minute.
comes_to()
{
	check=$1
	shift
	wait_until comes_now "$@"
	eval "$check"
}
comes_now() { run "$@" && (eval "$check"); }
# changes CHECK WHAT...: repeats the change until slurmctld knows it: slurmdbd sends it only to a slurmctld that is
# registered at that time
changes()
{
	check=$1
	shift
	wait_until changes_now "$@"
}
changes_now()
{
	sacctmgr -i modify "$@"
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		if $check; then
			return
		fi
		sleep 0.2
	done
	false
}
plain="sbatch -H $node"

site 'account staff { require_plan = true }'
comes_to 'refused P4D043' $plain job.sh
site 'qos large { require_plan = true }'
comes_to 'accepted' $plain job.sh
run $plain -p qos job.sh
refused P4D043
sacctmgr -i modify user "$user" set qos=normal,large defaultqos=large >/dev/null
site 'qos "l*e" { require_plan = true }'
comes_to 'refused P4D043' $plain job.sh
run $plain --qos=normal job.sh
accepted
# the same at the client, which judges first
site 'exempt_accounts = { staff }'
comes_to 'accepted' sbatch -H $node $toobig job.sh
site 'exempt_accounts = { trusted }'
comes_to 'refused P4D013' sbatch -H -A trusted $node $toobig job.sh
site "user $user { mode = warn }"
comes_to 'accepted' sbatch -H $node $toobig job.sh
says P4D013
# this cluster is no other, whose GPUs nobody knew here
site 'admin_comment = digest'
comes_to 'accepted' sbatch -M p4d -H $node $full job.sh
silent

# any QOS can be typed where Slurm does not enforce them: one that the user does not have exempts nobody
sacctmgr -i add qos free >/dev/null
site 'exempt_qos = { free }'
comes_to 'refused P4D013' sbatch -H --qos=free $node $toobig job.sh
sacctmgr -i modify user "$user" set qos=normal,large,free >/dev/null
site 'exempt_qos = { free, unused }'
comes_to 'accepted' sbatch -H --qos=free $node $toobig job.sh

# limits of nodes, once Slurm enforces them: a fix takes no more than a job gets
site ''
comes_to 'refused P4D013' sbatch -H $node $toobig job.sh
says 'fix: --nodes='
sed -i 's/^AccountingStoragePort=.*/&\nAccountingStorageEnforce=limits/' "$SLURM_CONF"
reconfigure
enforces() { scontrol show config | grep -qi '^AccountingStorageEnforce.*limits'; }
wait_until enforces
limited() { scontrol show assoc_mgr flags=qos | grep -q 'MaxTRESPJ=.*node=1'; }
changes limited qos large set maxtresperjob=node=1
run sbatch -H --qos=large $node $toobig job.sh
refused P4D013
says 'and a job in this partition gets at most 1'
lacks "$err" '--nodes='
run sbatch -H -p qos --qos=normal $node $toobig job.sh
says 'and a job in this partition gets at most 1'
run sbatch -H --qos=normal $node $toobig job.sh
says 'fix: --nodes='
limited() { scontrol show assoc_mgr flags=assoc | grep -q 'MaxTRESPJ=.*node=1'; }
changes limited user "$user" set maxtresperjob=node=1
run sbatch -H --qos=normal $node $toobig job.sh
says 'and a job in this partition gets at most 1'
sacctmgr -i modify user "$user" set maxtresperjob=node=-1 >/dev/null
# a limit of the account also applies to the user, unless the user has one
changes limited account physics set maxtresperjob=node=1
run sbatch -H --qos=normal $node $toobig job.sh
says 'and a job in this partition gets at most 1'
limited() { scontrol show assoc_mgr flags=assoc | grep -q 'MaxTRESPJ=.*node=64'; }
changes limited user "$user" set maxtresperjob=node=64
run sbatch -H --qos=normal $node $toobig job.sh
says 'fix: --nodes='
sacctmgr -i modify user "$user" set maxtresperjob=node=-1 >/dev/null
sacctmgr -i modify account physics set maxtresperjob=node=-1 >/dev/null
# the same for GPUs
limited() { scontrol show assoc_mgr flags=qos | grep -q 'MaxTRESPJ=.*gres/gpu=8'; }
changes limited qos large set maxtresperjob=node=-1,gres/gpu=8
run sbatch -H --qos=large $node $toobig job.sh
refused P4D013
says 'GPUs, and a job in this partition gets at most 8'
lacks "$err" '--nodes='
sacctmgr -i modify qos large set maxtresperjob=gres/gpu=-1 >/dev/null
sed -i '/^AccountingStorageEnforce=limits/d' "$SLURM_CONF"
reconfigure
lifted() { ! enforces; }
wait_until lifted

# How the jobs above ended, and p4d's verdict on each
long=$(sed -n 's/ cancelled passed//p' expected)
runs() { [ "$(sacct -nXP -o state -j "$long")" = RUNNING ]; }
wait_until runs
scancel "$long"
counted() { [ "$(sacct -nXP -o state -S now-1days | grep -cE 'COMPLETED|FAILED|CANCELLED')" = 11 ]; }
wait_until counted
sed 's/^mode = .*/mode = observe/' "$CLUSTER/p4d.conf.good" >backtest.conf
run p4d backtest --conf backtest.conf --read-output --csv
accepted
silent
contains "$out" 'started by srun'
contains "$out" 'p4d does not know the program of_my_own.py'
printf '%s\n' "$out" | awk -F, 'NR > 1 && !/started by srun/ { gsub(/"/, "", $1); print $1, $6, $7 }' | LC_ALL=C sort | cmp expected - ||
	fail "p4d backtest differs"
# p4d report counts the same ends, and the srun
run p4d report --conf backtest.conf --read-output --rows rows.csv --json
accepted
printf '%s' "$out" | tr -d ' \n' | grep -q '{"jobs":11,' || fail "p4d report has not all jobs"
{ cut -d ' ' -f 2 expected; echo completed; } | sort | uniq -c | while read -r jobs end; do
	counted=$(printf '%s' "$out" | tr -d ' \n' | sed "s/.*\"ends\":{.*\"$end\":{\(\([^{}]*{[^{}]*}\)*\)}.*\"overridden\".*\"predicted\".*/\1/" |
		grep -o '"jobs":[0-9]*' | awk -F : '{ n += $2 } END { print n + 0 }')
	[ "$counted" = "$jobs" ] || { echo "$end: $counted instead of $jobs"; exit 1; }
done || fail "p4d report counts other ends"
run p4d report --conf backtest.conf --note "$long"
accepted
contains "$out" 'p4d: predicted '
[ "$(grep -c ',1,,20' rows.csv)" = 2 ] || fail "the two that said it died are no rows: $(cat rows.csv)"

# a user who may not see the accounts above his own is not refused for what slurmctld knows
[ "$(id -u)" = 0 ] || exit 0
sacctmgr -i add user daemon account=physics defaultaccount=physics >/dev/null
echo 'PrivateData=accounts,users,usage' >>"$SLURM_CONF"
reconfigure
user_sees() { setpriv --reuid=daemon --regid=daemon --clear-groups scontrol show assoc_mgr flags=assoc; }
wait_until sh -c 'scontrol show config | grep -q "^PrivateData.*accounts"'
user_sees | grep -i 'account' | head
chmod 755 "$work" "$own"
site 'exempt_accounts = { staff }'
comes_to 'accepted' setpriv --reuid=daemon --regid=daemon --clear-groups sbatch -H -o /dev/null $node $toobig job.sh
site 'exempt_accounts = { trusted }'
comes_to 'refused P4D013' setpriv --reuid=daemon --regid=daemon --clear-groups sbatch -H -o /dev/null $node $toobig job.sh
# nor sees scripts of others
run setpriv --reuid=daemon --regid=daemon --clear-groups env PATH="$PATH" p4d backtest --conf backtest.conf
refused P4D003
