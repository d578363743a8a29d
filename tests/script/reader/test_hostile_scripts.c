/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts of 1 MiB, and the files that they name, written to take long. p4d reads each within 20 ms of CPU
 * time, or reports that it does not read it. P4D_TEST_VERBOSE=1 prints the time of each. */
#include "support/support.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "reader/reader.h"

enum { BYTES = 1 << 20, MEMORY = 8 << 20, RUNS = 25 /* others may use the processor */ };

/* A text has a beginning, a repeated part, and an end. The part is repeated until the text has 1 MiB, or
 * `times` times. Each # in it becomes a running number. */
typedef struct hostile {
	const char *begin, *again, *end;
	size_t times;
	const char *file; /* the contents of every file that is read; NULL: no file exists */
} hostile;

#define TEXT(begin, again, end) \
	{ \
		begin, again, end, 0, NULL \
	}
#define FEW(begin, again, end, times) \
	{ \
		begin, again, end, times, NULL \
	}
#define FILES(begin, again, end, times, file) \
	{ \
		begin, again, end, times, file \
	}
static const hostile scripts[] = {
    /* quotes, brackets and words */
    TEXT("", "\"$(", ""),
    TEXT("", "$((", ""),
    TEXT("", "((", ""),
    TEXT("X=", "${X:-", ""),
    TEXT("run \"", "${A:-\"", ""),
    TEXT("run ", "'", ""),
    TEXT("run ", "\\\\", ""),
    TEXT("run ", "`", ""),
    TEXT("run ", "$'\\x41'", ""),
    TEXT("run ", "x", ""),
    TEXT("run ", "$X", ""),
    TEXT("run ", "\"\" ", ""),
    TEXT("run ", "x ", ""),
    TEXT("run ", "--model-# # ", ""),
    TEXT("torchrun pretrain_gpt.py ", "--num-layers # ", ""),
    FEW("python grpo.py --num_generations 8 ", "--v ", "", 20000),
    FEW("python trl/scripts/grpo.py ", "--vl ", "", 20000),
    FEW("", "python grpo.py --num_generations 8 --v --v --v --v --v --v --v --v\n", "", 5000),
    TEXT("torchrun pretrain_gpt.py ", "--tensor-model-parallel-size=# \\\n", ""),
    TEXT("", "torchrun pretrain_gpt.py --num-layers #\n", ""),
    TEXT("", "python train_#.py --x\n", ""),
    TEXT("", "srun ", "python x.py"),
    TEXT("", "env A=1 ", "python x.py"),
    TEXT("", "bash -c '", ""),
    TEXT("", "a;", ""),
    TEXT("", "\n", ""),
    TEXT("", "# a comment\n", ""),
    TEXT("", "\\\n", ""),
    TEXT("", ": $#\n", ""),
    TEXT("", "export A#=x\n", ""),
    TEXT("", "A#=$A#\n", ""),
    FEW("A=1;", "A=$A$A\n", "", 60),
    TEXT("A=1;", "A=\"$A 1\"\n", ""),
    TEXT("A=1;", "A=\"1 $A\"\n", ""),
    TEXT("A=1;", "A+=\" 1\"\n", ""),
    /* arrays */
    TEXT("", "A+=(#)\n", ""),
    TEXT("", "A[#]=#\n", ""),
    TEXT("A=(", "# ", ")\nfor i in ${A[@]}; do for j in ${A[@]}; do run $i $j; done; done"),
    TEXT("A=(", "# ", ")\nrun \"${A[@]}\" \"${A[@]}\" \"${A[@]}\" \"${A[*]}\" ${A[@]/1/2} ${#A[@]} ${!A[@]}"),
    TEXT("declare -A M\n", "M[k#]=#\n", ""),
    TEXT("declare -A M=(", "[k#]=# ", ")\nrun \"${M[@]}\""),
    TEXT("A=({1..2000})\n", "B+=(\"${A[@]}\")\n", ""),
    TEXT("A=({1..2000})\n", "run \"${A[@]/1/22}\"\n", ""),
    TEXT("A=({1..2000})\n", "A=(\"${A[@]:1}\")\n", ""),
    TEXT("A=({1..2000})\n", "unset A[#]\n", ""),
    /* arithmetic */
    TEXT("run $((", "(", ""),
    TEXT("run $((", "1+", "1))"),
    TEXT("run $((", "1?1:", "1))"),
    TEXT("run $((", "2**", "1))"),
    TEXT("run $((", "-", "1))"),
    TEXT("run $((", "a=", "1))"),
    TEXT("run $((", "x#+", "1))"),
    TEXT("X=X; ", "run $((X))\n", ""),
    TEXT("A=B; B=A; ", "run $((A+B))\n", ""),
    TEXT("A=A+A; ", "((A))\n", ""),
    TEXT("", "((i++))\n", ""),
    TEXT("", "let i+=1\n", ""),
    TEXT("", "i=$(( i + 1 ))\n", ""),
    TEXT("declare -i i; ", "i+=1\n", ""),
    /* loops, functions, tests */
    TEXT("while true; do ", "run a;", " done"),
    TEXT("", "for i in 1 2; do ", ""),
    TEXT("", "for i in {1..64}; do ", ""),
    FEW("", "for i in {1..60}; do ", " run $i; done; done; done; done", 4),
    FEW("", "for ((i=0;i<60;i++)); do ", "run; done; done; done; done", 4),
    TEXT("", "while :; do ", ""),
    TEXT("", "if true; then ", ""),
    TEXT("", "if [ -f x ]; then ", ""),
    TEXT("", "f#() { f#; }\n", "f0"),
    TEXT("", "f#() { f0; f0; }\n", "f1"),
    TEXT("f() { f; f; }\n", "f\n", ""),
    TEXT("a() { b; b; }; b() { a; a; }\n", "a\n", ""),
    TEXT("a() { a x \"$@\"; }\n", "a\n", ""),
    TEXT("a() { local x=$1$1; a $x; }\n", "a y\n", ""),
    TEXT("f() { for i in 1 2 3 4 5 6 7 8; do f; done; }\n", "f\n", ""),
    TEXT("", "eval '", ""),
    TEXT("A='eval $A'; ", "eval $A\n", ""),
    TEXT("A='eval \"$A;$A\"'; ", "eval \"$A\"\n", ""),
    TEXT("case x in ", "a#) run;; ", "esac"),
    TEXT("case $(printf 'a%.0s' {1..60}) in ", "*a*a*a*a*a*a*b) run;; ", "esac"),
    FEW("X=", "a", "; case $X in *a*a*a*a*a*a*a*b) run;; esac", 60000),
    FEW("X=", "a", "; case $X in *([a-z])*([a-z])*([a-z])b) run;; esac", 60000),
    FEW("X=", "a", "; [[ $X =~ (a*)*(a*)*b ]] && run", 60000),
    TEXT("[[ ", "a == a && ", "a ]] && run"),
    TEXT("[[ ", "( ", "a ]]"),
    TEXT("[ ", "a = a -a ", "a ]"),
    TEXT("[[ ", "! ", "a ]] && run"),
    TEXT("", "[ a = b ] || ", "run"),
    TEXT("run ", "| run ", ""),
    TEXT("", "( ", ""),
    TEXT("", "{ ", ""),
    TEXT("", "! ", ""),
    TEXT("", "time ", ""),
    TEXT("set -- ", "# ", "\nwhile [ $# -gt 0 ]; do run $1; shift; done"),
    FEW("set -- a b c\n", "set -- \"$@\" \"$@\"\n", "", 40),
    TEXT("set -- {1..3000}\n", "shift\n", ""),
    TEXT("set -- {1..3000}\n", "run \"$@\"\n", ""),
    TEXT("", "getopts abc x\n", ""),
    TEXT("", "trap 'run' EXIT\n", ""),
    /* here-documents */
    TEXT("", "cat <<E\n$X\nE\n", ""),
    TEXT("", "cat >f# <<E\nx\nE\n", ""),
    TEXT("for i in {1..60}; do cat >f$i <<E\n", "x $i\n", "E\ndone"),
    FEW("for i in {1..60}; do for j in {1..60}; do cat >>f <<E\n", "x $i\n", "E\ndone; done", 20),
    FEW("for i in {1..60}; do cat >>f$i <<E\n$(cat f1)\n", "x $i\n", "E\ndone", 20),
    TEXT("", "cat <<A# <<B#\nA#\nB#\n", ""),
    TEXT("cat <<E\n", "$(cat <<F\n", ""),
    TEXT("cat <<E\n", "${X:-$(", ""),
    TEXT("cat <<E\n", "x\n", ""),
    TEXT("", "cat <<E ", "\n"),
    TEXT("", "echo x >>f\n", "cat f"),
    TEXT("", "cat f f > f\n", ""),
    FEW("echo x >f\n", "cat f f >g; cat g g >f\n", "", 60),
    TEXT("", "read -r A B <<< \"# x\"\n", ""),
    TEXT("", "run <(cat <(echo #))\n", ""),
    /* substitution in parameters */
    FEW("X=", "ab", "; run ${X//a/bb} ${X//b/${X}} ${X//*a/} ${X#*b*b*b*b*c} ${X%%*a*a*a*a*c}", 30000),
    FEW("X=", "a", "\nrun ${X//a*b/x} ${X/#*a*a*a*b} ${X##*a*a*b} ${X%*b*a}", 60000),
    TEXT("X=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", "run ${X//a/b}\n", ""),
    TEXT("X=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", "run ${X//*(a)b/}\n", ""),
    FEW("X=aaaaaaaaaaaaaaaa\n", "X=${X//a/aa}\n", "", 60),
    TEXT("X=x\n", "run ${X^^} ${X,,} ${#X} ${X:0:1} ${!X}\n", ""),
    TEXT("X=x\n", "run ${X//[a-z]/[a-z]}\n", ""),
    FEW("X=", "a ", "\nset -- $X; IFS=a; set -- $X $X", 100000),
    TEXT("A=B B=A\n", "run ${!A}\n", ""),
    TEXT("declare -n A=B; declare -n B=A\n", "run $A; A=1\n", ""),
    /* braces */
    TEXT("run ", "{a,b}", ""),
    FEW("run ", "{a,b}", "", 20),
    TEXT("run ", "{", ""),
    TEXT("run ", "{a,", ""),
    FEW("run ", "{1..1000000}", "", 3),
    TEXT("", "run {1..1000}\n", ""),
    TEXT("run ", "{{a,b},", ""),
    TEXT("run {", "a,", "b}{a,b}"),
    TEXT("run {", "{1..9},", "b}{1..9}"),
    TEXT("run {1..9223372036854775807..", "1", "}"),
    /* what commands print */
    TEXT("", "run $(echo #)\n", ""),
    TEXT("run ", "$(echo $(", ""),
    TEXT("", "X=$(echo $X x)\n", ""),
    FEW("", "X=$(printf '%s %s' \"$X\" \"$X\")\n", "", 60),
    TEXT("", "run $(printf '%0900d' 1)\n", ""),
    TEXT("", "run $(printf '%999999999d' 1)\n", ""),
    TEXT("", "run $(seq 1 1000)\n", ""),
    TEXT("", "run $(seq 1 100000000)\n", ""),
    TEXT("X='", "a b\n",
	 "'\nfor i in {1..60}; do run $(echo \"$X\" | grep -c b | sort | uniq | head -n 1); done"),
    TEXT("X='", "a b\n",
	 "'\nfor i in {1..60}; do run $(echo \"$X\" | sed 's/a/bb/g' | awk '{print $2}' | tr a b); done"),
    FEW("X='", "b a\n",
	"'\nrun $(echo \"$X\" | sort -u | wc -l) $(echo \"$X\" | cut -d' ' -f2 | sort -n | tail -1)", 8000),
    FEW("X='", "#\n", "'\nrun $(echo \"$X\" | sort -r) $(echo \"$X\" | sort -n | uniq -c)", 20000),
    FEW("X='", "a", "'\nrun $(echo \"$X\" | grep -E 'a*a*a*a*a*a*b') $(echo \"$X\" | sed 's/a*a*a*b//g')",
	100000),
    TEXT("X='", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
	 "'\nrun $(echo \"$X\" | grep -oE '[ab]*a+[ab]*a+b')"),
    TEXT("", "basename /a/b/c\n", ""),
    TEXT("", "run $(basename $(dirname $(realpath x)))\n", ""),
    TEXT("", "run $(date +%s) $(hostname) $(nproc)\n", ""),
    TEXT("", "python - <<E\nimport x\nE\n", ""),
    TEXT("", "python -c 'print(1)'\n", ""),
    /* scripts that read themselves, or files of the same size */
    FILES("", "source x.sh\n", "", 0, "source x.sh\n"),
    FILES("", "bash x#.sh\n", "", 0, "bash y.sh\n"),
    FILES("", ". x#.sh\n", "", 0, "A=$A$A\n"),
    FILES("", "sbatch x#.sh\n", "", 0, "torchrun pretrain_gpt.py --num-layers 2\n"),
    FILES("", "python a#.py\n", "", 0, "from transformers import Trainer\n"),
    FILES("", "X=$(cat f)\n", "", 0, "x\n"),
    FILES("", "grep -c x f#\n", "", 0, "x\n"),
    FILES("", "sed -i s/a/b/g f\n", "", 0, "a\n"),
    FILES("while read l; do ", "run $l; ", "done <f", 100, "x y z\n"),
    FILES("mapfile -t A <f\n", "run \"${A[@]}\"\n", "", 0, "x y z\n"),
    /* configuration files */
    FILES("", "llamafactory-cli train c#.yaml\n", "", 0, "a#: [1, 2]\n"),
    FILES("", "axolotl train c.yaml\n", "", 1, "a#: &a# [*a#, *a#]\n"),
    FILES("", "axolotl train c.yaml\n", "", 1, "a: &a [x]\nb#: [*a, *a, *a, *a]\n"),
    FILES("", "axolotl train c.yaml\n", "", 1, "["),
    FILES("", "axolotl train c.yaml\n", "", 1, "? "),
    FILES("", "axolotl train c.yaml\n", "", 1, "- "),
    FILES("", "axolotl train c.yaml\n", "", 1, "a: "),
    FILES("", "axolotl train c.yaml\n", "", 1, "a: |\n  x\n"),
    FILES("", "axolotl train c.yaml\n", "", 1, "!!str "),
    FILES("", "axolotl train c.yaml\n", "", 1, "&a"),
    FILES("", "axolotl train c.yaml\n", "", 1, "--- a\n"),
    FILES("", "axolotl train c.yaml\n", "", 1, "\"\\x41"),
    FILES("", "axolotl train c.yaml\n", "", 1, "x"),
    FILES("", "tune run lora_finetune_single_device --config c.yaml\n", "", 1, "a#: ${a#}\n"),
    FILES("", "python train.py --model_name_or_path m --deepspeed c.json\n", "", 1, "{\"a\":"),
    FILES("", "python train.py --model_name_or_path m --deepspeed c.json\n", "", 1, "[[[["),
    FILES("", "python train.py --model_name_or_path m --deepspeed c#.json\n", "", 0, "[1,"),
    FILES("", "CONFIG_FILE=c.toml torchrun -m torchtitan.train --job.config_file c.toml\n", "", 1,
	  "[a#.b.c.d.e.f]\nx = 1\n"),
    FILES("", "torchrun -m torchtitan.train --job.config_file c.toml\n", "", 1, "a.b.c.d.e.f.g.h.i.j.k#=1\n"),
    FILES("", "torchrun -m torchtitan.train --job.config_file c.toml\n", "", 1, "a#=[[[[[["),
    FILES("", "torchrun -m torchtitan.train --job.config_file c.toml\n", "", 1, "a#={a={a={a={a=1}}}}\n"),
    FILES("", "torchrun -m torchtitan.train --job.config_file c.toml\n", "", 1, "x"),
    FILES("", "torchrun -m torchtitan.train --job.config_file c.toml\n", "", 1, "a#=\"\"\"x\"\"\"\n"),
    FILES("", "torchrun -m torchtitan.train --job.config_file c.toml\n", "", 1, "a#=1979-05-27T07:32:00Z\n"),
    FILES("", "torchrun -m torchtitan.train --job.config_file c#.toml\n", "", 0, "[[a]]\n"),
    FILES("", "python grpo.py --num_generations 8 --config c.yaml\n", "", 1, "v: 1\n"),
    FILES("", "python trl/scripts/grpo.py --num_generations 8 --config c.yaml\n", "", 1, "vl: 1\n"),
    FILES("", "python trl/scripts/grpo.py --num_generations 8 --config c.yaml\n", "", 1, "world_size: 1\n"),
    FILES("", "python -m verl.trainer.main_ppo --config-path=/a --config-name=b\n", "", 1,
	  "defaults:\n- a#\n"),
    FILES("", "python -m verl.trainer.main_ppo --config-path=/a --config-name=b\n", "", 1, "- /a/b@c: d#\n"),
};

static size_t add(char *to, size_t length, const char *what, size_t number)
{
	for (; *what && length + 24 < BYTES; what++)
		if (*what == '#' && what[1] != ' ' && what[1] != '*')
			length += (size_t)sprintf(to + length, "%zu", number);
		else
			to[length++] = *what;
	return length;
}

static size_t written(char *to, const char *begin, const char *again, const char *end, size_t times)
{
	const size_t last = strlen(end) + 64;
	size_t length = add(to, 0, begin, 0);

	for (size_t i = 0; (!times || i < times) && length + strlen(again) + 24 + last < BYTES; i++)
		length = add(to, length, again, i);
	length = add(to, length, end, 0);
	to[length] = '\0';
	return length;
}

typedef struct files {
	char text[BYTES + 1];
	size_t length; /* 0: the file does not exist */
} files;

static const char *variable(void *context, const char *name)
{
	(void)context;
	return !strcmp(name, "HOME") ? "/home/u" : name[0] == 'L' ? p4d_shell_later : NULL;
}

static const char *file(void *context, const char *path, size_t *length)
{
	const files *f = context;

	(void)path;
	*length = f->length;
	return f->length ? f->text : NULL;
}

static p4d_config_read *config(void *context, p4d_config_format format)
{
	static p4d_config_read *read[P4D_CONFIG_FORMATS];
	char path[4096];

	(void)context;
	snprintf(path, sizeof(path), "%s/.libs/%s", getenv("P4D_TEST_BUILDDIR"),
		 p4d_config_libraries[format].file);
	if (!read[format] && access(path, R_OK) == 0)
		read[format] = p4d_config_open(path, format);
	return read[format];
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void hostile_scripts(void **state)
{
	static _Alignas(16) char memory[MEMORY];
	static char text[BYTES + 1];
	static p4d_reading reading;
	static files of;
	const p4d_reader_host host = {.shell = {.context = &of, .variable = variable, .file = file},
				      .config = config};
	const p4d_shell_limits limits = {memory, MEMORY, P4D_SHELL_WORK};
	/* the limit is larger with sanitizers */
	const uint64_t at_most = (getenv("P4D_TEST_FEW") ? 20 : 1) * (uint64_t)20000000;
	const size_t few = getenv("P4D_TEST_FEW") ? 1 : RUNS;

	(void)state;
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		const hostile *h = &scripts[i];
		const size_t length = written(text, h->begin, h->again, h->end, h->times);
		uint64_t least = UINT64_MAX;
		of.length = h->file ? written(of.text, "", h->file, "", 0) : 0;
		for (size_t run = 0; run < few && (run == 0 || least > at_most); run++) {
			const uint64_t start = cpu_ns();
			p4d_reader_read(&reading, &host, &limits, "job.sh", text, length, NULL, "/job");
			const uint64_t took = cpu_ns() - start;
			least = took < least ? took : least;
			if (least > at_most) /* another program may use the processor for a while */
				nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
		}
		if (getenv("P4D_TEST_VERBOSE"))
			printf("%7.2f ms  %.40s|%.60s|%.60s (%s)\n", (double)least * 1e-6, h->begin, h->again,
			       h->file ? h->file : "", reading.incomplete ? reading.incomplete : "read");
		else if (least > at_most)
			fail_msg("%.40s %.60s: %" PRIu64 " us", h->begin, h->again, least / 1000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(hostile_scripts)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
