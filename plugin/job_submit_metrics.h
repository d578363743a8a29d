/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/text.h"
#include "guard/verdict_record.h"

/*
 * Counters of slurmctld's plugin since its start, for Prometheus. The hooks count, in a table of fixed size
 * under a lock that is held for less than a microsecond; a thread writes the text. Partitions and modes are
 * those of p4d.conf, and codes those of codes.def, so users cannot add series.
 */
typedef enum p4d_metrics_hook { P4D_METRICS_SUBMIT, P4D_METRICS_UPDATE, P4D_METRICS_HOOKS } p4d_metrics_hook;

/* The outcome of one call of a hook. Names are those of tables and of p4d.conf, or "". */
typedef struct p4d_metrics_call {
	p4d_metrics_hook hook;
	bool rehearsed; /* p4d used a rehearsal of the program */
	char verdict[16], code[16], mode[16];
	char partition[64];
} p4d_metrics_call;

/* Initializes *call as a call for a job that is not p4d's; a verdict may follow. */
void p4d_metrics_begin(p4d_metrics_call *call, p4d_metrics_hook hook);
/* site: has the partition sections; partition: the job's partition, or a list. */
void p4d_metrics_judged(p4d_metrics_call *call, const p4d_site *site, const char *partition,
			const p4d_verdict *verdict, const p4d_verdict_record *record);
/* seconds: the time in the hook. */
void p4d_metrics_count(const p4d_metrics_call *call, double seconds);

/* The number of calls that the next text will contain. */
uint64_t p4d_metrics_calls(void);

/* Values of the text that hooks do not count. */
typedef struct p4d_metrics_state {
	const char *release, *mode; /* the mode outside of sections */
	bool conf_is_valid;         /* the file is the one that is in effect */
	uint64_t loaded;            /* when it was read, in seconds since 1970 */
} p4d_metrics_state;

/* Appends the text in Prometheus's format. One thread at a time. */
void p4d_metrics_text(p4d_text *text, const p4d_metrics_state *state);
