#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --p4d-override passes where the site allows it, is logged, and nowhere else.
. "${0%/*}/lib.sh"

run sbatch -H -p lenient $node $toobig --p4d-override=deadline job.sh
accepted
says "p4d: [P4D113]"
grep -q 'p4d.*deadline' "$CLUSTER/log/slurmctld.log" || fail "not in the log of slurmctld"
run sbatch -H -p h100 $node $toobig --p4d-override=deadline job.sh
refused P4D048
# also for options from which no plan could be made
run sbatch -H -p lenient $node --p4d-model=llama13b --p4d-tp=3 --p4d-override=deadline job.sh
accepted
says "p4d: [P4D113]"
run sbatch -H $node --p4d-model=llama13b --p4d-tp=3 --p4d-override=deadline job.sh
refused P4D020

# and for a model that p4d does not know
for command in "sbatch -H" "p4d check"; do
	run $command -p lenient $node --p4d-model=nobodys-70b --p4d-override=deadline job.sh
	accepted
	says "[P4D007]"
	says "p4d: [P4D113]"
	run $command -p h100 $node --p4d-model=nobodys-70b --p4d-override=deadline job.sh
	refused P4D007
done

# a script whose weights alone do not fit is refused without a plan; slurmctld also accepts the reason
conf=$CLUSTER/etc/p4d.conf
at_end() { cp "$CLUSTER/p4d.conf.good" "$conf"; }
cat >weights.sh <<'END'
#!/bin/sh
#SBATCH -N1 --gpus-per-node=8
llamafactory-cli train --stage sft --do_train --cutoff_len $LEN --model_name_or_path meta-llama/Llama-3.1-70B \
	--finetuning_type lora --per_device_train_batch_size 1 --bf16
END
for allow in true false; do
	sed "s/^mode = enforce/&\nscripts = judge\nallow_override = $allow/" "$CLUSTER/p4d.conf.good" >"$conf.new"
	put_site "$conf.new"
	run sbatch -H weights.sh
	refused P4D012 spank
	run sbatch -H --p4d-override="for a test" weights.sh
	if [ $allow = true ]; then
		accepted
		says "overridden: for a test"
	else
		refused P4D012 spank
		says "--p4d-override is not allowed for this job by the site"
	fi
done
