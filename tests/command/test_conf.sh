#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# p4d conf: validates a file, finds the one in force, and prints what it means.
. "${0%/*}/lib.sh"

exits 0 p4d conf p4d.conf
prints "p4d.conf: valid" "h100 *" "observe" "(others)" "0.95" "0.97" "mode     scripts"
printf '%s\n' "$out" | grep -q '^strict .*yes *$' || fail "require_plan is not shown"

# next to slurm.conf, like gres.conf
mkdir etc
mv p4d.conf etc
SLURM_CONF=$work/etc/slurm.conf
export SLURM_CONF
exits 0 p4d conf
prints "$work/etc/p4d.conf: valid"
exits 0 p4d estimate --model llama13b --tp 8
prints "h100-80gb"
exits 0 p4d dump-features
prints "conf: $work/etc/p4d.conf"
# --conf wins
printf 'partition "x" {\n gpu = "h200-141gb"\n default = true\n}\nversion = 1\n' >other.conf
exits 0 p4d estimate --conf other.conf --model llama13b --tp 8
prints "h200-141gb"
exits 1 p4d conf --conf other.conf etc/p4d.conf
# none there: the defaults
SLURM_CONF=$work/slurm.conf
exits 0 p4d conf
prints "No p4d.conf found"

# mistakes: file:line, and the status of their code
printf 'mode = enforce\nsafe = 2.0\nversion = 1\n' >bad.conf
refused P4D061 p4d conf bad.conf
says "bad.conf:2:"
printf 'mode = enforce\n' >bad.conf
exits 63 p4d conf bad.conf
printf 'mod = enforce\nversion = 1\n' >bad.conf
exits 60 p4d conf bad.conf
says "bad.conf:1:"
printf 'mode = off\nmode = warn\nversion = 1\n' >bad.conf
exits 62 p4d conf bad.conf
exits 3 p4d conf nosuch.conf

# slurmctld does not read a file that every user may write
printf 'version = 1\n' >open.conf
chmod 666 open.conf
exits 64 p4d conf open.conf
prints "slurmctld and sbatch will not use the file" "group or others may write to it"
says "fix: chmod go-w"
# nor a file that belongs to another user
if [ "$(id -u)" = 0 ]; then
	chmod 644 open.conf
	chown 65534 open.conf
	exits 64 p4d conf open.conf
	prints "owned by uid 65534"
fi

# (others) is a partition without a section, not the default one
printf 'mode = warn\npartition "h100" { gpu = "h100-80gb" default = true mode = enforce }\nversion = 1\n' >others.conf
exits 0 p4d conf others.conf
printf '%s\n' "$out" | grep -q '^h100 \* .* enforce ' || fail "the default partition's mode"
printf '%s\n' "$out" | grep -q '^(others) .* warn ' || fail "the mode of a partition without a section"
exits 0 p4d conf --json others.conf
printf '%s\n' "$out" | tr -d ' \n' | grep -q '"partition":null,"default":false,"gpus":\[\],"gpus_per_node":null,"mode":"warn"' ||
	fail "the same in JSON"
printf 'mode = warn\npartition "*" { mode = off }\nversion = 1\n' >others.conf
exits 0 p4d conf others.conf
printf '%s\n' "$out" | grep -q '^(others) .* off ' || fail "a pattern that every partition matches"

# the network of a partition: p4d conf prints it, and step times depend on it, but not on one node
printf 'partition "h100" {\n\tgpu = "h100-80gb"\n\tgpus_per_node = 8\n\tdefault = true\n\tnics_per_node = 8\n\tleaf_ports = 32\n\toversubscription = 2\n}\nversion = 1\n' >net.conf
exits 0 p4d conf net.conf
prints "Network of h100: 8 interfaces per node, 4 nodes below the same leaf switches, 2:1 oversubscribed between leaf switches"
exits 0 p4d conf --json net.conf
printf '%s\n' "$out" | tr -d ' \n' |
	grep -q '"network":{"nics_per_node":8,"nic_gb_per_s":null,"net_latency_us":null,"leaf_nodes":4,"oversubscription":2.0000}' ||
	fail "the network in JSON: $out"
seconds() # CONF NODES: seconds of a step
{
	exits 0 p4d estimate --conf "$1" --model llama3-8b --framework megatron --tp 8 --pp 1 --nodes "$2" --global-batch 512 --json
	printf '%s\n' "$out" | sed -n 's/^ *"seconds": *\([0-9.]*\).*/\1/p' | head -n 1
}
grep -v oversubscription net.conf >flat.conf
for nodes in 1 4 16; do
	with=$(seconds net.conf $nodes) without=$(seconds flat.conf $nodes)
	[ -n "$with" ] || fail "no step time"
	case $nodes in
	16) [ "$with" != "$without" ] || fail "16 nodes take as long with 2:1" ;;
	*) [ "$with" = "$without" ] || fail "$nodes nodes: $with with 2:1, $without without" ;;
	esac
done
sed 's/oversubscription = 2/oversubscription = 0.5/' net.conf >bad.conf
exits 61 p4d conf bad.conf
says "bad.conf:7: oversubscription = 0.5: not from 1 to 1000" "fix: oversubscription = 1"

# files that it names must exist; a fault of the site refuses no job
printf 'mode = enforce\npartition h { gpu = "h100-80gb" default = true }\ndata = "/nonexistent"\nversion = 1\n' >data.conf
exits 61 p4d conf data.conf
says "data.conf: data = /nonexistent: /nonexistent/models: presets cannot be read"
exits 0 p4d check --conf data.conf --p4d-model=llama3-8b --gpus-per-node=8 job.sh
exits 16 p4d estimate --conf data.conf --model llama3-8b
printf 'exempt_users = { "no-such-user", "svc-*" }\nversion = 1\n' >users.conf
exits 0 p4d conf users.conf
prints "user no-such-user: p4d.conf names"

# the settings that would apply to a job
cat >jobs.conf <<'END'
mode = enforce
from = 2999-01-01
message = "Ask help@site."
exempt_users = { "svc-*" }
partition a { default = true min_gpus = 16 }
partition "b*" { require_plan = true }
account physics { mode = warn }
user alice { mode = off }
reservation week { limit = 0.9 }
qos q { mode = enforce }
version = 1
END
exits 0 p4d conf --partition b1 jobs.conf
prints "b1 " "observe (enforce from 2999-01-01)" "Refusals end with: Ask help@site." "Without accounting"
printf '%s\n' "$out" | grep -q '^b1 .*yes *$' || fail "require_plan of the pattern is not shown"
exits 0 p4d conf --account physics jobs.conf
prints "a *" " warn " "fewer than 16 GPUs"
exits 0 p4d conf --account physics --user alice --qos q jobs.conf
prints " off "
exits 0 p4d conf --qos q --reservation week --json jobs.conf
prints '"mode":"enforce"' '"limit_p4d":0.9000'
exits 0 p4d conf --user svc-1 jobs.conf
prints " exempt "

# what the site measured
cat >measured.conf <<'END'
partition h100 { gpu = "h100-80gb" }
framework "fsdp" { fragmentation = 0.2 }
framework "ddp" { reserve_gib = 0.1 }
framework "fsdp/torchtitan/bf16/h100-80gb" { reserve_gib = 3.5 fragmentation = 0.15 }
version = 1
END
exits 0 p4d conf measured.conf
prints "Jobs of fsdp/torchtitan/bf16/h100-80gb: reserve 3.50 GiB (p4d's own: 0.50), fragmentation 15.0 % (10.0 %)." \
	"Jobs of fsdp: reserve 0.50 GiB (p4d's own: 0.50), fragmentation 20.0 % (10.0 %)." "; p4d ignores values below its own"
exits 0 p4d conf --json measured.conf
prints '"framework":"fsdp/torchtitan/bf16/h100-80gb"' '"reserve_gib":3.5000' '"fragmentation":0.1500'
titan='--model llama3.1-8b --framework fsdp --gpu h100 --gpus-per-node 8 --quiet'
exits 0 sh -c "p4d estimate $titan; printf 'version = 1\n' >none.conf; p4d estimate $titan --conf none.conf; p4d estimate $titan --conf measured.conf"
printf '%s\n' "$out" | awk 'NR <= 2 { usual = $0 } NR == 3 && $0 == usual { exit 1 } END { exit NR != 3 }' ||
	fail "the estimate is the same with what the site measured"
