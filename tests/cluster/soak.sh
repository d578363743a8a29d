#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# soak.sh --plugins=DIR [--count=N]: four clients (tests/tools/soak) submit N jobs of random shapes (20,000, or SOAK_JOBS) with
# sbatch, libslurm and slurmrestd, while p4d.conf is edited N/100 times, half of the edits bad, and slurmctld is killed and started
# again five times. Before that, a Slurm without p4d is killed, too: what it loses, p4d may lose. Prints one line for each thing that
# has to hold, and memory of slurmctld at ten marks. SOAK_KEEP=DIR keeps answers and logs there. Run from the build directory.
#
# The memory that slurmctld needs for a job depends on the Slurm release. So the clients then submit those of 800 jobs that p4d accepts,
# also to a slurmctld that does not load p4d. With p4d, a job may need 2 KiB more, as for p4d's record, and slurmctld may need 16 MiB more
# beside its heap: for p4d's code and tables, and for the stacks of threads. slurmctld may keep 1 MiB after those of 1,600 jobs that
# p4d refuses and N/500 edits of p4d.conf.
set -u
SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
cluster=$SOURCE/tests/cluster/cluster.sh
PATH=$PWD:$PATH
build=$PWD
plugins=${1#--plugins=}
count=${2:-}
count=${count#--count=}
count=${count:-${SOAK_JOBS:-20000}}
edits=$((count / 200 * 2)) kills=5 clients=4
[ "$edits" -ge 2 ] || edits=2

dir=$(mktemp -d "$("$cluster" home)/p4d.XXXXXX") || exit 1
chmod 755 "$dir" # munged has to be reached by all
running=
trap 'kill $running 2>/dev/null; wait; "$cluster" stop "$dir/slurm"; "$cluster" stop "$dir/control"; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
cd "$dir" || exit 1
failed=0
# holds NAME COUNT WANTED [EXAMPLES]: the examples are lines that should not be there
holds()
{
	if [ "$2" = "$3" ]; then
		echo "ok    cluster/soak/$1 ($2)"
	else
		echo "FAIL  cluster/soak/$1: $2 in place of $3"
		printf '%s\n' "${4:-}" | head -5 | sed 's/^/      | /'
		failed=1
	fi
}
at_most()
{
	if [ "$2" -le "$3" ]; then
		echo "ok    cluster/soak/$1 ($2, at most $3)"
	else
		echo "FAIL  cluster/soak/$1: $2, more than $3"
		failed=1
	fi
}
now_ms() { date +%s%3N; }

# memory WHERE: KiB of slurmctld's heap, KiB of everything else (code, stacks of threads, large blocks), and how many jobs it has, also
# cancelled ones
memory()
{
	awk '/^[0-9a-f]+-[0-9a-f]+ / { heap = $NF == "[heap]" } /^Rss:/ { heap ? in_heap += $2 : other += $2 }
		END { printf "%d %d ", in_heap, other }' "/proc/$(cat "$dir/$1/run/slurmctld.pid")/smaps"
	squeue -h -t all -o %A | wc -l
}

# killed WHERE: kills as a power failure would, and notes the time
kill_controller()
{
	now_ms >>"$1.kills"
	"$cluster" crash "$dir/$1" controller
	sleep 0.5
	"$cluster" boot "$dir/$1" controller
}
# ages WHERE: reads "MS NAME" of jobs that were accepted and are gone; how many ms before the next kill each was submitted, longest first
ages()
{
	awk -v kills="$1.kills" '
		BEGIN { while ((getline k < kills) > 0) kill[++n] = k }
		# the time of a kill is noted a moment before it
		{ for (i = 1; i <= n && kill[i] + 500 < $1; i++); print (i <= n ? kill[i] - $1 : 999999) }' | sort -rn
}

# What Slurm itself loses: 40 s of submissions and two kills.
export MALLOC_ARENA_MAX=1 MALLOC_TOP_PAD_=0 MALLOC_TRIM_THRESHOLD_=0 # memory that is free is not slurmctld's
"$cluster" start --no-nodes --auth=munge "$dir/control" || { echo "FAIL  cluster/soak: no cluster"; exit 1; }
(
	. "$dir/control/env"
	printf '#!/bin/sh\ntrue\n' >plain.sh
	until [ -e control.done ]; do
		name=plain-$(now_ms)
		! sbatch -H --parsable -J "$name" plain.sh >/dev/null 2>&1 || echo "$(now_ms) $name"
	done >control.accepted
) &
running=$!
for kill in 1 2; do
	sleep 18
	kill_controller control || echo "control: kill $kill"
done
touch control.done
wait $running
running=
(. "$dir/control/env" && squeue -h -o %j) | sort -u >control.queued
sort -k2 control.accepted | join -1 2 -2 1 -v 1 -o 1.1,1.2 - control.queued >control.gone
control_lost=$(wc -l <control.gone) control_oldest=$(ages control <control.gone | head -1)
control_oldest=${control_oldest:-0}
"$cluster" stop "$dir/control"
echo "control without p4d: $(wc -l <control.accepted) jobs accepted, $control_lost lost with two kills, accepted at most $control_oldest ms before"

# cluster_with_p4d WHERE [OPTION...]: slurmctld decides and logs all, also what sbatch refuses
cluster_with_p4d()
{
	where=$dir/$1
	shift
	"$cluster" start "$@" --no-nodes --keep-jobs --mig --auth=munge --plugins="$plugins" --conf="$SOURCE/tests/cluster/p4d.conf" --partition=strict --partition=warn \
		--partition=observe --partition=off --partition=fixing --partition=frozen --partition=lenient "$where" || { echo "FAIL  cluster/soak: no cluster"; exit 1; }
	sed -i 's/^required/optional/' "$where/etc/plugstack.conf"
}
cluster_with_p4d slurm
. "$dir/slurm/env"
conf=$dir/slurm/etc/p4d.conf
sed "s|^mode = enforce|&\nlog = all\nscripts = judge\nrehearsals = judge\nmetrics = \"$dir/p4d.prom\"|" "$conf" >good
[ "$(grep -c '^log = all' good)" = 1 ] || exit 1
seen=$(grep -c 'p4d: reloaded' "$dir/slurm/log/slurmctld.log")
cp good "$conf"
until [ "$(grep -c 'p4d: reloaded' "$dir/slurm/log/slurmctld.log")" -gt "$seen" ]; do sleep 0.1; done

# p4d check gets the cluster as it is now, also while slurmctld is dead.
mkdir ask asked
for program in sinfo scontrol; do
	cat >"ask/$program" <<END
#!/bin/sh
kept=$dir/asked/\$(echo "$program \$*" | cksum | tr -d ' ')
[ -e "\$kept" ] || { $(command -v $program) "\$@" >"\$kept.\$\$" && mv "\$kept.\$\$" "\$kept"; }
exec cat "\$kept"
END
	chmod +x "ask/$program"
done
PATH=$dir/ask:$PATH
export XDG_CACHE_HOME="$dir/cache" SOAK_CHECK="$dir/good" SOAK_EPOCH="$dir/epoch"
echo "0 good" >epoch
printf '#!/bin/sh\ntrue\n' >plain.sh
p4d check --conf=good --requeue -p mixed -N1 --gpus=1 --hint=nomultithread --sockets-per-node=1 -M p4d plain.sh >/dev/null 2>&1
p4d check --conf=good --requeue -p h100 plain.sh >/dev/null 2>&1
p4d check --conf=good --requeue -p a100 plain.sh >/dev/null 2>&1

plan_for() { p4d plan --env --conf=good --gpu="$1" --model="$2" --nodes=1 --gpus-per-node=8 $3 | sed -n "s/^export P4D_PLAN='*\([^']*\)'*$/\1/p"; }
layout="--tp=8 --cp=1 --pp=1 --micro-batch=8 --seq-len=2560 --recompute=none --global-batch=1024"
SOAK_FITS=$(plan_for h100 llama13b "$layout")
SOAK_LARGE=$(plan_for b200 llama2-70b '')
[ -n "$SOAK_FITS" ] && [ -n "$SOAK_LARGE" ] || { echo "FAIL  cluster/soak: no plans"; exit 1; }
export SOAK_FITS SOAK_LARGE
ls "$SOURCE"/tests/data/scripts/*.sh >scripts
for program in soak-client tests/rehearsal/played; do
	[ -x "$build/$program" ] || make -C "$build" $program >make.log 2>&1 || { tail make.log; exit 1; }
done
cp "$build/tests/rehearsal/played" program || exit 1
for mebibytes in 10240 102400; do
	P4D_DATADIR=$SOURCE/etc p4d rehearse --gpu h100-80gb -- ./program $mebibytes >/dev/null 2>&1
done

# edit NUMBER: even ones are good and change no verdict; odd ones are bad, in eight ways
edit()
{
	if [ $(($1 % 2)) = 0 ]; then
		sed "s/^mode = enforce/# edit $1\n&/" good >edited
		mv edited "$conf"
		echo "$1 good" >epoch
		return
	fi
	echo "$1 bad" >epoch
	case $(($1 / 2 % 8)) in
	0) echo 'nonsense' >edited ;;
	1) head -c $((100 + $1 % 100)) good >edited ;;
	2) sed 's/^mode = enforce/mode = of/' good >edited ;;
	3) sed 's/^version = 1/gpu h100 {/' good >edited ;;
	4) : >edited ;;
	5)
		rm -f "$conf"
		return
		;;
	6)
		cp good edited
		chmod 666 edited
		;;
	7)
		cat good good >"$conf" # in place, so that half of it may be read
		return
		;;
	esac
	mv edited "$conf"
}

# REST, a request at a time: a plain job with and without GPUs
rest_client()
{
	command -v slurmrestd >/dev/null || return 0
	version=$(ls "$("$cluster" system-plugins)" | sed -n 's/^\(openapi\|data_parser\)_v0_0_\([0-9]*\)\.so$/\2/p' | sort -n | tail -1)
	[ -n "$version" ] || return 0
	if [ "$version" -le 38 ]; then
		serve="-s openapi/v0.0.$version" nodes=1 environment='{"PATH": "/bin"}' gpus='"gres": "gpu:1"'
	else
		serve="-s slurmctld -d v0.0.$version" nodes='"1"' environment='["PATH=/bin"]' gpus='"tres_per_node": "gres/gpu:1"'
	fi
	set -- env
	if [ "$(id -u)" = 0 ]; then
		set -- setpriv --reuid=daemon --regid=daemon --clear-groups
	else
		set -- env SLURMRESTD_SECURITY=disable_user_check
	fi
	umask 077 # it serves no request that others could read
	number=0
	while [ ! -e clients.done ]; do
		name=rest-$number
		# the second does not fit
		batch=$((number % 2 * 63 + 1))
		script="#!/bin/sh\\npython run_clm.py --model_name_or_path Qwen/Qwen2.5-0.5B --per_device_train_batch_size $batch --block_size 4096 --bf16 --do_train\\n"
		request="{\"script\": \"$script\", \"job\": {\"name\": \"$name\", \"hold\": true, \"nodes\": $nodes, $gpus, \"environment\": $environment, \"partition\": \"h100\", \"current_working_directory\": \"/tmp\"}}"
		printf 'POST /slurm/v0.0.%s/job/submit HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %s\r\nConnection: close\r\n\r\n%s' \
			"$version" "${#request}" "$request" >request
		[ "$(id -u)" != 0 ] || chown daemon request
		began=$(now_ms)
		"$@" sh -c "timeout 30 slurmrestd -a rest_auth/local $serve" <request >rest.out 2>rest.err
		id=$(sed -n 's/^ *"job_id": *\([0-9]*\),*$/\1/p' rest.out | head -1)
		if [ "${id:-0}" -gt 0 ]; then
			outcome=accepted
		elif grep -q 'Invalid generic resource' rest.out; then
			outcome=refused
		else
			outcome=lost
		fi
		case $outcome$batch in
		accepted1 | refused64 | lost*) wrong= ;;
		*) wrong=" of batch $batch" ;;
		esac
		echo "$began rest $name $outcome - strict$wrong"
		number=$((number + 1))
		sleep 1
	done >answers.rest
}

# clients NAME FIRST END [ONLY]: starts the clients, which submit jobs FIRST to END - 1
clients()
{
	for number in $(seq 0 $((clients - 1))); do
		mkdir "$1$number"
		(
			cd "$1$number" || exit
			printf 'h1\nh2\n' >hosts
			unset SBATCH_JOB_NAME
			exec soak-client --seed="${SOAK_SEED:-1}" --first=$(($2 + number)) --step=$clients --count="$3" ${4:+"--only=$4"} >"../answers.$1$number" 2>messages
		) &
		running="$running $!"
	done
}
still_running() { for pid in $running; do ! kill -0 "$pid" 2>/dev/null || echo "$pid"; done; }
# outcomes WORD: answers to submissions
outcomes() { awk -v word="$1" '$4 == word && $2 != "updated"' "${2:-answers}"; }
progress() { cat answers.client[0-9] 2>/dev/null | awk '$4 ~ /accepted|refused|by-slurm/ && $2 != "updated"' | wc -l; }

clients client 0 "$count"
rest_client &
rest=$!
edited=0 killed=0 marked=0 since=$(date +%s) waits=0
: >marks
while done=$(progress); [ -n "$(still_running)" ]; do
	# all keep step with the clients; a bad p4d.conf stays long enough to be seen by slurmctld
	if [ $((edited * count)) -le $((done * edits)) ] && [ "$edited" -lt "$edits" ] || [ $((edited % 2)) = 1 ]; then
		edited=$((edited + 1))
		edit "$edited"
		[ $((edited % 2)) = 0 ] || sleep 1.2
	fi
	if [ $((done * 10)) -ge $(((marked + 1) * count)) ]; then
		marked=$((marked + 1))
		echo "$killed $(memory slurm)" >>marks
	fi
	if [ $((done * (kills + 1))) -ge $(((killed + 1) * count)) ] && [ "$killed" -lt "$kills" ]; then
		killed=$((killed + 1))
		kill_controller slurm || break
	fi
	sleep 0.2
	waits=$((waits + 1))
done
touch clients.done
wait $running $rest
running=
while [ "$edited" -lt "$edits" ]; do
	edited=$((edited + 1))
	edit "$edited"
done
seconds=$(($(date +%s) - since))
cat answers.* >answers
cut -d' ' -f2,4 answers | sort | uniq -c | awk '{ printf "%s%s %s %s", (NR > 1 ? ", " : ""), $2, $3, $1 } END { print "" }'
echo "$count jobs in $seconds s; $(outcomes lost | wc -l) times slurmctld was dead"
echo "memory of slurmctld in KiB, with the number of jobs and of kills at each time: $(awk '{ printf "%s%s with %s after %s", (NR > 1 ? ", " : ""), $2 + $3, $4, $1 }' marks)"

holds edits "$edited" "$edits"
holds kills "$killed" "$kills"
holds answers "$(cat answers.client[0-9] | awk '$4 ~ /accepted|refused|by-slurm/ && $2 != "updated"' | wc -l)" "$count"
holds answers_as_p4d_check "$(awk '$6 == "strict" && NF > 6' answers | wc -l)" 0 "$(awk '$6 == "strict" && NF > 6' answers)"
echo "while p4d.conf was bad: $(awk '$6 == "loose"' answers | wc -l) answers, $(awk '$6 == "loose" && NF > 6' answers | wc -l) other than those of p4d check with the good one"
awk '$6 == "loose" && NF > 6' answers | sed 's/^[0-9]* \([a-z]*\) [^ ]* /\1 /; s/ of: .*//' | sort | uniq -c | sort -rn | head -8 | sed 's/^/      | /'

# Slurm names a job once; an update does not change that.
awk '$4 == "accepted" && $2 != "updated" { at[$3] = $1 } $4 == "cancelled" { delete at[$3] } END { for (n in at) print at[n], n }' answers | sort -k2 >accepted
squeue -h -o %j | sort -u >queued
join -1 2 -2 1 -v 1 -o 1.1,1.2 accepted queued >gone
oldest=$(ages slurm <gone | head -1)
echo "$(wc -l <accepted) jobs accepted and not cancelled, $(wc -l <gone) lost with $kills kills, accepted at most $oldest ms before"
# Slurm saves its jobs five seconds after the first of them at the latest, which a control run may not have met. A cancel that waited for
# slurmctld may have met another job of the same number.
[ "$control_oldest" -gt 5000 ] || control_oldest=5000
at_most lost_jobs_that_were_saved "$(ages slurm <gone | awk -v limit=$((control_oldest + 2000)) '$1 > limit' | wc -l)" \
	"$(awk '$4 == "cancelled" && $5 == "late"' answers | wc -l)"
outcomes refused | cut -d' ' -f3 | sort >refused
holds refused_jobs_in_the_queue "$(comm -12 refused queued | wc -l)" 0 "$(comm -12 refused queued)"

# Each refusal that a client saw is in the log, and no other but those whose answer was lost.
grep -h 'p4d: event="submit"' "$dir"/slurm/log/slurmctld.log* >log
sed -n 's/.* verdict="refuse" .* job="\([^"]*\)" job_id=.*/\1/p' log | sort -u >logged
outcomes lost | cut -d' ' -f3 | sort -u >lost
holds refusals_that_the_log_lacks "$(comm -23 refused logged | wc -l)" 0 "$(comm -23 refused logged)"
holds refusals_that_nobody_saw "$(comm -13 refused logged | comm -23 - lost | wc -l)" 0 "$(comm -13 refused logged | comm -23 - lost)"
holds log_lines_with_all_keys "$(grep -cvE 'event="[^"]*" verdict="[^"]*" code="[^"]*" job=".*" job_id="[0-9]*" id="[^"]*" uid="[0-9]*" .* text=".*"$' log)" 0 "$(grep -vE 'event="[^"]*" verdict' log)"

# The counters start at 0 with slurmctld, so they have the verdicts that the log has since the last start.
awk -F'"' '/p4d: started with / { delete n } / p4d: event="/ { n[$2 " " $4]++ } END { for (k in n) print k, n[k] }' \
	slurm/log/slurmctld.log | sort >verdicts
for try in $(seq 100); do
	awk -F'"' '/^p4d_verdicts_total/ && $4 != "none" { n[$2 " " $4] += substr($NF, 3) } END { for (k in n) print k, n[k] }' \
		p4d.prom | sort >counted
	! cmp -s verdicts counted || break
	sleep 0.2
done
echo "counted since the last kill: $(tr '\n' ',' <counted | sed 's/,$//; s/,/, /g')"
holds metrics_other_than_the_log "$(diff counted verdicts | grep -c '^[<>]')" 0 "$(diff counted verdicts; echo "try $try")"
[ -s counted ] || holds counters 0 some

# grown NAME WHERE FIRST END ONLY EDITS: sets $heap and $jobs to what slurmctld's heap in KiB and its number of jobs grow by while it gets
# these jobs and then p4d.conf is edited, and $other to its other memory in the end. Others of such jobs come first.
grown()
{
	clients "warm-$1" $(($3 - more / 10)) "$3" "$5"
	wait $running
	sleep 2
	# shellcheck disable=SC2046 # three numbers
	set -- "$@" $(memory "$2")
	clients "$1" "$3" "$4" "$5"
	wait $running
	running=
	for number in $(seq "$6"); do
		edited=$((edited + 1))
		edit $edited
		sleep 1.2
	done
	sleep 2
	# shellcheck disable=SC2046
	set -- "$@" $(memory "$2")
	heap=$((${10} - $7)) jobs=$((${12} - $9)) other=${11}
}
[ -z "${SOAK_KEEP:-}" ] || cp -r answers log marks accepted queued gone slurm.kills rest.* client[0-9] slurm/log/slurmctld.log* "$SOAK_KEEP"
more=800
grown accepted slurm $((count + more)) $((count + 2 * more)) accepted 0
guarded_heap=$heap guarded_jobs=$jobs
grown refused slurm $((count + 3 * more)) $((count + 5 * more)) refused $((edits / 10 * 2))
kept=$heap extra_jobs=$jobs guarded_other=$other refused=$(awk '$4 == "refused"' answers.refused[0-9] | wc -l)
scontrol ping >alive
"$cluster" stop "$dir/slurm"
cluster_with_p4d control --no-guard
. "$dir/control/env"
grown control control $((count + more)) $((count + 2 * more)) accepted 0
holds jobs_without_p4d "$jobs" "$guarded_jobs"
[ "$jobs" -gt 0 ] || { echo "FAIL  cluster/soak: no jobs without p4d"; exit 1; }
guarded=$((guarded_heap * 1024 / jobs)) own=$((heap * 1024 / jobs))
echo "$jobs jobs: slurmctld's heap grew by $guarded bytes for each with p4d, by $own without; the rest of its memory: $guarded_other KiB and $other KiB"
echo "$refused refusals, $((edits / 10 * 2)) edits of p4d.conf and $extra_jobs more jobs: its heap grew by $kept KiB"
# between two marks without a kill, by more than its jobs need
extra=$(awk -v own=$own 'NR > 1 && $1 == kills { extra += $2 - heap - own / 1024 * ($4 - jobs) } { kills = $1; heap = $2; jobs = $4 }
	END { printf "%d", extra }' marks)
at_most heap_of_a_job_that_p4d_adds $((guarded - own)) 2048
at_most memory_beside_the_heap_that_p4d_adds_kib $((guarded_other - other)) 16384
at_most heap_kept_of_refused_jobs_kib $((kept - extra_jobs * own / 1024)) 1024
at_most heap_growth_kib "$extra" 8192
holds controller_alive "$(grep -c 'is UP' alive)" 1
exit $failed
