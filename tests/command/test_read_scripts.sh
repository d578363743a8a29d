#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# More job scripts as people write them: p4d reads everything in them, and nothing else. NAME.want next to NAME.sh has
# the options and values worked out by hand, and those that cannot be known.
. "${0%/*}/lib.sh"

cp "$P4D_TEST_SRCDIR"/tests/data/scripts/* .
HOME=/home/u USER=u
export HOME USER
unset LAYOUT CONT PP CP TP MODEL CONFIG_FILE GPUS_PER_NODE WANDB_API_KEY SLURM_JOB_ID

# the answer of `p4d read`: values from the script, and unknown ones; an option that p4d does not have yet counts like
# others
read_of()
{
	awk '
	NR == 1 && match($0, /\([a-z0-9-]+\), started/) { print "framework", substr($0, RSTART + 1, RLENGTH - 11) }
	NR == 1 && /: (p4d found no training program|p4d does not know )/ { print "nothing" }
	/^Not in the script|^If what is not known/ { part = "default" }
	/^Not known:/ { part = "unknown" }
	/^To estimate its memory/ { part = "command" }
	!/^  / { next }
	$1 == "model" && $2 ~ /^[^.\/~]/ { sub(/^[^\/]*\//, "", $2); $2 = tolower($2) } # however the hub is asked for it
	part == "" && $1 != "framework" { print $1, $2 }
	part == "unknown" && / p4d has no option for it$/ { print $1, $2; next }
	part == "unknown" { print "unknown", $1 }'
}
# What is printed to paste is accepted; 3, 7, 8, 9, 23: the model is not on this machine, or none that p4d knows, the script leaves out what its program asks for itself,
# or what runs is not modelled.
accepts()
{
	command=$(printf '%s\n' "$out" | sed -n 's/^  \(p4d estimate .*\)/\1/p')
	[ -n "$command" ] && ! grep -qx 'unknown model' "${1%.sh}.want" || return 0
	case $command in
	*--gpus-per-node=*) ;;
	*) command="$command --gpus-per-node=8" ;;
	esac
	# shellcheck disable=SC2086 # a command
	$command --gpu h100 >answer 2>&1
	case $? in
	0 | 3 | 7 | 8 | 9 | 12 | 23) ;;
	5) grep -q 'p4d models' answer || fail "$1: $command: $(cat answer)" ;;
	*) fail "$1: $command: $(cat answer)" ;;
	esac
}
count=0
for want in *.want; do
	script=${want%.want}
	exits 0 p4d read "$script.sh"
	silent
	printf '%s\n' "$out" | read_of | sort -u >found
	sort "$want" | cmp -s - found || fail "$script.sh: $(sort "$want" | diff - found)"
	accepts "$script.sh"
	count=$((count + 1))
done
[ $((count + $(find . -name '*.read' | wc -l))) -ge 225 ] || fail "only $count scripts were read"
