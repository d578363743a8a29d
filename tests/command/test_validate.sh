#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d validate of published runs of all frameworks: the largest allowed errors, and runs that it may not refuse or let
# pass.
. "${0%/*}/lib.sh"

exits 0 p4d validate "$P4D_TEST_SRCDIR/tests/data/frameworks_memory.csv"
silent
prints "runs that succeeded, but that p4d would refuse: 0;" "false passes: 0 of 7"
printf '%s\n' "$out" | awk '/^Runs that ran out of memory/ { of = 1; next } /^false passes/ { exit n != 7 }
	of && / / && $1 != "run" { n++; if ($NF != "refuse") exit 2 }' || fail "runs that ran out of memory are refused"

# at_most CLASS STATISTIC PERCENT ROWS: for a class with at least this many rows
at_most()
{
	printf '%s\n' "$out" | awk -v class="$1:" -v what="$2" -v most="$3" -v rows="$4" '
		$1 == class {
			found = 1
			for (i = 1; i < NF; i++) {
				if ($i == what) { value = $(i + (what == "mean" ? 3 : 1)); }
				if ($i == "over" && !count) count = $(i + 1)
			}
			if (value == "" || value + 0 > most || count < rows) exit 1
		}
		END { exit !found }' || fail "$1: $2 above $3 %, or fewer than $4 rows"
}

at_most fsdp mean 4 9
at_most fsdp worst 10 9
at_most lora median 8 30
at_most qlora median 8 12
at_most qlora worst 8 12
at_most full median 8 3
# one row, read off a sentence
at_most zero mean 8 1

exits 0 p4d validate --json "$P4D_TEST_SRCDIR/tests/data/frameworks_memory.csv"
prints '"unseen"' '"false_passes":0' '"refused_though_they_ran":0'

# engines that serve: on one GPU within 2 % of their report at startup; the file names the rows that are far off, and
# why
exits 0 p4d validate "$P4D_TEST_SRCDIR/tests/data/serving_memory.csv"
prints "runs that succeeded, but that p4d would refuse: 0; 2 rows left out" "llama8b-a100-80-tokens"
off=$(printf '%s\n' "$out" | awk '$1 ~ /^llama8b/ { sub(/^[+-]/, "", $7); if ($7 > 2 || $7 == "") n++ ; rows++ } END { print n + 0, rows }')
[ "$off" = "0 6" ] || fail "Llama 3.1 8B on one GPU: $off rows beyond 2 %"
[ "$(printf '%s\n' "$out" | grep -c 'starts$')" = 17 ] || fail "not every row starts"
printf '%s\n' "$out" | awk '/^vllm: / { sub(/%,/, "", $0); if ($7 + 0 > 3 || !$7) exit 1; seen = 1 } /^sglang: / { if ($5 + 0 > 5) exit 1 }
	END { exit !seen }' || fail "medians: $(printf '%s\n' "$out" | grep '^[vs][lg].*: mean')"

# what vLLM 0.33 reported when p4d rehearse started it (tests/rehearsal/make_serving.py): every start within 3 %
exits 0 p4d validate "$P4D_TEST_SRCDIR/tests/data/serving_rehearsed.csv"
prints "runs that succeeded, but that p4d would refuse: 0; 0 rows left out" "llama8b-h100-graphs-tokens"
off=$(printf '%s\n' "$out" | awk '$2 == "vllm" { sub(/^[+-]/, "", $7); rows++; if ($7 > 3 || $7 == "") print $1, $7 } END { if (rows < 39) print rows + 0, "rows" }')
[ -z "$off" ] || fail "starts of vLLM: $off"

# how fast engines answer (TensorRT-LLM's tables): each GPU's throughputs within 12 % on average, times to a token within 10 %
exits 0 p4d validate "$P4D_TEST_SRCDIR/tests/data/serving_measured.csv"
off=$(printf '%s\n' "$out" | awk '/: mean absolute error/ { class = $1; $5 += 0; classes++ }
	/^speed-(a100|h100|h200|gh200|l40s|b200|gb200):/ && $5 > 12 || /-online:/ && $5 > 10 { print class, $5 } END { if (classes != 25) print classes + 0, "classes" }')
[ -z "$off" ] || fail "speeds of engines: $off"
# vLLM, SGLang and LMDeploy; prompts and answers of ShareGPT are known by their means
at_most speed-vllm mean 8 3
at_most speed-vllm-0.4 mean 11 5
at_most first-sglang mean 10 4
at_most between-vllm mean 18 4
at_most between-sglang mean 9 4
at_most tokens-vllm mean 40 2
at_most tokens-vllm-v1 mean 15 4
at_most tokens-sglang mean 20 2
at_most speed-gpustack median 21 60
at_most gap-gpustack median 9 11
at_most speed-sglang median 10 35
at_most gap-sglang median 9 35
at_most speed-vllm-2024 median 20 9
at_most speed-lmdeploy mean 6 13
at_most speed-trtllm-26 median 10 118
at_most speed-trtllm-26 mean 14 118
# rows of these engines that no constant was chosen by: at least 60 on four kinds of GPU, median at most 15 %; and of two
# rows of a source, p4d finds the one with more tokens per second (or more time to a token) in nine of ten pairs
p4d validate --json "$P4D_TEST_SRCDIR/tests/data/serving_measured.csv" >serving.json
off=$(awk '
	FNR == NR && FNR > 1 { split($0, field, ","); if (field[4] !~ /TensorRT/) source[field[1]] = field[3] " " field[6] }
	FNR == NR { next }
	{ gsub(/[",]/, ""); split($0, pair, ":"); key = pair[1]; gsub(/[ \t]/, "", key); value = pair[2]; value_of[key] = value }
	key == "seen" && value_of["row"] in source {
		n++; from[n] = source[value_of["row"]]; m[n] = value_of["measured"] + 0; p[n] = value_of["predicted"] + 0
		if (value == "false") { gpu[value_of["gpu"]] = 1; e = p[n] / m[n] - 1; error[++unseen] = e < 0 ? -e : e }
	}
	END {
		for (i = 1; i <= n; i++)
			for (j = i + 1; j <= n; j++)
				if (from[i] == from[j] && (m[i] > 1.02 * m[j] || m[j] > 1.02 * m[i])) {
					pairs++; right += (m[i] < m[j]) == (p[i] < p[j])
				}
		for (i = 1; i <= unseen; i++)
			for (j = 1; j <= unseen; j++) below[i] += error[j] < error[i]
		for (i = 1; i <= unseen; i++)
			if (below[i] <= unseen / 2 && error[i] > median) median = error[i]
		for (i in gpu) kinds++
		if (n < 60 || unseen < n / 2 || kinds < 4 || median > 0.15 || right < 0.9 * pairs)
			print n + 0, "rows,", unseen + 0, "unseen,", kinds + 0, "GPUs, median", median, "pairs", right + 0, pairs + 0
	}' "$P4D_TEST_SRCDIR/tests/data/serving_measured.csv" serving.json)
[ -z "$off" ] || fail "speeds of vLLM, SGLang and LMDeploy: $off"

# step times outside of Megatron-LM (torchtitan, and FSDP with llm-foundry's modules), all only compared
exits 0 p4d validate "$P4D_TEST_SRCDIR/tests/data/frameworks_throughput.csv"
at_most torchtitan mean 9.5 23
at_most torchtitan worst 39 23
at_most torchtitan median 8.5 23
at_most llm-foundry mean 7 77
at_most llm-foundry worst 23 77
prints "runs that succeeded, but that p4d would refuse: 0;"

# a line that cannot be read is named
header=row_id,class,source,framework,gpu,what,measured_gib,oom,validate,seen,options,notes
line()
{
	printf '%s\n%s\n' "$header" "$1" >runs.csv
	exits "$2" p4d validate runs.csv
	says "$3"
}
line "a,fsdp,s,f,h100,touched,5,0,1,,--model llama3-8b,n" 5 "runs.csv:2: neither allocated, reserved, device, step_s, weights, cache, tokens, tokens_per_s, first_ms nor between_ms in column what"
line "a,fsdp,s,f,h100,reserved,0,0,1,,--model llama3-8b,n" 5 "runs.csv:2: not above 0 in column measured_gib"
line "a,fsdp,s,f,h100,reserved,5,0,1,,--model,n" 5 'a: "--model" is not an option with a value'
line "a,fsdp,s,f,h100,reserved,5,0,1,,--no-such 1,n" 5 'a: "--no-such" is not an option with a value'
# one that cannot be allocated is refused, whatever was measured
exits 0 sh -c "printf '%s\n%s\n' '$header' \
	'big,full,s,f,a10g,reserved,5,0,1,,--framework ddp --model llama3-70b --seq-len 512 --global-batch 1,n' >big.csv &&
	p4d validate big.csv"
prints "runs that succeeded, but that p4d would refuse: 1;"

# options as `p4d read` writes them; p4d judges a file without the rows that it cannot take, and names these
cat >runs.csv <<END
$header
good,fsdp,s,f,h100,reserved,5,0,1,,--model=llama3-8b --framework=fsdp --gpus-per-node 8 --global-batch=8,n
no-word,fsdp,s,f,h100,touched,5,0,1,,--model llama3-8b,n
no-model,fsdp,s,f,h100,reserved,5,0,1,,--model=no-such-model-at-all,n
short,fsdp,s
also-good,fsdp,s,f,h100,reserved,5,0,1,,--model llama3-8b --framework fsdp --gpus-per-node 8 --global-batch 8,n
END
exits 0 p4d validate runs.csv
prints "over 2 rows" "3 rows that p4d cannot use:" "runs.csv:3: neither allocated" 'no-model: unknown model' "runs.csv:5: number of fields"
[ "$(printf '%s\n' "$out" | awk '$1 ~ /good$/ { print $6, $7 }' | sort -u | wc -l)" = 1 ] || fail "--a=b and --a b differ"
exits 0 p4d validate --json runs.csv
prints '"not_taken":[' '"line":3,' '"row":"no-model",'
# more than a thousand rows of many classes
awk -v header="$header" 'BEGIN { print header; for (i = 0; i < 1200; i++)
	printf "r%d,class%d,s,f,h100,reserved,5,0,1,,--model=llama3-8b --framework=ddp --finetune=lora --global-batch=1,n\n", i, i % 12 }' >many.csv
exits 0 p4d validate many.csv
prints "class11: mean absolute error" "over 100 rows"
for file in measured_memory measured_throughput frameworks_memory frameworks_throughput serving_memory serving_measured; do
	p4d validate --json "$P4D_TEST_SRCDIR/tests/data/$file.csv" | grep -A1 '"not_taken":' | grep -q '^ *\],$' ||
		fail "$file.csv has rows that p4d cannot take"
done
