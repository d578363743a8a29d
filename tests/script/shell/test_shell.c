/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that p4d finds in scripts, compared with those that bash would start. */
#include "support/support.h"

#include <stdlib.h>

#include "support/shell_means.h"

static void words(void **state)
{
	(void)state;
	means("run a 'b c' \"d  e\" f\\ g ''", "<run><a><b c><d  e><f g><>;");
	means("run a \\\n  b # c\n\nrun2", "<run><a><b>;<run2>;");
	means("run $'a\\tb' \"$HOME/x\" ${HOME}y", "<run><a\tb></home/u/x></home/uy>;");
	means("A='x y'; run $A \"$A\"", "<run><x><y><x y>;");
	means("A=1 B=$A run $B; run2 $A", "<run><1>;<run2><?>;");
	means("run \"$1\" $2 $# \"$@\" \"${@:x}\"", "<run><one><two><words><2><one><two words><?>;");
	means("run \"${@:2}\" ${@:1:1} \"${@:3}\"; A=(a b 'c d' e); run \"${A[@]:1:2}\" ${A[*]: -1} "
	      "\"${A[@]:9}\"",
	      "<run><two words><one>;<run><b><c d><e>;");
	means("X=abcdef; run ${X:2} ${X:1:3} ${X: -2} ${X:0:-1} ${X:9} ${LATER:1}",
	      "<run><cdef><bcd><ef><abcde><?>;");
	means("A=(x 'y z'); run ${A[@]+\"${A[@]}\"} ${B[@]+\"${B[@]}\"}", "<run><x><y z>;");
	means("run $NOTHING x $RANDOM ${HOSTNAME}; RANDOM=3; run $RANDOM", "<run><?><x><?><?>;<run><3>;");
	means("\r\nrun a\r\nrun b \\\r\n c\r\n", "<run><a>;<run><b><c>;");
}

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000" /* 64 zeros */

/* A value that grows in a loop needs only the memory of its own length. */
static void growth(void **state)
{
	(void)state;
	means("A=" ZEROS "; for i in {1..30}; do for j in {1..30}; do A=\"$A x\"; done; done; run "
	      "${#A}",
	      "<run><1864>;");
	means("A=" ZEROS "; A=\"$A 1\"; A=\"$A 2\"; B=$A; (A=\"$A s\"; run ${A:64}; A=\"$A t\"); "
	      "A=\"$A 3\"; "
	      "f() { local A=\"$A l\"; A=\"$A m\"; run ${A:64}; }; f; A=\"$A 4\"; B=\"$B b\"; run ${A:64}; "
	      "run ${B:64}",
	      "<run><1><2><s>;<run><1><2><3><l><m>;<run><1><2><3><4>;<run><1><2><b>;");
}

static void braces(void **state)
{
	(void)state;
	means("run a{b,c}d {1..4} {08..10..2} {c..a} x{1,2}{y,z}",
	      "<run><abd><acd><1><2><3><4><08><10><c><b><a><x1y><x1z><x2y><x2z>;");
	means("run {a,{b,c}d}e {a,'b c'} \"{a,b}\" {a} {} {a..} a{,b} $\"{a,b}\" \\{a,b}",
	      "<run><ae><bde><cde><a><b c><{a,b}><{a}><{}><{a..}><a><ab><{a,b}><{a,b}>;");
	means("N=4; run {1..$N} ${N}{a,b} --x={$N,5}; A={a,b}; run \"$A\" $A",
	      "<run><{1..4}><4a><4b><--x=4><--x=5>;<run><{a,b}><{a,b}>;");
	means("for i in {1..3}; do run $i; done; B=(n{1..2} z); run ${#B[@]} ${B[1]}",
	      "<run><1>;<run><2>;<run><3>;<run><3><n2>;");
}

static void expansions(void **state)
{
	(void)state;
	means("run ${A:-x} ${A-'y z'} ${A:=w} $A", "<run><x><y z><w><w>;");
	means("A=a.tar.gz; run ${A%.*} ${A%%.*} ${A#*.} ${A##*.} ${A/tar/zip} ${#A} ${A^^}",
	      "<run><a.tar><a><tar.gz><gz><a.zip.gz><8><A.TAR.GZ>;");
	means("A=(a 'b c' d); A+=(e); run \"${A[@]}\" ${#A[@]} ${A[1]} ${A[-1]}",
	      "<run><a><b c><d><e><4><b><c><e>;");
	means("A=(); run x \"${A[@]}\"", "<run><x>;");
	means("N=4; run $((N*2+1)) $(( (N-1)%2 )) $((N==4?7:8)) $((2**10)) $((0x10))",
	      "<run><9><1><7><1024><16>;");
	means("run $((1 + 2 << 1 & 7)) $((6 | 1 ^ 3)) $((4 | 1)) $((64 >> 2)) $((10#08)) $((16#1f)) $((1 << "
	      "63)) $((-1 >> 1))",
	      "<run><6><6><5><16><8><31><?><?>;");
	means("run $((LATER*2)) $((1/0)) $((X+1))", "<run><?><?><?>;");
	means("run $(hostname) `date` $(echo a b) $(dirname /x/y) $(basename /x/y)",
	      "<run><?><?><a><b></x><y>;");
	means("D=$(cd .. && pwd); run $D", "<run></>;");
	means(
	    "run $(dirname -- x/y) $(basename -- /a/b.c .c) $(dirname -z x/y) $(realpath --relative-to=/ x)",
	    "<run><x><b><?><?>;");
	means("X=$(cat <(echo hi)); run $X", "<run><hi>;");
	means("run $(cat <(ls))", "<run><?>;");
	means("run $(ls)", "<run><?>;");
	means("A=B; B=7; run ${!A}", "<run><7>;");
}

static void control(void **state)
{
	(void)state;
	means("A=7; if [ $A = 7 ]; then run y; else run n; fi", "<run><y>;");
	means("if [[ $HOME == /home/* && -n $HOME ]]; then run y; elif x; then run n; fi", "<run><y>;");
	means("if x; then run y; else run n; fi; run z", "<x>;?<run><y>;?<run><n>;<run><z>;");
	means("if nvidia-smi; then run y; fi", "?<run><y>;");
	means("A=1; if [ -f x ]; then A=2; fi; run $A", "<run><?>;");
	means("A=1; if [ -f x ]; then A=1; fi; run $A", "<run><1>;");
	means("case $1 in t*|on[ef]) run y;; *) run n;; esac", "<run><y>;");
	means("case $LATER in a) run a;; *) run b;; esac", "?<run><a>;?<run><b>;");
	means("for i in a b; do run $i; done", "<run><a>;<run><b>;");
	means("while [ $# -gt 0 ]; do run \"$1\"; shift; done; run $#",
	      "<run><one>;<run><two words>;<run><0>;");
	means("for i in 1 2 3; do [ $i = 2 ] && break; run $i; done; run e", "<run><1>;<run><e>;");
	means("f() { run $1 \"$2\"; return; run no; }\nf a 'b c'; run $1", "<run><a><b c>;<run><one>;");
	means("cd x || exit 1; run a && run b || run c", "<run><a>;<run><b>;");
	means("[ a = b ] && run a || run b; ! true || run c", "<run><b>;<run><c>;");
	means("run a | tee log & (run b); { run c; } > x 2>&1; exit; run d", "<run><a>;<run><b>;<run><c>;");
	means("unset HOME; run ${HOME:-x}", "<run><x>;");
}

/* Variables whose value does not last, and assignments that p4d does not support. */
static void scopes(void **state)
{
	(void)state;
	means("A=2; f() { local A=8 B; }; f; run $A $B", "<run><2><?>;");
	means("A=2; f() { A=8; }; f; run $A", "<run><8>;");
	means("A=2; (A=8; exit 1); run $A; g() (A=9; return); g; run $A", "<run><2>;<run><2>;");
	means("X=0; for s in skip; do [ $s = skip ] && continue; X=7; done; run $X", "<run><0>;");
	means("for s in a b c; do if [ $s = b ]; then continue; fi; run $s; done; run e",
	      "<run><a>;<run><c>;<run><e>;");
	means("A=2; let A=A*4; run $A; B=2; printf -v B -- %d 8; run $B; ((++C)); run $C",
	      "<run><8>;<run><8>;<run><?>;");
	means("i=3; x $((i++)); run $i; for ((n=0; n<3; n++)); do run $n; done",
	      "<x><3>;<run><4>;<run><0>;<run><1>;<run><2>;");
	means("for ((n=0; n<LATER; n++)); do run $n; done; run $n", "?<run><?>;<run><?>;");
	means("i=1; (( i += 2, j = i * 2 )); run $i $j $((i == 3 && (k = 7))) $k; ((0 && (i = 9))) || run $i",
	      "<run><3><6><1><7>;<run><3>;");
	means("declare -A m=([a]=1); m=7; run ${m[a]} ${m[0]} ${!m[@]}; declare -A n; n=8; run ${!n[@]} "
	      "${n[0]}",
	      "<run><1><7><a><0>;<run><0><8>;");
	means("if x; then E=; fi; run e$E", "<x>;<run><e?>;");
	means("run ${!*[0]} ${!@[0]} x", "<run><x>;");
	means("declare -A m; m=(x y); run ${!m[*]} ${m[x]}", "<run><?><?>;");
	means("A=(1); mapfile -t A <f; run ${A[0]}", "<run><?>;");
	means("mapfile -t A <<E\nx y\nz\nE\nrun \"${A[@]}\"", "<run><x y><z>;");
	means("set 8 4; run $1 $#; set -e; run $1; set -- a; run $1", "<run><8><2>;<run><8>;<run><a>;");
	means("set a b c d e f g h i j k; run ${10} ${11} $10 ${12:-none}", "<run><j><k><a0><none>;");
	means("if x; then : ${T:=8}; else : ${T:=2}; fi; run $T", "<x>;<run><?>;");
	means("N=a-tp8; run ${N//[!0-9]/} ${N/%8/x} ${N/#a/b} ${N//[a-z]} $(basename /m/24.json .json)",
	      "<run><8><a-tpx><b-tp8><-8><24>;");
	means("run $(echo -n 64) $(echo -e 'a\\tb') {1..3} x{a,b} $[1+2] {} {a}",
	      "<run><64><?><1><2><3><xa><xb><3><{}><{a}>;");
	means("X=; f() { run $2; }; f \"${X}\" 4 \"$@\"", "<run><4>;");
	means("C=$(\n# isn't (\necho a)\nrun $C \"$(echo \"b)\" c)\"", "<run><a><b) c>;");
	means("[ \"$NO\" == debug ] && run a || run b", "<run><b>;");
	means("D=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" &>/dev/null && pwd); run $D", "<run></job>;");
	means("D=$( cd -- \"$( dirname -- \"${BASH_SOURCE[0]}\" )\" &> /dev/null && pwd ); run $D",
	      "<run></job>;");
	means("f() { run f; }; f; command f; command run x; builtin cd /a; command cd b; run $PWD; command "
	      "-v z",
	      "<run><f>;<f>;<run><x>;<run></a/b>;<command><-v><z>;");
}

/* `set` and its options, with the results of bash 5.2. */
static void set_options(void **state)
{
	(void)state;
	means("set -eox pipefail; run $# $1", "<run><2><one>;");
	means("set -eoux pipefail a; run $# $1", "<run><1><a>;");
	means("set -oe pipefail; run $#", "<run><2>;");
	means("set -oo pipefail errexit z; run $# $1", "<run><1><z>;");
	means("set -o pipefail -e; run $#", "<run><2>;");
	means("set +o; run $#; set -o -e; run $#; set +eo pipefail; run $#", "<run><2>;<run><2>;<run><2>;");
	means("set -euo pipefail -- b; run $# $1; set --; run $#", "<run><1><b>;<run><0>;");
	means("set -aeo pipefail; N=3; set +ao pipefail; M=4; bash <<E\nE\nrun $N", "<bash>;<run><3>;");
}

/* How a file finds out that it is sourced, and how a function finds its caller, with the results of bash
 * 5.2. */
static void frames(void **state)
{
	(void)state;
	means("run $BASH_SOURCE ${BASH_SOURCE[0]} ${#BASH_SOURCE[@]} $0 ${FUNCNAME[0]-none}",
	      "<run><job.sh><job.sh><1><job.sh><none>;");
	means(
	    "f() { run ${FUNCNAME[0]} ${FUNCNAME[1]} $0 $1 ${#BASH_SOURCE[@]}; }; f a; run ${FUNCNAME-none}",
	    "<run><f><main><job.sh><a><2>;<run><none>;");
	means("cat >s.sh <<'E'\nrun ${BASH_SOURCE[0]} ${BASH_SOURCE[-1]} $0 $1\n[ \"$0\" = \"$BASH_SOURCE\" "
	      "] && exit 1\n"
	      "g() { run ${BASH_SOURCE[0]} ${BASH_SOURCE[1]} \"${FUNCNAME[*]}\"; }\nE\n. ./s.sh y; run $1; g",
	      "<run><./s.sh><job.sh><job.sh><y>;<run><one>;<run><./s.sh><job.sh><g main>;");
	means("cat >s.sh <<'E'\nif [[ ${BASH_SOURCE[0]} == ${0} ]]; then exit 1; fi\nE\nbash s.sh; source "
	      "s.sh; run",
	      "<bash><s.sh>;<run>;");
	means("(return 0 2>/dev/null) && run sourced; run on", "<run><on>;");
	means("(return 0 2>/dev/null) || main=1; run $main", "<run><1>;");
	means("cat >s.sh <<'E'\n(return 0 2>/dev/null) || exit 1\n(return) && run yes\nE\n. s.sh; run",
	      "<run><yes>;<run>;");
	means("return 1; run", "<run>;");
}

static void directories(void **state)
{
	(void)state;
	means("cd /a; cd b; cd -; run $PWD $OLDPWD; cd; run $PWD", "<run></a></a/b>;<run></home/u>;");
	means("cd /a; pushd b; pushd /c; run $PWD; popd; run $PWD; popd; run $PWD; popd || run $PWD",
	      "<run></c>;<run></a/b>;<run></a>;<run></a>;");
	means("cd /a; if x; then cd b; run $PWD; cd ..; fi; run $PWD", "<x>;?<run></a/b>;<run></a>;");
	means("cd /a; if x; then pushd b; popd; else pushd c; popd; fi; run $PWD", "<x>;<run></a>;");
	means("cd /a; if x; then cd b; fi; run $PWD", "<x>;<run></a?>;");
	means("cd /a; [ -f y ] && cd b; run $PWD", "<run></a?>;");
}

static void files(void **state)
{
	(void)state;
	means("source lib.sh; run $N; f 5", "<run><3>;<run><5>;");
	means(". ./lib.sh\nsource nowhere.sh\nrun $N", "<run><3>;");
	means("echo a >/dev/null; run $(cat /dev/null)", "<run><?>;");
	means("set -a; N=3; set +a; M=4; bash <<E\nE\nrun $N", "<bash>;<run><3>;");
	means("N=2\ncat > x.sh <<E\nrun $N\nE\nsource x.sh; run b", "<run><2>;<run><b>;");
	means("cat <<'E' >x.sh; run a\nrun $N\nE\nN=4; . x.sh", "<run><a>;<run><4>;");
	means("echo 'run a' > x; echo 'run b' >> x; . x", "<run><a>;<run><b>;");
	means("C='run a'; eval \"$C 'b c'\"", "<run><a><b c>;");
}

static void arrays(void **state)
{
	(void)state;
	means("declare -A M=([7b]=32 ['70 b']=80); M[x]=1; k=7b; run ${M[$k]} ${M['70 b']} ${M[x]} ${#M[@]} "
	      "${M[y]:-0}",
	      "<run><32><80><1><3><0>;");
	means("declare -A M; M[a]=1; M[b]=2; M[a]+=0; for k in \"${!M[@]}\"; do run $k ${M[$k]}; done",
	      "<run><a><10>;<run><b><2>;");
	means("A=(a b); A[1]=c; A[2]=d; A[-1]=e; run ${A[@]} ${!A[@]}; A[9]=x; run ${A[0]}",
	      "<run><a><c><e><0><1><2>;<run><?>;");
	means("A=(a b); (A[0]=x; run ${A[@]}); run ${A[@]}", "<run><x><b>;<run><a><b>;");
	means("A=(a b); if x; then A[0]=c; fi; run ${A[0]} ${A[1]}", "<x>;<run><?><b>;");
	means("declare -A M=([a]=1); M[$LATER]=2; run ${M[a]}", "<run><?>;");
	means("A=($LATER b); run ${A[1]} ${#A[@]}; B=(\"$LATER\" b); run ${B[1]} ${#B[@]}",
	      "<run><?><?>;<run><b><2>;");
	means("f() { run $2 $#; }; f $LATER 4", "<run><?><?>;");
	means("declare -i N=2*3; run $N; f() { declare -g G=1; }; f; run $G; declare -n R=N; run $R; R=8; "
	      "run $N",
	      "<run><6>;<run><1>;<run><6>;<run><8>;");
	means("add() { local -n l=$1; shift; l+=(\"$@\"); }; A=(a); add A b c; run \"${A[@]}\"; B='x y'; "
	      "declare -n R=$B; R=9; run $R",
	      "<run><a><b><c>;<run><?>;");
	means("A=(a b c); unset 'A[-1]'; run \"${A[@]}\"; unset 'A[0]'; run \"${A[@]}\"; declare -A M=([k]=1 "
	      "[l]=2); unset 'M[k]'; "
	      "run ${M[@]}; unset -f A; unset 'M[@]'; run ${#M[@]}",
	      "<run><a><b>;<run><?>;<run><2>;<run><0>;");
	means("A=2 B=(a b); if x; then unset A B; fi; run $A \"${B[@]}\"", "<x>;<run><?><?>;");
}

/* Commands whose output p4d computes from their arguments. */
static void outputs(void **state)
{
	(void)state;
	means("f() { local n=$1; if [ $n -gt 4 ]; then echo big; else echo small; fi; }; run $(f 8) $(f 2)",
	      "<run><big><small>;");
	means("f() { if [ -f x ]; then echo a; else echo b; fi; }; run $(f)", "<run><?"
									      "?>;");
	means("A=x; run ${A/#/--} ${A/%/-y} ${A/#x/z}; B=(p=1 'q r=2'); run \"${B[@]/#/--}\"; run "
	      "\"${B[@]%=*}\" \"${B[*]#*=}\"",
	      "<run><--x><x-y><z>;<run><--p=1><--q r=2>;<run><p><q r><1 2>;");
	means("set -- a.sh b.sh; run ${@%.sh}; C=(one); run ${C[@]^} ${C[@]/n/}; run $(printf '%.0f' 12)",
	      "<run><a><b>;<run><One><oe>;<run><12>;");
	/* groups of extglob, and named sets */
	means("A=foo123; run ${A%%+([0-9])} ${A//@(o|2)/_}; case ab12 in +([a-z])+([0-9])) run m ;; *) run n "
	      ";; esac;"
	      "case big in !(small|tiny)) run big ;; esac; case x in ?(y)) run no ;; @(y|x)) run x ;; esac",
	      "<run><foo><f__1_3>;<run><m>;<run><big>;<run><x>;");
	means("case 7 in [[:digit:]]) run d ;; *) run o ;; esac; A='  p '; run \"${A##+([[:space:]])}\"; "
	      "case q in [!a-m[:digit:]]) run y ;; esac",
	      "<run><d>;<run><p >;<run><y>;");
	means("cat <<-E > f\n\ta: 1\n\t  b: $((1+1))\n\tE\nrun \"$(tail -n 1 f)\"; cat <<-'E' > "
	      "g\n\t\t$x\nE\nrun \"$(cat g)\"",
	      "<run><  b: 2>;<run><$x>;");
	/* break and continue of several loops */
	means("for i in 1 2 3; do for j in a b; do [ $i = 2 ] && break 2; [ $j = b ] && continue 2; run "
	      "$i$j; done; run no; done; run end",
	      "<run><1a>;<run><end>;");
	means("while :; do until false; do break 2; done; run no; done; for ((i=0;i<2;i++)); do for j in a; "
	      "do continue 2; done; run no; done; run $i",
	      "<run><2>;");
	means("for i in 1 2; do for j in 1 2; do for k in 1 2; do [ $k = 2 ] && continue 3; run $i$j$k; "
	      "done; done; run no; done",
	      "<run><111>;<run><211>;");
	means("run $(printf '%s-%03d' a 7) $(printf '%s\n' x y | tail -n 1) $(printf %q a)",
	      "<run><a-007><y><?>;");
	means("X=a,b,c; run $(echo $X | tr , ' ') $(echo $X | tr ',' '\\n' | wc -l) $(echo a b | wc -w)",
	      "<run><a><b><c><3><2>;");
	means("run $(echo h100:8 | cut -d: -f2) $(echo abc | cut -c1-2) $(echo a,b,c | cut -d, -f 2-) $(echo "
	      "x8y | tr -cd 0-9)",
	      "<run><8><ab><b,c><8>;");
	means("run $(seq 2 4) $(echo '4*(2+1)' | bc) $(echo A | tr '[:upper:]' '[:lower:]')",
	      "<run><2><3><4><12><a>;");
	means("run $(scontrol show hostnames | wc -l) $(scontrol show hostnames $SLURM_JOB_NODELIST | wc -w) "
	      "$(scontrol show hostnames $X | wc -l) $(scontrol show hostnames | head -n 1) $(scontrol show "
	      "jobs)",
	      "<run><2><2><?><?><?>;");
	means("N=($(scontrol show hostname $SLURM_NODELIST)); run ${#N[@]} ${N[0]}", "<run><2><?>;");
	means("N=($(scontrol show hostname $SLURM_JOB_NODELIST)); run ${#N[@]} ${N[0]}", "<run><2><?>;");
	means("run $(nvidia-smi -L | wc -l) $(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l) "
	      "$(nvidia-smi --query-gpu=name --format=csv | wc -l) $(nvidia-smi | wc -l)",
	      "<run><4><4><?><?>;");
	means("run $(ls | wc -l) $(echo $LATER | tr a b) $(echo a | sed s/a/b/) $(awk 1 f)",
	      "<run><?><?><b><?>;");
	means("printf 'a b\nc\n' > f; run $(<f) $(cat f | head -1) $(wc -l <f)", "<run><a><b><c><a><b><2>;");
	means("{ echo N=4; echo M=5 >&2; } > x; . x; run $N $M", "<run><4><?>;");
	means("make_config >x; . x; cat x > y; run $(cat y)", "<make_config>;<run><?>;");
	means("echo 'a: 1' > x; cp x y; run $(cat y); sed -i s/1/2/ x; run $(cat x)",
	      "<run><a:><1>;<run><a:><2>;");
	/* all spellings of sed -i; commands of sed that p4d does not support make the file unknown */
	means(
	    "echo a > x; sed -Ei s/a+/b/ x; run $(cat x); sed --in-place=.old s/b/c/ x; run $(cat x); "
	    "sed s/c/d/ -i x; run $(cat x); sed -es/d/e/ -i.old x; run $(cat x); sed -f y -i x; run $(cat x)",
	    "<run><b>;<run><c>;<run><d>;<run><e>;<run><?>;");
	means("echo a > x; sed -ni p x; run $(cat x); echo a > y; sed -i --expression=s/a/b/ y; run $(cat y)",
	      "<run><?>;<run><?>;");
	means(
	    "run $(echo a | sed -es/a/b/ -e s/b/c/) $(echo a | sed -E s/a/b/) $(echo a | sed --posix s/a/b/)",
	    "<run><c><b><?>;");
	means("IFS=, read -ra A <<< 'x,y z'; run \"${A[@]}\"; read B C <<< 'p q r'; run \"$C\"",
	      "<run><x><y z>;<run><q r>;");
	means("read -r -d '' C <<E\nrun a \\\n  b $LATER\nE\n$C; eval \"$C\"",
	      "<run><a><b><?>;<run><a><b><?>;");
	means("X=a:b; IFS=:; run $X; unset IFS; run $X; Y=$(IFS=+; A=(1 2); echo \"${A[*]}\"); run $Y",
	      "<run><a><b>;<run><a:b>;<run><1+2>;");
	means("printf '1 a\n2 b\n' | while read -r n x; do run $n $x; done; hosts | while read h; do run $h; "
	      "done",
	      "<run><1><a>;<run><2><b>;<hosts>;?<run><?>;");
	means("A=1; echo 2 | read A; run $A; x | { exit 1; y; }; run b", "<run><1>;<x>;<run><b>;");
}

static void options(void **state)
{
	(void)state;
	means("set -- -t 8 -vp4 rest; while getopts 'vt:p:' o; do case $o in t) T=$OPTARG;; p) P=$OPTARG;; "
	      "v) V=1;; esac; "
	      "done; shift $((OPTIND - 1)); run $T $P $V $1",
	      "<run><8><4><1><rest>;");
	means("set -- -x; while getopts :ab o; do run $o; done", "<run><?>;");
	means("set -- -t $LATER; while getopts t: o; do T=$OPTARG; done; run $T", "<run><?>;");
	means("set -- --tp 4 --name 'a b' --flag x; while [[ $# -gt 0 ]]; do case \"$1\" in --tp) tp=$2; "
	      "shift 2;; "
	      "--name) n=\"$2\"; shift; shift;; --flag) f=1; shift;; *) rest+=(\"$1\"); shift;; esac; done; "
	      "run $tp "
	      "\"$n\" $f \"${rest[@]}\"",
	      "<run><4><a b><1><x>;");
	means("case b in a) run a;; b) run b;& c) run c;; d) run d;; esac", "<run><b>;<run><c>;");
	means("case ab in a*) run a;;& *b) run b;;& x) run x;; *) run e;; esac",
	      "<run><a>;<run><b>;<run><e>;");
}

/* p4d reads each script within its limits of work and memory, or reports that it does not. */
static void bounds(void **state)
{
	static const char *const bombs[] = {"A=xx; while :; do A=$A$A; done", "f() { f; f; }; f",
					    "source lib.sh; while true; do source lib.sh; done",
					    "A='eval $A'; eval $A"};
	trace t;
	const char *stopped;
	char deep[40000];

	(void)state;
	for (size_t i = 0; i < sizeof(bombs) / sizeof(bombs[0]); i++)
		run_within(&t, bombs[i], P4D_SHELL_WORK, &stopped);
	for (const char *opening = "$({([`\"'<i"; *opening; opening++) {
		for (size_t i = 0; i < sizeof(deep) - 1; i++)
			deep[i] = i % 2 && *opening != '"' ? '$' : *opening;
		deep[sizeof(deep) - 1] = '\0';
		run_within(&t, deep, P4D_SHELL_WORK, &stopped);
	}
	/* reading a megabyte of expensive text ends at the work limit */
	static const char *const units[] = {"\"'`$(",
					    "$A ",
					    "X=$(:)\n",
					    "(X=1)\n",
					    "((X=X*2+X))\n",
					    "A=$A$A\n",
					    "f() { f $1$1 \"$@\"; }; f x\n",
					    "A[",
					    "A+=(v)\n",
					    "echo a|",
					    "run $E\n",
					    "cat <<A <<B <<C\n",
					    "case x in *?*?*?y) z;; esac\n",
					    "printf 'a\\nb\\n' | while read x; do y=$y$x; done\n",
					    "for i in 1 2 3 4; do V=$V$i; W=${V//1*4/$V}; done\n",
					    "\\\n"};
	enum { MEBIBYTE = 1 << 20 };
	char *text = malloc(MEBIBYTE);
	assert_non_null(text);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		const size_t length = strlen(units[i]);
		for (size_t at = 0; at < MEBIBYTE; at++)
			text[at] = units[i][at % length];
		text[MEBIBYTE - 1] = '\0';
		run_within(&t, text, P4D_SHELL_WORK, &stopped);
		if (!stopped)
			fail_msg("all of %s was read", units[i]);
	}
	free(text);
	run_within(&t, "run a", 2, &stopped);
	assert_non_null(stopped);
	run_within(&t, bombs[0], P4D_SHELL_WORK, &stopped);
	assert_non_null(stopped);
}

/* Wherever the memory ends, there is a message. Sanitizers detect writes outside of it. */
static void memory_ends(void **state)
{
	static const char script[] = "while :; do\ncase $LATER in x) G+=(a $E $SOME); M[$x]=$y; N=$N$LATER; "
				     "f() { run; } ;; esac\ndone\n";
	enum { LEAST = 16 << 10, MOST = 400 << 10, STEP = 64 };
	const char *stopped;
	trace t;

	(void)state;
	for (size_t size = LEAST; size < MOST; size += STEP) {
		char *memory = malloc(size); /* a block of exactly this size */
		assert_non_null(memory);
		const p4d_shell_limits limits = {memory, size, P4D_SHELL_WORK / 24};
		run_limited(&t, script, &limits, &stopped);
		free(memory);
		assert_non_null(stopped);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(memory_ends), cmocka_unit_test(braces),      cmocka_unit_test(words),
	    cmocka_unit_test(growth),      cmocka_unit_test(expansions),  cmocka_unit_test(control),
	    cmocka_unit_test(scopes),      cmocka_unit_test(set_options), cmocka_unit_test(frames),
	    cmocka_unit_test(directories), cmocka_unit_test(files),       cmocka_unit_test(arrays),
	    cmocka_unit_test(outputs),     cmocka_unit_test(options),     cmocka_unit_test(bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
