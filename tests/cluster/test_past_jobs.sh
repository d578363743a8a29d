#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d backtest and p4d report of PAST_JOBS jobs (48) that ran in a Slurm with accounting: each row, cell and note is right, because each
# job's script, verdict and end are known. There are no GPUs, so the test writes memory and duration into Slurm's database.
. "${0%/*}/lib.sh"

command -v python3 >/dev/null || skip "no python3"
record=admin_comment PARAMETERS=AccountingStoreFlags=job_script,job_env
case $(slurmctld -V) in
*' '2[0-2].* | *' 23.02'*) ;;
*) record=extra PARAMETERS=$PARAMETERS,job_extra ;;
esac
. "$SOURCE/tests/cluster/accounting.sh"
start_accounting
sed "s/^mode = enforce/mode = observe\nscripts = judge\nrecord = $record/" "$own/etc/p4d.conf" >site.conf
put_site site.conf "$own"

# Memory grows with the sequence: 73, 93 and 109 % of an H100. p4d knows nothing of the last script's program.
for kind in pass:2048 warn:2624 refuse:3072; do
	printf '#!/bin/bash\n#SBATCH -N1 --gpus-per-node=1\npython run_clm.py --model_name_or_path Qwen/Qwen2.5-0.5B --per_device_train_batch_size 8 --block_size %s --bf16 --do_train\n' \
		"${kind#*:}" >"${kind%:*}.sh"
done
sed 's/run_clm/my_own/' pass.sh >own.sh
mkdir bin
cat >bin/python <<'END'
#!/bin/sh
case $RESULT in
said) echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB" ;;
# of an array that still has tasks in the queue, by the number of the task
cancelled) scancel "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}" && sleep 300 ;;
timeout) sleep 300 ;;
esac
[ "$RESULT" = completed ]
END
chmod +x bin/python

# Half of the jobs of a cell are tasks of an array. A minute is Slurm's shortest time limit.
half=$(((${PAST_JOBS:-48} + 47) / 48)) jobs=0 ends="completed said full early failed cancelled"
[ "$half" -lt 10 ] || ends="timeout $ends"
submit_past() # WHAT OPTIONS...
{
	echo "$kind-$end $1"
	shift
	RESULT=$end PATH=$work/bin:$PATH sbatch -t 1 -J "$kind-$end" "$@" "$kind.sh"
}
for end in $ends; do
	[ "$end" = timeout ] && many=1 || many=$half
	for kind in pass warn refuse own; do
		for one in $(seq "$many"); do
			submit_past "$one" || fail "not submitted"
		done
		submit_past array -a "1-$many" || fail "not submitted"
		jobs=$((jobs + 2 * many))
	done
done >submitted 2>&1
queued() { squeue -h -r -o %A | wc -l; }
fewer() { [ "$(queued)" -lt "$left" ]; }
while left=$(queued); [ "$left" -gt 0 ]; do
	wait_until fewer
done
counted() { [ "$(sacct -nXP -o end -S now-1days | grep -cv Unknown)" = "$jobs" ]; }
wait_until counted

# Of every fifth job, nothing was measured, unless a GPU was full.
change_database "insert ignore into tres_table (creation_time, type, name) values (1, 'gres', 'gpumem');
update p4d_job_table set time_start = time_end - case when job_name like '%-early' then 300 when job_name like 'pass%' then 1800
	when job_name like 'warn%' then 3600 when job_name like 'refuse%' then 5400 else 7200 end;
update p4d_job_table set time_submit = time_start, time_eligible = time_start;
update p4d_step_table s join p4d_job_table j using (job_db_inx) set s.time_start = j.time_start, s.tres_usage_in_max =
	trim(leading ',' from concat(s.tres_usage_in_max, ',', (select id from tres_table where type = 'gres' and name = 'gpumem'), '=',
	(case when job_name like '%-full' then 78 else 20 + id_job % 40 end) * 1073741824))
	where id_job % 5 <> 0 or job_name like '%-full';"
sacct -nXP -o jobid,jobidraw,jobname -S now-1days >past
p4d backtest --conf site.conf --read-output --csv >rows.csv || fail "p4d backtest --csv"
p4d backtest --conf site.conf --read-output --json >backtest.json || fail "p4d backtest --json"
p4d report --conf site.conf --read-output --rows measured.csv --json >report.json || fail "p4d report --json"
awk -F '|' 'NR % 7 == 1 { print $1 }' past | head -40 | while read -r id; do
	echo "$id $(p4d report --conf site.conf --note "$id" 2>&1)"
done >notes
[ -z "${PAST_KEEP:-}" ] || cp past rows.csv *.json measured.csv notes "$PAST_KEEP"
python3 "$SOURCE/tests/cluster/past.py" . || fail "not what is known"
