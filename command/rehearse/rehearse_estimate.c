/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/rehearse_estimate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cost/cost.h"
#include "guard/guard.h"
#include "guard/submit.h"
#include "job/read_job.h"
#include "line/line.h"

extern char **environ;

enum { READING_BYTES = 6 << 20 };

/* A job that would start the rehearsed program, as p4d's guard judges it. */
typedef struct estimate {
	const p4d_playing *playing;
	p4d_sbatch *sbatch;
	const char *text, *name, *directory;
	char *const *arguments;
	size_t length;
	uint64_t cache_bytes, cache_tokens; /* result, for an engine; 0: unknown */
	uint64_t stage, stages; /* result: the pipeline stage with the most memory; stages 0: unknown */
	double seconds;         /* result: seconds of a step; 0: unknown */
} estimate;

/* Seconds of a step of the layout; 0: unknown. */
static double step_seconds(const p4d_verdict *verdict)
{
	p4d_timeline_work work = {0};
	p4d_step step = {0};
	const bool is_known = p4d_cost_step(&verdict->layout, verdict->geometry.gpu, &work, &step, NULL) == 0;

	p4d_timeline_work_free(&work);
	return is_known ? step.seconds : 0;
}

/* The guard's prediction for the job in bytes; 0: it has none. */
static uint64_t judge(estimate *e, p4d_read_files *files, p4d_reading *reading, char *memory)
{
	p4d_sbatch *sbatch = e->sbatch;
	uint32_t published_batch = 0;
	p4d_verdict *verdict = calloc(1, sizeof(*verdict));
	uint64_t device = 0;
	p4d_error err;

	if (!verdict || p4d_sbatch_request(sbatch, &err) < 0) {
		free(verdict);
		return 0;
	}
	sbatch->job.gpu_type = e->playing->player.gpu->name;
	p4d_job_read(&(p4d_job_script){.job = &sbatch->job,
				       .name = e->name,
				       .arguments = (const char *const *)e->arguments,
				       .directory = e->directory,
				       .environment = environ,
				       .variables = SIZE_MAX,
				       .export = sbatch->value[P4D_SBATCH_EXPORT],
				       .files = files,
				       .typed = &sbatch->request,
				       .program = p4d_site_program_of,
				       .site = e->playing->site,
				       .config = p4d_line_config},
		     &(p4d_shell_limits){memory, READING_BYTES, P4D_SHELL_WORK}, reading);
	sbatch->job.reading = reading->reader || *reading->comment ? reading : NULL;
	if (sbatch->job.reading)
		p4d_guard_submit(e->playing->site, &sbatch->job, p4d_live_cluster, NULL, &sbatch->request,
				 &published_batch, verdict);
	if (verdict->judged && !verdict->colocated.capacity_bytes && !verdict->serving.max_model_len)
		device = verdict->estimate.peak.device_bytes;
	if (verdict->serving.max_model_len && verdict->starts) {
		e->cache_bytes = verdict->serving.available_bytes;
		e->cache_tokens = verdict->serving.tokens;
	}
	if (device) {
		e->stage = verdict->estimate.stage;
		e->stages = (uint64_t)verdict->layout.pp;
		e->seconds = step_seconds(verdict);
	}
	sbatch->job.reading = NULL;
	free(verdict);
	return device;
}

static uint64_t read_and_judge(estimate *e)
{
	p4d_read_files files = {0};
	p4d_reading *reading = calloc(1, sizeof(*reading));
	char *memory = malloc(READING_BYTES);
	uint64_t device = 0;

	if (!e->text)
		e->text = p4d_read_files_open(&files, e->name, &e->length);
	if (reading && memory && e->text) {
		e->sbatch->job.script = e->text;
		e->sbatch->job.script_length = e->length;
		device = judge(e, &files, reading, memory);
		e->sbatch->job.script = NULL;
	}
	p4d_read_files_free(&files);
	free(memory);
	free(reading);
	return device;
}

static void add_quoted(p4d_text *text, const char *word)
{
	p4d_text_add(text, " '");
	for (; *word; word++)
		if (*word == '\'')
			p4d_text_add(text, "'\\''");
		else
			p4d_text_add_bytes(text, word, 1);
	p4d_text_add(text, "'");
}

/* Writes a job script that starts the command on all ranks; Python programs with torchrun. */
static char *write_script(const p4d_player *player)
{
	p4d_text text = {.grows = true};
	char *const *word = player->program;
	const char *slash = strrchr(*word, '/');

	p4d_text_add(&text, "#!/bin/sh\n");
	if (p4d_player__world(player) > 1 && !strncmp(slash ? slash + 1 : *word, "python", 6)) {
		p4d_text_print(&text, "torchrun --nnodes=%" PRIu64 " --nproc-per-node=%" PRIu64,
			       player->nodes, player->ranks_per_node);
		word++;
	} else if (p4d_player__world(player) > 1) {
		p4d_text_add(&text, "srun");
	}
	for (; *word; word++)
		add_quoted(&text, *word);
	p4d_text_add(&text, "\n");
	return text.at;
}

static uint64_t estimate_program(const p4d_playing *p, estimate *e)
{
	char command[] = "sbatch", nodes[40], gpus[40], tasks[48], here[4096] = "";
	char *const words[] = {command, nodes, gpus, tasks, NULL};
	char *const none[] = {NULL};
	char *script = write_script(&p->player);
	p4d_sbatch sbatch = {0};
	uint64_t device = 0;
	p4d_error err;
	int operand;

	snprintf(nodes, sizeof(nodes), "--nodes=%" PRIu64, p->player.nodes);
	snprintf(gpus, sizeof(gpus), "--gpus-per-node=%" PRIu64, p->player.gpus_per_node);
	snprintf(tasks, sizeof(tasks), "--ntasks-per-node=%" PRIu64, p->player.ranks_per_node);
	if (script && getcwd(here, sizeof(here)) &&
	    !p4d_sbatch_arguments(&sbatch, 4, words, &operand, &err) && !p4d_sbatch_job(&sbatch, &err)) {
		*e = (estimate){.playing = p,
				.sbatch = &sbatch,
				.text = script,
				.name = "the program",
				.directory = here,
				.arguments = none,
				.length = strlen(script)};
		device = read_and_judge(e);
	}
	p4d_sbatch_free(&sbatch);
	free(script);
	return device;
}

static uint64_t estimate_playing(const p4d_playing *p, estimate *e)
{
	*e = (estimate){.playing = p,
			.name = p->asked.script,
			.directory = p->job.directory,
			.arguments = p->job.arguments};
	if (!p->asked.script)
		return estimate_program(p, e);
	p4d_sbatch sbatch = p->asked.sbatch; /* the options still own its texts */
	e->sbatch = &sbatch;
	const uint64_t device = read_and_judge(e);
	e->sbatch = NULL;
	return device;
}

p4d_rehearse_estimate p4d_rehearse_estimate__find(const p4d_playing *p)
{
	estimate e;
	const uint64_t device = estimate_playing(p, &e);

	return (p4d_rehearse_estimate){device, e.cache_bytes, e.cache_tokens, e.seconds};
}

uint64_t p4d_rehearse_estimate__fullest(const p4d_playing *p)
{
	const uint64_t world = p4d_player__world(&p->player);
	estimate e;

	if (!estimate_playing(p, &e) || e.stages < 3 || world % e.stages)
		return 0;
	return world / e.stages * e.stage;
}
