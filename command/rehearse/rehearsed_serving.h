/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

/* What an inference engine reported when it started, as engines.py writes it. Strings belong to the row. */
typedef struct p4d_rehearsed_serving {
	const char *engine, *release; /* "vLLM", "0.33.0"; NULL: the program started no engine */
	const char *error;            /* why it did not start; NULL: it did */
	bool short_of_memory;         /* memory is the reason */
	/* bytes of a GPU */
	uint64_t weights;
	uint64_t activations; /* peak of the profile run, without the weights */
	uint64_t graphs;      /* CUDA graphs, as the engine measured them; 0 with --enforce-eager */
	uint64_t budget;      /* what the engine was allowed to take */
	uint64_t cache;
	uint64_t tokens; /* in the cache */
	uint64_t blocks, max_model_len, max_num_seqs, max_batched_tokens;
	double concurrency;       /* sequences of max_model_len in the cache */
	uint64_t workers;         /* processes with a GPU each */
	bool external;            /* the program's own ranks are the workers */
	bool server;              /* the program is the engine's server, which does nothing else */
	uint64_t pid;             /* the process that has the engine */
	uint64_t worker_resident; /* host memory of each worker */
} p4d_rehearsed_serving;

/* Takes a row that has "serving". */
void p4d_rehearsed_serving__take(p4d_rehearsed_serving *serving, struct json_object *row);

/* Whether the rehearsal is one of the engine's start: where its workers are the program's own ranks, the
 * program goes on. */
bool p4d_rehearsed_serving__is_answer(const p4d_rehearsed_serving *serving);

/* Lines of the answer, and a member of its JSON (NULL: no engine). */
void p4d_rehearsed_serving__print(const p4d_rehearsed_serving *serving);
struct json_object *p4d_rehearsed_serving__json(const p4d_rehearsed_serving *serving);

/* The least that a GPU needs for such an engine with one sequence of the full length: bytes that the engine
 * must be allowed to take. 0: not known. */
uint64_t p4d_rehearsed_serving__least(const p4d_rehearsed_serving *serving);
