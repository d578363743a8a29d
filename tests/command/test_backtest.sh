#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
# p4d backtest on 2,000 jobs of a sacct that prints what a real one prints: every cell of its tables, since each job's end, memory and
# verdict are known. And what a site is told whose accounting lacks something.
. "${0%/*}/lib.sh"
PATH=$P4D_TEST_SRCDIR/tests/doubles/slurm:$PATH
SACCT=$work/sacct
user=$(id -un)
export SACCT
mkdir "$SACCT" "$work/jobs"
echo 'slurm 24.11.5' >"$SACCT/version"
fields="Account AdminComment AllocTRES Cluster ElapsedRaw End ExitCode Extra JobID JobIDRaw JobName NNodes NTasks Partition QOS ReqTRES \
Reservation Start State StdErr StdOut Submit SubmitLine TRESUsageInMax TRESUsageInTot User WorkDir"
echo "$fields" >"$SACCT/fields"

# megatron FILE SEQ MICRO_BATCH: 7 billion parameters on 8 GPUs, of which 31.7 GiB are not activations
megatron()
{
	cat >"$SACCT/$1" <<END
#!/bin/bash
#SBATCH -N1 --gpus-per-node=8 --ntasks-per-node=8 -p h100
srun python pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 --seq-length $2 \\
	--max-position-embeddings 8192 --micro-batch-size $3 --global-batch-size 64 --tensor-model-parallel-size 2 --bf16 --swiglu \\
	--normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights --disable-bias-linear \\
	--vocab-size 32000 --tokenizer-type NullTokenizer --use-distributed-optimizer --use-flash-attn
END
}
megatron s0 2048 1 # 48 % of the GPU's memory
megatron s1 2960 4 # 85 %
# each is refused at the limits that it exceeds by more than the 4 % to which p4d simulates the allocator
megatron s2 3712 4 # 95 %
megatron s3 4096 4 # 97 %
megatron s4 4336 4 # 102 %
megatron s5 4900 4 # 113 %
sed 's/pretrain_gpt.py/my_own.py/' "$SACCT/s0" >"$SACCT/s6"
sed 's/--micro-batch-size 1/--micro-batch-size $(nproc)/' "$SACCT/s0" >"$SACCT/s7"

# Kind k of script and end e of job i: s0 to s7, 8 has no script, 9 is an srun. Ends: 0 completed, 1 its output says it, 2 a GPU was
# full, 3 failed early, 4 failed, 5 timeout, 6 cancelled. Expected: what p4d has to print for each.
awk -v user="$user" -v sacct="$SACCT" -v directory="$work/jobs" 'BEGIN {
	OFS = "\t"
	jobs = sacct "/jobs"; scripts = sacct "/scripts"
	print "JobID", "JobIDRaw", "User", "Account", "Partition", "State", "ExitCode", "ReqTRES", "AllocTRES", "TRESUsageInMax", "Submit",
		"Start", "End", "ElapsedRaw", "NNodes", "NTasks", "SubmitLine", "WorkDir", "JobName" >jobs
	split("COMPLETED FAILED FAILED FAILED FAILED TIMEOUT CANCELLED", state, " ")
	split("passed warned warned refused refused refused not_judged not_judged not_judged not_judged", verdict, " ")
	split("completed gpu_memory_said gpu_memory_full failed failed timeout cancelled", end, " ")
	for (i = 0; i < 2000; i++) {
		k = i % 10; e = int(i / 10) % 7; id = 1000 + i
		elapsed = e == 3 ? 300 : 1800 + 60 * k
		memory = e == 2 ? "gres/gpumem=78G" : "gres/gpumem=31.5G"
		line = k == 9 ? "srun --gpus-per-node=8 python x.py" : "sbatch --comment=for_" k " job.sh"
		print id, id, user, "physics", "h100", state[e + 1], (e ? "1:0" : "0:0"), "billing=8,cpu=64,gres/gpu=8,mem=64G,node=1",
			"billing=8,cpu=64,gres/gpu=8,node=1", "", 1000000, 1000100, 1000100 + elapsed, elapsed, 1, "", line, directory,
			k == 9 ? "python" : "job.sh" >jobs
		print id ".0", id ".0", "", "physics", "", state[e + 1], "0:0", "", "cpu=64,gres/gpu=8,node=1", "cpu=1," memory, 1000000,
			1000100, 1000100 + elapsed, elapsed, 1, 8, "", "", "python" >jobs
		if (k < 8)
			print id " s" k >scripts
		# of jobs that were requeued and append to their output, the last run counts
		requeue = "slurmstepd-h1: error: *** JOB " id " ON h1 CANCELLED AT 2026-11-01T08:00:00 DUE TO JOB REQUEUE ***\n"
		output = directory "/slurm-" id ".out"
		if (e == 1)
			printf "%storch.OutOfMemoryError: CUDA out of memory.\n", k % 2 ? requeue : "" >output
		if (e == 4)
			printf "torch.OutOfMemoryError: CUDA out of memory.\n%sTerminated\nValueError: 3\n", requeue >output
		close(output)
		class = e == 3 && k >= 3 && k <= 5 ? "gpu_memory_early" : end[e + 1]
		print id, class, verdict[k + 1]
		# it still runs, and has no GPUs
		if (i == 0) {
			print 1, 1, user, "physics", "h100", "RUNNING", "0:0", "gres/gpu=8,node=1", "gres/gpu=8,node=1", "", 1, 2, "Unknown", 9, 1, "", "sbatch job.sh", directory, "job.sh" >jobs
			print 2, 2, user, "physics", "h100", "COMPLETED", "0:0", "cpu=1,node=1", "cpu=1,node=1", "", 1, 2, 3, 9, 1, "", "sbatch job.sh", directory, "job.sh" >jobs
		}
	}
}' >expected

exits 0 p4d backtest --conf p4d.conf --read-output --html page.html --csv
awk -F, 'NR > 1 { gsub(/"/, "", $1); print $1 "\t" $6 "\t" $7 }' .out >rows
cmp rows expected || fail "$(diff rows expected | head)"
cp .out first
exits 0 env LC_ALL=de_DE.UTF-8 p4d backtest --conf p4d.conf --read-output --csv
cmp first .out || fail "other numbers with the locale de_DE"

# jobs and GPU-hours for each end and verdict: the rows and the JSON agree
awk -F, 'NR > 1 { n[$6 "," $7]++; hours[$6 "," $7] += $12 }
	END { for (c in n) printf "%s %d %.0f\n", c, n[c], hours[c] }' .out | LC_ALL=C sort >by_rows
exits 0 p4d backtest --conf p4d.conf --read-output --json
awk '
	function value(text) { gsub(/[ ,"{}]/, "", text); sub(/.*:/, "", text); return text }
	/"ends":/ { inside = 1 }
	/"refused_but_ran":\[/ || /"refused_but_ran": \[/ { inside = 0 }
	inside && /"(completed|gpu_memory_[a-z]*|failed|timeout|cancelled)":/ { end = $0; gsub(/[ ":{]/, "", end) }
	inside && /"(passed|warned|refused|not_judged)":/ { verdict = $0; gsub(/[ ":{]/, "", verdict) }
	inside && /"jobs":/ { jobs = value($0) }
	inside && /"gpu_hours":/ { if (jobs > 0) printf "%s,%s %d %.0f\n", end, verdict, jobs, value($0) }' .out | LC_ALL=C sort >by_cells
[ -s by_cells ] && cmp by_rows by_cells || fail "$(diff by_rows by_cells | head)"

# without spaces and line breaks
object() { tr -d ' \n' <.out; }
has() { for text in "$@"; do object | grep -qF -- "$text" || fail "the JSON lacks $text"; done; }
has '"jobs":2000,"not_ended":1,"scripts":8,"files_changed":0' '"schema":1' \
	'"gpu_jobs":{"jobs":2000' '"script_stored":{"jobs":1600' '"training_known":{"jobs":1400' '"read_whole":{"jobs":1200' '"judged":{"jobs":1200' \
	'"reason":"p4dcannottellmicro-batch(outputofnproc)"' '"reason":"p4ddoesnotknowtheprogrammy_own.py"' \
	'"reason":"startedbysrunorsalloc,withoutabatchscript"' '"reason":"Slurmstoresnoscriptofthejob,ordoesnotshowthescripttoyou"'
# 29 jobs of each kind completed, died (said), and died (full); s2 to s5 are refused at 0.90, s5 alone at 1.00
for row in 0.9000:116 0.9500:87 0.9700:58 1.0000:29; do
	jobs=${row#*:}
	object | grep -oE "\"limit\":${row%:*},\"refused_but_ran\":\{\"jobs\":$jobs,[^}]*\},\"caught\":\{\"gpu_memory_said\":\{\"jobs\":$jobs,[^}]*\},\"gpu_memory_full\":\{\"jobs\":$jobs," |
		grep -q . || fail "limit ${row%:*} is wrong"
done
# the largest jobs: by GPU-hours, each script once
object | grep -oE '"refused_but_ran":\[.*"passed_but_died"' | grep -oE '"jobs":[0-9]*,"gpu_hours":[0-9.]*,"job":"[0-9]*"' >ran
printf '"jobs":29,"gpu_hours":%s,"job":"%s"\n' 135.333333 1005 131.466667 1004 127.600000 1003 | cmp - ran || fail "refused but ran: $(cat ran)"
object | grep -oE '"passed_but_died":\[.*"stages"' | grep -oE '"jobs":58,"gpu_hours":[0-9.]*,"job":"101[0-2]"' | wc -l | grep -qx ' *3' ||
	fail "passed but died is wrong"

# the page needs no other file, and has the same numbers
grep -q '<td class="bad">87 ' page.html || fail "the page lacks something"
whole_page page.html '<h1>p4d backtest' '<table <svg <table <svg'
# each heading is a button, and each row has a cell below it
awk '/<thead>/ { headings = gsub(/<th class="l?"><button>/, "") } /<tbody>/ { inside = 1; next } /<\/tbody>/ { inside = 0 }
	inside && gsub(/<td/, "") != headings { exit 1 } END { exit !headings }' page.html || fail "a row has not the columns of its table"
[ "$(grep -c '<table>' page.html)" = "$(grep -c '<thead><tr><th class="l"><button>' page.html)" ] || fail "a table does not sort"

# Slurm's limits reach the same table as text, without the outputs
exits 0 p4d backtest --conf p4d.conf --since 2026-11-01 --user "$user" --account physics --partition h100
prints 'Jobs that p4d refuses, but that ran' 'job.sh:3' '89.7 of 79.1 GiB' 'p4d does not know the program my_own.py' '--read-output'
grep -q -- "--user=$user --starttime=2026-11-01 --accounts=physics --partition=h100 " "$SACCT/asked" || fail "sacct was not asked for these jobs"

# few ID_STATE_SCRIPT_LINE...: a backtest of these jobs alone, of $owner in $directory
few()
{
	head -1 "$SACCT/jobs" >"$SACCT/jobs.few"
	: >"$SACCT/scripts"
	number=1
	while [ $# -gt 0 ]; do
		printf '%s\t%s\t%s\tphysics\th100\t%s\t0:0\tgres/gpu=%s,node=1\tgres/gpu=%s,node=1\t\t%s\t200\t3800\t3600\t1\t\t%s\t%s\tjob.sh\n' "$1" $number \
			"${owner:-$user}" "$2" "${gpus:-8}" "${gpus:-8}" "${submit:-100}" "$4" "${directory:-$work/jobs}" >>"$SACCT/jobs.few"
		echo "$1 $3" >>"$SACCT/scripts"
		number=$((number + 1))
		shift 4
	done
	mv "$SACCT/jobs.few" "$SACCT/jobs"
	# shellcheck disable=SC2086 # words
	exits 0 ${as:-} p4d backtest --conf p4d.conf --csv
}
# verdict ID VERDICT [TEXT]
verdict()
{
	grep "^\"$1\"" .out | grep -qE ",$2,.*${3:-}" || fail "job $1 is not $2 ${3:-}"
}
# What is not known of an environment that is not stored: Slurm replaces CUDA_VISIBLE_DEVICES, unless the script sets it.
cat >"$SACCT/alone" <<'END'
#!/bin/bash
python run_clm.py --model_name_or_path Qwen/Qwen2.5-0.5B --per_device_train_batch_size 8 --block_size 2048 --bf16 --do_train
END
sed '1a export CUDA_VISIBLE_DEVICES=$MINE' "$SACCT/alone" >"$SACCT/chosen"
sed '1a export ACCELERATE_USE_FSDP=$MINE' "$SACCT/alone" >"$SACCT/shares"
gpus=1
few 11 COMPLETED alone 'sbatch job.sh' 12 COMPLETED chosen 'sbatch job.sh' 13 COMPLETED shares 'sbatch job.sh'
unset gpus
verdict 11 passed
verdict 12 not_judged
verdict 13 not_judged 'ACCELERATE_USE_FSDP|MINE'
# A sacct that succeeds may still complain, and print what is no job. Records are only left out, and p4d says so.
mkdir complains
cat >complains/sacct <<END
#!/bin/sh
case " \$* " in *" --format"*)
	echo 'sacct: error: slurmdbd: Connection refused' >&2
	"$P4D_TEST_SRCDIR/tests/doubles/slurm/sacct" "\$@" && exec printf 'the database went'
	;;
esac
exec "$P4D_TEST_SRCDIR/tests/doubles/slurm/sacct" "\$@"
END
chmod +x complains/sacct
exits 0 env "PATH=$work/complains:$PATH" p4d backtest --conf p4d.conf --csv
verdict 11 passed
says "p4d: sacct: slurmdbd: Connection refused"
says "p4d: left out 1 record of sacct that could not be read"

# Tasks of an array have different verdicts if the script looks at their number; it has one script.
sed 's/--micro-batch-size 1/--micro-batch-size $SLURM_ARRAY_TASK_ID/; s/2048/4608/' "$SACCT/s0" >"$SACCT/tasks"
few 7_1 COMPLETED tasks 'sbatch -a 1-4 job.sh' 7_2 COMPLETED tasks 'sbatch -a 1-4 job.sh' 7_4 COMPLETED tasks 'sbatch -a 1-4 job.sh'
verdict 7_1 passed
verdict 7_2 passed
verdict 7_4 refused
# Tasks that were cancelled before they started have one id, which sacct refuses in a list.
few 7_1 COMPLETED tasks 'sbatch -a 1-4 job.sh' '7_[2-4]' CANCELLED tasks 'sbatch -a 1-4 job.sh'
verdict 7_1 passed
verdict '7_\[2-4\]' not_judged 'never started'
# Arguments of the command line count, unless its quotes are lost.
sed 's/--micro-batch-size 1/--micro-batch-size $1/' "$SACCT/s5" | sed 's/--micro-batch-size 4/--micro-batch-size $1/' >"$SACCT/arguments"
few 1 COMPLETED arguments 'sbatch job.sh 1' 2 COMPLETED arguments 'sbatch job.sh 4' 3 COMPLETED arguments 'sbatch --comment=two words job.sh 4' \
	4 COMPLETED s5 'sbatch --comment=two words job.sh' 5 COMPLETED s0 'sbatch -N1 --gpus-per-node=8 : -N1 --gpus-per-node=8 job.sh' \
	8+0 COMPLETED s0 'sbatch job.sh'
verdict 1 passed
verdict 2 refused
verdict 3 not_judged 'without quotes'
verdict 4 refused
verdict 8.0 not_judged heterogeneous
# Without quotes, and of a job that was changed, GPUs and nodes are those of the accounting: 4 GPUs hold more than 8.
gpus=4
few 1 COMPLETED s2 'sbatch job.sh'
unset gpus
verdict 1 refused
# A variable that may have been set is unknown; a stored one is known.
sed 's/--micro-batch-size 1/--micro-batch-size ${MBS:-1}/' "$SACCT/s0" >"$SACCT/variable"
few 1 COMPLETED variable 'sbatch job.sh'
verdict 1 not_judged MBS
printf 'SECRET_TOKEN=abc\nSBATCH_EXPORT=ALL,MBS=1\nSLURM_JOB_ID=1\n' >"$SACCT/env"
echo '1 env' >"$SACCT/environments"
few 1 COMPLETED variable 'sbatch job.sh'
verdict 1 passed
printf 'SECRET_TOKEN=abc\nMBS=1\n' >"$SACCT/env"
few 1 COMPLETED variable 'sbatch job.sh'
verdict 1 not_judged MBS
echo 'SECRET_TOKEN=abc' >"$SACCT/env"
few 1 COMPLETED variable 'sbatch job.sh'
verdict 1 passed
rm "$SACCT/environments"
# Escape sequences that users write do not reach the terminal.
escape=$(printf '\033')
few 1 COMPLETED s5 "sbatch -J x a${escape}[31m.sh"
grep -qF 'a\x1b[31m.sh:3' .out || fail "an escape is printed"
# p4d reads files as they are today, and says so if they have changed.
mkdir model
cat >model/config.json <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
 "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
 "tie_word_embeddings": false, "torch_dtype": "bfloat16", "hidden_act": "silu"}
END
cat >setting.sh <<'END'
MODEL=./model
END
cat >"$SACCT/files" <<'END'
#!/bin/bash
#SBATCH -N1 --gpus-per-node=8 -p h100
. ./setting.sh
torchrun --nproc-per-node 8 sft.py --model_name_or_path $MODEL --per_device_train_batch_size 2 --max_length 2048 --bf16 --use_peft --lora_r 16
END
directory=$work
few 1 COMPLETED files 'sbatch job.sh'
verdict 1 passed ',1,"job.sh:4"'
submit=4000000000
few 1 COMPLETED files 'sbatch job.sh'
verdict 1 passed ',0,"job.sh:4"'
unset submit
# As root with only the rights of the owner: files that the owner may not read are not read.
if [ "$(id -u)" = 0 ] && id daemon >/dev/null 2>&1; then
	chmod 755 "$work" model
	owner=daemon
	few 1 COMPLETED files 'sbatch job.sh'
	verdict 1 passed
	chmod 600 setting.sh
	few 1 COMPLETED files 'sbatch job.sh'
	verdict 1 not_judged setting.sh
	owner=nobody_here
	chmod 644 setting.sh
	few 1 COMPLETED files 'sbatch job.sh'
	verdict 1 not_judged setting.sh
	# Other users read with their own rights, but HOME is the job owner's.
	as="setpriv --reuid=daemon --regid=daemon --clear-groups env HOME=$work"
	if $as p4d --version >/dev/null 2>&1 && $as test -r p4d.conf; then
		sed 's,=./model,=$HOME/model,' setting.sh >setting.home
		mv setting.home setting.sh
		chmod 644 setting.sh "$SACCT"/*
		: >"$SACCT/asked"
		chmod 777 "$SACCT" "$SACCT/asked"
		owner=bin
		few 1 COMPLETED files 'sbatch job.sh'
		verdict 1 not_judged '/bin/model'
	fi
	unset owner as
fi

# The output file is where Slurm says, or otherwise where the options say.
mkdir -p logs
echo 'RuntimeError: CUDA error: out of memory' >logs/3-job.sh.err
sed 's/^srun/#SBATCH -e logs\/%j-%x.err\nsrun/' "$SACCT/s0" >"$SACCT/output"
directory=$work
few 2 FAILED s0 'sbatch job.sh' 8 FAILED s0 'sbatch -o logs/3-job.sh.err job.sh' 9 FAILED output 'sbatch job.sh'
exits 0 p4d backtest --conf p4d.conf --csv --read-output
cut -d, -f1,6 .out | tr -d '"' | tr '\n' ' ' | grep -qF '2,failed 8,gpu_memory_said 9,gpu_memory_said' || fail "an output was not read"

# A message about a missing setting names it.
: >"$SACCT/scripts"
refused P4D003 p4d backtest --conf p4d.conf
says 'AccountingStoreFlags=job_script,job_env' '3 jobs of sbatch'
# jobs without a batch script are no fault of slurm.conf
cp "$SACCT/jobs" stored
sed -i 's/sbatch/srun/; $s/srun/salloc/' "$SACCT/jobs"
refused P4D003 p4d backtest --conf p4d.conf
says 'srun or salloc started 3, and 0 tasks' 'fix: --since=DATE with an earlier date, or p4d report --since=now-30days'
! grep -q AccountingStoreFlags .err || fail "a setting does not help"
sed -i '2s/^[^\t]*/7_[2-4]/; 3s/srun/sbatch/' "$SACCT/jobs"
refused P4D003 p4d backtest --conf p4d.conf
says '1 jobs of sbatch' 'AccountingStoreFlags=job_script,job_env'
sed -i 3d "$SACCT/jobs"
refused P4D003 p4d backtest --conf p4d.conf
says 'srun or salloc started 1, and 1 tasks'
mv stored "$SACCT/jobs"
cp "$SACCT/jobs" stored
sed -i 's/COMPLETED/RUNNING/; s/FAILED/RUNNING/' "$SACCT/jobs"
for command in backtest report; do
	refused P4D003 p4d $command --conf p4d.conf
	says '3 jobs with GPUs since now-30days, none of which has ended' 'fix: --since=DATE with an earlier date'
done
mv stored "$SACCT/jobs"
sed -i 's|gres/gpu=8,||g' "$SACCT/jobs"
refused P4D003 p4d backtest --conf p4d.conf
says 'AccountingStorageTRES=gres/gpu'
sed -i 2,\$d "$SACCT/jobs"
refused P4D003 p4d backtest --conf p4d.conf
says 'no jobs since now-30days'
refused P4D003 p4d backtest --conf p4d.conf --since 2026-11-01 --user ann,bob --partition h100
says 'sacct shows no jobs since 2026-11-01, of user ann,bob, in partition h100'
refused P4D003 p4d backtest --conf p4d.conf --since bad
says 'Invalid time specification'
echo 'sacct: error: Slurm accounting storage is disabled' >"$SACCT/fails"
refused P4D003 p4d backtest --conf p4d.conf
says 'sacct: Slurm accounting storage is disabled'
exits 1 p4d backtest --json --csv
prints P4D001
refused P4D003 env PATH="$work/bin:$P4D_TEST_BUILDDIR" p4d backtest --conf p4d.conf
says 'sacct is not in PATH'
