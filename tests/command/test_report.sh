#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
# p4d report on 2,000 jobs of a sacct that prints what a real one prints: every cell is right, since each job's verdict, end and memory
# are known. Its rows are read by p4d validate and p4d calibrate. And single jobs, as their users see them.
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
cat >"$SACCT/script" <<'END'
#!/bin/bash
#SBATCH -N1 --gpus-per-node=8 --ntasks-per-node=8 -p h100
srun python pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 --seq-length 4272 \
	--max-position-embeddings 8192 --micro-batch-size 4 --global-batch-size 64 --tensor-model-parallel-size 2 --bf16 --swiglu \
	--normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights --disable-bias-linear \
	--vocab-size 32000 --tokenizer-type NullTokenizer --use-distributed-optimizer --use-flash-attn
END
sed 's/4272/2048/; s/--micro-batch-size 4/--micro-batch-size 1/' "$SACCT/script" >"$SACCT/small"

# Ends: 0 completed, 1 its output says it, 2 a GPU was full, 3 failed early (above the limit), 4 failed, 5 timeout, 6 cancelled.
# Verdicts: pass, warn, rewrite, not-judged, would-refuse (of the script, with scripts = advise), the same with an override, none. A half hour on 8 GPUs, 450 s of those
# that failed early. Needs of 40 to 64 GiB, of which 90 to 104 % were measured, nothing, zero or 71.5 GiB (censored).
awk -v user="$user" -v sacct="$SACCT" -v directory="$work/jobs" '
	function cell(title, some_jobs, some_hours) { return "\"" title "\":{\"jobs\":" some_jobs ",\"gpu_hours\":" sprintf("%.1f", some_hours) "}" }
	function add(key) { jobs[key]++; hours[key] += h; seen[key] = 1 }
	function some(prefix, most, names, at, text) {
		for (at = 1; at <= most; at++)
			if ((prefix names[at]) in seen)
				text = text (text ? "," : "") cell(names[at], jobs[prefix names[at]], hours[prefix names[at]])
		return "{" text "}"
	}
	BEGIN {
	OFS = "\t"
	list = sacct "/jobs"; scripts = sacct "/scripts"
	print "JobID", "JobIDRaw", "User", "Account", "Partition", "State", "ExitCode", "ReqTRES", "AllocTRES", "TRESUsageInMax", "Submit",
		"Start", "End", "ElapsedRaw", "NNodes", "NTasks", "SubmitLine", "WorkDir", "JobName", "AdminComment", "Extra" >list
	split("COMPLETED FAILED FAILED FAILED FAILED TIMEOUT CANCELLED", state, " ")
	ends = split("completed gpu_memory_said gpu_memory_full gpu_memory_early failed timeout cancelled", end, " ")
	verdicts = split("pass warn rewrite not-judged would-refuse refuse no_record", verdict, " ")
	split("P4D112 P4D111 P4D121 P4D012 P4D012+P4D113", code, " ")
	split("ddp fsdp megatron", framework, " ")
	split("jobs measured zero", kind, " ")
	for (i = 0; i < 2000; i++) {
		e = int(i / 10) % 7; j = int(i / 70) % 7; id = 1000 + i
		outcome = j == 5 ? "would-refuse" : j == 6 ? "no_record" : verdict[j + 1]
		c = outcome == "no_record" || j == 0 ? "" : code[j]
		f = framework[i % 3 + 1]; a = "acc" i % 4; p = i % 2 ? "h100" : "debug"; m = "org/m" i % 5
		need = 40 + 6 * (i % 5); measured = need * (0.90 + 0.02 * (i % 8))
		none = i % 9 == 0; zero = i % 9 == 1; full = i % 9 == 2
		if (full)
			measured = 71.5
		if (e == 2)
			measured = 78
		elapsed = e == 3 ? 450 : 1800
		h = elapsed * 8 / 3600
		mib = sprintf("%d", measured * 1024)
		memory = e == 2 || !(none || zero) ? ",gres/gpumem=" mib "M" : zero ? ",gres/gpumem=0" : ""
		record = outcome == "no_record" ? "" : sprintf("%s%.1fof79.1GiB,nodes=1,gpus-per-node=8,verdict=%s,%smode=%s,framework=%s,model=%s,tp=2",
			j == 0 ? "p4d:0123456789abcdef0123456789abcdef:" : "p4d-verdict:", need, outcome, c ? "code=" c "," : "", j >= 4 ? "enforce" : "observe", f, m)
		print id, id, user, a, p, state[e + 1], (e ? "1:0" : "0:0"), "billing=8,cpu=64,gres/gpu=8,mem=64G,node=1",
			"billing=8,cpu=64,gres/gpu=8,node=1", "", 1700000000, 1700000100, 1700000100 + elapsed, elapsed, 1, "", "sbatch -p " p " job.sh",
			directory, "job.sh", i % 2 ? "JS1:None " record : "other words", i % 2 ? "" : record >list
		print id ".0", id ".0", "", a, "", state[e + 1], "0:0", "", "cpu=64,gres/gpu=8,node=1", "cpu=1" memory, 1700000000,
			1700000100, 1700000100 + elapsed, elapsed, 1, 8, "", "", "python", "", "" >list
		# half of the scripts are those of smaller jobs, and nobody asked for those that end early
		print id, e == 3 ? "script" : i % 2 ? "small" : "script" >scripts
		if (e == 1) {
			print "torch.OutOfMemoryError: CUDA out of memory." >(directory "/slurm-" id ".out")
			close(directory "/slurm-" id ".out")
		}
		if (outcome == "no_record")
			need = 0
		add("end " end[e + 1] " " outcome)
		add("code " (c ? substr(c, 1, 6) : "-") " " outcome)
		if (j == 5)
			add("overridden " end[e + 1])
		for (d = 0; d < 3; d++) {
			name = d == 0 ? "account " a : d == 1 ? "partition " p : "code " (c ? substr(c, 1, 6) : "-")
			keys[name] = 1
			add(name); add(name " verdict " outcome); add(name " end " end[e + 1])
			if (j == 5)
				add(name " over")
		}
		if (e == 2 || !(none || zero))
			measurements++
		if (memory && (full || e == 2) && (e == 2 || !zero))
			censored++
		if (e == 0 && f == "ddp" && outcome != "no_record" && !none && !zero && !full && measured <= 0.8 * 79.1) {
			fewer++
			saved += h * (1 - 2 / 8)
		}
		rows += e == 1 || ((e == 0 || e > 4) && !none && !zero)
		deaths += e == 1
		if (outcome != "no_record" && !full && e != 2 && !none && !zero) {
			n[f]++
			sum[f] += need / (mib / 1024) - 1
			covered[f] += need >= mib / 1024
		}
	}
	print "\"jobs\":2000,\"with_record\":" 2000 - jobs_without()
	print "\"gres/gpumem\":" measurements
	print "\"not measured\":" 2000 - measurements
	print "\"censored\":" censored ",\"not_comparable\":0"
	printf "\"fewer_gpus\":{\"jobs\":%d,\"gpu_hours\":%.1f},\"fewer_gpus_saved\":{\"jobs\":%d,\"gpu_hours\":%.1f},\"smaller_gpu\":{\"jobs\":0,\n",
		fewer, 4 * fewer, fewer, saved
	print rows, deaths >"rows.expected"
	for (k = 1; k <= ends; k++)
		print "\"" end[k] "\":" some("end " end[k] " ", verdicts, verdict)
	print "\"overridden\":" some("overridden ", ends, end)
	for (name in keys) {
		split(name, word, " ")
		printf "{\"jobs\":%d,\"gpu_hours\":%.1f,\"%s\":\"%s\",\"verdicts\":%s,\"ends\":%s,\"overridden\":{\"jobs\":%d,\"gpu_hours\":%.1f}}\n", jobs[name],
			hours[name], word[1], word[2], some(name " verdict ", verdicts, verdict), some(name " end ", ends, end), jobs[name " over"], hours[name " over"]
	}
	for (f in n)
		printf "%s %d %.4f %d\n", f, n[f], sum[f] / n[f], covered[f] >"errors"
	}
	function jobs_without(k, sum) {
		for (k = 1; k <= ends; k++)
			sum += jobs["end " end[k] " no_record"]
		return sum + 0
	}' >expected

# half of the records are in Extra, which counts only where slurmctld keeps users from writing p4d's words there
half=$(awk -F '\t' '$21 ~ /p4d/ { n++ } END { print n }' "$SACCT/jobs")
exits 0 p4d report --conf p4d.conf --json
tr -d ' \n' <.out | grep -qF "\"records_not_counted\":$half," && [ "$half" -gt 500 ] || fail "not $half records that are not counted"
exits 0 p4d report --conf p4d.conf
prints "$half more jobs have a verdict in Extra. p4d does not count these verdicts: without record = extra"
sed -i '/^mode = /a record = extra' p4d.conf

exits 0 p4d report --conf p4d.conf --read-output --rows rows.csv --json
tr -d ' \n' <.out >object
# the decimal sign is a point, also where users write a comma, if this machine has the locale
exits 0 env LC_ALL=de_DE.UTF-8 p4d report --conf p4d.conf --read-output --rows own.csv --json
tr -d ' \n' <.out | cmp - object && cmp own.csv rows.csv || fail "other numbers with the locale de_DE"
while read -r text; do
	grep -qF -- "$(printf %s "$text" | tr -d ' ')" object || fail "the JSON lacks $text"
done <expected
[ "$(wc -l <expected)" -ge 20 ] || fail "too few cells"
while read -r framework jobs mean covered; do
	grep -oE "\"framework\":\"$framework\",\"jobs\":[0-9]*,\"mean_error\":[-0-9.]*,[^}]*\"covered\":[0-9]*" object | tr ':,' '  ' |
		awk -v jobs="$jobs" -v mean="$mean" -v covered="$covered" '{ print; exit !($4 == jobs && $6 - mean < 2e-3 && mean - $6 < 2e-3 && $NF == covered) }' ||
		fail "$framework: $jobs jobs, mean $mean, $covered covered"
done <errors
! grep -q "\"$user\"" object || fail "names without --names"
# jobs that p4d passed and that died: all with these verdicts, most GPU-hours first
died=$(grep -oE '"passed_but_died":.*"refusals"' object | grep -o '"job":' | wc -l)
wanted=$(awk -F '"' '/^"gpu_memory/ { text = $0; while (match(text, /"(pass|warn|rewrite)":\{"jobs":[0-9]*/)) { n = substr(text, RSTART, RLENGTH)
	sub(/.*:/, "", n); sum += n; text = substr(text, RSTART + RLENGTH) } } END { print sum }' expected)
[ "$died" = "$wanted" ] && [ "$wanted" -gt 100 ] || fail "$died jobs passed and died, of $wanted"
# refusals of slurmctld's log: three submissions of one job, one of another; other verdicts and forged names do not count
cat >slurmctld.log <<'END'
[2026-11-02T10:00:00.123] p4d: event="submit" verdict="refuse" code="P4D012" job="a.sh" job_id="" uid="1000" account="" partition="h100" qos="" model="m1" gpu=""
[2026-11-02T10:00:01.123] p4d: event="submit" verdict="refuse" code="P4D012,P4D113" job="a.sh" job_id="" uid="1000" account="" partition="h100" qos="" model="m1" gpu=""
[2026-11-02T10:00:02.123] p4d: event="submit" verdict="refuse" code="P4D012" job="a.sh" job_id="" uid="1000" account="" partition="h100" qos="" model="m1" gpu=""
[2026-11-02T10:00:03.123] p4d: event="submit" verdict="refuse" code="P4D012" job="b \" code=\"P4D001" job_id="" uid="1001" account="" partition="h100" qos="" model="m1" gpu=""
[2026-11-02T10:00:04.123] p4d: event="submit" verdict="refuse" code="P4D040" job="a.sh" job_id="" uid="1000" account="" partition="h100" qos="" model="" gpu=""
[2026-11-02T10:00:05.123] p4d: event="submit" verdict="would-refuse" code="P4D012" job="c.sh" job_id="" uid="1000" account="" model="m1" gpu=""
[2026-11-02T10:00:06.123] _slurm_rpc_submit_batch_job: JobId=3
END
exits 0 p4d report --conf p4d.conf --refusals slurmctld.log --json
tr -d ' \n' <.out | grep -qF '"refusals":[{"code":"P4D012","refusals":4,"jobs":2},{"code":"P4D040","refusals":1,"jobs":1}]' || fail "refusals"
exits 0 p4d report --conf p4d.conf --refusals slurmctld.log --read-output
prints "p4d refused 3 different jobs. The" "Passed by p4d, but ran out of GPU memory"
refused P4D003 p4d report --refusals none.log
refused P4D003 p4d report --refusals .
says "cannot be read: Is a directory"
grep -v '"refuse"' slurmctld.log >quiet.log
exits 0 p4d report --conf p4d.conf --refusals quiet.log
grep -q 'quiet.log contains no refusal\.$' .out || fail "a log without refusals"
echo hello >other.log
exits 0 p4d report --conf p4d.conf --refusals other.log
prints "other.log contains no refusal, and no line of p4d at all: is it slurmctld's log"
# jobs whose output says it, which p4d passed: also those that it changed
passed=$(grep '^"gpu_memory_said' expected | grep -oE '"(pass|warn|rewrite)":\{"jobs":[0-9]*' | awk -F: '{ sum += $NF } END { print sum }')
exits 0 p4d report --conf p4d.conf --read-output
[ "$passed" -gt 0 ] && grep -q "as its output says: .*, and accepted $passed jobs (" .out || fail "not $passed passed"
exits 0 p4d report --conf p4d.conf --names --json
tr -d ' \n' <.out | grep -qF "{\"jobs\":2000,\"gpu_hours\":" || fail "no user"
tr -d ' \n' <.out | grep -q "\"user\":\"$user\",\"verdicts\"" || fail "no names with --names"
exits 0 p4d report --conf p4d.conf --since 2026-11-01 --account physics --read-output
prints "2000 GPU jobs have ended" "WOULD REFUSE" "NO RECORD" "by code" "by account" "by partition" "by model" "by framework" "GPU-hours saved" \
	"Refused, and submitted with --p4d-override" "Error of the prediction: predicted / measured memory" "would fit on fewer GPUs"
grep -q -- '--starttime=2026-11-01 --accounts=physics ' "$SACCT/asked" || fail "sacct was not asked for these jobs"

# the page has what the terminal has, and all lines of its tables
exits 0 p4d report --conf p4d.conf --read-output --names --refusals slurmctld.log --html page.html
cp .out text
whole_page page.html 'Jobs since now-30days'
for heading in "by how they ended" "Passed by p4d, but ran out of GPU memory" "Refused at submission, by code" "by code" "by account" "by partition" "by model" \
	"by framework" "by user" "Error of the prediction: predicted / measured memory"; do
	grep -q "$heading" text && grep -q "<h2 class=\"\">.*$heading" page.html || fail "the page or the text lacks $heading"
done
grep '^out of GPU memory, as its output says  ' text | grep -oE '[0-9]+ \([0-9.]+\)' >cells
[ "$(wc -l <cells)" -ge 5 ] || fail "too few cells"
while read -r cell; do
	grep -qF ">$cell<" page.html || fail "the page lacks $cell"
done <cells
deaths=$(grep -cE '<td class="l">out of GPU memory, as its output says</td><td class="l">(pass|warn|rewrite)<' page.html)
[ "$deaths" = "$passed" ] || fail "the page has $deaths of $passed deaths"
refused P4D001 p4d report --html other.html 4
says "p4d report --html other.html"
refused P4D003 p4d report --conf p4d.conf --html no/page.html
says no/page.html

# rows: all jobs that ran and were measured, and all that died according to the evidence
read -r rows deaths <rows.expected
[ "$(wc -l <rows.csv)" = $((rows + 1)) ] || fail "$(wc -l <rows.csv) lines of rows, of $rows"
! grep -q ",$user," rows.csv || fail "rows have names"
exits 0 p4d validate --json rows.csv
printf '%s\n' "$out" | grep -A1 '"not_taken":' | grep -q '^ *\],$' || fail "p4d validate cannot take all rows"
tr -d ' \n' <.out | grep -qF "\"judged\":$deaths," || fail "not all deaths are rows"
tr -d ' \n' <.out | grep -o '"fraction":[0-9.]*' | sort -u | wc -l | grep -qx ' *2' || fail "rows are not those of the two scripts"
exits 0 p4d calibrate rows.csv
prints 'megatron/*/bf16/h100-80gb'

# job ID STATE TASKS GPUMEM RECORD: of 8 GPUs, with one step
job()
{
	[ -f "$SACCT/jobs.few" ] || head -1 "$SACCT/jobs" >"$SACCT/jobs.few"
	printf '%s\t%s\t%s\tphysics\th100\t%s\t0:0\tgres/gpu=8,node=1\tgres/gpu=8,node=1\t\t100\t200\t3800\t3600\t1\t\tsbatch job.sh\t%s\tjob.sh\t%s\t\n' "$1" "$1" "$user" "$2" \
		"$work/jobs" "$5" >>"$SACCT/jobs.few"
	printf '%s.0\t%s.0\t\tphysics\t\t%s\t0:0\t\tgres/gpu=8,node=1\tcpu=1,gres/gpumem=%s\t100\t200\t3800\t3600\t1\t%s\t\t\tpython\t\t\n' "$1" "$1" "$2" "$4" "$3" >>"$SACCT/jobs.few"
}
: >"$SACCT/scripts"
said=of79.1GiB,nodes=1,gpus-per-node=8,verdict
job 1 COMPLETED 8 61235M "p4d-verdict:61.2$said=warn,code=P4D112,mode=warn,framework=fsdp"
job 2 COMPLETED 8 15G "p4d-verdict:16.4$said=pass,mode=warn,framework=fsdp"
job 3 COMPLETED 8 15G "p4d-verdict:16.4$said=pass,mode=warn,framework=megatron,tp=4,pp=1,cp=1"
job 4 COMPLETED 1 400G "p4d-verdict:55.5$said=pass,mode=warn,framework=megatron,tp=2,pp=4"
job 5 COMPLETED 8 30G "p4d-verdict:31.4$said=pass,mode=warn,framework=ddp"
job 6 FAILED 8 78G "p4d-verdict:60.0$said=pass,mode=warn,framework=ddp"
job 7 COMPLETED 8 0 "p4d-verdict:60.0$said=pass,mode=warn,framework=ddp"
job 8 COMPLETED 8 15G ''
mv "$SACCT/jobs.few" "$SACCT/jobs"
# note ID LINE
note() { exits 0 p4d report --conf p4d.conf --note "$1"; [ "$out" = "p4d: $2" ] || fail "job $1: not \"$2\""; }
note 1 'predicted 61.2, used 59.8 of 79.1 GiB'
note 2 'predicted 16.4, used 15.0 of 79.1 GiB; 1 x 2 would do; a100-40gb would do'
note 3 'predicted 16.4, used 15.0 of 79.1 GiB; 1 x 4 would do; a100-40gb would do'
note 4 'predicted 55.5, used on average 50.0 of 79.1 GiB'
note 5 'predicted 31.4, used 30.0 of 79.1 GiB; 1 x 1 would do; a100-40gb would do'
note 6 'predicted 60.0, used 78.0 of 79.1 GiB; it ran out of GPU memory'
note 7 'predicted 60.0 of 79.1 GiB, not measured'
note 8 'not predicted, used 15.0 GiB'
exits 0 p4d report --conf p4d.conf 1 8
prints "Job 1: completed, 8.0 GPU-hours on 1 x 8 GPUs" "Verdict at submission: warn P4D112" "Measured by gres/gpumem" \
	"Memory of a GPU: predicted 61.2, used 59.8 of 79.1 GiB" "not recorded; today: Slurm stores no script"
exits 0 p4d report --conf p4d.conf --json 2
prints '"fewer_gpus":"1 x 2"' '"smaller_gpu":"a100-40gb"' '"measured_gib":15.0000'
# jobstats' record has the fullest GPU (59.8 GiB); an answer of Prometheus is taken before it, and the job's own log before that
record=$(sed -n '/^#define RECORD/,/^#define WITHOUT/s/^.*"\([A-Za-z0-9+\/=]*\)".*$/\1/p' "$P4D_TEST_SRCDIR/tests/command/test_measure.c" | tr -d '\n')
job 4 COMPLETED 1 400G "JS1:$record p4d-verdict:55.5$said=pass,mode=warn,framework=megatron,tp=2,pp=4"
job 9 COMPLETED 8 30G "JS1:None p4d-verdict:31.4$said=pass,mode=warn,framework=fsdp"
mv "$SACCT/jobs.few" "$SACCT/jobs"
if p4d dump-features | grep -q '^jobstats: yes'; then
	note 4 'predicted 55.5, used 59.8 of 79.1 GiB'
fi
note 9 'predicted 31.4, used 30.0 of 79.1 GiB; 1 x 4 would do; a100-40gb would do'
echo '{"data":{"result":[{"metric":{"hpc_job":"9"},"value":[1,"40960"]}]}}' >answer.json
exits 0 p4d report --conf p4d.conf --prometheus answer.json --note 9
[ "$out" = "p4d: predicted 31.4, used 40.0 of 79.1 GiB" ] || fail "not what Prometheus has"
echo 'step: 10  loss: 3.1  memory: 50.00GiB(63.21%)  tps: 5,678' >titan.log
exits 0 p4d report --conf p4d.conf --prometheus answer.json --log titan.log --json 9
prints '"source":"log"' '"measured_gib":50.0000'
cat >slurmd.log <<'END'
[2026-11-02T10:00:00.123] [9.0] p4d: event="end" job_id="9" step_id="0" node="0" max_gib="44.50" gpu="1" text=""
[2026-11-02T10:00:00.123] [9.0] p4d: event="end" job_id="9" step_id="0" node="1" max_gib="45.50" gpu="3" text=""
[2026-11-02T10:00:00.123] [8.0] p4d: event="end" job_id="8" step_id="0" node="0" max_gib="" gpu="" text="accounting mode is off on 2 GPUs; fix: nvidia-smi -am 1"
END
exits 0 p4d report --conf p4d.conf --prometheus answer.json --slurmd-log slurmd.log --json 9
prints '"source":"NVML"' '"measured_gib":45.5000'
refused P4D005 p4d report --slurmd-log answer.json 9
says "measure=nvml in plugstack.conf"
refused P4D001 p4d report --log titan.log 4 9
refused P4D001 p4d report --rows rows.csv 4
says "p4d report --rows rows.csv"
refused P4D003 p4d report --log none.log 9
echo nothing >other.log
refused P4D005 p4d report --log other.log 9
says "no line has the memory of a GPU" "--log-memory-interval"
refused P4D003 p4d report --prometheus none.json
echo '{"status":"error","errorType":"bad_data","error":"invalid parameter \\"query\\": parse error"}' >error.json
refused P4D005 p4d report --prometheus error.json 9
says 'error.json is an error message of Prometheus: invalid parameter "query": parse error'
# what users write into Extra steers no terminal
job 3 FAILED 8 0 ''
sed '2s/$/p4d-verdict:verdict=pass,code=%1b[31mX,model=m%ff/' "$SACCT/jobs.few" >"$SACCT/jobs"
rm "$SACCT/jobs.few"
exits 0 p4d report --conf p4d.conf 3
prints 'Verdict at submission: pass \x1b[31mX'
exits 0 p4d report --conf p4d.conf --json
prints '"model":"m\\xff"'
job 5 COMPLETED 8 30G ''
job 5 COMPLETED 8 30G ''
mv "$SACCT/jobs.few" "$SACCT/jobs"
refused P4D001 p4d report --log titan.log 5
says "5 names 2 jobs"
refused P4D003 p4d report 99
says "no job with id 99" "sacct -X -j 99"
refused P4D001 p4d report job.sh
says "is not a job id"
exits 1 p4d report --note
