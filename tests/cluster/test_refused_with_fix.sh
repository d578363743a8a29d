#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job that cannot fit is refused with numbers and a fix; the pasted fix is accepted.
. "${0%/*}/lib.sh"

run sbatch -H $node $toobig job.sh
refused P4D013 spank
says "h100"
says "GiB"
flags=$(fix)
[ -n "$flags" ] || fail "no fix"
run sbatch -H $node $toobig $flags job.sh
accepted

# The fix has the form of the request, and is accepted between the #SBATCH lines and the script: Slurm takes options
# only before the script's name.
form() # PATTERN LINE...: the fix of a script with these lines matches the pattern
{
	pattern=$1
	shift
	{
		echo '#!/bin/sh'
		printf '#SBATCH %s\n' "$@"
	} >form.sh
	run sbatch -H $toobig form.sh
	refused P4D013 spank
	flags=$(fix)
	# shellcheck disable=SC2254 # a pattern
	case $flags in
	$pattern) ;;
	*) fail "the fix does not have the form $pattern" ;;
	esac
	# shellcheck disable=SC2086 # a list of words
	run sbatch -H $toobig $flags form.sh
	accepted
	run p4d check $toobig $flags form.sh
	accepted
}
form "--nodes=2 --gpus-per-node=8*" --nodes=1 --gpus-per-node=8
form "--nodes=2 --gres=gpu:8*" --nodes=1 --gres=gpu:8
form "--nodes=2 --gres=gpu:h100:8*" --nodes=1 --gres=gpu:h100:8 --partition=mixed
form "--nodes=2 --gpus-per-node=h100:8*" --nodes=1 --gpus-per-node=h100:8
form "--nodes=2 --gpus=16 --gpus-per-node=8*" --gpus=8
form "--nodes=2 --ntasks=16 --ntasks-per-node=8 --gpus-per-task=1*" --ntasks=8 --gpus-per-task=1

# Slurm fills one node after the other: these are 7 GPUs and 1.
for request in "-N2 --gpus=8" "-N2 -n4 --gpus-per-task=2" "-w h1,h2 --gpus=8" "-n2 -c64 --gpus=8"; do
	run sbatch -H $request --p4d-model=llama13b --p4d-tp=4 job.sh
	refused P4D035 spank
	flags=$(fix)
	run sbatch -H $request --p4d-model=llama13b --p4d-tp=4 $flags job.sh
	accepted
	same "$(job "$id" NumNodes)" 2-2
done
