#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# documents.sh [--update] KIND DOCUMENT...: runs the commands of the documents' blocks ```console KIND (KIND - : those without a
# word), and compares what they print with what the documents show. Numbers of jobs may differ.
#
# In a block, a line `$ COMMAND` is a command, with the lines that continue it after a backslash, and the lines after it are what
# it prints, both streams together. A line `...` stands for any number of lines. `$ cat FILE` shows a file that later commands
# of the document use; FILE is written, not read. A command without output in the document must succeed, whatever it prints.
# With --update the documents get what the commands print where it differs, up to the first `...`.
#
# Prints one line for each document that differs, and ends with 1 if one does.
set -u
update=
if [ "$1" = --update ]; then
	update=1
	shift
fi
kind=$1
shift
command -v p4d >/dev/null || { echo "documents.sh: p4d is not in PATH"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What a command printed, over what the document shows: true if they agree.
agrees()
{
	awk -v want="$2" '
		BEGIN {
			while ((getline line < want) > 0) expected[++n] = any_id(line)
			close(want)
		}
		{ got[++m] = any_id($0) }
		function any_id(line) { return line ~ /^Submitted batch job [0-9]+$/ ? "Submitted" : line }
		function matches(i, k) {
			for (; i <= n && expected[i] != "..."; i++)
				if (k > m || expected[i] != got[k++]) return 0
			if (i > n) return k > m
			for (; k <= m + 1; k++)
				if (matches(i + 1, k)) return 1
			return 0
		}
		END { exit !matches(1, 1) }
	' "$1"
}

# Cuts a document into the numbered parts of its blocks: N.text copied as it is, N.command, N.output.
cut_document()
{
	awk -v kind="$kind" -v into="$2" '
		function part(what) { close(file); file = sprintf("%s/%05d.%s", into, ++parts, what); printf "" > file }
		BEGIN { part("text") }
		/^```/ {
			if (inside) { inside = 0; part("text") }
			else if ($0 == "```console" (kind == "-" ? "" : " " kind)) {
				inside = 1; continued = 0
				print > file
				next
			}
		}
		inside && !continued && /^\$ / { part("command"); sub(/^\$ /, ""); taking = 1 }
		inside {
			if (!taking && file !~ /output$/) part("output")
			print > file
			continued = taking && /\\$/
			if (!continued && taking) { taking = 0; part("output") }
			next
		}
		{ print > file }
	' "$1"
}

run_command()
{
	local number=$1 command file
	command=$(cat "$number.command")
	case $command in
	"cat "*)
		file=${command#cat }
		mkdir -p "$(dirname "$folder/$file")"
		cp "$number.want" "$folder/$file"
		cp "$number.want" "$number.got"
		return
		;;
	esac
	(cd "$folder" && eval "$command") >"$number.got" 2>&1 </dev/null
	echo $? >"$number.status"
}

# What was printed, as far as the document showed it.
shorten()
{
	local lines
	lines=$(grep -n -m 1 -x '\.\.\.' "$1.want" | cut -d: -f1)
	if [ -z "$lines" ]; then
		cat "$1.got"
	else
		head -n $((lines - 1)) "$1.got"
		tail -n +"$lines" "$1.want"
	fi
}

wrong=0
for document in "$@"; do
	parts=$work/parts folder=$work/folder
	mkdir -p "$parts" "$folder"
	cut_document "$document" "$parts"
	for command in "$parts"/*.command; do
		[ -e "$command" ] || continue
		number=${command%.command}
		next=$(printf '%s/%05d.output' "$parts" "$((10#${number##*/} + 1))")
		[ -e "$next" ] || : >"$next"
		cp "$next" "$number.want"
		run_command "$number"
		if [ -n "$update" ]; then
			[ ! -s "$number.want" ] || agrees "$number.got" "$number.want" || shorten "$number" >"$next"
		elif [ ! -s "$number.want" ]; then
			[ "$(cat "$number.status")" = 0 ] ||
				{ echo "$document: $(cat "$command"): exit status $(cat "$number.status"): $(cat "$number.got")"; wrong=1; }
		elif ! agrees "$number.got" "$number.want"; then
			echo "$document: $(cat "$command"): prints another text:"
			diff "$number.want" "$number.got" | sed 's/^/  /'
			wrong=1
		fi
	done
	if [ -n "$update" ]; then
		for part in "$parts"/*.text "$parts"/*.command "$parts"/*.output; do
			[ -e "$part" ] && echo "$part"
		done | sort | while read -r part; do
			case $part in
			*.command) sed '1s/^/$ /' "$part" ;;
			*) cat "$part" ;;
			esac
		done >"$work/new"
		cp "$work/new" "$document"
	fi
	rm -rf "$parts" "$folder"
done
exit $wrong
