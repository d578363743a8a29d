#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# static.sh BUILDDIR: checks of the sources, scripts, manual pages and built plugins that do not run them. One line
# for each check.
set -u
build=$(cd "$1" && pwd) || exit 2
cd "$(dirname "$0")/.." || exit 2
. tests/setup.sh
log=$build/static.log
failed=0

check() # NAME COMMAND...
{
	name=static/$1
	shift
	since=$(date +%s)
	if "$@" >"$log" 2>&1; then
		echo "ok    $name$(p4d_took "$since")"
	else
		echo "FAIL  $name"
		head -60 "$log" | sed 's/^/      | /'
		failed=1
	fi
}

c_files() { find estimator script command plugin rehearsal runtime web man tests -name '*.[ch]'; }
sh_files() { echo demo check .ci/run .ci/sbom tests/gpu/run tests/gpu/pack && find tests -name '*.sh' ! -path 'tests/data/*'; }
texts()
{
	find . -maxdepth 1 -name '*.md'
	find estimator script command plugin rehearsal runtime web etc man tests m4/p4d_* -type f ! -path 'tests/data/*' ! -path 'tests/fuzz/corpus/*'
}

# Warnings only. SC2046, SC2154: lists of flags are split on purpose; lib.sh is found at run time.
shell_scripts() { sh_files | xargs shellcheck -x -S warning -e SC2046,SC2154; }
spelling() { texts | xargs codespell --ignore-words-list=te,ans,fo,generat; }
formatted() { c_files | xargs clang-format --dry-run -Werror; }
# What is suppressed takes `a && *a` for a sign that a may be NULL later on, and does not see what p4d_fail fills.
cppcheck_with() # OPTION-OR-PATH...
{
	cppcheck --quiet -j "$(nproc)" --std=c11 --language=c --enable=warning,portability --inline-suppr --error-exitcode=1 \
		--suppress=nullPointerRedundantCheck --suppress=uninitStructMember -D__GNUC__ '-DSPANK_PLUGIN(name,version)=' \
		-I estimator -I script -I command -I plugin -I rehearsal -I runtime -i runtime/data/sentencepiece.cc \
		-i script/config/config_toml.cc "$@"
}
analysed()
{
	cppcheck_with estimator script command plugin rehearsal tests/tools && cppcheck_with -I web web &&
		cppcheck_with -DP4D_CPU_TYPE=16 runtime && cppcheck_with -DP4D_CPU_TYPE=32 runtime/device/cpu
}

# scdoc writes more paragraph macros than mandoc likes; that changes nothing in the page.
manual_pages()
{
	for page in p4d.1 p4d-backtest.1 p4d-data.1 p4d-options.7 p4d-json.5 p4d.3 p4d-rehearse.1 p4d-report.1 p4d.conf.5 p4d-codes.7 p4d-systems.7 p4d-spank.8 p4d-train.1; do
		[ -f "$build/man/$page" ] || echo "$page was not rendered"
		mandoc -T lint -W warning "$build/man/$page" | grep -v 'skipping paragraph macro'
	done | grep . && return 1
	return 0
}

# documented PAGE TEXT...: all of them occur in the rendered page
documented()
{
	sed 's/\\f.//g; s/\\//g' "$build/man/$1" >"$build/page"
	page=$1
	shift
	missing=0
	for text in "$@"; do
		grep -qF -- "$text" "$build/page" || { echo "$page lacks $text"; missing=1; }
	done
	[ $# -gt 0 ] && return $missing
}
every_code() { documented p4d-codes.7 $(sed -n 's/^CODE(\([0-9]*\),.*/\1/p' estimator/base/codes.def | xargs printf 'P4D%03d '); }

# options LETTER: names of the options whose `where` has it
options() { sed -n "s/^[A-Z]*([A-Z_0-9]*, \"\([a-z-]*\)\".*[ ,]$1[ ,)].*/\1/p" estimator/request/options.def; }
every_slurm_option() { documented p4d-spank.8 $(options S | sed 's/^/--p4d-/'); }
every_command_option() { documented p4d-options.7 $(options C | sed 's/^/--/'); }

# What nothing may do that Slurm loads: end the process, start another, write to stdout.
harmless_calls()
{
	! nm -D --undefined-only "$build/.libs/p4d.so" "$build/.libs/libp4d-client.so" "$build/.libs/libp4d-json.so" "$build/.libs/libp4d-reader.so" "$build/.libs/job_submit_p4d.so" |
		grep -wE '_?exit|abort|__assert_fail|fork|vfork|posix_spawn|system|popen|exec[lv]p?e?|(__)?v?printf(_chk)?|puts|putchar|stdout'
}

# The recipes that are Python can be read by it.
recipes()
{
	command -v python3 >/dev/null || { echo "python3 not found"; return; }
	for recipe in packaging/p4d.eb packaging/spack/package.py; do
		python3 -c 'import sys; compile(open(sys.argv[1]).read(), sys.argv[1], "exec")' "$recipe" || return
	done
}

# What is built is no source.
nothing_built() { ! git ls-files 2>/dev/null | grep -E '\.(o|lo|la|a|so|trs|log|status)$'; }

check shell_scripts shell_scripts
check nothing_built nothing_built
check recipes recipes
check spelling spelling
check format formatted
check cppcheck analysed
check manual_pages manual_pages
check codes_documented every_code
check slurm_options_documented every_slurm_option
check command_options_documented every_command_option
check harmless_calls harmless_calls
exit $failed
