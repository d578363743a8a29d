#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `sinfo` reports is used where p4d.conf does not decide, and compared with p4d.conf; a sinfo that hangs costs ten
# seconds.
. "${0%/*}/lib.sh"

# sinfo LINE...: the answer of the cluster
sinfo_prints()
{
	{
		printf '#!/bin/sh\n[ "$*" = "--noheader --exact --format=%%P|%%m|%%c|%%X|%%Y|%%N|%%f|%%G" ] || exit 9\ncat <<EOF\n'
		printf '%s\n' "$@"
		echo EOF
	} >bin/sinfo
}
printf 'mode = enforce\nversion = 1\n' >bare.conf
sinfo_prints 'big*|2000000|64|2|16|b[1-4]|h100,ib|gpu:h100:8(S:0-1)' 'mixed|500000|64|2|16|m1|(null)|gpu:a100:8(S:0,1),lustre:1' \
	'mixed|600000|64|2|16|n1|new|gpu:h100:8' 'cpu|100000|64|2|16|c1|(null)|(null)' 'plain|1|64|2|16|p1|x|gpu:8' 'odd|1|64|2|16|o1|x|gpu:mystery:4'

check="p4d check --conf bare.conf -N1 --gpus-per-node=8 --p4d-model=llama13b"
printf '#!/bin/sh\ntrue\n' >any.sh
exits 0 $check any.sh
prints "h100-80gb"
exits 0 $check -p mixed --p4d-tp=8 any.sh
prints "a100-40gb"
exits 0 $check -p mixed -C new --p4d-tp=8 any.sh
prints "h100-80gb"
exits 0 p4d check --conf bare.conf -p mixed -N1 --gpus-per-node=h100:8 --p4d-model=llama13b any.sh
prints "h100-80gb"
exits 0 $check -p mixed -w n1 --p4d-tp=8 any.sh
prints "h100-80gb"

# partitions that give whole nodes, in the words of releases before and from 26.05
for says in OverSubscribe=EXCLUSIVE Exclusive=NODE; do
	cat >bin/scontrol <<END
#!/bin/sh
[ "\$*" = "--oneliner show partition" ] || exit 9
echo "PartitionName=mixed AllowGroups=ALL OverSubscribe=NO"
echo "PartitionName=big AllowGroups=ALL $says MaxNodes=1"
END
	exits 0 p4d check --conf bare.conf -p big --p4d-model=llama13b any.sh
	prints "1 node of 8 x h100-80gb"
	exits 30 p4d check --conf bare.conf -p mixed --p4d-model=llama13b any.sh
done

# --mem-per-cpu counts the CPUs that a job gets, as slurmctld does, also where p4d.conf says all that sbatch needs
sed 's/^version/partition big { gpu = "h100-80gb" }\n&/' bare.conf >section.conf
per_cpu="-p big -N1 --gpus-per-node=8 --ntasks-per-node=8 --p4d-framework=deepspeed --p4d-model=llama3-8b --p4d-zero-stage=2"
per_cpu="$per_cpu --p4d-offload=optimizer --p4d-micro-batch=1 --p4d-seq-len=2048 --p4d-recompute=full --p4d-global-batch=8"
scontrol_says() # OF_PARTITION SELECT_TYPE_PARAMETERS
{
	cat >bin/scontrol <<END
#!/bin/sh
case \$* in
"--oneliner show partition") echo "PartitionName=big AllowGroups=ALL $1" ;;
"show config") printf 'JobDefaults = (null)\nSelectTypeParameters = $2\n' ;;
*) exit 9 ;;
esac
END
}
for select in CR_CORE CR_CORE_MEMORY; do
	scontrol_says JobDefaults=DefCpuPerGPU=8 $select
	exits 0 p4d check --conf bare.conf $per_cpu --mem-per-cpu=4G any.sh
	scontrol_says "" $select
	exits 33 p4d check --conf bare.conf $per_cpu --mem-per-cpu=4G any.sh
	says "--mem-per-cpu grants 64.0 GiB" # of 16 CPUs: a core has two
	exits 33 p4d check --conf section.conf $per_cpu --mem-per-cpu=4G any.sh
	says "--mem-per-cpu grants 64.0 GiB"
	for known in --mem=64G --mem-per-gpu=8G; do
		exits 33 p4d check --conf section.conf $per_cpu $known any.sh
		says "${known%=*} grants 64.0 GiB"
	done
done
printf '#!/bin/sh\nexit 1\n' >bin/scontrol
exits 0 p4d check --conf bare.conf $per_cpu --mem-per-cpu=4G any.sh

# a fix asks for no more nodes than the cluster has, or gives a job
check30="p4d check --conf bare.conf --gpus-per-node=8 --p4d-model=llama3-70b"
most() { printf '#!/bin/sh\necho "PartitionName=big AllowGroups=ALL MaxNodes=%s MaxTime=UNLIMITED"\n' "$1" >bin/scontrol; }
most UNLIMITED
exits 13 $check30 -N1 -p big any.sh
says "fix: --nodes=3"
most 2
exits 13 $check30 -N1 -p big any.sh
says "the fix needs 3 nodes, and a job in this partition gets at most 2"
case $(fix) in *--nodes*) fail "a fix that takes too many nodes" ;; esac
exits 35 p4d check --conf bare.conf -N5 --gpus=12 -p big --p4d-model=llama13b any.sh
case $(fix) in *--nodes*) fail "a fix that takes too many nodes" ;; esac

# a node with two types of GPUs is one node
cp bin/sinfo sinfo.before
cp bin/scontrol scontrol.before
sinfo_prints 'two|500000|64|2|16|x1|(null)|gpu:h100:4,gpu:a100:4'
printf '#!/bin/sh\necho "PartitionName=two AllowGroups=ALL MaxNodes=UNLIMITED"\n' >bin/scontrol
exits 11 p4d check --conf bare.conf -p two -N1 --gres=gpu:4 --p4d-model=llama13b --p4d-framework=p4d any.sh
says "and a job in this partition gets at most 1" "fix: --nodes=1 --gres=gpu:h100:4"
mv sinfo.before bin/sinfo
mv scontrol.before bin/scontrol

# p4d.conf against the cluster
cat >site.conf <<'CONF'
partition "big" {
	gpu = "a100-80gb"
	gpus_per_node = 4
}
partition "gone" { gpu = "h100-80gb" }
partition "bgi" { mode = warn }
partition "nothing*" { mode = warn }
partition "mix*" { mode = warn }
version = 1
CONF
exits 0 p4d conf site.conf
prints 'partition bgi: p4d.conf has a section, but the cluster no nodes' 'partition nothing*: p4d.conf has a section'
! p4d conf site.conf | grep -F 'partition mix*: p4d.conf' || fail "a wildcard that names a partition"
prints "site.conf: valid" "Compared with the live cluster:" \
	'partition big: p4d.conf says a100-80gb, the cluster'"'"'s GRES type "h100" looks like h100-80gb' \
	'partition big: p4d.conf says 4 GPUs per node, the cluster 8' \
	'partition gone: p4d.conf names a GPU for this partition' 'which has the least memory of several' 'partition mixed has no gpu in p4d.conf' \
	'partition plain has GPUs without a type' 'partition odd has GPUs of the unknown type "mystery"'
# "a100" may be the 40 GB card of p4d.conf, or the 80 GB one
sinfo_prints 'h100*|1|64|2|16|h1|x|gpu:h100:8' 'strict|1|64|2|16|a1|x|gpu:a100:8' 'debug|1|64|2|16|d1|x|gpu:h100:8'
exits 0 p4d conf p4d.conf
prints "The live cluster agrees."
sed 's/a100-40gb/a100-80gb/' p4d.conf >larger.conf
exits 0 p4d conf larger.conf
prints "The live cluster agrees."

# names that nobody has
printf '#!/bin/sh\ncase "$*" in *account*) echo physics ;; *qos*) printf "normal\\nBig\\n" ;; esac\n' >bin/sacctmgr
cat >names.conf <<'CONF'
require_plan = { "h100", "h100s", "str*" }
exempt_accounts = { "Physics", "chemistry" }
exempt_qos = { "big", "b*" }
qos "normal" { mode = warn }
qos "urgent" { mode = warn }
account "bio*" { mode = warn }
version = 1
CONF
exits 0 p4d conf names.conf
prints "partition h100s: require_plan lists it" "account chemistry: p4d.conf names it" "QOS urgent: p4d.conf names it" "account bio*: "
for there in "partition h100:" "partition str" "account Physics" "QOS big" "QOS b\*" "QOS normal"; do
	! printf '%s\n' "$out" | grep "^note: $there" | grep -v "has no gpu in p4d.conf" | grep . || fail "$there is there"
done
printf '#!/bin/sh\nexit 1\n' >bin/sacctmgr
exits 0 p4d conf names.conf
! printf '%s\n' "$out" | grep -E '^note: (account|QOS)' || fail "without accounting nothing is known of accounts"

# no answer is not an error
for script in 'exit 1' 'echo "big*|1|64|2|16|b1|x|gpu:h100:8"; exit 1' 'kill -9 $$' 'yes'; do
	printf '#!/bin/sh\n%s\n' "$script" >bin/sinfo
	exits 0 p4d conf p4d.conf
	prints "Not compared with a live cluster"
done
# a busy machine changes no answer
printf '#!/bin/sh\nsleep 3\necho "big*|2000000|64|2|16|b1|x|gpu:h100:8"\n' >bin/sinfo
exits 0 p4d check --conf p4d.conf -p big -N1 --gpus-per-node=8 --p4d-model=llama13b --p4d-tp=8 job.sh
prints "8 x h100-80gb"
printf '#!/bin/sh\nexec sleep 30\n' >bin/sinfo
before=$(date +%s)
exits 0 p4d conf p4d.conf
prints "Not compared with a live cluster"
[ $(($(date +%s) - before)) -le 25 ] || fail "waited too long for sinfo"
run p4d check --conf p4d.conf -p big -N1 --gpus-per-node=8 --p4d-model=llama13b --p4d-tp=8 job.sh
says "[P4D003] Slurm's commands did not answer within ten seconds"
