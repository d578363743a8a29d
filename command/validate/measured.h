/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "gpu/gpu.h"
#include "request/layout.h"
#include "request/request.h"

/*
 * Measurements of training runs, as a CSV file with a line of column names. A file with a column `options`
 * has the memory of runs of any framework (tests/data/frameworks_memory.csv). A file with a column
 * `measured_gib` has the memory of Megatron-LM runs (tests/data/measured_memory.csv). A file with
 * `step_seconds`, `tokens_per_s_per_gpu` or `tflops_per_gpu` has throughput
 * (tests/data/measured_throughput.csv). Columns may be in any order; columns that p4d does not need are
 * ignored. Fields may be quoted; quotes inside are not supported.
 */
enum { P4D_MEASURED_COLUMNS = 64 };

/* Runs described by p4d's own options (tests/data/frameworks_memory.csv), and runs of Megatron-LM. */
typedef enum p4d_measured_kind {
	P4D_MEASURED_MEMORY,
	P4D_MEASURED_THROUGHPUT,
	P4D_MEASURED_RUNS
} p4d_measured_kind;

typedef struct p4d_measured_file {
	const char *name; /* for messages; borrowed */
	char *at;         /* the unread text; borrowed and written to */
	char *header[P4D_MEASURED_COLUMNS];
	int columns;
	p4d_measured_kind kind;
	unsigned line;
} p4d_measured_file;

/* One run. Quantities that were not measured are 0. */
typedef struct p4d_measured {
	char id[64], model[64], gpu[64];
	p4d_request request; /* the run's request; only for framework megatron */
	uint64_t gpus, gpus_per_node;
	bool complete;        /* column `validate` is 1: the row has all values, and p4d supports its
			       * precision */
	bool oom;             /* the run ran out of memory; complete is false */
	bool partly_given;    /* column `not_given` lists settings of the run that nobody has published */
	char unmodelled[64];  /* for an incomplete row: the part for which p4d has no formula; "" none */
	double allocated_gib; /* peak of the allocator; with P4D_MEASURED_RUNS: the quantity `what` */
	char class[16], what[16], options[1536]; /* only for P4D_MEASURED_RUNS: the values of these columns */
	/* only for P4D_MEASURED_RUNS that a site measured: the user, the day (2026-11-30), and the releases
	 * of Slurm and the driver; "": there is no such column */
	char user[64], date[16], slurm[24], driver[24];
	/* only for P4D_MEASURED_RUNS: it is a run of an inference engine. allocated_gib is the quantity
	 * `what` from its log: GiB of weights or of the cache, or the cache's tokens */
	bool serves;
	bool seen; /* column `seen` is not empty: somebody looked at the row while choosing constants */
	double reserved_gib;
	double step_seconds;
	double tokens_per_second_per_gpu;
	double tflops_per_gpu;
	double net_gb_per_s;     /* column net_gb_per_s: rate of a GPU's share of the network in GB/s, if it
				    differs from gpus.json; 0: it does not */
	bool tflops_of_hardware; /* column `tflops_count`: the run counted recomputed matmuls and full
				    attention as FLOPs */
} p4d_measured;

/* Reads the line of column names. text is NUL-terminated and modified. Errors: VALUE. */
int p4d_measured_open(p4d_measured_file *file, const char *name, char *text, p4d_error *err);

/*
 * Reads the next row. Returns 1, 0 at the end, -1 with P4D_E_VALUE (`name:line: what`). If a row is neither
 * complete nor a modelled out-of-memory run, only id, gpu, complete, oom and unmodelled are filled.
 */
int p4d_measured_next(p4d_measured_file *file, p4d_measured *row, p4d_error *err);

/* The step of one run, for comparing it with other runs. */
typedef struct p4d_measured_pair {
	char model[64], gpu[64];
	uint64_t gpus, layers, seq_len, global_batch;
	double measured, predicted; /* seconds */
} p4d_measured_pair;

/* The GPU of a row, with the row's network rate. The GPU must be in gpus.json. */
p4d_gpu p4d_measured__gpu(const p4d_measured *row, const p4d_gpu *gpu);

void p4d_measured__pair_set(p4d_measured_pair *pair, const p4d_measured *row, const p4d_layout *layout,
			    double predicted);

/*
 * Compares pairs of runs with the same model, batch and number of GPUs. Returns how many pairs are predicted
 * in the wrong order; *pairs: the number of pairs.
 */
unsigned p4d_measured__wrong_orders(const p4d_measured_pair *runs, size_t count, unsigned *pairs);
