/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

/* The report of an inference engine at its start, as engines.py writes it. The JSON row owns the strings. */
typedef struct p4d_rehearsed_serving {
	const char *engine, *release; /* "vLLM", "0.33.0"; NULL: the program started no engine */
	const char *error;            /* why it did not start; NULL: it started */
	bool short_of_memory;         /* the reason is that memory ran out */
	/* members below: bytes on one GPU */
	uint64_t weights;
	uint64_t activations; /* peak of the engine's profile run, without weights */
	uint64_t graphs;      /* CUDA graphs, as the engine measured them; 0 with --enforce-eager */
	uint64_t budget;      /* memory that the engine was allowed to use */
	uint64_t cache;
	uint64_t tokens; /* number of tokens that fit in the cache */
	uint64_t blocks, max_model_len, max_num_seqs, max_batched_tokens;
	double concurrency;       /* sequences of max_model_len that fit the cache */
	uint64_t workers;         /* number of processes with one GPU each */
	bool external;            /* the program's own ranks are the workers */
	bool server;              /* the program is only the server of the engine */
	uint64_t pid;             /* number of the process that runs the engine */
	uint64_t worker_resident; /* bytes of host memory of each worker */
} p4d_rehearsed_serving;

/* Reads a row of the report that has "serving". */
void p4d_rehearsed_serving__take(p4d_rehearsed_serving *serving, struct json_object *row);

/* Whether the rehearsal is complete when the engine has started. If the engine's workers are the program's
 * own ranks, the program continues. */
bool p4d_rehearsed_serving__is_answer(const p4d_rehearsed_serving *serving);

/* p4d_rehearsed_serving__print prints lines of the answer. p4d_rehearsed_serving__json makes a member of
 * its JSON; NULL: there is no engine. */
void p4d_rehearsed_serving__print(const p4d_rehearsed_serving *serving);
struct json_object *p4d_rehearsed_serving__json(const p4d_rehearsed_serving *serving);

/* Bytes that the engine must at least be allowed to use on a GPU, for one sequence of the full length. 0:
 * unknown. */
uint64_t p4d_rehearsed_serving__least(const p4d_rehearsed_serving *serving);
