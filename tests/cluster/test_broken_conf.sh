#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A p4d.conf that is missing, broken or not to be trusted fails nobody where jobs are submitted: they are completed, and
# slurmctld, whose last good configuration stays in force, decides.
. "${0%/*}/lib.sh"

# The presets are where a p4d.conf says they are; the user's own model files need none.
config() { printf '{"architectures": ["LlamaForCausalLM"], "hidden_size": %s, "intermediate_size": %s,
	"num_attention_heads": %s, "num_hidden_layers": %s, "vocab_size": 32000}' "$@"; }
config 5120 13824 40 40 >13b.json
config 8192 28672 64 80 >70b.json
full="--p4d-model=$work/13b.json ${full#* }"
toobig="--p4d-model=$work/70b.json --p4d-tp=8"

conf=$CLUSTER/etc/p4d.conf
at_end() { rm -rf "$conf.new" "$conf"; cp "$CLUSTER/p4d.conf.good" "$conf"; }

# usual WHAT: submits a good, an open and an unfit job
usual()
{
	echo "-- $1"
	run sbatch -H $node $full job.sh
	accepted
	does_not_say rror
	run sbatch -H $node --p4d-model="$work/13b.json" job.sh
	accepted
	does_not_say rror
	run sbatch -H -p observe $node $toobig job.sh
	accepted
	does_not_say P4D013
	run sbatch -H -p warn $node $toobig job.sh
	accepted
	does_not_say rror
	run sbatch -H $node $toobig job.sh
	refused P4D012 slurmctld
}

# replaces the file by standard input, in one step
broken()
{
	rm -rf "$conf.new"
	"$@" "$conf.new"
	rm -rf "$conf"
	mv "$conf.new" "$conf"
}
empty() { printf 'mode = enforced\nversion = 1\n' >"$1"; chmod 644 "$1"; }
writable() { cp "$CLUSTER/p4d.conf.good" "$1"; chmod 666 "$1"; }
large() { yes '# a comment' | head -c 1100000 >"$1"; }

for kind in empty mkfifo mkdir writable large; do
	broken "$kind"
	usual "$kind"
	says "p4d cannot use p4d.conf on this host"
done
rm -rf "$conf"
usual missing
wait_until grep -q 'p4d.conf: No such file or directory; the previous configuration stays in force' "$CLUSTER/log/slurmctld.log"
usual "missing, and slurmctld knows"
