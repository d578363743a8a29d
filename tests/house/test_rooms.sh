#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The rooms of the house, lowest first. A file includes headers of its own room and of rooms further up in this list,
# never of one further down. A room that is missing here is an error as well.
rooms='
estimator/base        text, numbers, files, errors
script/config         configuration files of training programs, as trees
script/shell          bash scripts, read as bash would run them
estimator/rehearsals  what p4d rehearse found, kept for sbatch
estimator/request     what was asked for, and the layout it means
estimator/tape        what PyTorch holds while autograd runs a module
script/reader         what a job script says about its training
estimator/model       model files
estimator/gpu         the table of GPUs
estimator/site        p4d.conf
estimator/schedule    instruction lists of pipeline stages
estimator/job         what Slurm, sbatch and the script say
estimator/plan        every buffer of a rank, and what it adds up to
estimator/framework   one entry per training framework
estimator/timeline    a schedule over time
estimator/cost        seconds of a pass and of a step
estimator/serve       serving, and models that share GPUs with it
estimator/search      layouts that fit, fastest first
estimator/guard       the verdict

runtime/template      chat templates, in Jinja
runtime/data          training data
runtime/device        what a device can do
runtime/device/cpu
runtime/device/cuda
runtime/comm          ranks, groups, messages
runtime/comm/transport   data of groups on devices
runtime/model         what one rank computes
runtime/checkpoint    weights in files

command/line          command lines
command/report        text, tables, JSON
command/accounting    what sacct tells of jobs
command/picture       SVG
command/plot          p4d plot
command/validate      predictions against measurements
command/calibrate     margins of p4d.conf from measurements
command/data          p4d data
command/rehearse      p4d rehearse
command/backtest      p4d backtest
command/measure       memory of GPUs, as logs and monitoring have it
command/usage         p4d report: verdicts and measurements of jobs
command               the program p4d
command/library       libp4d.so
plugin                p4d.so and job_submit_p4d.so

rehearsal             what stands in for a GPU and its libraries

runtime/trainer       the executor of a list, the optimizer
runtime/run           the program p4d-train
'
set -u
cd "${P4D_TEST_SRCDIR:-$(dirname "$0")/../..}" || exit 2
work=$(mktemp -d "${TMPDIR:-/tmp}/p4d-house.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
failed=0
fault() { echo "FAIL: $*"; failed=1; }

echo "$rooms" | awk 'NF { print $1 }' >"$work/rooms"
find estimator script command plugin rehearsal runtime -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cc' -o -name '*.def' \) |
	LC_ALL=C sort >"$work/files"

# Every #include "...": file, header.
while read -r file; do
	sed -n "s|^# *include \"\([^\"]*\)\".*|$file \1|p" "$file"
done <"$work/files" >"$work/includes"

awk -v files="$work/files" '
	function room(path) { sub(/\/[^\/]*$/, "", path); return path }
	FILENAME ~ /rooms$/ { order[$1] = ++count; next }
	FILENAME == files { there[$1] = 1; if (!(room($1) in order)) print $1 ": its room is not in the list"; next }
	$2 == "config.h" { next }
	{
		found = 0
		split("estimator script command plugin rehearsal runtime", parts, " ")
		for (i in parts)
			if ((parts[i] "/" $2) in there) { header = parts[i] "/" $2; found++ }
		if (found == 0) { print $1 ": \"" $2 "\" is no header of the house, or not written from the root of its part"; next }
		if (found > 1) { print $1 ": \"" $2 "\" may be one of several"; next }
		if (order[room(header)] > order[room($1)])
			print $1 ": includes " header ", which is further down in the list"
	}' "$work/rooms" "$work/files" "$work/includes" >"$work/edges" || fault "the edges could not be drawn"
[ -s "$work/includes" ] || fault "no file includes anything"
[ ! -s "$work/edges" ] || fault "edges that point up:
$(cat "$work/edges")"
echo "$(awk '{ print $1 }' "$work/includes" | wc -l) includes between $(wc -l <"$work/rooms") rooms, $(wc -l <"$work/edges") edges that point up"

# A file's name is unique: no two are equal in a part, and none is in a root, where it would hide a header of the C
# library.
for part in estimator script command plugin rehearsal runtime tests; do
	twice=$(find "$part" -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cc' \) -exec basename {} \; | sort | uniq -d)
	[ -z "$twice" ] || fault "$part has two files of these names: $twice"
done
for header in estimator/*.h runtime/*.h tests/*.h; do
	[ ! -f "$header" ] || fault "$header lies in the root of its part"
done
for header in plugin/*.h command/*.h; do
	[ ! -f "/usr/include/${header##*/}" ] || fault "$header hides a header of the system"
done

# A formula reads members of a family of models. It does not ask which family it is: a new row would silently get the other branch.
grep -nE '[!=]= *(&p4d_architectures\[|P4D_ARCHITECTURE_[A-Z])' -r estimator script command plugin runtime --include='*.[ch]' |
	grep -v '^estimator/model/' >"$work/families"
[ ! -s "$work/families" ] || fault "comparisons with a row of architectures.def, which should be a member of it:
$(cat "$work/families")"

# Tests mirror the rooms.
find tests/estimator tests/script tests/runtime tests/command -mindepth 1 -type d | sed 's|^tests/||' | while read -r folder; do
	grep -qx "$folder" "$work/rooms" || echo "tests/$folder"
done >"$work/mirrors"
[ ! -s "$work/mirrors" ] || fault "folders of tests without a room: $(cat "$work/mirrors")"
exit $failed
