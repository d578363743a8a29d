# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# The last act of ./demo, which sources this: a job trains, loses a process, goes back into the queue, and continues.
steps=300
every=25 # steps between checkpoints, and between lines that are shown
# Supports a machine that is a hundred times too slow, and ends when nothing happens any more.
patience=600

field() { scontrol -o show job "$job" | tr ' ' '\n' | sed -n "s/^$1=//p" | head -1; }
# losses: "step loss" of the steps since the job was started last
losses()
{
	[ ! -f "$log" ] || awk '/"event":"start"/ { n = 0 } /"event":"step"/ { line[n++] = $0 }
		END { for (i = 0; i < n; i++) print line[i] }' "$log" |
		sed 's/.*"step":\([0-9]*\),.*"loss":\([0-9.]*\),.*/\1 \2/'
}

# follow COMMAND...: shows how the loss falls until the command succeeds
follow()
{
	left=$patience
	enough=no
	while [ "$enough" = no ]; do
		# asked before the condition, which a job that ends in between fulfils
		state=$(field JobState)
		! "$@" || enough=yes
		losses >losses
		awk -v after="$shown" -v every="$every" '$1 > after && ($1 % every == 0 || $1 == 1) {
			bar = sprintf("%*s", 9 * $2, "")
			gsub(/ /, "=", bar)
			printf "    step %3d   loss %.2f  %s\n", $1, $2, bar
		}' losses
		at=$(sed -n '$s/ .*//p' losses)
		left=$((left - 1))
		[ "${at:-$shown}" = "$shown" ] || left=$patience
		shown=${at:-$shown}
		case $state in
		PENDING | RUNNING | COMPLETING) ;;
		*) left=0 ;;
		esac
		[ "$enough$left" != no0 ] || failed "job $job is $(field JobState): $(cat "slurm-$job.out")"
		sleep 0.2
	done
}
half_way() { [ "$shown" -ge $((steps / 2)) ] && grep -q '"event":"saved"' "$log"; }
in_the_queue() { [ "$(field Restarts)" = 1 ] && [ "$(field JobState)" = PENDING ]; }
begun_again() { [ "$(grep -c '"event":"start"' "$log")" = 2 ]; }
completed() { [ "$(field JobState)" = COMPLETED ]; }

cat >small.json <<'END'
{"name": "small", "layers": 2, "hidden": 64, "ffn": 176, "heads": 4, "kv_heads": 4, "head_dim": 16, "vocab": 257,
 "max_seq_len": 64, "norm": "rmsnorm", "glu": "on", "tied": "on", "positions": "rope", "bias": "none", "qk_norm": "off"}
END
text='/usr/share/common-licenses/*'
[ -f /usr/share/common-licenses/GPL-3 ] || text="$top/LICENSE $top/*.md"
show p4d data -o text "$text"
[ "$status" = 0 ] || failed "no training data"
typed "export P4D_DATA=text P4D_STEPS=$steps P4D_TRAIN_ARGS='--lr 1e-2 --save-every $every'"
export P4D_DATA=text P4D_STEPS=$steps P4D_TRAIN_ARGS="--lr 1e-2 --save-every $every"
show sbatch -N2 --ntasks-per-node=4 --p4d-model=small.json --p4d-device=cpu --p4d-tp=2 --p4d-pp=2 --p4d-global-batch=16 \
	'$(p4d job)'
accepted
job=${said##* }
log=p4d-$job/log.jsonl
shown=0
follow half_way
first=$(sed -n '1s/.* //p' losses)

show scontrol listpids "$job.0" h2
victim=$(printf '%s\n' "$said" | awk '$5 == 5 { print $1 }')
[ -n "$victim" ] || failed "rank 5 was not found"
show kill -9 "$victim"
follow in_the_queue
killed=$((shown + 1))
show cat "slurm-$job.out"
expect "rank 5 (h2) ended unexpectedly"
expect "continue from step-"
echo "    (Slurm lets a job that was requeued wait for two minutes. This one need not.)"
show scontrol update JobId="$job" StartTime=now+3
[ "$status" = 0 ] || failed "the job was not updated"
follow begun_again
begun=$(sed -n 's/.*"event":"start".*"resumed_step":\([0-9]*\).*/\1/p' "$log" | tail -1)
shown=$begun
follow completed
last=$(sed -n '$s/.* //p' losses)
show ls "p4d-$job"
printf '    killed in step %d, continued behind step %d; loss %.2f at first, %.2f at the end (nats per byte)\n' \
	"$killed" "$begun" "$first" "$last"
awk "BEGIN { exit !($last < $first - 1) }" || failed "the loss did not fall"
unset P4D_DATA P4D_STEPS P4D_TRAIN_ARGS
