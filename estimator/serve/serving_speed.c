/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/serving_speed.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cost/cost.h"
#include "serve/serving_internal.h"

#define PROMPT 1024.0
#define ANSWER 256.0

/* Seconds in which the server reads, tokenizes and schedules a request before its first pass. */
#define FRONT_SECONDS 4e-3

/* One replica: its engine, and the work of each pass. */
typedef struct engine {
	const p4d_serving *s;
	const p4d_gpu *gpu;
	const p4d_serving_load *load;
	p4d_layout l;
	double weight_bytes, nano_batches;
	bool experts_only; /* with stored=fp4, files store only experts in 4 bits, if the model has experts */
	bool apart;        /* SGLang: prompts have passes of their own, without CUDA graphs */
} engine;

static double stated(const p4d_request *r, p4d_option option, double other)
{
	return p4d_is_set(r, option) ? p4d_request_real(r, option) : other;
}

p4d_serving_load p4d_serving_load_of(const p4d_request *r)
{
	const double length = (double)r->value[P4D_SEQ_LEN];
	p4d_serving_load load = {.concurrency = stated(r, P4D_CONCURRENCY, 0),
				 .rate = stated(r, P4D_RATE, 0),
				 .requests =
				     p4d_is_set(r, P4D_REQUESTS) ? (double)r->value[P4D_REQUESTS] : 0};

	load.prompt = stated(r, P4D_PROMPT_LEN, fmin(PROMPT, fmax(1, floor(length / 2))));
	load.answer = stated(r, P4D_ANSWER_LEN, fmin(ANSWER, fmax(1, floor(length / 4))));
	return load;
}

/*
 * Sets the type of matmuls. They run in the type of the weights if the GPU's matrix units support it: FP8,
 * and FP4 on Blackwell. Other weights are expanded to 16 bits before the matmul, so only their bytes count.
 */
static void set_precision(p4d_layout *l, const p4d_gpu *gpu, int stored)
{
	const bool fp8 = stored == P4D_STORED_FP8 && gpu->peak_fp8_flops > 0 && gpu->gemm_fp8_efficiency > 0;
	const bool fp4 = stored == P4D_STORED_FP4 && gpu->peak_fp4_flops > 0 && gpu->gemm_fp4_efficiency > 0;

	l->precision = fp8 || fp4 ? P4D_FP8 : P4D_BF16;
	l->fp8_recipe = fp4 && !l->architecture->mxfp4 ? P4D_FP8_NVFP4 : P4D_FP8_CURRENT;
}

static int set_engine(engine *e, const p4d_request *r, uint64_t gpus_per_node, p4d_error *err)
{
	const int stored = p4d_serving__stored_of(r);

	p4d_serving__layout_of(r, &e->l);
	e->l.framework = P4D_FRAMEWORK_P4D;
	e->l.serves = true;
	e->l.device = P4D_CUDA;
	e->l.world = e->l.tp * e->l.pp * e->l.dp;
	e->l.gpus_per_node = (uint32_t)gpus_per_node;
	e->l.network = r->network;
	e->l.link_domain = gpus_per_node;
	if ((uint64_t)e->gpu->nvlink_domain > gpus_per_node)
		e->l.link_domain = (uint64_t)e->gpu->nvlink_domain;
	set_precision(&e->l, e->gpu, stored);
	e->weight_bytes = (double)p4d_serving__thousandths(stored) / 1000;
	e->experts_only = stored == P4D_STORED_FP4 && e->l.experts > 0;
	e->apart = r->value[P4D_ENGINE] == P4D_ENGINE_SGLANG;
	if (p4d_cost_known(&e->l, e->gpu))
		return 0;
	return p4d_fail(err, P4D_E_NO_RATES, "no speed: p4d does not know the %s of %s",
			p4d_cost_missing(&e->l, e->gpu), e->gpu->name);
}

/* Tokens to which the last query of a sequence attends in a layer with a window. */
static double seen(const engine *e, double tokens)
{
	const double window = (double)e->s->window;

	return window > 0 && tokens > window ? window : tokens;
}

/* Bytes of the keys and values of a sequence on one GPU. tokens: the length of the sequence. */
static double held(const engine *e, double tokens)
{
	return (double)e->s->token_bytes * tokens + (double)e->s->windowed_bytes * seen(e, tokens);
}

/* Bytes of these keys and values that a pass reads. */
static double read_in_pass(const engine *e, double tokens)
{
	return held(e, tokens) - (double)e->s->unread_bytes * (tokens - seen(e, tokens));
}

/* Pairs of a query and a key in a prompt: the mean over all layers. */
static double pairs(const engine *e, double tokens)
{
	const double windowed = (double)(e->s->windowed_bytes + e->s->unread_bytes),
		     all = (double)(e->s->token_bytes + e->s->windowed_bytes);
	const double outside = tokens - seen(e, tokens);

	return (tokens * tokens - windowed / all * outside * outside) / 2;
}

/* Number of sequences that a replica holds at a time, each with room for its whole answer. */
static double most_of(const engine *e)
{
	const double fit = floor((double)e->s->available_bytes / held(e, e->load->prompt + e->load->answer));

	return fmin(fit, (double)e->s->max_num_seqs) * (double)e->l.dp;
}

/* Seconds of one pass of a pipeline stage, with this many sequences of the replica and this many
 * additional prompts. */
static double pass(const engine *e, double sequences, double prompts)
{
	const p4d_serving_load *load = e->load;
	const double in_flight = sequences / (double)(e->l.pp * e->l.dp);
	const p4d_cost_served work = {.sequences = in_flight,
				      .prompt_tokens = prompts * load->prompt,
				      .prompt_pairs = prompts * pairs(e, load->prompt),
				      .cached_bytes =
					  in_flight * read_in_pass(e, load->prompt + load->answer / 2),
				      .weight_bytes = e->weight_bytes,
				      .experts_only = e->experts_only,
				      .eager = e->apart && prompts > 0,
				      .host_bytes = (double)e->s->host_bytes,
				      .window = (double)e->s->streamed_window,
				      .nano_batches = e->nano_batches};

	return p4d_cost_serve(&e->l, e->gpu, &work);
}

/* Seconds by which `prompts` prompts lengthen a pass with this many sequences. */
static double added(const engine *e, double sequences, double prompts)
{
	return e->apart ? pass(e, 0, prompts) : pass(e, sequences, prompts) - pass(e, sequences, 0);
}

/*
 * Mean seconds between two tokens of a sequence, with this many sequences in flight: some passes include a
 * prompt, or wait for its pass.
 */
static double between(const engine *e, double sequences)
{
	const double stages = (double)e->l.pp,
		     prompts = sequences / stages / (double)e->l.dp / e->load->answer;
	const double share = fmin(1, prompts), each = fmax(1, prompts);

	return stages * (pass(e, sequences, 0) + share * added(e, sequences, each));
}

/* Seconds until the first token of a prompt. The token comes from the prompt's own pass, after the rest of
 * the current pass and after earlier prompts. */
static double first(const engine *e, double sequences)
{
	const double stages = (double)e->l.pp, plain = pass(e, sequences, 0), more = added(e, sequences, 1),
		     own = e->apart ? more : plain + more, token = between(e, sequences);
	const double busy = fmin(0.95, sequences / e->load->answer / token * more / stages);
	const double chunks = fmax(0, ceil(e->load->prompt / (double)e->s->max_batched_tokens) - 1);

	return FRONT_SECONDS + token / 2 + stages * own + (e->apart ? 0 : chunks * plain) +
	       busy / (2 * (1 - busy)) * more;
}

/*
 * Number of sequences in flight if `rate` requests per second arrive at a replica; 0: the replica cannot
 * answer that many. By Little's law, this is the rate times the seconds of an answer, which grow with the
 * number of sequences.
 */
static double in_flight(const engine *e, double rate, double most)
{
	double low = 0, high = most;

	if (rate * e->load->answer * between(e, most) > most)
		return 0;
	for (int i = 0; i < 60; i++) {
		const double middle = (low + high) / 2;
		if (rate * e->load->answer * between(e, middle) > middle)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/*
 * Sequences in flight on one replica. *waits: seconds that a request waits for room; negative: the wait grows
 * without bound.
 */
static double load_of(const engine *e, double replicas, double most, double *waits)
{
	const double asked = e->load->concurrency / replicas;

	*waits = 0;
	if (e->load->rate > 0) {
		const double found = in_flight(e, e->load->rate / replicas, most);
		*waits = found > 0 ? 0 : -1;
		return found > 0 ? found : most;
	}
	if (e->load->concurrency <= 0 || asked <= most)
		return e->load->concurrency > 0 ? asked : most;
	*waits = (asked - most) * e->load->answer * between(e, most) / most;
	return most;
}

/* Requests of one replica that are all sent at once: they run in waves of as many as fit, and a smaller one.
 */
typedef struct burst {
	double requests, wave;   /* number of all, and of those in a wave */
	double waves, rest;      /* full waves, and requests of the last one */
	double prompt_s;         /* seconds of a prompt in a pass with others */
	double passes_s, last_s; /* seconds of an answer's passes in a full wave, and in the last one */
} burst;

static burst burst_of(const engine *e, double requests, double most)
{
	const double wave = fmin(requests, most), waves = floor(requests / wave),
		     rest = requests - waves * wave, stages = (double)e->l.pp, answer = e->load->answer;
	const double together = floor((double)e->s->max_batched_tokens / e->load->prompt),
		     prompts = fmax(1, fmin(together, wave / (double)e->l.dp));

	return (burst){.requests = requests,
		       .wave = wave,
		       .waves = waves,
		       .rest = rest,
		       .prompt_s = added(e, wave, prompts) / prompts / (double)e->l.dp,
		       .passes_s = answer * stages * pass(e, wave, 0),
		       .last_s = rest > 0 ? answer * stages * pass(e, rest, 0) : 0};
}

/* Seconds until the last answer is complete. */
static double burst_seconds(const burst *b)
{
	return b->waves * b->passes_s + b->last_s + b->requests * b->prompt_s;
}

/* Mean seconds until the first token: a request waits for earlier waves, and for half of its own prompts. */
static double burst_first(const burst *b)
{
	const double full = b->waves * b->wave, wave_s = b->passes_s + b->wave * b->prompt_s;
	const double waited = full * ((b->waves - 1) * wave_s + b->wave * b->prompt_s) / 2 +
			      b->rest * (b->waves * wave_s + b->rest * b->prompt_s / 2);

	return FRONT_SECONDS + waited / b->requests;
}

/* Mean seconds between tokens: an answer's passes, and half of the prompts of its wave. */
static double burst_between(const engine *e, const burst *b)
{
	const double full = b->waves * b->wave * (b->passes_s + b->wave * b->prompt_s / 2),
		     last = b->rest * (b->last_s + b->rest * b->prompt_s / 2);

	return (full + last) / b->requests / e->load->answer;
}

static void set_burst(const engine *e, double replicas, double most, p4d_serving_speed *speed)
{
	const double asked = e->load->concurrency > 0 ? e->load->concurrency / replicas : most;
	const burst b = burst_of(e, e->load->requests / replicas, fmin(asked, most));
	const double seconds = burst_seconds(&b);

	speed->at_a_time = b.wave * replicas;
	speed->tokens_per_s = e->load->requests * e->load->answer / seconds;
	speed->requests_per_s = e->load->requests / seconds;
	speed->first_token_s = burst_first(&b);
	speed->between_tokens_s = burst_between(e, &b);
}

static int check_load(const p4d_serving *s, const p4d_serving_load *load, p4d_error *err)
{
	if (load->rate > 0 && load->concurrency > 0) {
		p4d_fail(err, P4D_E_VALUE, "give only one of rate and concurrency");
		return p4d_fix(err, "--p4d-concurrency=%.0f", load->concurrency);
	}
	if (load->rate > 0 && load->requests > 0) {
		p4d_fail(err, P4D_E_VALUE,
			 "give only one of rate and requests: all requests are sent at once");
		return p4d_fix(err, "leave out --p4d-rate");
	}
	if (load->prompt + load->answer <= (double)s->max_model_len)
		return 0;
	p4d_fail(err, P4D_E_VALUE,
		 "a prompt of %.0f tokens and an answer of %.0f are longer than the %" PRIu64
		 " tokens of a sequence",
		 load->prompt, load->answer, s->max_model_len);
	return p4d_fix(err, "--p4d-seq-len=%.0f", ceil(load->prompt + load->answer));
}

int p4d_serving_speed_of(const p4d_request *request, const p4d_gpu *gpu, uint64_t gpus_per_node,
			 const p4d_serving *s, const p4d_serving_load *load, p4d_serving_speed *speed,
			 p4d_error *err)
{
	engine e = {.s = s,
		    .gpu = gpu,
		    .load = load,
		    .nano_batches =
			p4d_is_set(request, P4D_NANO_BATCHES) ? (double)request->value[P4D_NANO_BATCHES] : 1};
	double waits;

	if (check_load(s, load, err) < 0 || set_engine(&e, request, gpus_per_node, err) < 0)
		return -1;
	const double replicas = (double)s->replicas / (double)e.l.dp, most = most_of(&e);
	if (most < 1)
		return p4d_fail(
		    err, P4D_E_DOES_NOT_FIT,
		    "the KV cache is too small for one prompt of %.0f tokens with an answer of %.0f tokens",
		    load->prompt, load->answer);
	const double now = load_of(&e, replicas, most, &waits), token = between(&e, now);
	*speed = (p4d_serving_speed){.at_a_time = now * replicas,
				     .tokens_per_s = now * replicas / token,
				     .requests_per_s = now * replicas / token / load->answer,
				     .first_token_s = waits < 0 ? 0 : first(&e, now) + waits,
				     .between_tokens_s = token,
				     .most = most * replicas,
				     .most_tokens_per_s = most * replicas / between(&e, most)};
	if (load->requests > 0)
		set_burst(&e, replicas, most, speed);
	return 0;
}
