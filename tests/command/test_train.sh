#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d-train from its command line to its exit status: what it refuses, that layouts agree, how it ends and continues.
. "${0%/*}/lib.sh"
by_hand
make_text

model="--model custom --layers 4 --hidden 32 --ffn 64 --heads 4 --kv-heads 2 --head-dim 8 --vocab 257 --max-seq-len 32
	--norm rmsnorm --glu on --tied off --positions rope --bias none --qk-norm off --seq-len 32"
# low enough that rounding in another order does not grow
run="--data text --lr 5e-3"
# shellcheck disable=SC2086 # lists of words
train() { p4d-train $model $run --global-batch 8 "$@"; }
# The same behind one's back, as a process that can be sent signals: "$!".
# shellcheck disable=SC2086
train_behind() { p4d-train $model $run "$@" & }

# silent_but_twice: of an option that stands behind the common ones again, and of further steps of a run
silent_but_twice() { printf '%s\n' "$err" | grep -Eqv 'has two values|was trained with --steps=|fix: --steps=' && fail "it says more than that"; }

# losses FILE: "step loss" of every step
losses() { sed -n 's/.*"event":"step","step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' "$1"; }

# same_losses A B: to 1e-5
same_losses()
{
	losses "$1" >"$1.losses"
	losses "$2" >"$2.losses"
	[ -s "$1.losses" ] || fail "$1 has no losses"
	paste -d ' ' "$1.losses" "$2.losses" | awk '
		$1 != $3 || !($2 > 0) || ($2 - $4) ^ 2 > (1e-5 * $2) ^ 2 { print; bad = 1 } END { exit bad }' ||
		fail "$1 and $2 differ"
}

# the command line
exits 0 p4d-train --help
prints "--data FILE" "--tp N" "--resume auto|must|never" "--local-ranks N"
exits 0 p4d-train --version
prints "p4d-train "
refused P4D001 p4d-train
says "--data"
refused P4D001 p4d-train --data text --steps 5
says "fix: --model"
refused P4D001 train --steps 5 --nosuch
says "--nosuch" "fix: p4d-train --help"
exits 5 train --steps 0
exits 1 train --steps 5 --resume must
says "--checkpoint"
# what would have no effect
for option in "save-every 5:--checkpoint" "eval-every 5:--valid-data or --valid-fraction" "decay-steps 2:--schedule-lr=wsd"; do
	# shellcheck disable=SC2086 # an option and its value
	refused P4D001 train --steps 5 --${option%:*}
	says "--${option%% *} has no effect without ${option#*:}"
done

# before data are read: an impossible layout, another model, too little memory
exits 27 p4d-train $model --data nosuch --steps 5 --local-ranks 3 --pp 2
exits 9 p4d-train --model mixtral-8x7b --data nosuch --steps 5
exits 33 p4d-train --model llama3.1-405b --device cpu --data nosuch --steps 5
says "1 rank of a node need" "GiB of host memory" "fix: find a layout that needs less memory: p4d plan --model llama3.1-405b"

# the device: one line if there is no GPU, or the cpu
P4D_LIBDIR=/nonexistent exits 54 train --device cuda --steps 5
says "built without CUDA: /nonexistent/libp4d-cuda.so not found" "fix: --device cpu"
[ "$(printf '%s\n' "$err" | wc -l)" = 2 ] || fail "more than a message and a fix"
if [ ! -e /dev/nvidiactl ]; then
	exits 54 train --device cuda --steps 5 --local-ranks 2
	says "P4D054"
	[ "$(printf '%s\n' "$err" | grep -c P4D054)" = 1 ] || fail "more than one rank speaks"
	exits 0 train --device auto --steps 1 --log auto.json
	grep -q '"device":"cpu","device_text":"cpu[^"]* (this ' auto.json || fail "auto did not take the cpu"
fi
exits 51 train --data nosuch --steps 5 --local-ranks 2
says "nosuch.bin" "fix: p4d data -o nosuch FILE..."
[ "$(printf '%s\n' "$err" | grep -c P4D051)" = 1 ] || fail "not one rank speaks"
cp text plain
exits 51 train --data plain --steps 5
says "fix: p4d data -o plain plain"
exits 51 p4d-train $(echo $model | sed "s,--vocab 257,--vocab 50,") $run --global-batch 8 --steps 5
says "expected 0 to 49"

# how positions are encoded, and what norms add, come from the model's file, or from flags
cat >config.json <<'END'
{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 4, "hidden_size": 32, "intermediate_size": 64, "head_dim": 8,
 "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 257, "max_position_embeddings": 32, "rms_norm_eps": 0.01,
 "rope_theta": 50.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
 "original_max_position_embeddings": 16}}
END
# of_file FLAGS...: three steps
of_file() { p4d-train --model ./config.json --seq-len 32 $run --global-batch 8 --steps 3 "$@"; }
exits 0 of_file --log file.json
exits 0 train --steps 3 --log flags.json --norm-epsilon 0.01 --rope-theta 50 --rope-scaling llama3,8,1,4,16
losses file.json >file.losses
losses flags.json >flags.losses
[ -s file.losses ] && cmp -s file.losses flags.losses || fail "the model file and the flags differ"
for flag in "--norm-epsilon 0.02" "--rope-theta 60" "--rope-scaling none" "--rope-scaling linear,2"; do
	rm -f other.json
	# shellcheck disable=SC2086
	exits 0 of_file $flag --log other.json
	losses other.json | cmp -s - file.losses && fail "$flag changes nothing"
done
# a type that only the memory estimate has not to know
sed 's/"llama3"/"yarn"/' config.json >yarn.json
exits 0 p4d estimate --model ./yarn.json --gpu h100
exits 9 p4d-train --model ./yarn.json --data text --steps 3
says "RoPE scaling \"yarn\" is not supported; p4d-train has none, linear and llama3"
# a checkpoint goes on with the same, unless the user says otherwise
exits 0 of_file --checkpoint turned
sed 's/"rope_theta": 50.0/"rope_theta": 70.0/' config.json >other.json && mv other.json config.json
exits 52 of_file --checkpoint turned --steps 4
says "trained with --rope-theta=50, but this run uses 70" "fix: --rope-theta=50"
exits 0 of_file --checkpoint turned --steps 4 --rope-theta 50
silent_but_twice
exits 0 of_file --checkpoint turned --steps 5 --rope-theta 70
says "trained with --rope-theta=50, but this run uses 70"

# one rank and several: the same losses, which fall
exits 0 train --steps 12 --log one.json
silent
for layout in "2 --tp 2" "4 --tp 2 --pp 2" "2 --cp 2" "2 --cp 2 --cp-comm all-gather" "2 --pp 2 --schedule zbv" "2 --pp 2 --schedule dualpipe-v" \
	"4 --pp 2 --vocab-parallel vocab-1" "4 --tp 2 --pp 2 --comm staged"; do
	rm -f several.json
	exits 0 train --steps 12 --log several.json --local-ranks $layout
	same_losses one.json several.json
done
grep -q '"comm":"staged through the host"' several.json || fail "it was not staged"
grep -q '"comm":"host memory"' one.json || fail "the start does not say how ranks talk"
exits 5 train --steps 12 --local-ranks 2 --comm nccl
says "fix: --comm auto"
awk 'NR == 1 { first = $2 } { last = $2 } END { exit !(first > 5 && last < first - 1) }' one.json.losses || fail "it does not learn"
grep -q '"event":"end","step":12' one.json || fail "no end"
# number NAME FILE: of the memory report
number() { sed -n "s/.*\"event\":\"memory\".*\"$1\":\([0-9]*\).*/\1/p" "$2"; }
planned=$(number planned_bytes one.json)
[ -n "$planned" ] && grep -q "\"arena_bytes\":$planned," one.json || fail "the arena is not the plan"
[ "$(number allocated_bytes one.json)" = "$planned" ] || fail "the device gave something else"
# all of it was used, except 64 KiB of room for the GPU's numbers, alignment, and attention's tiles of 64 tokens, of
# which sequences of 32 fill a part
used=$(number used_bytes one.json)
[ "$used" -le "$planned" ] && [ "$used" -ge $((planned - 65536 - 8192 - 16384)) ] || fail "$used of $planned bytes were used"
# memory of the process, unless a sanitizer takes memory as well
if ! grep -qa __asan_init "$P4D_TEST_BUILDDIR/p4d-train"; then
	[ "$(number host_peak_bytes one.json)" -gt "$used" ] || fail "the process has less than its arena"
	[ "$(number host_peak_bytes one.json)" -le "$(number host_planned_bytes one.json)" ] || fail "the host is not planned right"
fi

# documents that do not see each other: the same on all layouts, another loss than one text, and a run keeps to it
exits 0 p4d data --split-lines -o lines text
# shellcheck disable=SC2086
train_lines() { p4d-train $model --data lines --lr 5e-3 --global-batch 8 --steps 8 "$@"; }
exits 0 train_lines --log open.json
exits 0 train_lines --document-mask on --log masked.json --checkpoint masked --save-every 4
grep -q '"event":"start".*"cp_comm":"p2p".*"document_mask":"on"' masked.json || fail "the log does not say that documents are masked"
grep -q '"document_mask": "on"' masked/step-00000008/manifest.json || fail "the checkpoint does not say that documents are masked"
for layout in "2 --cp 2" "4 --cp 2 --cp-comm all-gather --pp 2"; do
	rm -f several.json
	exits 0 train_lines --document-mask on --log several.json --local-ranks $layout
	same_losses masked.json several.json
done
losses open.json >open
paste -d ' ' open masked.json.losses | awk '($2 - $4) ^ 2 > (1e-4 * $2) ^ 2 { differ = 1 } END { exit !differ }' || fail "the mask changes nothing"
exits 52 train_lines --checkpoint masked
says "--document-mask=on, not off" "fix: --document-mask=on"
# another kind of text, met when the model is sure of what comes next: a spike. Steps and their order are the same everywhere.
i=0
while [ $i -lt 60 ]; do
	printf '\360\361\376\375\374\333\322\311'
	i=$((i + 1))
done >noise
cat text noise >both
exits 0 p4d data -o both both
# both_texts FLAGS...: 200 steps
both_texts() { p4d-train $model --data both --lr 1e-2 --global-batch 2 --steps 200 "$@"; }
# kinds FILE: "step kind applied" of the steps that were out of the ordinary
kinds()
{
	sed -n 's/.*"step":\([0-9]*\),.*"applied":\([a-z]*\),.*"kind":"\(.*\)".*/\1 \3 \2/p' "$1" | grep -v fine
}
exits 0 both_texts --log report.json
kinds report.json >reported
grep -q " spike true$" reported || fail "no spike is reported"
exits 0 both_texts --log skip.json --on-spike skip
kinds skip.json >skipped
grep -q " spike false$" skipped || fail "no spike is skipped"
[ "$(head -n 1 skipped | cut -d ' ' -f 1)" = "$(head -n 1 reported | cut -d ' ' -f 1)" ] || fail "another step is skipped than reported"
grep -q "\"event\":\"end\".*\"skipped\":$(wc -l <skipped)," skip.json || fail "skipped steps are not counted"
exits 0 both_texts --log ranks.json --on-spike skip --local-ranks 4 --tp 2 --pp 2
[ "$(kinds ranks.json | head -n 1)" = "$(head -n 1 skipped)" ] || fail "four ranks skip another step: $(kinds ranks.json)"
exits 53 both_texts --log stop.json --on-spike stop
says "is far above the running mean"
exits 53 both_texts --log bound.json --on-spike skip --skips 0 --local-ranks 2
says "1 consecutive steps skipped, more than --skips=0"
[ "$(printf '%s\n' "$err" | grep -c P4D053)" = 1 ] || fail "not one rank speaks"

# two tasks as srun would start them, with the plan of the job
# shellcheck disable=SC2086
p4d plan $model --global-batch 8 --device cpu --mem 64G --nodes 1 --gpus-per-node 2 --tp 2 --pp 1 --cp 1 --micro-batch 1 \
	--schedule 1f1b --recompute none --env >plan.sh || fail "no plan"
. ./plan.sh
[ -n "${P4D_PLAN:-}" ] || fail "no P4D_PLAN"
export P4D_PLAN SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_NODEID=0 SLURM_STEP_NODELIST=localhost \
	P4D_JOB_KEY=0123456789abcdef0123456789abcdef SLURM_STEP_NUM_NODES=1
rm -f several.json
# shellcheck disable=SC2086
SLURM_PROCID=1 p4d-train $run --steps 12 2>second.err &
# shellcheck disable=SC2086
exits 0 env SLURM_PROCID=0 p4d-train $run --steps 12 --log several.json
wait $! || fail "the second task failed: $(cat second.err)"
same_losses one.json several.json
# tasks that have another file of that name, options of their own, or another model: all end, and one names them
# differs CODE OPTION...: of the second task, in a directory of its own
differs()
{
	code=$1
	shift
	(cd elsewhere && SLURM_PROCID=1 exec p4d-train "$@") 2>second.err &
	# shellcheck disable=SC2086
	exits "$code" env SLURM_PROCID=0 p4d-train $mine
	wait $! && fail "the second task trains"
	[ -s second.err ] && fail "both tell"
	[ "$(printf '%s\n' "$err" | grep -c .)" = 1 ] || fail "not one line"
}
mkdir elsewhere
sed 's/another one/a further one/' text >elsewhere/text
(cd elsewhere && p4d data -o text text >/dev/null) || fail "no other data"
mine="$run --steps 12"
# shellcheck disable=SC2086
differs 51 $mine
says "rank 1 (" "has other training data than rank 0 ("
mv elsewhere/text.bin elsewhere/other.bin && mv elsewhere/text.idx elsewhere/other.idx
cp text.bin text.idx elsewhere
# shellcheck disable=SC2086
differs 1 $mine --seed 7
says "rank 1 (" "was started with other options than rank 0 ("
(
	unset P4D_PLAN
	sed 's/"rope_theta": [0-9.]*/"rope_theta": 71.0/' config.json >elsewhere/config.json
	mine="$run --steps 12 --model ./config.json --global-batch 8 --seq-len 32 --tp 2"
	# shellcheck disable=SC2086
	differs 41 $mine
	says "rank 1 (" "has another model or layout than rank 0 ("
) || exit 1
# without a key: on one node the ranks find one themselves, on two they need a secret
rm -f several.json
unset P4D_JOB_KEY
SLURM_PROCID=1 p4d-train $run --steps 12 2>second.err &
# shellcheck disable=SC2086
exits 0 env SLURM_PROCID=0 p4d-train $run --steps 12 --log several.json
wait $! || fail "the second task failed: $(cat second.err)"
same_losses one.json several.json
exits 55 env SLURM_STEP_NUM_NODES=2 SLURM_PROCID=0 p4d-train $run --steps 12
says "export P4D_JOB_KEY_FILE="
(eval "$(printf '%s\n' "$err" | sed -n 's/.*fix: //p' | sed "s|~|$PWD|g")" && [ "$(tr -d '\n' <.p4d_key | wc -c)" = 32 ] &&
	[ "$(stat -c %a .p4d_key)" = 600 ]) || fail "the fix makes no key"
# what does not agree with the plan
export SLURM_PROCID=0
exits 41 p4d-train $run --steps 12 --tp 1
says "--tp=1"
exits 27 env SLURM_NTASKS=1 p4d-train $run --steps 12
says "2 ranks" "1 were started"
exits 41 env P4D_PLAN="$(echo "$P4D_PLAN" | sed 's/hidden=32/hidden=64/')" p4d-train $run --steps 12
unset P4D_PLAN SLURM_PROCID P4D_JOB_KEY

# wait_for TEXT FILE: it is in the log
wait_for()
{
	waited=0
	while ! grep -q "$1" "$2" 2>/dev/null; do
		waited=$((waited + 1))
		[ $waited -lt 1200 ] || fail "no $1 in $2"
		sleep 0.05
	done
}

# stopped by a signal, it saves, says so by its status, and goes on where it was, also in another layout
# where the machine is busy elsewhere the signal may come too late: then again, with a longer run
for steps in 30 300 3000; do
	rm -rf saved parts.json
	train_behind --global-batch 8 --steps $steps --log parts.json --local-ranks 2 --tp 2 --checkpoint saved --save-every 5
	wait_for '"step":7,' parts.json
	kill -USR1 $! 2>/dev/null
	wait $!
	status=$?
	[ $status = 0 ] || break
done
[ $status = 75 ] || fail "a stopped run ends with $status"
train --steps $steps --log whole.json --local-ranks 2 --tp 2 2>/dev/null || fail "the whole run"
grep -q '"event":"stopped".*"signal":"SIGUSR1"' parts.json || fail "it does not say who stopped it"
exits 0 train --steps $steps --log parts.json --local-ranks 2 --tp 2 --checkpoint saved --save-every 5
losses whole.json >whole
losses parts.json >parts
cmp -s whole parts || fail "a stopped run does not go on bit by bit: $(diff whole parts)"
rm -rf "saved/step-$(printf %08d $steps)"
rm -f several.json
exits 0 train --steps $steps --log several.json --local-ranks 4 --pp 2 --checkpoint saved --resume must
grep -q "\"resumed_step\":$((steps - 5))[,}]" several.json || fail "it did not continue step $((steps - 5))"
losses whole.json | tail -n 5 >whole
losses several.json >parts
paste -d ' ' whole parts | awk '$1 != $3 || ($2 - $4) ^ 2 > (1e-5 * $2) ^ 2 { exit 1 }' || fail "another layout goes on differently"
# other data, or other sequences: refused, unless they differ only in what it had not seen yet
exits 0 train --steps $((steps + 1)) --checkpoint saved --data elsewhere/other --lr 6e-3 --schedule-lr linear
says "the checkpoint was trained with --lr=0.005 --schedule-lr=cosine --steps=$steps, but this run continues with --lr=0.006 --schedule-lr=linear" \
	"fix: --lr=0.005 --schedule-lr=cosine --steps=$steps, to continue as before"
says "the checkpoint was trained on other data (text); this run continues with sample $((steps * 8 + 1)) of its own data"
exits 0 train --steps $((steps + 2)) --checkpoint saved --data elsewhere/other --lr 6e-3 --schedule-lr linear
silent_but_twice
# shellcheck disable=SC2046,SC2086
exits 0 p4d-train $(echo $model | sed 's/--seq-len 32/--seq-len 16/') $run --global-batch 8 --steps $((steps + 3)) --checkpoint saved
says "the checkpoint was trained with --seq-len=32, but this run uses 16"
rm -rf saved/step-*
exits 0 train --steps 5 --checkpoint saved --save-every 5
exits 52 train --steps $steps --checkpoint saved --seed 7
says "--seed=1, not 7" "fix: --seed=1"
# shellcheck disable=SC2086
exits 52 p4d-train $model $run --steps $steps --checkpoint saved --global-batch 4
says "does not match --global-batch 4" "fix: --global-batch=8"
exits 52 train --steps $steps --checkpoint empty --resume must
says "no checkpoint found"

# a rank is killed: all end, with one line, and the newest whole checkpoint is continued
for rank in 0 1 2; do
	rm -rf killed killed.json
	train_behind --global-batch 9 --steps 1000000 --log killed.json --local-ranks 3 --checkpoint killed --save-every 5 2>killed.err
	parent=$!
	wait_for '"event":"saved"' killed.json
	# the children of the newest process, in the order of ranks
	victim=$(pgrep -P "$parent" | sort -n | sed -n "$((rank + 1))p")
	[ -n "$victim" ] || fail "no process of rank $rank"
	kill -9 "$victim"
	before=$(date +%s)
	wait "$parent"
	status=$?
	err=$(cat killed.err)
	[ $status = 137 ] || fail "a killed rank ends with $status"
	[ $(($(date +%s) - before)) -le 5 ] || fail "it took more than 5 seconds"
	[ "$(grep -c . killed.err)" = 1 ] || fail "not one line"
	says "[P4D050] rank $rank ("
done
steps=$(find killed -name 'step-*' | sort | tail -n 1)
next=$((1 + $(echo "${steps##*-}" | sed 's/^0*//')))
# shellcheck disable=SC2086
exits 0 p4d-train $model $run --global-batch 9 --steps $((next + 1)) --log again.json --local-ranks 3 --checkpoint killed
losses again.json | head -n 1 | grep -q "^$next " || fail "it did not continue behind $steps"

# one run at a time in a directory; a lock of the job before it was requeued does not count
# shellcheck disable=SC2086 # also where the tests themselves run behind nohup, which programs inherit
env --default-signal=HUP p4d-train $model $run --global-batch 8 --steps 1000000 --log owner.json --checkpoint owned &
owner=$!
wait_for '"event":"step"' owner.json
refused P4D052 train --steps 5 --checkpoint owned
says "owned: process " " on $(hostname)" " also saves checkpoints in this directory; give this run another --checkpoint"
# what ends it: a terminal that is closed
kill -HUP $owner
wait $owner
[ $? = 75 ] || fail "SIGHUP does not stop it"
grep -q '"event":"stopped".*"signal":"SIGHUP"' owner.json || fail "it does not say that SIGHUP stopped it"
exits 0 train --steps "$(losses owner.json | wc -l)" --checkpoint owned --resume must
(
	export SLURM_JOB_ID=77
	train_behind --global-batch 8 --steps 1000000 --log requeued.json --checkpoint requeued
	owner=$!
	wait_for '"event":"step"' requeued.json
	exits 52 train --steps 1 --checkpoint requeued
	says ", job 77"
	SLURM_RESTART_COUNT=1 exits 0 train --steps 1 --checkpoint requeued
	kill $owner
	wait $owner
	true
) || exit 1

# data that become shorter while they are read; a limit of file sizes
# shellcheck disable=SC2086
exits 0 p4d data -o shrinks both
for ranks in 1 2; do
	cp both.bin shrinks.bin
	rm -f shrinks.json
	p4d-train $model --data shrinks --lr 5e-3 --global-batch 8 --steps 1000000 --log shrinks.json --local-ranks $ranks 2>shrinks.err &
	pid=$!
	wait_for '"event":"step"' shrinks.json
	: >shrinks.bin
	wait $pid
	status=$?
	err=$(cat shrinks.err)
	[ $status = 51 ] || fail "data that become shorter end it with $status: $err"
	says "[P4D051] rank " "/shrinks.bin: can no longer be read: the file became shorter"
done
exits 3 sh -c 'ulimit -f 20; exec "$@"' sh p4d-train $model $run --global-batch 8 --steps 2 --checkpoint limited
says "File too large"

# threads of the products: the same losses
rm -f threads.json
exits 0 train --steps 12 --log threads.json --threads 2
same_losses one.json threads.json
grep -q '"device_text":"cpu, 2 threads' threads.json || fail "it does not say how many"
exits 5 train --steps 12 --threads 0

# data in a path with blanks
mkdir "a folder"
for kind in bin idx; do cp text.$kind "a folder/the text.$kind"; done
for path in "a folder/the text" "a folder/the text.bin"; do
	rm -f blanks.json
	# shellcheck disable=SC2086
	exits 0 p4d-train $model --lr 5e-3 --global-batch 8 --steps 12 --data "$path" --log blanks.json
	same_losses one.json blanks.json
done

# an option with two values: the last one counts, with one message
exits 0 train --steps 12 --local-ranks 2 --tp 2 --log twice.json --lr 1e-3
[ "$err" = "p4d-train: [P4D001] --lr has two values, 5e-3 and 1e-3: p4d-train uses the last one" ] || fail "it is not said"

# kernels of the products: the user's, else what the processor can, which OpenBLAS may not know; nothing is left in the environment
core() { OPENBLAS_VERBOSE=2 p4d-train --version 2>&1 | sed -n 's/^Core: //p' | tail -n 1; }
if grep -qw avx2 /proc/cpuinfo && [ "$(core)" ]; then
	grep -qw avx512vl /proc/cpuinfo && wanted="SkylakeX Cooperlake SapphireRapids Zen" || wanted="Haswell Excavator Zen"
	own=$(unset OPENBLAS_CORETYPE && core)
	case " $wanted " in *" $own "*) ;; *) fail "kernels are of $own, not $wanted" ;; esac
	[ "$(export OPENBLAS_CORETYPE=Prescott && core)" = Prescott ] || fail "the user's choice of kernels is not taken"
	OPENBLAS_CORETYPE=Prescott exits 0 train --steps 1 --threads 1 --log kernels.json
	! grep -q "instead of" kernels.json || fail "a choice is said that was the user's"
fi

# threads that wait sleep after a millisecond, but as the user says; where OpenMP is GNU's
spins() { OMP_DISPLAY_ENV=verbose p4d-train --version 2>&1 | sed -n "s/^ *GOMP_SPINCOUNT = '\([0-9]*\)'/\1/p" | tail -n 1; }
if [ "$(spins)" ]; then
	[ "$(unset GOMP_SPINCOUNT OMP_WAIT_POLICY && spins)" = 20000 ] || fail "threads wait awake: $(spins)"
	[ "$(export GOMP_SPINCOUNT=5 && spins)" = 5 ] || fail "the user's GOMP_SPINCOUNT is not taken"
	[ "$(export OMP_WAIT_POLICY=active && spins)" -gt 1000000 ] || fail "the user's OMP_WAIT_POLICY is not taken"
fi

# what comes next: the same on one rank and with tensor parallelism, while another run saves there; chance is the seed's
train_behind --global-batch 8 --steps 1000000 --checkpoint sampled --save-every 20 --keep 0 --log sampled.json
owner=$!
wait_for '"event":"saved"' sampled.json
sample() { exits 0 p4d-train --checkpoint sampled --sample "line 1" --sample-tokens 20 "$@"; }
sample
kill $owner
wait $owner
sample
greedy=$out
case $greedy in "line 1"??????????*) ;; *) fail "it says $greedy" ;; esac
sample --local-ranks 2
[ "$out" = "$greedy" ] || fail "two ranks say $out instead of $greedy"
sample --temperature 1.5 --top-p 1e-6 --seed 4
[ "$out" = "$greedy" ] || fail "the likeliest token is $out instead of $greedy"
sample --temperature 1.5 --seed 4
chance=$out
[ "$chance" != "$greedy" ] || fail "a temperature changes nothing"
sample --temperature 1.5 --seed 4 --local-ranks 2
[ "$out" = "$chance" ] || fail "two ranks say $out instead of $chance"
sample --temperature 1.5 --seed 5
[ "$out" != "$chance" ] || fail "another seed says the same"

# longer sequences than the model was made for
# shellcheck disable=SC2046,SC2086
exits 0 p4d-train $(echo $model | sed 's/--seq-len 32/--seq-len 64/') $run --global-batch 8 --steps 1
says "[P4D114] --seq-len=64 is above the 32 positions of custom" "fix: --max-seq-len=64"
# shellcheck disable=SC2046,SC2086
exits 0 p4d-train $(echo $model | sed 's/--seq-len 32/--seq-len 64/; s/--max-seq-len 32/--max-seq-len=64/') $run --global-batch 8 --steps 1
silent

# a rank hangs: the others name it, in one line, and end it
for rank in 0 1; do
	rm -f hung.json
	train_behind --global-batch 9 --steps 1000000 --log hung.json --local-ranks 3 --watchdog 2 2>hung.err
	parent=$!
	wait_for '"event":"step"' hung.json
	kill -STOP "$(pgrep -P "$parent" | sort -n | sed -n "$((rank + 1))p")"
	wait "$parent"
	status=$?
	err=$(cat hung.err)
	[ $status = 50 ] || fail "with a rank that hangs it ends with $status"
	[ "$(grep -c . hung.err)" = 1 ] || fail "not one line"
	says "[P4D050] rank $rank (" "hangs in step "
done
exit 0
