/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/rehearsed_serving.h"

#include <inttypes.h>
#include <stdio.h>

#include "report/report.h"

static uint64_t number(struct json_object *o, const char *name)
{
	return json_object_get_uint64(json_object_object_get(o, name));
}

void p4d_rehearsed_serving__take(p4d_rehearsed_serving *s, struct json_object *row)
{
	*s = (p4d_rehearsed_serving){
	    .engine = json_object_get_string(json_object_object_get(row, "engine")),
	    .release = json_object_get_string(json_object_object_get(row, "release")),
	    .error = json_object_get_string(json_object_object_get(row, "error")),
	    .short_of_memory = json_object_get_boolean(json_object_object_get(row, "short_of_memory")),
	    .weights = number(row, "weights"),
	    .activations = number(row, "activations"),
	    .graphs = number(row, "graphs"),
	    .budget = number(row, "budget"),
	    .cache = number(row, "cache"),
	    .tokens = number(row, "tokens"),
	    .blocks = number(row, "blocks"),
	    .max_model_len = number(row, "max_model_len"),
	    .max_num_seqs = number(row, "max_num_seqs"),
	    .max_batched_tokens = number(row, "max_num_batched_tokens"),
	    .concurrency = json_object_get_double(json_object_object_get(row, "concurrency")),
	    .workers = number(row, "workers"),
	    .external = json_object_get_boolean(json_object_object_get(row, "external")),
	    .server = json_object_get_boolean(json_object_object_get(row, "server")),
	    .pid = number(row, "pid"),
	    .worker_resident = number(row, "worker_resident"),
	};
}

bool p4d_rehearsed_serving__is_answer(const p4d_rehearsed_serving *s)
{
	return s->engine && !s->external;
}

void p4d_rehearsed_serving__print(const p4d_rehearsed_serving *s)
{
	if (!s->engine)
		return;
	printf("%s %s: weights %.2f GiB, activations at most %.2f, CUDA graphs %.2f", s->engine,
	       s->release ? s->release : "", p4d_to_gib(s->weights), p4d_to_gib(s->activations),
	       p4d_to_gib(s->graphs));
	if (!s->error)
		printf(", KV cache %.2f: %" PRIu64 " tokens, %.2f sequences of %" PRIu64,
		       p4d_to_gib(s->cache), s->tokens, s->concurrency, s->max_model_len);
	printf("; max_num_seqs %" PRIu64 ", max_num_batched_tokens %" PRIu64 ".\n", s->max_num_seqs,
	       s->max_batched_tokens);
}

struct json_object *p4d_rehearsed_serving__json(const p4d_rehearsed_serving *s)
{
	if (!s->engine)
		return NULL;
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {{"weights_bytes", s->weights},
		       {"activations_bytes", s->activations},
		       {"graphs_bytes", s->graphs},
		       {"budget_bytes", s->budget},
		       {"cache_bytes", s->cache},
		       {"cache_tokens", s->tokens},
		       {"cache_blocks", s->blocks},
		       {"max_model_len", s->max_model_len},
		       {"max_num_seqs", s->max_num_seqs},
		       {"max_num_batched_tokens", s->max_batched_tokens},
		       {"workers", s->workers}};
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "engine", json_object_new_string(s->engine));
	json_object_object_add(o, "release", s->release ? json_object_new_string(s->release) : NULL);
	json_object_object_add(o, "error", s->error ? json_object_new_string(s->error) : NULL);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_object_add(o, numbers[i].name, json_object_new_uint64(numbers[i].value));
	json_object_object_add(o, "concurrency", json_object_new_double(s->concurrency));
	return o;
}

uint64_t p4d_rehearsed_serving__least(const p4d_rehearsed_serving *s)
{
	if (!s->engine || s->error || s->concurrency <= 0 || s->budget < s->cache)
		return 0;
	return s->budget - s->cache + (uint64_t)((double)s->cache / s->concurrency);
}
