#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d plan --partitions and p4d check --elsewhere: what they propose is accepted in that partition, and nothing else
# that they list is better.
. "${0%/*}/lib.sh"

cat >site.conf <<'END'
mode = enforce
partition a100 { gpu = "a100-40gb"
	gpus_per_node = 8
	default = true
	mem_per_node_gib = 1000 }
partition h100 { gpu = "h100-80gb"
	gpus_per_node = 8 }
partition h200 { gpu = "h200-141gb"
	gpus_per_node = 8 }
partition old { gpu = "v100-32gb"
	gpus_per_node = 4 }
partition "h100-*" { gpu = "h100-80gb" }
version = 1
END
printf '#!/bin/sh\ntrue\n' >any.sh
where="p4d plan --conf site.conf --model llama3-8b --partitions"

exits 0 $where all --tokens 300B
silent
prints "llama3-8b, 300B tokens" "fastest first" "GPU-hours" "kWh" "No layout fits, or no step time is known: old (v100-32gb)"
printf '%s\n' "$out" | sed -n 's/^  \(--partition=.*\)/\1/p' >offers
[ "$(wc -l <offers)" -ge 5 ] || fail "few offers"
for partition in a100 h100 h200; do
	grep -q -- "--partition=$partition " offers || fail "nothing of $partition"
done
while read -r options; do
	exits 0 p4d check --conf site.conf $options any.sh
	case $err in *P4D110*) fail "the guard had to choose something with $options" ;; esac
done <offers

# --json has all: twice the tokens take twice as long, and no place that is not dominated is beaten by any
exits 0 $where all --tokens 300B --json
printf '%s\n' "$out" >places.json
exits 0 $where all --tokens 0.6T --json
printf '%s\n' "$out" >twice.json
count=$(grep -c '"partition":' places.json)
awk -v count="$count" '
	{ gsub(/[",:]/, " ") }
	FNR == 1 { file++ }
	$1 == "seconds" { time[file, ++s[file]] = $2 }
	$1 == "gpu_hours" { hours[file, ++h[file]] = $2 }
	$1 == "dominated" { dominated[file, ++d[file]] = $2 }
	END {
		if (count < 20 || s[1] != count || s[2] != count) exit 1
		for (i = 1; i <= count; i++) {
			if (time[2, i] < 1.999 * time[1, i] || time[2, i] > 2.001 * time[1, i]) exit 2
			beaten = "false"
			for (j = 1; j <= count; j++)
				if (j != i && time[1, j] <= time[1, i] && hours[1, j] <= hours[1, i])
					beaten = "true"
			if (dominated[1, i] != beaten) exit 3
		}
	}' places.json twice.json || fail "the list is not consistent ($?)"

# typed values stay
exits 0 $where h100,a100 --nodes 4 --tp 2
printf '%s\n' "$out" | sed -n 's/^  \(--partition=.*\)/\1/p' >offers
[ "$(grep -c -- '--nodes=4 .*--p4d-tp=2 ' offers)" = 2 ] && [ "$(wc -l <offers)" = 2 ] || fail "not one offer for each"

refused P4D001 $where h100,h20
says '--partitions=h20: neither p4d.conf nor the cluster says which GPUs this partition has; nearest: h200' 'fix: --partitions=all'
refused P4D001 $where all --gpu h100
says '--partitions cannot be combined with --gpu, --gpus, --device=cpu or --env'
refused P4D001 p4d plan --model llama3-8b --gpu h100 --tokens 1B
says '--tokens has an effect only with --partitions'
for tokens in 0 -1 1e30 300Q ''; do
	refused P4D005 $where all --tokens="$tokens"
	says "not a number from 1 to 1e18"
done
refused P4D013 p4d plan --conf site.conf --model llama3.1-405b --partitions all --nodes 1
says 'llama3.1-405b: in each partition, no layout fits' 'a100 (a100-40gb), h100 (h100-80gb)'

# a job that fits: proposals are cheaper and not slower, and the pasted command is judged in that partition
exits 0 p4d check --conf site.conf -p a100 -N8 --gpus-per-node=8 --p4d-model=llama3-8b --elsewhere=all any.sh
place=$(printf '%s\n' "$out" | sed -n 's/^p4d: run it on [0-9]* x 8 h200-141gb instead of 8 x 8 a100-40gb, 0\.[0-9]* x the time, 0\.[0-9]* x the GPU-hours: //p')
[ -n "$place" ] || fail "no other place: $out"
exits 0 p4d check --conf site.conf -p a100 -N8 --gpus-per-node=8 --p4d-model=llama3-8b $place any.sh
prints "h200-141gb"
exits 0 p4d check --conf site.conf -p h200 -N1 --gpus-per-node=8 --p4d-model=llama3-8b --elsewhere=all any.sh
case $out in *"run it on"*) fail "another place for what is cheapest" ;; esac
# a job that does not fit
exits 13 p4d check --conf site.conf -p a100 -N1 --gpus-per-node=1 --p4d-model=llama3-8b --elsewhere=h100 any.sh
prints "p4d: it fits on "
exits 0 p4d check --conf site.conf -p a100 -N1 --gpus-per-node=8 --p4d-model=llama3-8b --elsewhere=nowhere any.sh
prints "p4d: elsewhere: --partitions=nowhere: neither p4d.conf"

# a cluster says how many nodes there are, and what p4d.conf does not
printf '#!/bin/sh\n%s\n%s\n' "echo 'a100*|1000000|64|2|32|n[1-3]||gpu:a100:8'" "echo 'new|1000000|64|2|32|b1||gpu:b200:8'" >bin/sinfo
exits 0 $where all --json
for number in 1 2 3; do
	printf '%s\n' "$out" | tr -d ' \n' | grep -q "\"partition\":\"a100\",\"gpu\":\"a100-40gb\",\"nodes\":$number," || fail "nothing on $number nodes"
done
printf '%s\n' "$out" | tr -d ' \n' | grep -q '"partition":"a100","gpu":"a100-40gb","nodes":4,' && fail "more nodes than there are"
prints '"partition":"new"'
