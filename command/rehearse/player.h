/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "gpu/gpu.h"

enum { P4D_PLAYER_RANKS = 16384, P4D_PLAYER_PATH = 4096 };

/* A word of the program's command line that stands for the local rank, as torchrun sets it. */
#define P4D_PLAYER_LOCAL_RANK "${local_rank}"

/*
 * How a rank is started, which decides the variables that it gets. A job of several nodes may have several of
 * these.
 */
enum {
	P4D_STARTED_JOB = 1, /* variables that Slurm sets for all processes of a job */
	P4D_STARTED_SRUN = 2,
	P4D_STARTED_TORCHRUN = 4,
	P4D_STARTED_DEEPSPEED = 8,
	P4D_STARTED_OPENMPI = 16,
	P4D_STARTED_HYDRA = 32,
	P4D_STARTED_TASKS = 64, /* a task of srun for each rank, also with torchrun */
};

/* A rehearsal: the program, the GPUs, and the number of steps. */
typedef struct p4d_player {
	const p4d_gpu *gpu;
	uint64_t nodes, gpus_per_node;
	uint64_t ranks_per_node;
	uint64_t tasks_per_node; /* for a job that starts its ranks without srun: number of tasks; 0: as
				  * many as ranks */
	uint64_t visible;        /* GPUs that a rank sees */
	unsigned started;        /* P4D_STARTED_* */
	uint64_t steps;          /* optimizer steps after which a rank ends; 0: the program itself ends */
	uint64_t timeout;        /* time limit of a rank, in seconds */
	const char *phases;      /* a list of train, eval and save: the phases to play after the steps */
	char **program;          /* NULL-terminated */
	char *const *variable;   /* "NAME=VALUE"; "NAME" removes. Set before the variables of the rank. */
	size_t variables;
	const char *working; /* directory that the program starts in; NULL: this one */
	bool ends_at_launch; /* the program is a script, which ends where it would start ranks */
	bool progress;       /* print the progress to stderr */
	bool quiet;   /* if a rank fails, the caller prints its last lines, if they contain anything new */
	bool verbose; /* the program's output goes to stderr immediately */
	const char *job_name, *submitted; /* name of the job, and the directory of sbatch */
	char directory[P4D_PLAYER_PATH];  /* temporary: libraries, reports */
	char library[P4D_PLAYER_PATH], python[P4D_PLAYER_PATH];
	uint16_t port; /* port of the store for process groups */
} p4d_player;

typedef struct p4d_played {
	uint64_t rank;
	pid_t pid;  /* of the program */
	int status; /* exit status of the program, or 128 plus its signal */
	bool timed_out;
	bool served;             /* an engine had started, so p4d ended the program; the status is 0 */
	uint64_t resident_bytes; /* peak of the host's memory that it held */
	double seconds;
} p4d_played;

/*
 * Makes the directory with the libraries that stand in for the driver; `library` is the directory of the
 * stand-ins. The caller ends with p4d_player__close, also after an error. Errors: INSTALLATION, IO.
 */
int p4d_player__open(p4d_player *player, p4d_error *err);
void p4d_player__close(p4d_player *player);

uint64_t p4d_player__world(const p4d_player *player);

/* The value of a Slurm variable for a rank; NULL: it is unset, or the player does not know it. */
const char *p4d_player__slurm(const p4d_player *player, uint64_t rank, const char *name, char *buf,
			      size_t size);

/*
 * Runs the program as RANK of nodes * gpus_per_node and waits for its end. Its output is kept; if it fails,
 * its last lines go to stderr. A signal that ends this command ends the program first. The files of the rank
 * are then in the directory (p4d_player__file). Errors: IO.
 */
int p4d_player__play(const p4d_player *player, uint64_t rank, p4d_played *played, p4d_error *err);

/* The path of a rank's file: "report" (from the stand-ins, JSON), "phases" (from PyTorch, one JSON object
 * per line), "files" (from Python, one file per line) or "served" (empty: an engine has started). */
void p4d_player__file(const p4d_player *player, const char *name, uint64_t rank, char *path, size_t size);
