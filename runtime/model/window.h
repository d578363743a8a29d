/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * A window of parameters, for devices that do not have all of their rank's parameters. A pass needs only the
 * parameters of one layer, or of one table of the vocabulary, at a time. So the arena has places for a few
 * layers and a table, in the plan's rows window.layers and window.table. A segment (weights.h) is copied to a
 * place before it is used.
 *
 * The list of uses of a step is known before the step begins (p4d_window_follow). From this list the window
 * knows what to copy next, during the passes before its use, and what to evict: the segment whose next use is
 * latest (Belady's choice, which copies least). So a window with a place for every layer copies each layer
 * once per step, and a window with two places copies a layer for nearly every use.
 *
 * A source copies segments to their places (window_gather.c). One source gathers the shards of all ranks that
 * share a model. The other reads the host's memory, or gathers shards from all hosts. A source may need
 * several ranks to call it together. That works because all ranks of a stage have the same list, so they copy
 * in the same order.
 */
typedef struct p4d_window_source {
	/*
	 * Starts to copy a segment to `to`: its frozen part, then its trained part. The copy starts after the
	 * operations that are queued on the device so far, because they may still read the old content.
	 * *ticket: for `await`.
	 */
	int (*bring)(p4d_net *m, uint32_t segment, char *to, uint64_t *ticket, p4d_error *err);
	/*
	 * Makes later operations of the device find the segment at its place. Tickets may be awaited in any
	 * order, and more than once.
	 */
	int (*await)(p4d_net *m, uint64_t ticket, p4d_error *err);
} p4d_window_source;

/*
 * A use in a step. The segment's parameters are in use until the next use in the list begins. beside: the
 * previous use goes on during this one.
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

/* Sets the list of uses of a step, or of an evaluation: segments and `beside` are filled. Takes ownership. */
void p4d_window_follow(p4d_net *m, bool evaluating, p4d_window_list uses);
/* Call it when a step or an evaluation begins. All content of the window becomes invalid. */
void p4d_window_begin(p4d_net *m);
/*
 * Goes to the next use in the list, which must be of this segment. Operations that are queued later find the
 * segment at its place. Also starts the copies for later uses. Errors: INSTRUCTIONS (the next use is of
 * another segment), RANK.
 */
int p4d_window_use(p4d_net *m, uint32_t segment, p4d_error *err);
/*
 * Call it when the step or the evaluation has ended. Errors: INSTRUCTIONS (a pass read a weight while its
 * segment was not in use, so another segment may have been in its place).
 */
int p4d_window_end(p4d_net *m, p4d_error *err);

/*
 * The address of a weight, or the last address that it had. Before its first use it is the start of the
 * window. During a step, call it only while the weight's segment is in use.
 */
void *p4d_window__at(const p4d_net *m, const p4d_weight *w);

/*
 * The sources. p4d_window_gather: parameters are sharded over the devices of dp_cp. p4d_window_host:
 * parameters, or shards of them, are on the host.
 */
extern const p4d_window_source p4d_window_gather, p4d_window_host;
