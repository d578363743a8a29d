/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the environment of a rank as its launcher would. */
#include "rehearse/rank_environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	EVERY = P4D_STARTED_SRUN | P4D_STARTED_TORCHRUN | P4D_STARTED_DEEPSPEED | P4D_STARTED_OPENMPI |
		P4D_STARTED_HYDRA,
	ELASTIC = P4D_STARTED_TORCHRUN | P4D_STARTED_DEEPSPEED,
	SLURM = P4D_STARTED_JOB | P4D_STARTED_SRUN,
	NUMBERS = 64
};

typedef struct rank_number {
	const char *name;
	unsigned of; /* a bit for each launcher (P4D_STARTED_*) that sets the variable */
	uint64_t value;
} rank_number;

/* Number of Slurm tasks on a node. Under srun, torchrun and deepspeed are one task per node. */
static uint64_t tasks_per_node(const p4d_player *p)
{
	if (!(p->started & P4D_STARTED_SRUN) && p->tasks_per_node)
		return p->tasks_per_node;
	return (p->started & ELASTIC) && !(p->started & P4D_STARTED_TASKS) ? 1 : p->ranks_per_node;
}

static size_t list(const p4d_player *p, uint64_t rank, rank_number *out)
{
	const uint64_t each = p->ranks_per_node ? p->ranks_per_node : 1, world = p->nodes * each,
		       local = rank % each, node = rank / each,
		       tasks = tasks_per_node(p) ? tasks_per_node(p) : 1;
	const uint64_t task = tasks == each ? rank : node, place = tasks == each ? local : 0;
	const rank_number numbers[] = {
	    {"RANK", ELASTIC, rank},
	    {"LOCAL_RANK", ELASTIC, local},
	    {"WORLD_SIZE", ELASTIC, world},
	    {"LOCAL_WORLD_SIZE", P4D_STARTED_TORCHRUN, each},
	    {"GROUP_RANK", P4D_STARTED_TORCHRUN, node},
	    {"GROUP_WORLD_SIZE", P4D_STARTED_TORCHRUN, p->nodes},
	    {"ROLE_RANK", P4D_STARTED_TORCHRUN, rank},
	    {"ROLE_WORLD_SIZE", P4D_STARTED_TORCHRUN, world},
	    {"TORCHELASTIC_MAX_RESTARTS", P4D_STARTED_TORCHRUN, 0},
	    {"CROSS_RANK", P4D_STARTED_DEEPSPEED, node},
	    {"CROSS_SIZE", P4D_STARTED_DEEPSPEED, p->nodes},
	    {"LOCAL_SIZE", P4D_STARTED_DEEPSPEED, each},
	    {"OMPI_COMM_WORLD_RANK", P4D_STARTED_OPENMPI, rank},
	    {"OMPI_COMM_WORLD_SIZE", P4D_STARTED_OPENMPI, world},
	    {"OMPI_COMM_WORLD_LOCAL_RANK", P4D_STARTED_OPENMPI, local},
	    {"OMPI_COMM_WORLD_LOCAL_SIZE", P4D_STARTED_OPENMPI, each},
	    {"OMPI_COMM_WORLD_NODE_RANK", P4D_STARTED_OPENMPI, local},
	    {"OMPI_UNIVERSE_SIZE", P4D_STARTED_OPENMPI, world},
	    {"PMI_RANK", P4D_STARTED_HYDRA, rank},
	    {"PMI_SIZE", P4D_STARTED_HYDRA, world},
	    {"MPI_LOCALRANKID", P4D_STARTED_HYDRA, local},
	    {"MPI_LOCALNRANKS", P4D_STARTED_HYDRA, each},
	    {"SLURM_PROCID", SLURM, task},
	    {"SLURM_LOCALID", SLURM, place},
	    {"SLURM_NODEID", SLURM, node},
	    {"SLURM_NTASKS", SLURM, p->nodes * tasks},
	    {"SLURM_NPROCS", SLURM, p->nodes * tasks},
	    {"SLURM_NNODES", SLURM, p->nodes},
	    {"SLURM_JOB_NUM_NODES", SLURM, p->nodes},
	    {"SLURM_STEP_NUM_NODES", P4D_STARTED_SRUN, p->nodes},
	    {"SLURM_STEP_NUM_TASKS", P4D_STARTED_SRUN, p->nodes * tasks},
	    {"SLURM_NTASKS_PER_NODE", SLURM, tasks},
	    {"SLURM_GPUS_ON_NODE", SLURM, p->gpus_per_node},
	    {"SLURM_JOB_ID", SLURM, 0},
	    {"SLURM_JOBID", SLURM, 0},
	    {"SLURM_STEP_ID", P4D_STARTED_SRUN, 0},
	    {"SLURM_RESTART_COUNT", P4D_STARTED_JOB, 0},
	    /* torchrun's own process serves the store, so every rank is a client, even rank 0 */
	    {"TORCHELASTIC_RESTART_COUNT", EVERY, 0},
	    {"MASTER_PORT", EVERY, p->port},
	};

	memcpy(out, numbers, sizeof(numbers));
	return sizeof(numbers) / sizeof(numbers[0]);
}

/* The names of the nodes, which all mean this machine, because programs look for rank 0 on the first one. */
static void hosts(const p4d_player *p, char *buf, size_t size)
{
	int length = snprintf(buf, size, "localhost");

	for (uint64_t i = 1; i < p->nodes && i < 250 && length > 0 && (size_t)length + 16 < size; i++)
		length += snprintf(buf + length, size - (size_t)length, ",127.0.0.%" PRIu64, i + 1);
}

typedef struct rank_text {
	const char *name;
	unsigned of;
	const char *value;
} rank_text;

enum { TEXTS = 8, HOSTS = 4096 };

static size_t list_texts(const p4d_player *p, const char *nodes, rank_text *out)
{
	const rank_text texts[] = {
	    {"SLURM_JOB_NODELIST", SLURM, nodes},
	    {"SLURM_NODELIST", SLURM, nodes},
	    {"SLURM_STEP_NODELIST", P4D_STARTED_SRUN, nodes},
	    {"SLURMD_NODENAME", SLURM, "localhost"},
	    {"SLURM_SUBMIT_HOST", P4D_STARTED_JOB, "localhost"},
	    {"SLURM_LAUNCH_NODE_IPADDR", P4D_STARTED_SRUN, "127.0.0.1"},
	    {"SLURM_JOB_NAME", P4D_STARTED_JOB, p->job_name},
	    {"SLURM_SUBMIT_DIR", P4D_STARTED_JOB, p->submitted},
	};

	memcpy(out, texts, sizeof(texts));
	return sizeof(texts) / sizeof(texts[0]);
}

/* All variables of a rank. The list and the player own the texts. */
typedef struct rank_variables {
	rank_number number[NUMBERS];
	rank_text text[TEXTS];
	size_t numbers, texts;
	char nodes[HOSTS];
} rank_variables;

static void list_all(const p4d_player *p, uint64_t rank, rank_variables *out)
{
	hosts(p, out->nodes, sizeof(out->nodes));
	out->numbers = list(p, rank, out->number);
	out->texts = list_texts(p, out->nodes, out->text);
}

const char *p4d_player__slurm(const p4d_player *p, uint64_t rank, const char *name, char *buf, size_t size)
{
	rank_variables all;

	list_all(p, rank, &all);
	for (size_t i = 0; i < all.numbers; i++) {
		const rank_number *n = &all.number[i];
		if ((n->of & SLURM) && !(n->of & ELASTIC) && !strcmp(n->name, name)) {
			snprintf(buf, size, "%" PRIu64, n->value);
			return buf;
		}
	}
	for (size_t i = 0; i < all.texts; i++)
		if (!strcmp(all.text[i].name, name) && all.text[i].value) {
			snprintf(buf, size, "%s", all.text[i].value);
			return buf;
		}
	return NULL;
}

static int set(const char *name, const char *value)
{
	return setenv(name, value, 1);
}

static int set_number(const char *name, uint64_t value)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRIu64, value);
	return set(name, digits);
}

/* Inserts VALUE before the old value of NAME, a search path of the loader or of Python. */
static int prepend(const char *name, const char *value)
{
	const char *old = getenv(name);
	char both[4 * P4D_PLAYER_PATH];

	if (!old || !*old)
		return set(name, value);
	if (snprintf(both, sizeof(both), "%s:%s", value, old) >= (int)sizeof(both))
		return -1;
	return set(name, both);
}

static int set_command(const p4d_player *p)
{
	for (size_t i = 0; i < p->variables; i++) {
		const char *v = p->variable[i], *equals = strchr(v, '=');
		char name[256];
		if (!equals) {
			unsetenv(v);
			continue;
		}
		snprintf(name, sizeof(name), "%.*s", (int)(equals - v), v);
		if (set(name, equals + 1))
			return -1;
	}
	return 0;
}

static int set_rank(const p4d_player *p, uint64_t rank)
{
	rank_variables all;

	list_all(p, rank, &all);
	for (size_t i = 0; i < all.numbers; i++)
		if ((all.number[i].of & p->started) && set_number(all.number[i].name, all.number[i].value))
			return -1;
	for (size_t i = 0; i < all.texts; i++)
		if ((all.text[i].of & p->started) && all.text[i].value &&
		    set(all.text[i].name, all.text[i].value))
			return -1;
	if (!(p->started & EVERY))
		return 0;
	if (set("MASTER_ADDR", "127.0.0.1") || set("TORCHELASTIC_USE_AGENT_STORE", "True") ||
	    set_number("P4D_REHEARSAL_STORE", p->port))
		return -1;
	if (!(p->started & P4D_STARTED_TORCHRUN))
		return 0;
	/* does not replace a number of threads that the user has set */
	if (p->ranks_per_node > 1 && setenv("OMP_NUM_THREADS", "1", 0))
		return -1;
	return set("TORCHELASTIC_RUN_ID",
		   "rehearsal"); /* some programs check this variable to see whether torchrun started them */
}

/* Sets Slurm's variables for a job's GPUs. Does nothing without a job. */
static int set_visible(const p4d_player *p)
{
	char all[512] = "0";
	int length = 1;

	if (!(p->started & P4D_STARTED_JOB))
		return unsetenv("CUDA_VISIBLE_DEVICES");
	for (uint64_t i = 1; i < p->visible && (size_t)length + 8 < sizeof(all); i++)
		length += snprintf(all + length, sizeof(all) - (size_t)length, ",%" PRIu64, i);
	return set("CUDA_VISIBLE_DEVICES", all);
}

static int set_gpu(const p4d_player *p, uint64_t rank)
{
	static const struct {
		const char *name, *file;
	} files[] = {{"P4D_REHEARSAL_REPORT", "report"},
		     {"P4D_REHEARSAL_PHASES", "phases"},
		     {"P4D_REHEARSAL_FILES", "files"},
		     {"P4D_REHEARSAL_LAUNCH", "launch"},
		     {"P4D_REHEARSAL_SERVED", "served"}};
	char path[P4D_PLAYER_PATH];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		p4d_player__file(p, files[i].file, rank, path, sizeof(path));
		if (set(files[i].name, path))
			return -1;
	}
	if (snprintf(path, sizeof(path), "%s/record", p->directory) >= (int)sizeof(path))
		return -1;
	return set_visible(p) || set("P4D_REHEARSAL_RECORD", path) ||
		       set("P4D_REHEARSAL_LIBRARY", p->library) ||
		       set_number("P4D_REHEARSAL_ENGINE_STORE", p->port) ||
		       set("P4D_REHEARSAL_UNTIL", p->phases) || set("P4D_REHEARSAL_NAME", p->gpu->label) ||
		       set_number("P4D_REHEARSAL_BYTES", p->gpu->usable_bytes) ||
		       set_number("P4D_REHEARSAL_GPUS", p->visible) ||
		       set_number("P4D_REHEARSAL_SM", (uint64_t)p->gpu->sm) ||
		       set_number("P4D_REHEARSAL_SMS", (uint64_t)p->gpu->multiprocessors) ||
		       set_number("P4D_REHEARSAL_STEPS", p->steps)
		   ? -1
		   : 0;
}

int p4d_rank_environment__set(const p4d_player *p, uint64_t rank)
{
	return set_command(p) || set_gpu(p, rank) || set_rank(p, rank) ||
		       prepend("LD_LIBRARY_PATH", p->directory) || prepend("PATH", p->directory) ||
		       prepend("LD_PRELOAD", p->library) || prepend("PYTHONPATH", p->python) ||
		       set("PYTHONFAULTHANDLER", "1") || setenv("WANDB_MODE", "offline", 0) ||
		       setenv("PYTHONHASHSEED", "0", 0)
		   ? -1
		   : 0;
}
