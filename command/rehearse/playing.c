/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the program, the ranks and the GPU of a rehearsal, and runs the ranks. */
#include "rehearse/playing.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_file.h"
#include "rehearse/launch_ranks.h"
#include "rehearse/rehearse_estimate.h"
#include "rehearse/shell_launch.h"
#include "rehearse/store.h"

static const char usual_gpu[] = "h100-80gb";

static int find_gpu(p4d_playing *p, p4d_error *err)
{
	const p4d_gpus *gpus = p4d_site_gpus(p->site);
	const char *name = p->asked.gpu ? p->asked.gpu : usual_gpu;
	unsigned candidates = 1;

	p->player.gpu = p->job.gpu && !p->asked.gpu ? p->job.gpu : p4d_gpu_find(gpus, name, &candidates);
	if (!p->player.gpu) {
		p4d_fail(err, P4D_E_UNKNOWN_GPU, "unknown GPU \"%.60s\"", name);
		return p4d_fix(err, "p4d gpus");
	}
	if (candidates > 1)
		return p4d_fail(err, P4D_E_AMBIGUOUS_GPU,
				"\"%.60s\" is the name of %u GPUs with different memory; p4d gpus lists them",
				name, candidates);
	if (!p->player.gpu->sm)
		return p4d_fail(err, P4D_E_UNMODELLED,
				"%s has no CUDA; p4d rehearses programs for NVIDIA's GPUs",
				p->player.gpu->name);
	return 0;
}

/* Finds the command of a job script as one of its ranks runs it, or the program that was typed. */
static int find_command(p4d_playing *p, p4d_rehearse_ranks *ranks, uint64_t rank, p4d_error *err)
{
	p4d_words words = {.memory = &p->memory};

	if (p->asked.script && p->asked.shell) {
		if (p4d_read_command__open(&p->job, err))
			return -1;
		*ranks = p->job.ranks;
		ranks->ranks_per_node = ranks->nodes = 1;
		ranks->gpus_per_node = ranks->gpus_per_node ? ranks->gpus_per_node : 1;
		ranks->visible = ranks->gpus_per_node;
		p4d_shell_launch__words(&words, p->asked.script, p->asked.program);
		p->words = words;
		return 0;
	}
	if (p->asked.script) {
		p->job.player = rank ? &p->player : NULL;
		p->job.rank = rank;
		if (p4d_read_command__find(&p->job, err))
			return -1;
		p->words = p->job.words;
		*ranks = p->job.ranks;
		return p4d_launch__ranks(&p->words, ranks, err);
	}
	for (char **word = p->asked.program; *word; word++)
		p4d_words__add(&words, *word);
	p->words = words;
	*ranks = (p4d_rehearse_ranks){
	    .nodes = p->asked.nodes, .gpus_per_node = p->asked.gpus_per_node, .is_typed = true};
	if (ranks->gpus_per_node && !ranks->nodes)
		ranks->nodes = 1;
	if (ranks->nodes && !ranks->gpus_per_node)
		ranks->gpus_per_node = 1;
	return p4d_launch__ranks(&p->words, ranks, err);
}

static int take_ranks(p4d_playing *p, const p4d_rehearse_ranks *ranks, p4d_error *err)
{
	p4d_player *player = &p->player;
	const uint64_t world = ranks->nodes * ranks->ranks_per_node;

	if (world > P4D_PLAYER_RANKS || ranks->gpus_per_node > 64)
		return p4d_fail(err, P4D_E_VALUE,
				"%" PRIu64 " ranks are more than the %d that p4d can rehearse", world,
				P4D_PLAYER_RANKS);
	player->nodes = ranks->nodes;
	player->gpus_per_node = ranks->gpus_per_node;
	player->ranks_per_node = ranks->ranks_per_node;
	player->tasks_per_node = ranks->tasks_per_node;
	player->visible = ranks->visible;
	player->started = ranks->started | (p->asked.script ? P4D_STARTED_JOB : 0u);
	player->job_name = p->asked.script ? p->job.name : NULL;
	player->submitted = p->asked.script ? p->job.directory : NULL;
	return 0;
}

/* Finds the words and variables of a rank. */
static int take_words(p4d_playing *p, p4d_error *err)
{
	p->player.ends_at_launch = p4d_shell_launch__starts_shell(&p->words);
	if (p->player.ends_at_launch && p4d_shell_launch__open(&p->player, &p->words, err))
		return -1;
	p->player.program = p4d_words__list(&p->words);
	p->player.variable = p->words.variable;
	p->player.variables = p->words.variables;
	p->player.working = p->words.directory ? p->words.directory
			    : p->asked.script  ? p->job.directory
					       : NULL;
	return p->player.program && !p->memory.spent
		   ? 0
		   : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the words of the program");
}

static void print_words(const p4d_playing *p)
{
	for (size_t i = 0; i < p->words.count && i < 12; i++)
		fprintf(stderr, " %.60s", p->words.at[i].text);
	fprintf(stderr, "%s\n", p->words.count > 12 ? " ..." : "");
}

static int list_ranks(p4d_playing *p, p4d_error *err)
{
	const uint64_t world = p4d_player__world(&p->player);
	const bool asks = world > 2 && !strcmp(p->asked.ranks, "fullest");

	return p4d_rehearse_options__ranks(&p->asked, world, asks ? p4d_rehearse_estimate__fullest(p) : 0,
					   err);
}

/* Prints warnings about the program's environment where it differs from the job's. */
static void print_notes(const p4d_playing *p)
{
	const p4d_read_command *job = &p->job;

	if (!p->asked.script || p->asked.shell)
		return;
	fprintf(stderr, "p4d: %s:", job->place);
	print_words(p);
	if (job->others)
		fprintf(stderr, "p4d: %u other command%s may also start a training\n", job->others,
			job->others > 1 ? "s" : "");
	if (job->notes.count)
		fputs("p4d: only the running job knows these values, so the rehearsed program does not have "
		      "them:",
		      stderr);
	for (size_t i = 0; i < job->notes.count; i++)
		fprintf(stderr, "%s %.100s", i ? "," : "", job->notes.at[i].text);
	if (job->notes.count)
		fputc('\n', stderr);
}

int p4d_playing__prepare(p4d_playing *p, p4d_error *err)
{
	p4d_rehearse_ranks ranks;

	p->player.steps = p->asked.steps;
	p->player.timeout = p->asked.timeout;
	p->player.progress = p->asked.progress || isatty(STDERR_FILENO);
	p->player.verbose = p->asked.verbose;
	p->player.phases = p->asked.phases;
	p->job.script = p->asked.script;
	p->job.arguments = p->asked.program;
	p->job.sbatch = &p->asked.sbatch;
	p->job.site = p->site;
	p->job.memory = &p->memory;
	p->job.assumed = p4d_gpu_find(p4d_site_gpus(p->site), usual_gpu, NULL);
	if (p->asked.script && p->asked.gpu) {
		if (find_gpu(p, err))
			return -1;
		p->job.assumed = p->player.gpu;
	}
	if (p4d_player__open(&p->player, err) || find_command(p, &ranks, 0, err) || find_gpu(p, err) ||
	    take_ranks(p, &ranks, err) || take_words(p, err) || list_ranks(p, err))
		return -1;
	print_notes(p);
	return 0;
}

static int open_store(p4d_playing *p, p4d_error *err)
{
	if (p->store)
		return 0;
	return p4d_store__start(&p->store, &p->player.port, err);
}

static const char *entry(struct json_object *list, size_t i)
{
	const char *text = json_object_get_string(json_object_array_get_idx(list, i));

	return text ? text : "";
}

static bool is_list(struct json_object *o)
{
	return json_object_is_type(o, json_type_array);
}

/*
 * Reads a launcher's report about what it would start: words, environment and ranks. False: it is no such
 * report.
 */
static bool take_launch(p4d_playing *p, struct json_object *launch, p4d_rehearse_ranks *ranks)
{
	struct json_object *words = json_object_object_get(launch, "words"),
			   *variables = json_object_object_get(launch, "environment");
	const char *directory = json_object_get_string(json_object_object_get(launch, "directory"));
	p4d_words to = {.memory = &p->memory};

	if (!is_list(words) || !is_list(variables) || !json_object_array_length(words))
		return false;
	for (size_t i = 0; i < json_object_array_length(words); i++)
		p4d_words__add(&to, entry(words, i));
	for (size_t i = 0; i < json_object_array_length(variables); i++)
		p4d_words__assign(&to, entry(variables, i));
	if (directory)
		to.directory = p4d_words__copy(&p->memory, directory, strlen(directory));
	p->words = to;
	ranks->nodes = json_object_get_uint64(json_object_object_get(launch, "nodes"));
	ranks->ranks_per_node = json_object_get_uint64(json_object_object_get(launch, "ranks_per_node"));
	return true;
}

/* Takes the ranks of a launcher's report. The words may start another launcher. */
static int launch(p4d_playing *p, const p4d_rehearse_ranks *told, p4d_error *err)
{
	p4d_rehearse_ranks ranks = {.nodes = told->nodes ? told->nodes : p->player.nodes,
				    .gpus_per_node = p->player.gpus_per_node,
				    .tasks = p->job.ranks.tasks,
				    .tasks_per_node = p->job.ranks.tasks_per_node,
				    .gpus_per_task = p->job.ranks.gpus_per_task};

	if (p->asked.shell && !told->nodes && p->job.ranks.nodes)
		ranks.nodes = p->job.ranks.nodes;

	if (p4d_launch__ranks(&p->words, &ranks, err))
		return -1;
	if (!(ranks.started & ~(unsigned)P4D_STARTED_JOB) && told->ranks_per_node) {
		ranks.nodes = told->nodes;
		ranks.ranks_per_node = told->ranks_per_node;
		ranks.started = P4D_STARTED_TORCHRUN;
	}
	if (ranks.ranks_per_node > ranks.gpus_per_node)
		ranks.visible = ranks.gpus_per_node = ranks.ranks_per_node;
	ranks.started |= p->player.started & P4D_STARTED_SRUN;
	if (take_ranks(p, &ranks, err) || take_words(p, err) || list_ranks(p, err))
		return -1;
	fprintf(stderr, "p4d: it starts %" PRIu64 " rank%s:", p4d_player__world(&p->player),
		p4d_player__world(&p->player) > 1 ? "s" : "");
	print_words(p);
	return 0;
}

/* 1: the program was a launcher, and its ranks are to be rehearsed instead. */
static int take_launcher(p4d_playing *p, uint64_t rank, p4d_error *err)
{
	enum { BYTES = 4 << 20, LAUNCHES = 4 };
	char path[P4D_PLAYER_PATH];
	p4d_rehearse_ranks told = {.nodes = 0};

	p4d_player__file(&p->player, "launch", rank, path, sizeof(path));
	if (access(path, R_OK))
		return 0;
	if (p->launches++ == LAUNCHES)
		return p4d_fail(err, P4D_E_UNMODELLED, "more than %d launchers start each other", LAUNCHES);
	struct json_object *object = p4d_json_read(path, BYTES, err);
	if (!object)
		return -1;
	const bool taken = take_launch(p, object, &told);
	json_object_put(object);
	unlink(path);
	for (int i = 0; i < 2; i++) {
		p4d_player__file(&p->player, i ? "phases" : "report", rank, path, sizeof(path));
		unlink(path);
	}
	if (!taken)
		return p4d_fail(err, P4D_E_IO, "p4d cannot read which program the launcher starts");
	return launch(p, &told, err) ? -1 : 1;
}

int p4d_playing__take_rank(p4d_playing *p, uint64_t rank, p4d_error *err)
{
	p4d_rehearse_ranks ranks;

	if (!p->asked.script || p->asked.shell || p->launches)
		return 0;
	return find_command(p, &ranks, rank, err) || take_words(p, err) ? -1 : 0;
}

static int play_rank(p4d_playing *p, unsigned i, p4d_error *err)
{
	const uint64_t rank = p->asked.rank[i];
	p4d_played played;

	if (rank && p4d_playing__take_rank(p, rank, err))
		return -1;
	fprintf(stderr, "p4d: rehearsing rank %" PRIu64 " of %" PRIu64 " on %s\n", rank,
		p4d_player__world(&p->player), p->player.gpu->name);
	return p4d_player__play(&p->player, rank, &played, err) ||
		       p4d_rehearsed__read(&p->rehearsed[i], &p->player, &played, err)
		   ? -1
		   : 0;
}

/* If an engine starts a worker for each GPU itself, p4d rehearses only this one program. */
static void take_engine(p4d_playing *p)
{
	if (p->rehearsed[0].serving.workers < 2 || p->rehearsed[0].serving.external)
		return;
	p->player.nodes = p->player.ranks_per_node = p->asked.count = 1;
}

int p4d_playing__play(p4d_playing *p, p4d_error *err)
{
	p->rehearsed = calloc(P4D_REHEARSE_RANKS, sizeof(*p->rehearsed));
	if (!p->rehearsed)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %u ranks", p->asked.count);
	if (open_store(p, err))
		return -1;
	for (unsigned i = 0; i < p->asked.count; i++) {
		if (play_rank(p, i, err))
			return -1;
		const int again = i ? 0 : take_launcher(p, p->asked.rank[0], err);
		if (again < 0 || (again && open_store(p, err)))
			return -1;
		if (again) {
			p4d_rehearsed__free(&p->rehearsed[0]);
			i = UINT_MAX; /* continues with the first of the new ranks */
		} else if (!i) {
			take_engine(p);
		}
	}
	return 0;
}

void p4d_playing__end(p4d_playing *p)
{
	p4d_store__stop(p->store);
	p4d_player__close(&p->player);
	for (unsigned i = 0; p->rehearsed && i < P4D_REHEARSE_RANKS; i++)
		p4d_rehearsed__free(&p->rehearsed[i]);
	free(p->rehearsed);
	p4d_sbatch_free(&p->asked.sbatch);
	p4d_words__free(&p->memory);
}
