/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * What an inference engine reports at its start, as engines.py writes it. The JSON row that was read owns the
 * strings.
 */
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

/* Whether the rehearsal is only about the engine's start. If its workers are the program's own ranks, the
 * program continues. */
bool p4d_rehearsed_serving__is_answer(const p4d_rehearsed_serving *serving);

/* The first prints lines of the answer; the second makes a member of its JSON (NULL: no engine). */
void p4d_rehearsed_serving__print(const p4d_rehearsed_serving *serving);
struct json_object *p4d_rehearsed_serving__json(const p4d_rehearsed_serving *serving);

/* The least that a GPU needs for this engine with one sequence of the full length: bytes that the engine
 * must be allowed to use. 0: unknown. */
uint64_t p4d_rehearsed_serving__least(const p4d_rehearsed_serving *serving);
