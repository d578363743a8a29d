/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Parameters that a rank's device does not hold as a whole. A pass needs those of one layer at a time, or of
 * a table of the vocabulary. So the arena has places for a few layers and a table, in the plan's rows
 * window.layers and window.table. A segment (weights.h) is copied into one of them before it is used.
 *
 * The order of uses in a step is known before it begins: a list of uses (p4d_window_follow). From it the
 * window knows what to copy next during the passes before, and what to evict for it: the segment whose next
 * use is latest (Belady's choice, which copies least). So a window with a place for every layer copies each
 * once per step, and one with two places copies nearly every use.
 *
 * A source provides segments (window_gather.c): one gathers the shards of all ranks that share a model; the
 * other reads the host, or gathers shards on all hosts. A source is a table of the two functions below,
 * passed to p4d_window_open; no other code knows which one it is. It may need some ranks to call together:
 * all ranks of a stage have the same list, so they copy in one order.
 */
typedef struct p4d_window_source {
	/*
	 * Starts to copy a segment (its frozen part, then the trained part; p4d_window__at has the places of
	 * both) to `to`, after the operations queued on the device so far, which may still read the old
	 * content. *ticket: for `await`.
	 */
	int (*bring)(p4d_net *m, uint32_t segment, char *to, uint64_t *ticket, p4d_error *err);
	/* Later operations of the device find the segment at its place. Tickets may be awaited in any
	 * order, and repeatedly. */
	int (*await)(p4d_net *m, uint64_t ticket, p4d_error *err);
} p4d_window_source;

/*
 * A use in a step: the segment's parameters are in use until the next use. beside: the previous use does not
 * end.
 */
typedef struct p4d_window_need {
	uint32_t segment;
	uint32_t next; /* the next use of the same segment; UINT32_MAX: none. Filled by p4d_window_follow */
	bool beside;
} p4d_window_need;

typedef struct p4d_window_list {
	p4d_window_need *need; /* owned */
	uint32_t count;
} p4d_window_list;

/*
 * Opens the window if the plan has its rows; otherwise this and the functions below do nothing. Errors:
 * NO_MEMORY.
 */
int p4d_window_open(p4d_net *m, const p4d_window_source *source, p4d_error *err);
void p4d_window_close(p4d_net *m);

/* Sets the uses of a step, or of an evaluation: their segments and `beside`. Takes ownership. */
void p4d_window_follow(p4d_net *m, bool evaluating, p4d_window_list uses);
/* A step or an evaluation begins: no content of the window is in use any more. */
void p4d_window_begin(p4d_net *m);
/*
 * Goes to the next use in the list, which must be of this segment. Operations queued later find the segment
 * at its place. Also starts the copies for later uses. Errors: INSTRUCTIONS (it is not the next use), RANK.
 */
int p4d_window_use(p4d_net *m, uint32_t segment, p4d_error *err);
/* The step, or the evaluation, has ended. Errors: INSTRUCTIONS (a pass read a weight outside of its
 * segment's uses, when another segment may have been in its place). */
int p4d_window_end(p4d_net *m, p4d_error *err);

/*
 * The address of a weight, or the last address it had; before its first use, the start of the window. During
 * a step, call it only while the weight's segment is in use.
 */
void *p4d_window__at(const p4d_net *m, const p4d_weight *w);

/* The sources: for parameters sharded over the ranks of dp_cp; and for parameters, or shards, on the host. */
extern const p4d_window_source p4d_window_gather, p4d_window_host;
