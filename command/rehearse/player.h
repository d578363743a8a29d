/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "gpu/gpu.h"

enum { P4D_PLAYER_RANKS = 16384, P4D_PLAYER_PATH = 4096 };

/* In a word of the program's command line, this stands for the local rank, as in torchrun. */
#define P4D_PLAYER_LOCAL_RANK "${local_rank}"

/* The launchers of a rank, which decide its environment variables. A rank may have several. */
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
	uint64_t tasks_per_node; /* number of tasks on a node, for a job that starts its ranks without
				  * srun; 0: as many tasks as ranks */
	uint64_t visible;        /* number of GPUs that a rank sees */
	unsigned started;        /* P4D_STARTED_* */
	uint64_t steps;          /* optimizer steps after which a rank ends; 0: the program itself ends */
	uint64_t timeout;        /* time limit of a rank, in seconds */
	const char *phases;      /* phases to rehearse after the steps: a list of train, eval and save */
	char **program;          /* NULL-terminated */
	char *const *variable; /* "NAME=VALUE" sets, "NAME" removes a variable. The variables of the rank are
				  set later. */
	size_t variables;
	const char *working; /* directory that the program starts in; NULL: this one */
	bool ends_at_launch; /* the program is a job script, which p4d ends when it would start ranks */
	bool progress;       /* print the progress to stderr */
	bool quiet;          /* if a rank fails, nothing is printed, because the caller prints the rank's last
			      * lines */
	bool verbose;        /* the program's output goes to stderr immediately */
	const char *job_name, *submitted; /* name of the job, and the directory in which sbatch was called */
	char directory[P4D_PLAYER_PATH];  /* temporary directory with libraries and reports */
	char library[P4D_PLAYER_PATH], python[P4D_PLAYER_PATH];
	uint16_t port; /* port of the store for PyTorch's process groups */
} p4d_player;

typedef struct p4d_played {
	uint64_t rank;
	pid_t pid;  /* process number of the program */
	int status; /* exit status of the program, or 128 plus its signal */
	bool timed_out;
	bool served; /* an inference engine has started, so p4d ended the program; `status` is then 0 */
	uint64_t resident_bytes; /* peak of the host memory that the program used */
	double seconds;
} p4d_played;

/*
 * Makes the temporary directory with libraries that replace the CUDA driver and others. player->library: the
 * directory where they are installed. The caller calls p4d_player__close, also after an error. Errors:
 * INSTALLATION, IO.
 */
int p4d_player__open(p4d_player *player, p4d_error *err);
void p4d_player__close(p4d_player *player);

uint64_t p4d_player__world(const p4d_player *player);

/* The value of a Slurm variable in a rank; NULL: it is unset, or p4d does not know it. */
const char *p4d_player__slurm(const p4d_player *player, uint64_t rank, const char *name, char *buf,
			      size_t size);

/*
 * Runs the program as one rank of nodes * gpus_per_node, waits for its end, and stores its output. If the
 * program fails, p4d prints the last lines of the output to stderr. If p4d receives SIGINT, SIGTERM or
 * SIGHUP, it first sends SIGKILL to the program, and then returns the error. Afterwards the files of the rank
 * are in the temporary directory (p4d_player__file). Errors: IO.
 */
int p4d_player__play(const p4d_player *player, uint64_t rank, p4d_played *played, p4d_error *err);

/*
 * The path of a rank's file: "report" (from the libraries that replace the driver, JSON), "phases" (from
 * PyTorch, one JSON object per line), "files" (from Python, one file per line) or "served" (empty: an engine
 * has started).
 */
void p4d_player__file(const p4d_player *player, const char *name, uint64_t rank, char *path, size_t size);
