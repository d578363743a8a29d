#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# External names of the product, as its objects have them:
#   - each is defined once, and no two types have the same name (the cpu device is compiled in float and in double, and
#     plugin/client_json.c and client_reader.c stand in libp4d-client.so for what reads JSON and job scripts);
#   - p4d_room__name, with two underscores, is used inside its room only;
#   - what a header declares that no other room includes has them, unless the whole room is closed: nothing includes from it.
#   - at most four files call each other's functions in a circle. Two interpreters are larger circles, because a word of a
#     script or an expression of a template may contain whole commands or calls. Tables of functions do not count.
# Prints two shares: names with a word of their file or folder, and prototypes in the header of the file's own stem or of
# its folder (FOLDER.h, FOLDER_internal.h).
set -u
source=$(cd "${P4D_TEST_SRCDIR:-$(dirname "$0")/../..}" && pwd) || exit 2
build=${P4D_TEST_BUILDDIR:-.}
least_named=85 least_declared=80
work=$(mktemp -d "${TMPDIR:-/tmp}/p4d-names.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
failed=0
fault() { echo "FAIL: $*"; failed=1; }
cd "$source" || exit 2

# object, its source: estimator/plan/.libs/libp4d_la-plan.o is of estimator/plan/plan.c
find estimator script command plugin rehearsal runtime -name '*.c' -o -name '*.cu' -o -name '*.cc' >"$work/sources"
(cd "$build" && find estimator script command plugin rehearsal runtime -name '*.o' 2>/dev/null) |
	sed 'h; s|\.libs/||; s|/[a-z0-9_]*_la-|/|; s|/p4d-|/|; s|/p4d_train-|/|; s|/tables-|/|; s|\.o$||; G; s|\n| |' |
	awk 'NR == FNR { stem = $1; sub(/\.[a-z]*$/, "", stem); source[stem] = $1; next } $1 in source { print $2, source[$1] }' \
		"$work/sources" - >"$work/objects"
if [ ! -s "$work/objects" ]; then
	echo "nothing was built"
	exit 77
fi
# nm -A: FILE:VALUE TYPE NAME
(cd "$build" && cut -d' ' -f1 "$work/objects" | xargs nm -A 2>/dev/null) | awk '
	NR == FNR { source[$1] = $2; next }
	{ split($1, at, ":"); file = source[at[1]] }
	NF == 3 && $2 ~ /^[TDRB]$/ && $3 ~ /^p4d_/ { print "D", $3, file, $2 }
	NF == 3 && $2 == "U" && $3 ~ /^p4d_/ { print "U", $3, file }' "$work/objects" - | LC_ALL=C sort -u >"$work/symbols"

# Which file includes which header.
find estimator script command plugin rehearsal runtime -name '*.[ch]' -o -name '*.cu' -o -name '*.cc' >"$work/files"
xargs awk '/^# *include "/ { split($0, quoted, "\""); print "I", quoted[2], FILENAME }' <"$work/files" >"$work/included"
# name(, in a header outside of comments, at the depth of the file: a prototype
grep '\.h$' "$work/files" | xargs awk '
	FNR == 1 { comment = 0; print "H", FILENAME }
	/^\/\*/ { comment = 1 }
	!comment && /^(extern |[a-z].*[ *])p4d_[a-z0-9_]+(\(|\[|;|,)/ && !/^(static|typedef|#)/ {
		line = $0
		while (match(line, /p4d_[a-z0-9_]+[(\[;,]/)) {
			print "P", substr(line, RSTART, RLENGTH - 1), FILENAME
			line = substr(line, RSTART + RLENGTH)
			if ($0 !~ /^extern/) break
		}
	}
	/\*\// { comment = 0 }' >"$work/prototypes"

awk '$1 == "D" { print $2, $3 }' "$work/symbols" | awk '
	{ n[$1]++; where[$1] = where[$1] " " $2 }
	END { for (s in n) if (n[s] > 1) print s ":" where[s] }' |
	grep -vE 'device/cpu/|plugin/client_(json|reader)\.c' >"$work/twice"
[ ! -s "$work/twice" ] || fault "defined twice: $(cat "$work/twice")"

awk '
	function room(path) { sub(/\/[^\/]*$/, "", path); return path }
	$1 == "D" { home[$2] = room($3) }
	$1 == "U" { users[$2] = users[$2] " " room($3); files[$2] = files[$2] " " $3 }
	END {
		for (s in users) {
			if (s !~ /__/ || !(s in home)) continue
			n = split(files[s], file, " ")
			for (i = 1; i <= n; i++)
				if (room(file[i]) != home[s]) print s " of " home[s] " is used in " file[i]
		}
	}' "$work/symbols" >"$work/strangers"
[ ! -s "$work/strangers" ] || fault "used outside of their rooms:
$(cat "$work/strangers")"

awk -v least_named=$least_named -v least_declared=$least_declared '
	function room(path) { sub(/\/[^\/]*$/, "", path); return path }
	function base(path) { sub(/.*\//, "", path); return path }
	function stem(path) { path = base(path); sub(/\.[a-z]*$/, "", path); return path }
	# singular and plural are one word, and so are a word and its longer forms: attention, attend
	function same(a, b, n) {
		if (a == b || a "s" == b || a == b "s") return 1
		n = length(a) < length(b) ? length(a) : length(b)
		return n >= 4 && substr(a, 1, n) == substr(b, 1, n)
	}
	function named(symbol, file, a, b, i, k, m, n) {
		n = split(substr(symbol, 5), a, /_+/)
		m = split(stem(file) "_" base(room(file)), b, /_+/)
		for (i = 1; i <= n; i++) for (k = 1; k <= m; k++) if (same(a[i], b[k])) return 1
		return 0
	}
	$1 == "H" { there[$2] = 1; next }
	$1 == "I" {
		for (i in part) {
			h = part[i] "/" $2
			if (h in there && room(h) != room($3)) foreign[h] = open_room[room(h)] = 1
		}
		next
	}
	$1 == "P" { if (!($2 in declared)) declared[$2] = $3; next }
	$1 == "D" && !($2 in home) { home[$2] = $3 }
	$1 == "U" { used[$2] = used[$2] " " room($3) }
	function outside(symbol, who, i, n) {
		n = split(used[symbol], who, " ")
		for (i = 1; i <= n; i++) if (who[i] != room(home[symbol])) return 1
		return 0
	}
	BEGIN { split("estimator script command plugin rehearsal runtime", part, " ") }
	END {
		for (s in home) {
			h = declared[s]
			if (h == "" || home[s] ~ /device\/cpu\/cpu_/) continue
			all++
			f = home[s]
			if (named(s, f)) good++; else bad = bad "\n  " s " of " f
			if (stem(h) == stem(f) && room(h) == room(f) || stem(h) == base(room(f)) || stem(h) == base(room(f)) "_internal") near++
			else away = away "\n  " s " of " f " in " h
			if (!(h in foreign) && room(h) == room(f) && open_room[room(f)] && s !~ /__/ && !outside(s))
				mark = mark "\n  " s " of " f
		}
		printf "%d external names: %.1f %% have a word of their file or folder, %.1f %% are declared in a header of it\n",
			all, 100 * good / all, 100 * near / all
		if (ENVIRON["P4D_TEST_VERBOSE"]) print "without such a word:" bad "\ndeclared elsewhere:" away
		if (mark) { print "FAIL: only their room can use them, so they take two underscores:" mark; wrong = 1 }
		if (100 * good < least_named * all || 100 * near < least_declared * all) {
			print "FAIL: at least " least_named " and " least_declared " % are asked for" bad away
			wrong = 1
		}
		exit wrong
	}' "$work/prototypes" "$work/included" "$work/symbols" || failed=1

# Files whose functions reach each other. First without those that nothing in a circle calls, and those that call nothing there.
awk -v most=4 -v interpreters='^(script/shell|runtime/template)/' '
	function stem(path) { sub(/\.[a-z]*$/, "", path); return path }
	function reach(from, all, start, i, n, list, m, next_, k) {
		delete all
		list[n = 1] = start
		for (i = 1; i <= n; i++) {
			m = split(from[list[i]], next_, " ")
			for (k = 1; k <= m; k++)
				if (!(next_[k] in gone) && !(next_[k] in all)) { all[next_[k]] = 1; list[++n] = next_[k] }
		}
	}
	function strip(to, from, f, i, n, other, found, any) {
		any = 0
		for (f in from) {
			if (f in gone) continue
			n = split(from[f], other, " ")
			found = 0
			for (i = 1; i <= n && !found; i++) found = !(other[i] in gone) && other[i] in to
			if (!found) any = gone[f] = 1
		}
		return any
	}
	$1 == "D" && $4 == "T" { homes[$2] = homes[$2] " " stem($3) }
	$1 == "U" && $2 in homes {
		n = split(homes[$2], home, " ")
		f = stem($3)
		for (i = 1; i <= n; i++)
			if (home[i] != f && !((f, home[i]) in seen)) {
				seen[f, home[i]] = 1
				calls[f] = calls[f] " " home[i]
				called[home[i]] = called[home[i]] " " f
			}
	}
	END {
		do again = strip(calls, called) + strip(called, calls); while (again)
		for (f in calls) {
			if (f in gone || f in placed || !(f in called)) continue
			reach(calls, ahead, f)
			reach(called, back, f)
			count = 0; names = ""
			for (g in ahead)
				if (g in back) { count++; names = names " " g; placed[g] = 1 }
			if (count > most && f !~ interpreters) { print "FAIL: a circle of " count " files:" names; wrong = 1 }
			if (count > largest && f !~ interpreters) largest = count
			if (count > 1) circles++
		}
		if (!circles) { print "FAIL: no circle was found, not even of the interpreters"; wrong = 1 }
		print circles " circles of files; the largest outside of the interpreters has " largest
		exit wrong
	}' "$work/symbols" || failed=1

# Types: of whatever file.
xargs awk '
	/^} [a-z_0-9]*;/ { name = $2; sub(/;.*/, "", name); print name, FILENAME }
	/^typedef .*[ *][a-z_0-9]*;$/ { name = $NF; gsub(/[*;]/, "", name); print name, FILENAME }
	/^typedef .*\(\*[a-z_0-9]*\)\(/ { match($0, /\(\*[a-z_0-9]*\)/); print substr($0, RSTART + 2, RLENGTH - 3), FILENAME }' \
	<"$work/files" | LC_ALL=C sort -u | cut -d' ' -f1 | uniq -d >"$work/types"
[ ! -s "$work/types" ] || fault "types of one name: $(tr '\n' ' ' <"$work/types")"
exit $failed
