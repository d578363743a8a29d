/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/rehearse_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/suggest.h"
#include "rehearse/player.h"

const char p4d_rehearse_help[] =
    "\n"
    "  --gpu NAME          GPU to simulate; see p4d gpus (default: the job's, else h100-80gb)\n"
    "  --nodes N           nodes of the job (default: the job's, else 1)\n"
    "  --gpus-per-node N   GPUs of each node (default: the job's, else 1)\n"
    "  --ranks LIST        ranks to rehearse: fullest (default), first, last, all, or numbers: 0,5,63\n"
    "  --steps N           optimizer steps after which p4d ends a rank (default 2; 0: never)\n"
    "  --phases LIST       train (default), eval, save: after N steps, go on until this phase has run\n"
    "  --timeout SECONDS   end a rank that runs longer (default 600)\n"
    "  --micro-batch-option NAME   the program's option for the micro-batch; find the largest that fits\n"
    "  --svg FILE          also draw the memory of the fullest rank over time\n"
    "  --shell             really run JOB.sh in a shell, up to the command that starts the training\n"
    "  --progress          print step, phase and memory while a rank runs, also if stderr is no terminal\n"
    "  --verbose           print all output of the program (default: the last lines of a rank that fails)\n"
    "  --submit[=PARTITION]  submit a job without GPUs that rehearses, then JOB.sh, which runs if it fits\n"
    "  --json              print JSON\n"
    "\n"
    "In JOB.sh, p4d finds the training command, with its environment, directory, nodes and GPUs. SBATCH\n"
    "OPTIONS are those of sbatch. If PROGRAM begins with srun, torchrun, deepspeed or mpirun, p4d rehearses\n"
    "the ranks that this launcher would start. The program really runs, up to its N-th optimizer step, and\n"
    "writes its files. The simulated GPU counts memory and computes nothing.";

static int usage(p4d_error *err, const char *text, const char *word)
{
	p4d_fail(err, P4D_E_USAGE, "%s%.100s", text, word);
	return p4d_fix(err, "p4d help rehearse");
}

static int number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *value,
		  p4d_error *err)
{
	if (p4d_number_whole(text, least, most, value))
		return 0;
	return p4d_fail(err, P4D_E_VALUE, "%s=%.60s: not a whole number from %" PRIu64 " to %" PRIu64, option,
			text, least, most);
}

static int check_phases(const char *list, p4d_error *err)
{
	static const char *const known[] = {"train", "eval", "save"};

	for (const char *at = list;; at++) {
		size_t length = strcspn(at, ","), i = 0;
		while (i < 3 && (strlen(known[i]) != length || strncmp(known[i], at, length)))
			i++;
		if (i == 3)
			return p4d_fail(err, P4D_E_VALUE,
					"--phases=%.60s: not a list of train, eval and save", list);
		at += length;
		if (!*at)
			return 0;
	}
}

/* 1: it is one of these options; 0: it is none; -1: an error. */
static int take_option(p4d_rehearse_options *o, const char *name, const char *value, p4d_error *err)
{
	const struct {
		const char *name;
		uint64_t least, most;
		uint64_t *value;
	} numbers[] = {
	    {"--nodes", 1, P4D_PLAYER_RANKS, &o->nodes},
	    {"--gpus-per-node", 1, 64, &o->gpus_per_node},
	    {"--steps", 0, 1000, &o->steps},
	    {"--timeout", 1, 86400, &o->timeout},
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (!strcmp(name, numbers[i].name))
			return number(name, value, numbers[i].least, numbers[i].most, numbers[i].value, err)
				   ? -1
				   : 1;
	}
	if (!strcmp(name, "--gpu")) {
		o->gpu = value;
		return 1;
	}
	if (!strcmp(name, "--ranks")) {
		o->ranks = value;
		return 1;
	}
	if (!strcmp(name, "--micro-batch-option")) {
		o->micro_batch = value;
		return 1;
	}
	if (!strcmp(name, "--svg")) {
		o->svg = value;
		return 1;
	}
	if (!strcmp(name, "--phases")) {
		o->phases = value;
		return check_phases(value, err) ? -1 : 1;
	}
	return 0;
}

static int unknown(const char *option, p4d_error *err)
{
	static const char *const names[] = {"--nodes",
					    "--gpus-per-node",
					    "--gpu",
					    "--ranks",
					    "--steps",
					    "--timeout",
					    "--json",
					    "--partition",
					    "--phases",
					    "--svg",
					    "--micro-batch-option"};
	char name[64];
	p4d_suggest alike = {.wanted = name};

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(option, "="), option);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		p4d_suggest_offer(&alike, names[i]);
	p4d_fail(err, P4D_E_USAGE, "unknown option %.60s%s", name, p4d_suggest_text(&alike));
	return p4d_fix(err, "p4d help rehearse");
}

/* Takes an option of sbatch, alone or with the next word as its value; returns the number of words. */
static int take_sbatch(p4d_rehearse_options *o, char *argv[], p4d_error *err)
{
	char command[] = "sbatch", *words[] = {command, argv[0], argv[1], NULL};
	const int count = argv[1] && argv[1][0] != '-' ? 3 : 2;
	int operand = 0;
	p4d_error other;

	words[count] = NULL;
	if (p4d_sbatch_arguments(&o->sbatch, count, words, &operand, &other) < 0)
		return unknown(argv[0], err);
	for (int i = 0; i < operand - 1 && o->typed_count < P4D_REHEARSE_TYPED; i++)
		o->typed[o->typed_count++] = argv[i];
	return operand - 1;
}

/* Takes "--name=value" or "--name value"; returns the number of words, -1 with an error. */
static int take_words(p4d_rehearse_options *o, char *argv[], p4d_error *err)
{
	char name[64];
	const char *equals = strchr(argv[0], '=');

	if (!strcmp(argv[0], "--submit") || !strncmp(argv[0], "--submit=", strlen("--submit="))) {
		o->submit = equals ? equals + 1 : "";
		return 1;
	}
	const struct {
		const char *name;
		bool *value;
	} switches[] = {{"--json", &o->json},
			{"--progress", &o->progress},
			{"--verbose", &o->verbose},
			{"--shell", &o->shell}};

	for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
		if (!strcmp(argv[0], switches[i].name)) {
			*switches[i].value = true;
			return 1;
		}
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(argv[0], "="), argv[0]);
	const char *value = equals ? equals + 1 : argv[1];
	const int known = take_option(o, name, value ? value : "", err);
	if (known < 0 || (known && !value))
		return known < 0 ? -1 : usage(err, "no value given for ", argv[0]);
	/* these options describe a job, so sbatch's reader takes them */
	if (!known || value == o->gpu || !strcmp(name, "--ranks"))
		return known ? 2 - (equals != NULL) : take_sbatch(o, argv, err);
	if (!strcmp(name, "--nodes") || !strcmp(name, "--gpus-per-node"))
		return take_sbatch(o, argv, err);
	return 2 - (equals != NULL);
}

/* Takes a job script. A program that does not follow "--" is one if it is a text for a shell. */
static int take_script(p4d_rehearse_options *o, char *argv[], p4d_error *err)
{
	char line[128] = "";
	FILE *in = fopen(argv[0], "re");

	if (!in)
		return p4d_fail(err, P4D_E_IO, "job script %.200s: %s", argv[0], strerror(errno));
	if (!fgets(line, sizeof(line), in))
		line[0] = '\0';
	fclose(in);
	if (strncmp(line, "#!", 2) != 0 || !strstr(line, "sh")) {
		const char *dot = strrchr(argv[0], '.');
		p4d_fail(
		    err, P4D_E_USAGE,
		    "%.200s does not begin with #! and a shell, so it is not a job script; put a program's "
		    "command after --",
		    argv[0]);
		return p4d_fix(err, "p4d rehearse -- %s%.200s", dot && !strcmp(dot, ".py") ? "python " : "",
			       argv[0]);
	}
	o->script = argv[0];
	o->program = argv + 1;
	return 0;
}

int p4d_rehearse_options__parse(p4d_rehearse_options *o, int argc, char *argv[], p4d_error *err)
{
	int i = 1;

	while (i < argc && argv[i][0] == '-' && strcmp(argv[i], "--")) {
		int words = take_words(o, argv + i, err);
		if (words < 0)
			return -1;
		i += words;
	}
	const bool is_program = i < argc && !strcmp(argv[i], "--");
	i += is_program;
	if (i >= argc)
		return usage(err, "no program given", "");
	o->program = argv + i;
	if (is_program && o->shell)
		return usage(err, "--shell is for a job script", "");
	return is_program ? 0 : take_script(o, argv + i, err);
}

static int add_rank(p4d_rehearse_options *o, uint64_t rank, p4d_error *err)
{
	if (o->count == P4D_REHEARSE_RANKS)
		return p4d_fail(err, P4D_E_VALUE, "--ranks: more than %d ranks", P4D_REHEARSE_RANKS);
	o->rank[o->count++] = rank;
	return 0;
}

/*
 * Adds the first and the last rank, which have the first and the last pipeline stage, and the fullest rank if
 * it is known.
 */
static int add_fullest(p4d_rehearse_options *o, uint64_t world, uint64_t fullest, p4d_error *err)
{
	if (add_rank(o, 0, err))
		return -1;
	if (fullest && fullest < world - 1 && add_rank(o, fullest, err))
		return -1;
	return world > 1 ? add_rank(o, world - 1, err) : 0;
}

int p4d_rehearse_options__ranks(p4d_rehearse_options *o, uint64_t world, uint64_t fullest, p4d_error *err)
{
	uint64_t rank;
	char text[512], *rest = NULL;

	o->count = 0;
	if (!strcmp(o->ranks, "fullest"))
		return add_fullest(o, world, fullest, err);
	if (!strcmp(o->ranks, "all")) {
		for (rank = 0; rank < world; rank++)
			if (add_rank(o, rank, err))
				return -1;
		return 0;
	}
	if (snprintf(text, sizeof(text), "%s", o->ranks) >= (int)sizeof(text))
		return p4d_fail(err, P4D_E_VALUE, "--ranks: longer than %zu characters", sizeof(text) - 1);
	for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		rank = !strcmp(word, "first") ? 0 : world - 1;
		if (strcmp(word, "first") && strcmp(word, "last") &&
		    number("--ranks", word, 0, world - 1, &rank, err))
			return -1;
		if ((!o->count || rank != o->rank[o->count - 1]) && add_rank(o, rank, err))
			return -1;
	}
	return o->count ? 0 : p4d_fail(err, P4D_E_VALUE, "--ranks names no rank");
}
