#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# soak.sh --plugins=DIR [--count=N]: four clients submit N jobs (4,000), half of them unfit, with sbatch and through libslurm,
# while p4d.conf is edited N/40 times, half of the edits bad, and slurmctld is killed and started again three times. Prints
# one line for each thing that has to hold. Run from the build directory.
set -u
SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
cluster=$SOURCE/tests/cluster/cluster.sh
PATH=$PWD:$PATH
plugins=${1#--plugins=}
count=${2:-}
count=${count#--count=}
count=${count:-4000}
edits=$((count / 40)) kills=3

dir=$(mktemp -d "$("$cluster" home)/p4d.XXXXXX") || exit 1
chmod 755 "$dir" # munged has to be reached by all
running=
trap 'kill $running 2>/dev/null; wait; "$cluster" stop "$dir/slurm"; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
if ! "$cluster" start --no-nodes --auth=munge --plugins="$plugins" "$dir/slurm"; then
	echo "FAIL  cluster/soak: no cluster"
	exit 1
fi
. "$dir/slurm/env"
cd "$dir" || exit 1
printf '#!/bin/sh\nsrun p4d-train\n' >job.sh
conf=$dir/slurm/etc/p4d.conf models=$SOURCE/etc/models
cp "$conf" good

node="-N1 --gpus-per-node=8 --ntasks-per-node=8"
plan_for() { p4d plan --env --conf=good --gpu="$1" --model="$2" --nodes=1 --gpus-per-node=8 | sed -n "s/^export P4D_PLAN='*\([^']*\)'*$/\1/p"; }
fits=$(plan_for h100 llama13b)
too_large=$(plan_for b200 llama2-70b)

# submit_job KIND NAME. Models by their files: without a p4d.conf the presets are those that were installed, and here none are.
submit_job()
{
	case $1 in
	0) sbatch -H --parsable -J "$2" $node --p4d-model="$models/llama13b.json" --p4d-tp=8 job.sh ;;
	1) sbatch -H --parsable -J "$2" $node --p4d-model="$models/llama2-70b.json" --p4d-tp=8 --p4d-pp=1 job.sh ;;
	2) SBATCH_JOB_NAME=$2 submit --gpus=8 --env="P4D_PLAN=$fits" ;;
	*) SBATCH_JOB_NAME=$2 submit --gpus=8 --env="P4D_PLAN=$too_large" ;;
	esac
}

# client NUMBER: its share of the jobs, kinds in turn. One line for each answer: kind, name, "accepted", the codes of a
# refusal, or "lost" when it was nobody's refusal, and then again.
client()
{
	job=$1
	while [ "$job" -lt "$count" ]; do
		kind=$((job / 4 % 4))
		name=job$kind-$job
		tries=0
		while [ "$tries" -lt 100 ]; do
			tries=$((tries + 1))
			if submit_job "$kind" "$name" >"out$1" 2>"err$1"; then
				echo "$kind $name accepted"
				# a line with "error" makes a tool that reads stderr cancel the job
				! grep -q 'error' "err$1" || echo "$kind $name complained $(tr '\n' ' ' <"err$1")"
				break
			elif grep -qE 'error: p4d: \[|init_post_opt\(\) failed' "err$1"; then
				echo "$kind $name refused $(tr '\n' ' ' <"err$1")"
				break
			fi
			echo "$kind $name lost $(tr '\n' ' ' <"err$1")"
			sleep 0.1
		done
		job=$((job + 4))
	done >"answers$1"
}

# edit NUMBER: even ones are good and change no verdict; odd ones are bad, in ten ways
edit()
{
	case $1 in
	*1) echo 'nonsense' ;;
	*3) head -c $((100 + $1)) good ;;
	*5) sed 's/^mode = enforce/mode = of/' good ;;
	*7) sed 's/^version = 1/gpu h100 {/' good ;;
	*9) : ;;
	*) sed "s/^mode = enforce/# edit $1\n&\nsafe = 0.$((80 + $1 % 10))/" good ;;
	esac >edited
	case $1 in
	1? | 9?) cat edited >"$conf" ;; # in place, so that half of it may be read
	3[13579]) rm -f "$conf" ;;
	5[13579])
		cp good edited
		chmod 666 edited
		mv edited "$conf"
		;;
	*)
		chmod 644 edited
		mv edited "$conf"
		;;
	esac
}

progress() { cat answers? 2>/dev/null | grep -cv ' lost '; }

for number in 0 1 2 3; do
	client "$number" &
	running="$running $!"
done
edited=0 killed=0 since=$(date +%s)
while done=$(progress); [ "$done" -lt "$count" ] && [ $(($(date +%s) - since)) -lt 1200 ]; do
	# both keep step with the clients
	if [ $((edited * count)) -le $((done * edits)) ] && [ "$edited" -lt "$edits" ]; then
		edited=$((edited + 1))
		edit "$edited"
	fi
	if [ $((done * (kills + 1))) -ge $(((killed + 1) * count)) ] && [ "$killed" -lt "$kills" ]; then
		killed=$((killed + 1))
		"$cluster" crash "$dir/slurm" controller
		sleep 0.5
		"$cluster" boot "$dir/slurm" controller || break
	fi
	sleep 0.1
done
seconds=$(($(date +%s) - since))
wait $running
running=
cat answers? >answers

failed=0
# holds NAME COUNT WANTED [EXAMPLES]: the examples are lines of what should not be
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
answered() { grep -E "^[$1] [^ ]* $2" answers; }

echo "$count jobs in $seconds s; $(answered 0123 lost | wc -l) sent again because slurmctld was dead"
holds edits "$edited" "$edits"
holds kills "$killed" "$kills"
holds answers "$(answered 0123 '(accepted|refused)' | wc -l)" "$count" "$(answered 0123 lost)"
holds right_jobs_refused "$(answered 02 refused | wc -l)" 0 "$(answered 02 refused)"
holds unfit_jobs_accepted "$(answered 13 accepted | wc -l)" 0 "$(answered 13 accepted)"
holds errors_for_jobs_that_passed "$(answered 0123 complained | wc -l)" 0 "$(answered 0123 complained)"

# What slurmctld had accepted but not yet saved went with it.
squeue -h -o %j | sort -u >queued
answered 02 accepted | cut -d' ' -f2 | sort >accepted
comm -13 queued accepted >gone
echo "$(wc -l <gone) accepted jobs were lost with a killed slurmctld, and are submitted again"
while read -r name; do
	submit_job "$(echo "$name" | cut -c4)" "$name" >/dev/null 2>again || echo "$name $(tr '\n' ' ' <again)"
done <gone >refused_again
holds right_jobs_refused_again "$(wc -l <refused_again)" 0 "$(cat refused_again)"
holds right_jobs_in_the_queue "$(squeue -h -o %j | grep -c '^job[02]')" $((count / 2))
holds unfit_jobs_in_the_queue "$(squeue -h -o %j | grep -c '^job[13]')" 0
holds controller_alive "$(scontrol ping | grep -c 'is UP')" 1
exit $failed
