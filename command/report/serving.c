/* SPDX-License-Identifier: Apache-2.0 */
#include "report/serving.h"

#include <inttypes.h>
#include <stdio.h>

#include "serve/serving.h"
#include "serve/serving_speed.h"
#include "report/report.h"

void p4d_serving_json(const p4d_serving *s, struct json_object *object)
{
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {{"tp", s->tp},
		       {"pp", s->pp},
		       {"data_parallel_size", s->dp},
		       {"replicas", s->replicas},
		       {"max_model_len", s->max_model_len},
		       {"max_num_seqs", s->max_num_seqs},
		       {"max_num_batched_tokens", s->max_batched_tokens},
		       {"capacity_bytes", s->capacity_bytes},
		       {"budget_bytes", s->budget_bytes},
		       {"weights_bytes", s->weights_bytes},
		       {"loading_bytes", s->loading_bytes},
		       {"outside_bytes", s->outside_bytes},
		       {"adapter_bytes", s->adapter_bytes},
		       {"host_bytes", s->host_bytes},
		       {"profile_bytes", s->profile_bytes},
		       {"buffers_bytes", s->buffers_bytes},
		       {"graphs_bytes", s->graphs_bytes},
		       {"cache_bytes", s->available_bytes},
		       {"sequence_bytes", s->sequence_bytes},
		       {"cache_tokens", s->tokens},
		       {"sequences", s->sequences},
		       {"longest", s->longest}};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		json_object_object_add(object, numbers[i].name, json_object_new_uint64(numbers[i].value));
}

/* The performance of an engine that can start, under the load. known: p4d has the GPU's rates. */
typedef struct answered {
	bool known;
	p4d_serving_load load;
	p4d_serving_speed speed;
} answered;

struct json_object *p4d_serving_speed_json(const p4d_serving_load *load, const p4d_serving_speed *v)
{
	const struct {
		const char *name;
		double value;
	} numbers[] = {{"prompt_tokens", load->prompt},
		       {"answer_tokens", load->answer},
		       {"in_flight", v->at_a_time},
		       {"tokens_per_second", v->tokens_per_s},
		       {"requests_per_second", v->requests_per_s},
		       {"between_tokens_seconds", v->between_tokens_s},
		       {"most_in_flight", v->most},
		       {"most_tokens_per_second", v->most_tokens_per_s}};
	struct json_object *speed = json_object_new_object();

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		json_object_object_add(speed, numbers[i].name, json_object_new_double(numbers[i].value));
	json_object_object_add(speed, "first_token_seconds",
			       v->first_token_s > 0 ? json_object_new_double(v->first_token_s) : NULL);
	return speed;
}

const char *p4d_serving_amount(double amount, char buf[P4D_SIZE_TEXT])
{
	snprintf(buf, P4D_SIZE_TEXT, amount < 100 ? "%.3g" : "%.0f", amount);
	return buf;
}

static void print_speed(const answered *a)
{
	const p4d_serving_speed *v = &a->speed;
	char tokens[P4D_SIZE_TEXT], requests[P4D_SIZE_TEXT], flight[P4D_SIZE_TEXT], first[P4D_SIZE_TEXT],
	    between[P4D_SIZE_TEXT];

	if (!a->known)
		return;
	p4d_report_seconds(v->between_tokens_s, between);
	printf("Speed: %s tokens/s, %s requests/s with %s in flight; ",
	       p4d_serving_amount(v->tokens_per_s, tokens), p4d_serving_amount(v->requests_per_s, requests),
	       p4d_serving_amount(v->at_a_time, flight));
	if (v->first_token_s > 0)
		printf("first token after %s, then one every %s\n",
		       p4d_report_seconds(v->first_token_s, first), between);
	else
		printf("then one every %s; requests arrive faster than the engine answers them, so the time "
		       "to the first token keeps growing\n",
		       between);
	printf("       prompts of %.0f tokens, answers of %.0f", a->load.prompt, a->load.answer);
	if (v->at_a_time < v->most)
		printf("; at most %s tokens/s, with %s in flight",
		       p4d_serving_amount(v->most_tokens_per_s, tokens), p4d_serving_amount(v->most, flight));
	puts("");
}

static int print_json(const p4d_subject *subject, const p4d_serving *s, const answered *a, p4d_action action,
		      p4d_error *err)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "model", json_object_new_string(subject->model));
	json_object_object_add(object, "gpu", json_object_new_string(subject->capacity.gpu->name));
	p4d_serving_json(s, object);
	json_object_object_add(object, "speed",
			       a->known ? p4d_serving_speed_json(&a->load, &a->speed) : NULL);
	json_object_object_add(object, "fits", json_object_new_boolean(action != P4D_REJECT));
	json_object_object_add(object, "validated", json_object_new_boolean(false));
	json_object_object_add(object, "verdict", json_object_new_string(p4d_report_action(action)));
	json_object_object_add(object, "unvalidated", json_object_new_string("inference engines"));
	json_object_object_add(object, "messages",
			       p4d_report_json_messages(subject->messages, subject->message));
	return p4d_report_json_print(object, err);
}

static void print_text(const p4d_subject *subject, const p4d_serving *s, const answered *a, bool starts,
		       const char *engine)
{
	char one[P4D_SIZE_TEXT], other[P4D_SIZE_TEXT];

	printf("%s, served by %s on %" PRIu64 " x %s: tp=%" PRIu64 " pp=%" PRIu64 ", %" PRIu64 " replica%s\n",
	       subject->model, engine, s->tp * s->pp * s->replicas, subject->capacity.gpu->name, s->tp, s->pp,
	       s->replicas, s->replicas == 1 ? "" : "s");
	printf("GiB per GPU: %s of %s taken", p4d_report_gib(s->budget_bytes, one),
	       p4d_report_gib(s->capacity_bytes, other));
	printf("; weights %s, profile run %s", p4d_report_gib(s->weights_bytes, one),
	       p4d_report_gib(s->profile_bytes, other));
	if (s->buffers_bytes)
		printf(", buffers %s", p4d_report_gib(s->buffers_bytes, one));
	if (s->graphs_bytes)
		printf(", CUDA graphs %s", p4d_report_gib(s->graphs_bytes, one));
	printf(", keys and values %s; one sequence of %" PRIu64 " tokens %s\n",
	       p4d_report_gib(s->available_bytes, one), s->max_model_len,
	       p4d_report_gib(s->sequence_bytes, other));
	if (s->loading_bytes > s->weights_bytes)
		printf("Weights before they are quantized: %s\n", p4d_report_gib(s->loading_bytes, one));
	if (s->adapter_bytes)
		printf("Memory for adapters, part of the weights: %s\n",
		       p4d_report_gib(s->adapter_bytes, one));
	if (s->host_bytes && s->resident_layers == s->stage_layers)
		printf("Weights on the host: %s for each GPU\n", p4d_report_gib(s->host_bytes, one));
	else if (s->host_bytes)
		printf("Weights on the host: %s for each GPU, copied to the GPU as needed; %" PRIu64
		       " layers are on the GPU at a time\n",
		       p4d_report_gib(s->host_bytes, one), s->resident_layers);
	printf("GPU KV cache size: %" PRIu64 " tokens; maximum concurrency for %" PRIu64
	       " tokens per request: %.2f x (max-num-seqs %" PRIu64 ")\n",
	       s->tokens, s->max_model_len, (double)s->tokens / (double)s->max_model_len, s->max_num_seqs);
	print_speed(a);
	printf("Verdict: %s (unvalidated)\n", starts ? "starts" : "does not start");
	fflush(stdout);
	p4d_report_messages(subject->messages, subject->message);
}

/* Finds the longest sequence that fits, if sequences of the model's full length do not fit. */
static int take_longest(p4d_subject *subject, p4d_error *err)
{
	p4d_serving s;

	if (p4d_serving_estimate(&subject->request, subject->capacity.gpu,
				 subject->nodes * subject->gpus_per_node, &s, err) < 0)
		return -1;
	if (s.longest && s.longest < s.max_model_len)
		p4d_request_put(&subject->request, P4D_SEQ_LEN, (int64_t)s.longest, P4D_BY_P4D);
	return 0;
}

/*
 * Computes the speed. Reports if the load is wrong, or if more requests arrive than the engine answers; -1:
 * an error.
 */
static int answer_load(p4d_subject *subject, const p4d_serving *s, answered *a, p4d_error *err)
{
	p4d_error why = {.code = P4D_OK};

	a->load = p4d_serving_load_of(&subject->request);
	a->known = p4d_serving_speed_of(&subject->request, subject->capacity.gpu, subject->gpus_per_node, s,
					&a->load, &a->speed, &why) == 0;
	p4d_request_without_prefix(why.fix);
	if (!a->known && why.code == P4D_E_VALUE) {
		*err = why;
		return -1;
	}
	if (!a->known)
		p4d_subject_say(subject, why.code, why.fix, "%s", why.text);
	return 0;
}

int p4d_serving_report(p4d_subject *subject, bool longest, bool json, p4d_error *err)
{
	const p4d_gpu *gpu = subject->capacity.gpu;
	p4d_request *r = &subject->request;
	p4d_error why = {.code = P4D_OK};
	p4d_serving s;
	p4d_action action = P4D_PASS;
	answered a = {.known = false};
	char engine[16];

	if (!gpu) {
		p4d_fail(err, P4D_E_UNKNOWN_GPU, "without --gpu, p4d cannot check serving");
		return p4d_fix(err, "--gpu NAME (p4d gpus lists them)");
	}
	p4d_serving_complete(r, gpu);
	if (longest && take_longest(subject, err) < 0)
		return -1;
	if (p4d_serving_estimate(r, gpu, subject->nodes * subject->gpus_per_node, &s, err) < 0)
		return -1;
	p4d_subject_say_unused(subject);
	if (p4d_serving_check(subject->model, gpu, &s, &why) < 0) {
		p4d_serving_fix_tp(r, gpu, subject->nodes * subject->gpus_per_node, subject->gpus_per_node,
				   &why);
		p4d_request_without_prefix(why.fix);
		p4d_subject_say(subject, why.code, why.fix, "%s", why.text);
	}
	if (why.code == P4D_OK && p4d_serving_check_start(r, gpu, &s, &why) < 0) {
		action = P4D_WARN;
		p4d_request_without_prefix(why.fix);
		p4d_subject_say(subject, why.code, why.fix, "%s", why.text);
		why = (p4d_error){.code = P4D_OK};
	}
	if (p4d_serving_check_host(&s, subject->gpus_per_node, subject->mem_bytes, &why) < 0)
		p4d_subject_say(subject, why.code, why.fix, "%s", why.text);
	if (why.code != P4D_OK)
		action = P4D_REJECT;
	else if (answer_load(subject, &s, &a, err) < 0)
		return -1;
	if (!json)
		print_text(subject, &s, &a, why.code == P4D_OK,
			   p4d_request_choice_name(P4D_ENGINE, r->value[P4D_ENGINE], engine, sizeof(engine)));
	else if (print_json(subject, &s, &a, action, err) < 0)
		return -1;
	return (int)why.code;
}
