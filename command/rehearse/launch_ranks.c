/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the ranks that the launchers of a command start, and the command that each rank runs. */
#include "rehearse/launch_ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "reader/reader.h"
#include "rehearsals/rehearsals_key.h"
#include "rehearse/deepspeed_hosts.h"
#include "rehearse/engine_ranks.h"

/* What remains of a command after some of its launchers were removed. */
typedef struct launching {
	const p4d_words *from;
	p4d_words *to;
	p4d_rehearse_ranks *ranks;
	const p4d_launcher *launcher;
	bool module,
	    no_python; /* torchrun starts a Python module; torchrun starts a program that is not Python */
	bool python;   /* the word "python" is in the command */
	const char *local_rank; /* "--local_rank", which follows the program; NULL: the launcher adds none */
	const char *unknown, *unknown_option; /* why a relevant option is unknown; NULL: all are known */
} launching;

static const char *word(const launching *l, size_t index)
{
	return index < l->from->count ? l->from->at[index].text : "";
}

static bool same_name(const char *a, const char *b, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (a[i] != b[i] && !(strchr("-_", a[i]) && strchr("-_", b[i])))
			return false;
	return !b[length];
}

/* The text of a word; if it is unknown, NULL, and the command cannot be rehearsed. */
static const char *known(launching *l, size_t i, const char *name, const char *text)
{
	if (!l->from->at[i].unknown)
		return text;
	l->unknown = l->from->at[i].unknown;
	l->unknown_option = name;
	return NULL;
}

/* The value if word `i` is this option; NULL: it is another one. `name` includes its dashes. */
static const char *value_of(launching *l, size_t i, const char *name)
{
	const char *text = word(l, i);
	const size_t length = strcspn(text, "=");
	const bool is_short = name[1] != '-' && strlen(name) == 2;

	if (is_short && !strncmp(text, name, 2) && text[2] >= '0' && text[2] <= '9')
		return known(l, i, name,
			     text + 2); /* the value follows directly, as in -N2, but not in -np */
	if (length != strlen(name) || !same_name(text, name, length))
		return NULL;
	if (text[length])
		return known(l, i, name, text + length + 1);
	return i + 1 < l->launcher->next ? known(l, i + 1, name, word(l, i + 1)) : NULL;
}

/* The value of the last of the options `names` (NULL-terminated); NULL: none is there. */
static const char *option(launching *l, const char *const *names)
{
	const char *found = NULL;

	for (size_t i = l->launcher->at + 1; i < l->launcher->next; i++)
		for (const char *const *name = names; *name; name++) {
			const char *value = value_of(l, i, *name);
			found = value ? value : found;
		}
	return found;
}

static bool has_switch(const launching *l, const char *name)
{
	for (size_t i = l->launcher->at + 1; i < l->launcher->next; i++)
		if (strlen(word(l, i)) == strlen(name) && same_name(word(l, i), name, strlen(name)))
			return true;
	return false;
}

static uint64_t number(const char *text, uint64_t otherwise)
{
	uint64_t value;

	return text && p4d_number_whole(text, 1, P4D_PLAYER_RANKS, &value) ? value : otherwise;
}

/* The largest number in a text: 4 of "4", "2:4" or "2-4". */
static uint64_t most(const char *text, uint64_t otherwise)
{
	const char *behind = text ? strpbrk(text, ":-") : NULL;

	return number(behind ? behind + 1 : text, otherwise);
}

#define OPTION(l, ...) option(l, (const char *const[]){__VA_ARGS__, NULL})

/* The number of GPUs in "8", "h100:8" or "gpu:h100:8". */
static uint64_t gpus(const char *text, uint64_t otherwise)
{
	const char *behind = text ? strrchr(text, ':') : NULL;

	return number(behind ? behind + 1 : text, otherwise);
}

/* srun and mpirun. */
static void take_tasks(launching *l, const char *all, const char *per_node)
{
	p4d_rehearse_ranks *r = l->ranks;
	const uint64_t nodes = r->nodes ? r->nodes : 1;
	const uint64_t tasks = number(all, per_node ? 0 : r->tasks);

	r->ranks_per_node = number(per_node, tasks ? (tasks + nodes - 1) / nodes : r->tasks_per_node);
	r->ranks_per_node = r->ranks_per_node ? r->ranks_per_node : 1;
}

static int take_srun(launching *l, p4d_error *err)
{
	p4d_rehearse_ranks *r = l->ranks;
	const char *exported = OPTION(l, "--export");

	if (OPTION(l, "--container-image"))
		return p4d_fail(err, P4D_E_UNMODELLED,
				"srun starts the program in a container, and p4d does not have the "
				"container's libraries; run p4d rehearse inside the container");
	r->nodes = most(OPTION(l, "-N", "--nodes"), r->nodes);
	r->gpus_per_node = gpus(OPTION(l, "--gpus-per-node", "--gres"), r->gpus_per_node);
	const char *all = OPTION(l, "-G", "--gpus");
	if (all && r->nodes)
		r->gpus_per_node = (gpus(all, r->nodes) + r->nodes - 1) / r->nodes;
	r->gpus_per_task = gpus(OPTION(l, "--gpus-per-task"), r->gpus_per_task);
	take_tasks(l, OPTION(l, "-n", "--ntasks"), OPTION(l, "--ntasks-per-node", "--tasks-per-node"));
	if (!r->gpus_per_node && r->gpus_per_task)
		r->gpus_per_node = r->gpus_per_task * r->ranks_per_node;
	exported = exported ? exported : p4d_words__variable(l->to, "SLURM_EXPORT_ENV");
	p4d_words__export(l->to, exported ? exported : "");
	r->started |= P4D_STARTED_SRUN;
	return 0;
}

/* Takes variables from -x NAME=VALUE of Open MPI and -genv NAME VALUE of MPICH. */
static void take_mpi_variables(launching *l)
{
	for (size_t i = l->launcher->at + 1; i + 1 < l->launcher->next; i++) {
		const char *equals = strchr(word(l, i + 1), '=');
		if (!strcmp(word(l, i), "-x") && equals)
			p4d_words__set(
			    l->to,
			    p4d_words__copy(l->to->memory, word(l, i + 1), (size_t)(equals - word(l, i + 1))),
			    equals + 1);
		if ((!strcmp(word(l, i), "-genv") || !strcmp(word(l, i), "-env")) &&
		    i + 2 < l->launcher->next)
			p4d_words__set(l->to, word(l, i + 1), word(l, i + 2));
	}
}

static int take_mpi(launching *l, p4d_error *err)
{
	const char *map = OPTION(l, "--map-by", "-map-by");
	const char *all = OPTION(l, "-np", "-n", "-c", "--np", "--n");
	const char *each =
	    OPTION(l, "-N", "-npernode", "--npernode", "-ppn", "-perhost", "--ntasks-per-node");
	char text[24];
	uint64_t per_node = number(each, 0);

	(void)err;
	if (!per_node && map && !strncmp(map, "ppr:", 4))
		per_node = strtoull(map + 4, NULL, 10);
	/* outside of Slurm, the number of all ranks and that of ranks per node give the number of nodes */
	if (per_node && all && !l->ranks->nodes)
		l->ranks->nodes = (number(all, per_node) + per_node - 1) / per_node;
	snprintf(text, sizeof(text), "%" PRIu64, per_node);
	take_tasks(l, all, per_node ? text : NULL);
	take_mpi_variables(l);
	l->ranks->started |=
	    strcmp(l->launcher->name, "mpiexec.hydra") ? P4D_STARTED_OPENMPI : P4D_STARTED_HYDRA;
	return 0;
}

/* ---- torchrun ---- */

/* Whether the value of an option is the output of this command. p4d then takes the number from the job. */
static bool is_output(launching *l, const char *output)
{
	if (!l->unknown || strcmp(l->unknown, output) != 0)
		return false;
	l->unknown = NULL;
	return true;
}

static int take_torchrun(launching *l, p4d_error *err)
{
	static const char *const every[] = {"gpu", "auto"};
	p4d_rehearse_ranks *r = l->ranks;
	const bool is_launch = !strcmp(l->launcher->name, "torch.distributed.launch");
	const uint64_t nodes = most(OPTION(l, "--nnodes"), 1);

	(void)err;
	if (!(r->nodes &&
	      is_output(l, "output of scontrol"))) /* for instance $(scontrol show hostnames | wc -l) */
		r->nodes = has_switch(l, "--standalone") ? 1 : nodes;
	const char *ranks = OPTION(l, "--nproc-per-node", "--nproc_per_node");
	if (r->gpus_per_node &&
	    is_output(l, "output of nvidia-smi")) /* for instance $(nvidia-smi -L | wc -l) */
		ranks = every[0];
	r->ranks_per_node = number(ranks, 1);
	for (size_t i = 0; ranks && i < sizeof(every) / sizeof(every[0]); i++)
		if (!strcmp(ranks, every[i]))
			r->ranks_per_node = r->gpus_per_node ? r->gpus_per_node : 1;
	r->gpus_per_node = r->gpus_per_node ? r->gpus_per_node : r->ranks_per_node;
	r->gpus_per_task = 0;
	r->started |= P4D_STARTED_TORCHRUN;
	l->module = l->launcher->module;
	l->no_python = has_switch(l, "--no-python");
	if (is_launch && !has_switch(l, "--use-env"))
		l->local_rank = "--local-rank";
	return 0;
}

/* ---- deepspeed ---- */

static int take_deepspeed(launching *l, p4d_error *err)
{
	p4d_rehearse_ranks *r = l->ranks;
	const char *path = OPTION(l, "-H", "--hostfile");
	const p4d_deepspeed_hosts told = {.hostfile = path ? path : "/job/hostfile",
					  .directory = l->from->directory,
					  .include = OPTION(l, "-i", "--include"),
					  .exclude = OPTION(l, "-e", "--exclude"),
					  .gpus = r->gpus_per_node};
	uint64_t nodes, each;

	if (l->unknown)
		return 0;
	if (p4d_deepspeed__hosts(&told, &nodes, &each, err))
		return -1;
	r->nodes = number(OPTION(l, "--num_nodes"), nodes);
	r->ranks_per_node = number(OPTION(l, "--num_gpus"), each ? each : 1);
	r->gpus_per_node = r->gpus_per_node ? r->gpus_per_node : r->ranks_per_node;
	r->started |= P4D_STARTED_DEEPSPEED;
	l->module = l->launcher->module;
	l->no_python = has_switch(l, "--no_python");
	if (!has_switch(l, "--no_local_rank"))
		l->local_rank = "--local_rank";
	return 0;
}

/* Prepares a program that calls torchrun itself. At that call, p4d's Python module reports the ranks. */
static int take_own(launching *l, p4d_error *err)
{
	p4d_rehearse_ranks *r = l->ranks;
	const uint64_t nodes = number(OPTION(l, "--num_machines", "--nnodes"), 1);
	const uint64_t each = number(OPTION(l, "--nproc_per_node"), 0);
	const uint64_t all = number(OPTION(l, "--num_processes"), each * nodes);

	(void)err;
	if (!r->gpus_per_node)
		r->gpus_per_node = (all + nodes - 1) / nodes;
	r->is_typed = false;
	return 0;
}

/* Replaces an unknown rendezvous address by any known address. No other process connects to it. */
static void know_meeting(p4d_words *words, const p4d_launcher *launcher)
{
	static const struct {
		const char *name, *value;
	} options[] = {
	    {"--main_process_ip", "127.0.0.1"},
	    {"--main_process_port", "29500"},
	    {"--machine_rank", "0"},
	    {"--node_rank", "0"},
	    {"--master_addr", "127.0.0.1"},
	    {"--master_port", "29500"},
	    {"--rdzv_endpoint", "127.0.0.1"},
	    {"--rdzv_id", "0"},
	};

	for (size_t i = launcher->at + 1; i < launcher->next && i < words->count; i++) {
		const bool joined = strchr(words->at[i].text, '=') != NULL;
		const char *name = words->at[joined ? i : i - 1].text;
		const size_t length = strcspn(name, "=");
		for (size_t k = 0; words->at[i].unknown && k < sizeof(options) / sizeof(options[0]); k++) {
			if (length != strlen(options[k].name) || !same_name(name, options[k].name, length))
				continue;
			words->at[i].text =
			    p4d_words__print(words->memory, "%s%s%s", joined ? options[k].name : "",
					     joined ? "=" : "", options[k].value);
			words->at[i].unknown = NULL;
		}
	}
}

/* Keeps these words of the launcher in the command. */

static void add_words(launching *l, size_t from, size_t to)
{
	for (size_t i = from; i < to && i < l->from->count; i++) {
		const p4d_word *w = &l->from->at[i];
		p4d_words__add(l->to, w->text);
		l->to->at[l->to->count - 1].unknown = w->unknown;
	}
}

static int keep(launching *l, p4d_error *err)
{
	(void)err;
	add_words(l, l->launcher->at, l->launcher->next);
	return 0;
}

static int drop(launching *l, p4d_error *err)
{
	(void)l, (void)err;
	return 0;
}

/* Keeps python in the command. If the module that it starts is a launcher, that module reports the ranks. */
static int take_python(launching *l, p4d_error *err)
{
	(void)err;
	add_words(l, l->launcher->at, l->launcher->next - l->launcher->module);
	l->module = l->launcher->module;
	l->python = true;
	return 0;
}

static int refuse_container(launching *l, p4d_error *err)
{
	return p4d_fail(err, P4D_E_UNMODELLED,
			"%s starts the program in a container, and p4d does not have the container's "
			"libraries; run p4d rehearse inside the container",
			l->launcher->name);
}

static int refuse(launching *l, p4d_error *err)
{
	p4d_fail(err, P4D_E_UNMODELLED, "p4d cannot rehearse %s", l->launcher->name);
	return p4d_fix(err, "p4d rehearse --nodes N --gpus-per-node N -- PROGRAM");
}

/* Other launchers, which p4d cannot replace. STAYS: the launcher runs with the rest of the command. */
static const struct {
	const char *name;
	int (*take)(launching *l, p4d_error *err);
	bool stays;
} kinds[] = {
    {"srun", take_srun, false},
    {"mpirun", take_mpi, false},
    {"mpiexec", take_mpi, false},
    {"mpiexec.hydra", take_mpi, false},
    {"orterun", take_mpi, false},
    {"horovodrun", take_mpi, false},
    {"torchrun", take_torchrun, false},
    {"torch.distributed.run", take_torchrun, false},
    {"torch.distributed.launch", take_torchrun, false},
    {"deepspeed", take_deepspeed, false},
    {"python", take_python, false},
    {"python3", take_python, false},
    {"uv", keep, false},
    {"poetry", keep, false},
    {"pipenv", keep, false},
    {"pdm", keep, false},
    {"hatch", keep, false},
    {"rye", keep, false},
    {"pixi", keep, false},
    {"conda", keep, false},
    {"mamba", keep, false},
    {"micromamba", keep, false},
    {"env", drop, false},
    {"nohup", drop, false},
    {"exec", drop, false},
    {"command", drop, false},
    {"time", drop, false},
    {"nice", drop, false},
    {"stdbuf", drop, false},
    {"timeout", drop, false},
    {"taskset", drop, false},
    {"numactl", drop, false},
    {"nsys", drop, false},
    {"ncu", drop, false},
    {"setsid", drop, false},
    {"bash", drop, true},
    {"sh", drop, true},
    {"accelerate", take_own, true},
    {"accelerate.commands.launch", take_own, true},
    {"accelerate-launch", take_own, true},
    {"tune", take_own, true},
    {"oumi", take_own, true},
    {"apptainer", refuse_container, false},
    {"singularity", refuse_container, false},
    {"docker", refuse_container, false},
    {"podman", refuse_container, false},
    {"podman-hpc", refuse_container, false},
    {"enroot", refuse_container, false},
    {"sarus", refuse_container, false},
    {"shifter", refuse_container, false},
    {"ch-run", refuse_container, false},
};

static int fail_unknown(const char *what, const char *why, p4d_error *err)
{
	p4d_fail(err, P4D_E_UNMODELLED, "%.60s: %.120s", what, why);
	return p4d_fix(err, "p4d rehearse --shell JOB.sh, or p4d rehearse -- PROGRAM");
}

/* Takes NAME=VALUE words between launchers, as for env. */
static int take_assignments(launching *l, size_t from, size_t to, p4d_error *err)
{
	for (size_t i = from; i < to; i++) {
		const char *text = word(l, i), *equals = strchr(text, '=');
		if (!equals && l->from->at[i].unknown)
			return fail_unknown("the first word of the command", l->from->at[i].unknown, err);
		if (equals && equals > text && text[0] != '-' && !l->from->at[i].unknown)
			p4d_words__set(l->to, p4d_words__copy(l->to->memory, text, (size_t)(equals - text)),
				       equals + 1);
	}
	return 0;
}

/* Replaces numbers of the shell ($RANDOM and such) by any number, in words that do not change the memory. */
static void number_words(p4d_words *words)
{
	static const char *const own[] = {"$RANDOM ", "$SRANDOM ", "$SECONDS ", "$EPOCHSECONDS ",
					  "$BASHPID "};
	p4d_rehearsals_key key;

	p4d_rehearsals_key_begin(&key);
	for (size_t i = 0; i < words->count && !key.unknown; i++) {
		p4d_word *w = &words->at[i];
		bool is_number = false;
		p4d_rehearsals_key_word(&key, w->text, !w->unknown);
		for (size_t k = 0; w->unknown && k < sizeof(own) / sizeof(own[0]); k++)
			is_number = is_number || !strncmp(w->unknown, own[k], strlen(own[k]));
		const char *mark = strchr(w->text, '?');
		if (key.unknown || !is_number || !mark || strchr(mark + 1, '?'))
			continue;
		w->text =
		    p4d_words__print(words->memory, "%.*s1%s", (int)(mark - w->text), w->text, mark + 1);
		w->unknown = NULL;
	}
}

/* Checks that all words of the command that runs are known. */
static int check_words(const p4d_words *words, p4d_error *err)
{
	for (size_t i = 0; i < words->count; i++)
		if (words->at[i].unknown) {
			const bool of_option = i && words->at[i - 1].text[0] == '-';
			char what[64];
			snprintf(what, sizeof(what), "%.30s%s%.30s", of_option ? words->at[i - 1].text : "",
				 of_option ? " " : "", words->at[i].text);
			return fail_unknown(what, words->at[i].unknown, err);
		}
	return 0;
}

/* The path of python in the launcher's folder. */
static const char *python_beside(launching *l, const char *launcher)
{
	const char *path = p4d_words__variable(l->from, "PATH");
	const char *slash = strrchr(launcher, '/');
	char *found;

	if (slash) {
		found = p4d_words__print(l->to->memory, "%.*s/python", (int)(slash - launcher), launcher);
		return found && !access(found, X_OK) ? found : "python3";
	}
	for (const char *at = path; at && *at; at += strcspn(at, ":"), at += *at == ':') {
		const int length = (int)strcspn(at, ":");
		found = p4d_words__print(l->to->memory, "%.*s/%s", length, at, launcher);
		if (!found || access(found, X_OK))
			continue;
		found = p4d_words__print(l->to->memory, "%.*s/python", length, at);
		if (found && !access(found, X_OK))
			return found;
	}
	return "python3";
}

/* Adds the words after the last launcher: python unless it is already there, and then the program. */
static void add_program(launching *l, size_t program)
{
	const bool starts_python =
	    l->launcher && (l->ranks->started & (P4D_STARTED_TORCHRUN | P4D_STARTED_DEEPSPEED));

	if (starts_python && l->no_python)
		l->module = false;
	else if (starts_python && !l->python)
		p4d_words__add(l->to, l->to->count ? "python" : python_beside(l, word(l, l->launcher->at)));
	if (l->module)
		p4d_words__add(l->to, "-m");
	add_words(l, program, l->from->count);
	if (l->local_rank)
		p4d_words__add(l->to,
			       p4d_words__print(l->to->memory, "%s=" P4D_PLAYER_LOCAL_RANK, l->local_rank));
}

/* Removes launchers. Returns the index of the command to run, or -1. *stays: it includes its launcher. */
static int64_t take_launchers(launching *l, const p4d_launchers *launchers, bool *stays, p4d_error *err)
{
	const size_t count = sizeof(kinds) / sizeof(kinds[0]);
	size_t behind = 0;

	for (unsigned i = 0; i < launchers->count; i++) {
		size_t k = 0;
		l->launcher = &launchers->at[i];
		if (take_assignments(l, behind, l->launcher->at, err))
			return -1;
		while (k < count && strcmp(kinds[k].name, l->launcher->name) != 0)
			k++;
		if (k == count ? refuse(l, err) : kinds[k].take(l, err))
			return -1;
		if (l->unknown) {
			char what[64];
			snprintf(what, sizeof(what), "%.30s %.30s", l->launcher->name, l->unknown_option);
			return fail_unknown(what, l->unknown, err);
		}
		if (kinds[k].stays) {
			*stays = true;
			return (int64_t)l->launcher->at;
		}
		behind = l->launcher->next;
	}
	if (take_assignments(l, behind, launchers->program, err))
		return -1;
	return (int64_t)launchers->program;
}

/* Whether a program is a shell script, which only the end of its name shows. */
static bool is_of_shell(const char *program)
{
	const size_t length = strlen(program);

	return length > 3 && !strcmp(program + length - 3, ".sh") && access(program, X_OK);
}

/* Sets numbers of GPUs and ranks that no option gives. */
static void complete(p4d_rehearse_ranks *r)
{
	if (!r->started && r->is_typed && r->nodes * r->gpus_per_node > 1) {
		r->ranks_per_node = r->gpus_per_node;
		r->started = P4D_STARTED_TORCHRUN | P4D_STARTED_SRUN | P4D_STARTED_TASKS;
	} else if (!r->started) {
		r->nodes = r->ranks_per_node = 1;
	}
	r->nodes = r->nodes ? r->nodes : 1;
	r->ranks_per_node = r->ranks_per_node ? r->ranks_per_node : 1;
	r->gpus_per_node = r->gpus_per_node ? r->gpus_per_node : r->ranks_per_node;
	r->visible =
	    r->gpus_per_task && (r->started & P4D_STARTED_SRUN) ? r->gpus_per_task : r->gpus_per_node;
}

int p4d_launch__ranks(p4d_words *words, p4d_rehearse_ranks *ranks, p4d_error *err)
{
	p4d_words to = *words;
	launching l = {.from = words, .to = &to, .ranks = ranks};
	p4d_launchers launchers;
	bool stays = false;
	p4d_value *values = p4d_words__take(words->memory, (words->count + 1) * sizeof(*values));

	for (size_t i = 0; values && i < words->count; i++)
		values[i] = words->at[i].value;
	if (!values)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu words", words->count);
	p4d_reader_launchers(&launchers, values, words->count);
	to.at = NULL;
	to.count = to.room = 0;
	ranks->started = 0;
	const int64_t program = take_launchers(&l, &launchers, &stays, err);
	if (program < 0)
		return -1;
	if (is_of_shell(word(&l, (size_t)program)))
		p4d_words__add(&to, "bash");
	if (stays && l.launcher)
		know_meeting(words, l.launcher);
	if (stays && l.module)
		p4d_words__add(&to, "-m");
	stays ? add_words(&l, (size_t)program, words->count) : add_program(&l, (size_t)program);
	if (!to.count || (size_t)program >= words->count)
		return p4d_fail(err, P4D_E_USAGE, "the command starts no program");
	number_words(&to);
	if (check_words(&to, err))
		return -1;
	p4d_engine_ranks__take(&to, ranks);
	complete(ranks);
	*words = to;
	return 0;
}
