# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034
# Sourced by the tests of the command. Each gets an empty directory, a p4d.conf and a job script in it, and the p4d that was
# built first in PATH. No cluster is asked unless a test puts a `sinfo` (and `scontrol`) of its own into $work/bin.
set -u
P4D_DATADIR=$P4D_TEST_DATADIR
export P4D_DATADIR
unset SLURM_CONF NO_COLOR
for variable in $(env | sed -n 's/^\(SBATCH_[A-Z0-9_]*\)=.*/\1/p'); do
	unset "$variable"
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
for program in sinfo scontrol sacctmgr; do
	printf '#!/bin/sh\nexit 1\n' >"$work/bin/$program"
	chmod +x "$work/bin/$program"
done
PATH=$work/bin:$P4D_TEST_BUILDDIR:$PATH
cd "$work" || exit 1
# where rehearsals are kept
XDG_CACHE_HOME=$work/.cache
export XDG_CACHE_HOME

cat >p4d.conf <<'CONF'
mode = enforce
partition "h100" {
	gpu = "h100-80gb"
	gpus_per_node = 8
	default = true
}
partition "strict" {
	gpu = "a100-40gb"
	gpus_per_node = 8
	require_plan = true
}
partition "debug" {
	gpu = "h100-80gb"
	gpus_per_node = 8
	mode = observe
}
exempt_accounts = { "boss" }
version = 1
CONF
cat >job.sh <<'JOB'
#!/bin/sh
#SBATCH -p h100 -N 1
#SBATCH --gpus-per-node=8 --ntasks-per-node=8
#SBATCH --p4d-model=llama13b
srun p4d-train
JOB

fail()
{
	printf 'FAIL: %s\nstatus: %s\nout: %s\nerr: %s\n' "$*" "$status" "$out" "$err"
	exit 1
}

# For tests that train: settings as outside of jobs, and one thread per rank.
by_hand()
{
	unset P4D_PLAN P4D_JOB_KEY P4D_JOB_KEY_FILE P4D_JOB_HOST RANK OMPI_COMM_WORLD_RANK PMI_RANK
	for variable in $(env | sed -n 's/^\(SLURM_[A-Z0-9_]*\)=.*/\1/p'); do
		unset "$variable"
	done
	OPENBLAS_NUM_THREADS=1
	export OPENBLAS_NUM_THREADS
}

# A text from which a model can learn something, as training data.
make_text()
{
	awk 'BEGIN { for (; i < 400; i++) printf "line %d: every line says which one it is, and that line %d is another one\n", i, i * 7 % 400 }' >text
	exits 0 p4d data -o text text
}

# whole_page FILE TEXT [ORDER]: one page that needs nothing else: the text, then pictures, and tables that sort
whole_page()
{
	! grep -qE '(src|href)="?http|url\(|@import|<\?xml' "$1" || fail "$1 needs something else"
	[ "$(tail -n 1 "$1")" = "</html>" ] || fail "$1 is cut off"
	grep -nEo "$2|<svg|<table|<script" "$1" | sed 's/^[0-9]*://' | uniq | tr '\n' ' ' | grep -qx "$2 ${3:-<svg <table} <script " ||
		fail "$1 has another order"
	command -v python3 >/dev/null || return 0
	python3 - "$1" <<-'EOF' || fail "$1 does not nest"
		import html.parser, sys
		empty, inside = ("meta", "br"), []
		class Page(html.parser.HTMLParser):
		    def handle_starttag(self, tag, attrs):
		        if tag not in empty:
		            inside.append(tag)
		    def handle_endtag(self, tag):
		        if inside.pop() != tag:
		            sys.exit(1)
		Page().feed(open(sys.argv[1]).read())
		sys.exit(bool(inside))
	EOF
}

# run COMMAND...: fills status, out and err
run()
{
	"$@" >"$work/.out" 2>"$work/.err"
	status=$?
	out=$(cat "$work/.out") err=$(cat "$work/.err")
	case $err in
	*Sanitizer* | *'runtime error'*) fail "sanitizer: $*" ;;
	esac
}

# exits STATUS COMMAND...
exits()
{
	wanted=$1
	shift
	run "$@"
	[ "$status" = "$wanted" ] || fail "$* exits with $status instead of $wanted"
}

# refused P4DNNN COMMAND...: with this code, which is also its exit status. The text of a message is checked in one
# place: in the unit test of the code that makes it, or in the one script that asks for it. Elsewhere the code is
# enough, with the fix and the names in the message.
refused()
{
	code=$1
	shift
	exits "$(expr "$code" : 'P4D0*\(.*\)')" "$@"
	says "[$code]"
}

# prints TEXT..., says TEXT...: all of them are on stdout, on stderr
prints()
{
	for text in "$@"; do
		printf '%s\n' "$out" | grep -qF -- "$text" || fail "stdout lacks \"$text\""
	done
}
says()
{
	for text in "$@"; do
		printf '%s\n' "$err" | grep -qF -- "$text" || fail "stderr lacks \"$text\""
	done
}
silent() { [ -z "$err" ] || fail "stderr is not empty"; }

# The command or flags after "p4d: fix: " of the last run.
fix() { printf '%s\n' "$err" | sed -n 's/^p4d: fix: //p' | head -n 1; }
