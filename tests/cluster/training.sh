# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034,SC2154
# Sourced, after lib.sh, by the tests that train: a tiny Llama, a text, and jobs with eight ranks on two nodes.
command -v p4d-train >/dev/null || skip "p4d-train is not built"
export OPENBLAS_NUM_THREADS=1 P4D_DATADIR="$SOURCE/etc"

cat >model.json <<'END'
{"name": "tiny", "layers": 4, "hidden": 32, "ffn": 64, "heads": 4, "kv_heads": 2, "head_dim": 8, "vocab": 257,
 "max_seq_len": 32, "norm": "rmsnorm", "glu": "on", "tied": "off", "positions": "rope", "bias": "none", "qk_norm": "off"}
END
# a text that nobody edits: rounding may grow more with another
p4d data -o text "$SOURCE/LICENSE" >/dev/null || fail "no data"
# Low enough that rounding in another order does not grow: at 1e-2 it was 1e-5 of the loss after 20 steps.
rate="--lr 2e-3"
# losses FILE: "step loss norm", the last ones of a step that was made twice
losses()
{
	sed -n 's/.*"event":"step","step":\([0-9]*\),.*"loss":\([^,]*\),"gradient_norm":\([^,]*\),.*/\1 \2 \3/p' "$1" |
		awk '{ seen[$1] = $0 } END { for (step in seen) print seen[step] }' | sort -n
}
# submit NAME STEPS [OPTION...]
submit()
{
	name=$1 steps=$2
	shift 2
	# not with --export: Slurm 26.05 then asks su for the user's environment, even for ALL
	run env P4D_DATA="$work/text" P4D_STEPS="$steps" P4D_CHECKPOINT="$work/$name" P4D_TRAIN_ARGS="$rate --save-every 5" \
		sbatch -N2 --ntasks-per-node=4 --output="$work/$name.out" --p4d-model="$work/model.json" --p4d-device=cpu --p4d-tp=2 \
		--p4d-pp=2 --p4d-global-batch=8 --p4d-seq-len=32 \
		"$@" "$(p4d job)"
	accepted
}

# until_true TENTHS COMMAND...: waits until it succeeds, about so long
until_true()
{
	tries=$1
	shift
	while ! "$@"; do
		tries=$((tries - 1))
		[ "$tries" -gt 0 ] || return 1
		sleep 0.1
	done
}
# put_back ID: the job was requeued, and may start at once instead of in two minutes; but in the second of its end the nodes would
# refuse it as killed
put_back()
{
	until_true 600 restarted "$1" || fail "job $1 is $(job "$1" JobState), and was not requeued"
	until_true 200 may_start "$1" || fail "job $1 is $(job "$1" JobState), and not in the queue"
}
restarted() { [ "$(job "$1" Restarts)" = 1 ]; }
may_start() { [ "$(job "$1" JobState)" = PENDING ] && scontrol update JobId="$1" StartTime=now+3; }
