/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "site/site.h"
#include "validate/measured.h"

/* p4d calibrate: groups the rows of a P4D_MEASURED_RUNS file that share a margin. */

/* A row, and p4d's prediction for it from p4d's own constants only. Memory is in GiB. */
typedef struct p4d_calibrate_row {
	p4d_measured measured;
	size_t group;          /* index of its group */
	bool censored;         /* nearly the whole GPU was measured, so the measurement is only an upper bound
				* of what the run needs */
	double residual;       /* measured - predicted; 0 for a job that died */
	double allocated;      /* predicted memory of the allocator; fragmentation is a share of it */
	double device;         /* predicted memory of the whole GPU */
	double fragmentation;  /* the part of `device` that is fragmentation */
	double capacity;       /* memory of the GPU */
	double safe, limit;    /* the site's safe fraction and limit, or p4d's own */
	bool fragments_freely; /* true: fragmentation is so uncertain that p4d does not refuse the job
				* because of it */
} p4d_calibrate_row;

enum { P4D_CALIBRATE_TITLE = 128, P4D_CALIBRATE_LEAST = 20 };

/* The new margin of a group, and the numbers that support it. */
typedef struct p4d_calibrate_fit {
	unsigned measured, censored, deaths; /* number of rows */
	bool enough;                         /* there are enough uncensored rows for a margin */
	double bound_own; /* one-sided 95 % bound of measured - predicted, with p4d's own constants, in GiB */
	double bound_in_force; /* the same with the p4d.conf in use */
	double bound;          /* the same with the new margin */
	double covered_own, covered_in_force,
	    covered;                       /* fraction of rows whose measurement is at most the prediction */
	double reserve_gib, fragmentation; /* new values for p4d.conf; not below p4d's own */
	bool raised;                       /* the new values are above p4d's own */
	const p4d_calibrate_row *held;     /* a job that ran, because of which p4d lowered the margin; NULL:
					    * none */
	unsigned passed;            /* number of jobs that ran out of memory, but that p4d would still pass
				     * with the new margin */
	char first[16], last[16];   /* first and last day of the group's rows */
	char slurm[48], driver[48]; /* releases of Slurm and the driver among the rows */
} p4d_calibrate_fit;

typedef struct p4d_calibrate_group {
	char title[P4D_CALIBRATE_TITLE]; /* title of its section: "fsdp/transformers/bf16/h100-80gb" */
	int framework;
	double reserve_own, fragmentation_own;           /* margins of p4d's constants */
	double reserve_in_force, fragmentation_in_force; /* margins that the site has now */
	p4d_calibrate_fit fit;
} p4d_calibrate_group;

typedef struct p4d_calibrate {
	const p4d_site *site;
	p4d_gpus gpus; /* the site's GPUs, without its margins */
	size_t count, room, groups, room_groups;
	p4d_calibrate_row *row;
	p4d_calibrate_group *group;
	unsigned left_out, untaken; /* number of rows of other kinds, and of rows that cannot be read or
				     * predicted */
	char first_untaken[400];    /* why the first of the rows that cannot be used cannot be used */
} p4d_calibrate;

/* calibrate_rows.c: reads the rows of a file's text, which is written to. Errors: VALUE, NO_MEMORY. */
int p4d_calibrate__read(p4d_calibrate *all, const char *name, char *text, p4d_error *err);
void p4d_calibrate__free(p4d_calibrate *all);

/* calibrate_fit.c: finds the margin of a group. Errors: NO_MEMORY. */
int p4d_calibrate__fit(const p4d_calibrate *all, size_t group, p4d_error *err);

/* calibrate_file.c: writes the sections to a file for `include`. Errors: IO, NO_MEMORY. */
int p4d_calibrate__write(const p4d_calibrate *all, const char *rows, const char *path, p4d_error *err);

/* calibrate_share.c: writes the rows without names, and without groups of fewer than five users. Errors:
 * IO, NO_MEMORY. */
int p4d_calibrate__share(const p4d_calibrate *all, const char *path, unsigned *shared, unsigned *withheld,
			 p4d_error *err);
