/* SPDX-License-Identifier: Apache-2.0 */
/* For a training that p4d cannot check otherwise: whether the memory that it certainly needs fits. */
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "guard/script_request.h"
#include "guard/verdict.h"
#include "model/model.h"
#include "reader/reader.h"
#include "request/architecture.h"
#include "request/defaults.h"
#include "request/framework.h"
#include "request/layout.h"
#include "request/model_size.h"

enum { ELEMENT = 2 /* minimum bytes of a weight that is not quantized */, ANY = -1 };

/*
 * The least value of an option that p4d cannot determine. ANY: every value, because optimizer states do not
 * depend on the option.
 */
typedef struct least {
	p4d_option option;
	int64_t value;
	bool certain; /* it is certain that the program's value is at least this */
} least;

static const least leasts[] = {
    {P4D_SEQ_LEN, ANY, true},          {P4D_MICRO_BATCH, ANY, true},
    {P4D_EVAL_MICRO_BATCH, ANY, true}, {P4D_GLOBAL_BATCH, ANY, true},
    {P4D_RECOMPUTE, ANY, true},        {P4D_DOCUMENT_LEN, ANY, true},
    {P4D_PACKING, ANY, true},          {P4D_PADDING, ANY, true},
    {P4D_ATTENTION, ANY, true},        {P4D_CHUNKED_LOSS, ANY, true},
    {P4D_DROPOUT, ANY, true},          {P4D_ATTENTION_DROPOUT, ANY, true},
    {P4D_LORA_DROPOUT, ANY, true},     {P4D_LORA_RANK, 1, true},
    {P4D_OPTIMIZER, P4D_SGD, false},   {P4D_PARAM_DTYPE, P4D_PARAM_BF16, false},
    {P4D_ADAPTER_DTYPE, ANY, false},   {P4D_FINETUNE, P4D_TUNE_QLORA, false},
    {P4D_QUANT, ANY, false}, /* take_least also sets P4D_FINETUNE */
};

static const least *least_of(const char *name)
{
	const int option = p4d_request_option_find(name);

	for (size_t i = 0; i < sizeof(leasts) / sizeof(*leasts); i++)
		if ((int)leasts[i].option == option)
			return &leasts[i];
	return NULL;
}

typedef struct weighing {
	const p4d_site *site;
	const p4d_job *job;
	p4d_cluster_source source;
	void *context;
	const p4d_reading *reading;
	p4d_request request; /* the request, where every unknown option has its least value */
	p4d_geometry geometry;
	bool certain; /* it is certain that the result is a lower bound */
} weighing;

static bool is(const p4d_reading *r, p4d_option option, const char *text)
{
	return r->value[option].file && !strcmp(r->value[option].text, text);
}

static bool take_least(weighing *w, const char *name)
{
	const least *known = least_of(name);

	if (!known)
		return false;
	w->certain &= known->certain;
	if (known->value != ANY)
		p4d_request_put(&w->request, known->option, known->value, P4D_BY_SCRIPT);
	if (known->option == P4D_QUANT) /* with quantized weights, only adapters are trained */
		p4d_request_put(&w->request, P4D_FINETUNE, P4D_TUNE_QLORA, P4D_BY_SCRIPT);
	return true;
}

/* Gives all unknown options their least values. False: p4d does not know the least value of some option. */
static bool take_all_least(weighing *w)
{
	const p4d_reading *r = w->reading;

	for (unsigned i = 0; i < r->unknowns; i++)
		if (!take_least(w, r->unknown[i].name))
			return false;
	return true;
}

/*
 * Whether each GPU of the job certainly runs a process of the program, as with programs that replicate the
 * model.
 */
static bool is_started_on_all(const weighing *w)
{
	const p4d_read_value *nodes = &w->reading->value[P4D_NODES],
			     *gpus = &w->reading->value[P4D_GPUS_PER_NODE];
	uint64_t count;

	if (nodes->file && (!p4d_number_digits(nodes->text, &count) || count != w->geometry.nodes))
		return false;
	if (gpus->file)
		return p4d_number_digits(gpus->text, &count) && count == w->geometry.gpus_per_node;
	return !is(w->reading, P4D_FRAMEWORK, "ddp") || w->geometry.gpus_per_node == 1;
}

/* Parameters, gradients and optimizer states of the fullest stage. False: p4d cannot calculate them. */
static bool states_of(const weighing *w, uint64_t *bytes, bool *trained)
{
	const uint64_t world = (uint64_t)w->geometry.nodes * w->geometry.gpus_per_node;
	const p4d_capacity capacity = {w->geometry.gpu, 0, 0};
	p4d_request request = w->request;
	p4d_layout layout;
	p4d_estimate e;

	p4d_request_complete(&request, 0, world);
	if (p4d_layout_build(&request, w->geometry.nodes, w->geometry.gpus_per_node, &layout, NULL) < 0 ||
	    p4d_framework_unvalidated(&layout) ||
	    p4d_memory_estimate(&layout, P4D_METHOD_PLAN, &capacity, &e, NULL) < 0)
		return false;
	*bytes = e.peak.part[P4D_PART_PARAMS] + e.peak.part[P4D_PART_GRADS] + e.peak.part[P4D_PART_OPTIMIZER];
	*trained = layout.finetune == P4D_TUNE_FULL;
	return true;
}

/* Sets the smallest sequence length and batch that the layout allows, without gradient accumulation. */
static void take_smallest(weighing *w)
{
	p4d_request *request = &w->request;
	const p4d_option degrees[] = {P4D_TP, P4D_CP, P4D_PP};
	int64_t of_model = 1;

	for (int i = 0; i < 3; i++)
		if (p4d_is_set(request, degrees[i]))
			of_model *= request->value[degrees[i]];
	const int64_t world = (int64_t)w->geometry.nodes * w->geometry.gpus_per_node;
	p4d_request_default(request, P4D_SEQ_LEN, 16 * of_model, P4D_BY_SCRIPT);
	p4d_request_default(request, P4D_MICRO_BATCH, 1, P4D_BY_SCRIPT);
	if (of_model && world >= of_model)
		p4d_request_default(request, P4D_GLOBAL_BATCH,
				    request->value[P4D_MICRO_BATCH] * (world / of_model), P4D_BY_SCRIPT);
}

/* Whether p4d models all of the job's memory. */
static bool is_modelled(const weighing *w)
{
	p4d_error why;

	return !*w->request.unmodelled && p4d_is_set(&w->request, P4D_FRAMEWORK) &&
	       !p4d_architecture_of(&w->request)->unvalidated && p4d_framework_models(&w->request, &why);
}

static p4d_message *say(const weighing *w, p4d_verdict *verdict, uint64_t bytes, const char *what,
			const char *type)
{
	const p4d_request *request = &w->request;

	verdict->action = P4D_WARN;
	return p4d_verdict__say(verdict, P4D_E_DOES_NOT_FIT,
				"%s of %s%.100s alone need %.1f GiB on each GPU%s, and %s has %.1f GiB", what,
				*request->judged_part ? "the text part of " : "", request->model,
				p4d_to_gib(bytes), type, w->geometry.gpu->name,
				p4d_to_gib(w->geometry.gpu->usable_bytes));
}

/* Moves the last message before the others. */
static void put_first(p4d_verdict *verdict)
{
	const p4d_message last = verdict->message[verdict->messages - 1];

	memmove(&verdict->message[1], &verdict->message[0],
		(verdict->messages - 1) * sizeof(verdict->message[0]));
	verdict->message[0] = last;
}

/* Adds layouts that would fit: in words, and one as a fix. */
static void take_ways_out(const p4d_message *from, p4d_message *message)
{
	const char *ways = strstr(from->text, P4D_WITHOUT_MORE_GPUS);
	p4d_text text = {.at = message->text, .size = sizeof(message->text), .length = strlen(message->text)};

	memcpy(message->fix, from->fix, sizeof(message->fix));
	if (ways)
		p4d_text_print(&text, "%s, with the shortest sequences", ways);
}

/*
 * Refuses the job if the site refuses jobs by their scripts (scripts = judge) and the job cannot fit even if
 * everything unknown needs no memory. A job with the fix is no longer refused for this reason, but p4d still
 * cannot tell whether it fits.
 */
static void refuse(const weighing *w, bool searches, p4d_verdict *verdict)
{
	p4d_request request = w->request;
	p4d_verdict whole = {.messages = 0};

	if (!w->certain || !w->reading->named || verdict->policy.scripts != P4D_SCRIPTS_JUDGE)
		return;
	p4d_guard__complete(w->site, w->job, w->source, w->context, 0, searches, &request, &whole);
	if (!whole.judged || !whole.would_reject)
		return;
	for (unsigned i = 0; i < verdict->messages; i++)
		verdict->message[i].fix[0] = '\0';
	for (unsigned i = 0; i < whole.messages && !*request.judged_part; i++)
		if (whole.message[i].code == P4D_E_DOES_NOT_FIT || whole.message[i].code == P4D_E_NO_LAYOUT)
			take_ways_out(&whole.message[i], &verdict->message[verdict->messages - 1]);
	put_first(verdict);
	verdict->action = P4D_REJECT;
}

/* Checks parameters, gradients and states. False: p4d cannot tell whether the weights fit. */
static bool judge_states(weighing *w, bool searches, p4d_verdict *verdict)
{
	uint64_t bytes;
	bool trained;

	if (!w->reading->named || !is_modelled(w) || !take_all_least(w) || !is_started_on_all(w) ||
	    p4d_guard__serves(&w->request) || p4d_guard__holds_several_models(&w->request))
		return false;
	take_smallest(w);
	/* p4d does not know which parts of several models are trained */
	if (*w->request.judged_part) {
		p4d_request_put(&w->request, P4D_FINETUNE, P4D_TUNE_LORA, P4D_BY_SCRIPT);
		p4d_request_put(&w->request, P4D_PARAM_DTYPE, P4D_PARAM_BF16, P4D_BY_SCRIPT);
	}
	if (!states_of(w, &bytes, &trained))
		return false;
	if (bytes <= w->geometry.gpu->usable_bytes)
		return true;
	say(w, verdict, bytes, trained ? "weights, gradients and optimizer states" : "the weights", "");
	refuse(w, searches, verdict);
	return true;
}

static uint64_t size_of(const p4d_reading *r, p4d_option option, uint64_t otherwise)
{
	uint64_t value;

	return p4d_number_whole(r->value[option].text, 1, 1 << 20, &value) ? value : otherwise;
}

/*
 * Number of 16-bit weights on a rank of Megatron-Core: the mean over its stages, since the fullest stage has
 * at least as many.
 */
static p4d_wide share_of_megatron(const p4d_reading *r, const p4d_layout *l)
{
	const uint64_t tp = size_of(r, P4D_TP, 1), pp = size_of(r, P4D_PP, 1), ep = size_of(r, P4D_EP, 1),
		       etp = size_of(r, P4D_ETP, tp);
	const p4d_wide experts = (p4d_wide)p4d_expert_layers_before(l, l->layers) * l->experts *
				 (l->experts ? p4d_size_of_expert(l) : 0);

	return ((p4d_size_of_model(l) - experts) / (tp * pp) + experts / (ep * etp * pp)) * ELEMENT;
}

/* Number of weights on a rank of PyTorch's frameworks; 0: unknown. */
static p4d_wide share_of_torch(const weighing *w, const p4d_layout *l, const char *framework)
{
	const p4d_reading *r = w->reading;
	const uint64_t world = (uint64_t)w->geometry.nodes * w->geometry.gpus_per_node;
	const p4d_wide whole = p4d_size_of_model(l) * ELEMENT;

	if (!r->named || !is_started_on_all(w))
		return 0;
	if (!strcmp(framework, "ddp"))
		return whole;
	if (!strcmp(framework, "deepspeed") && r->value[P4D_ZERO_STAGE].file)
		return size_of(r, P4D_ZERO_STAGE, 0) < 3 ? whole : whole / world;
	if (!strcmp(framework, "fsdp"))
		return whole / size_of(r, P4D_SHARD_DEGREE, world);
	return 0;
}

/* Whether the unknown option is only about adapters. The base model's weights are all there in any case. */
static bool is_adapter(const p4d_reading *r, const char *name)
{
	const char *argument = r->value[P4D_FINETUNE].argument;

	return is(r, P4D_FINETUNE, "lora") && argument && !strcmp(argument + strspn(argument, "-"), name);
}

/* Whether all options that affect the number of parameters are known. */
static bool is_decided(const p4d_reading *r)
{
	for (unsigned i = 0; i < r->unknowns; i++) {
		const least *known = least_of(r->unknown[i].name);
		if (!is_adapter(r, r->unknown[i].name) && (!known || !known->certain))
			return false;
	}
	return !is(r, P4D_FINETUNE, "qlora") && !is(r, P4D_PRECISION, "fp8") &&
	       !is(r, P4D_FP8_PARAM_GATHER, "on") && !r->value[P4D_OFFLOAD].file &&
	       (!r->value[P4D_QUANT].file || is(r, P4D_QUANT, "none")) &&
	       (!r->value[P4D_WORKLOAD].file || is(r, P4D_WORKLOAD, "train"));
}

static void judge_weights(const weighing *w, p4d_verdict *verdict)
{
	const p4d_reading *r = w->reading;
	const char *framework = p4d_guard__script_framework(r);
	p4d_layout l;

	if (!framework)
		framework = p4d_reading_framework(r);
	if (!is_decided(r) || !strcmp(w->request.model, "custom") || !p4d_is_set(&w->request, P4D_LAYERS))
		return;
	p4d_layout_of_model(&w->request, &l);
	const p4d_wide bytes = !strncmp(framework, "megatron", strlen("megatron"))
				   ? share_of_megatron(r, &l)
				   : share_of_torch(w, &l, framework);
	if (bytes > w->geometry.gpu->usable_bytes && !(bytes >> 62))
		say(w, verdict, (uint64_t)bytes, "the weights", " in 16 bits");
}

/* Whether the script gives the option, even with a value that p4d does not know. If a script omits an
 * option that its program needs, the program gets this option from elsewhere, and perhaps others. */
static bool is_told(const p4d_reading *r, p4d_option option)
{
	for (unsigned i = 0; i < r->unknowns; i++)
		if (p4d_request_option_find(r->unknown[i].name) == (int)option)
			return true;
	return r->value[option].file;
}

/*
 * Whether the script has exactly one training, p4d knows its model, and the script gives a sequence length
 * and a micro-batch.
 */
static bool is_read(const p4d_reading *r)
{
	return r && r->certain && !r->incomplete && !r->more_arguments && !r->trains_nothing &&
	       r->commands == 1 && r->value[P4D_MODEL].file && is_told(r, P4D_SEQ_LEN) &&
	       is_told(r, P4D_MICRO_BATCH) && !p4d_reading_doubt(r);
}

/* Finds the job's GPUs. False also if the size of its weights does not follow from the number of
 * parameters. */
static bool is_placed(weighing *w)
{
	const p4d_request *request = &w->request;
	const bool whole = !p4d_is_set(request, P4D_STORED) || request->value[P4D_STORED] == P4D_STORED_FULL;

	return whole && p4d_is_set(request, P4D_MODEL) &&
	       p4d_job_geometry(w->site, w->job, w->source, w->context, &w->geometry, NULL) == 0 &&
	       w->geometry.gpu;
}

void p4d_guard__judge_weights(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			      void *context, bool files, p4d_verdict *verdict)
{
	weighing w = {.site = site,
		      .job = job,
		      .source = source,
		      .context = context,
		      .reading = job->reading,
		      .request = {.model = ""},
		      .certain = true};

	if (!is_read(w.reading) || p4d_guard__take_script(w.reading, &w.request, NULL) < 0 ||
	    (files ? p4d_model_resolve(&w.request, p4d_site_datadir(site), NULL, NULL)
		   : p4d_guard__fill_model(site, &w.request, NULL)) < 0 ||
	    !is_placed(&w))
		return;
	if (!judge_states(&w, files, verdict))
		judge_weights(&w, verdict);
}

void p4d_guard__say_weights(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			    void *context, const p4d_request *request, p4d_verdict *verdict)
{
	weighing w = {.site = site,
		      .job = job,
		      .source = source,
		      .context = context,
		      .reading = job->reading,
		      .request = *request};

	if (is_read(w.reading) && is_placed(&w))
		judge_weights(&w, verdict);
}
