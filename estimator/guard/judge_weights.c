/* SPDX-License-Identifier: Apache-2.0 */
/* Of a training that is not checked otherwise: whether its weights alone fit. */
#include <string.h>

#include "base/number.h"
#include "guard/script_request.h"
#include "guard/verdict.h"
#include "model/model.h"
#include "reader/reader.h"
#include "request/layout.h"
#include "request/model_size.h"

enum { ELEMENT = 2 }; /* bytes of a weight that is not quantized, at least */

/* What the number of a rank's weights depends on. */
static const p4d_option decisive[] = {
    P4D_MODEL,           P4D_FRAMEWORK, P4D_TP,       P4D_PP,        P4D_EP,      P4D_ETP,
    P4D_QUANT,           P4D_STORED,    P4D_FINETUNE, P4D_PRECISION, P4D_OFFLOAD, P4D_WORKLOAD,
    P4D_FP8_PARAM_GATHER};

/* None of them is open, nor what decides whether it runs. */
static bool is_sure(const p4d_reading *r)
{
	if (!r->certain || r->incomplete || r->more_arguments || p4d_reading_doubt(r) ||
	    !r->value[P4D_MODEL].file)
		return false;
	for (unsigned i = 0; i < r->unknowns; i++)
		for (size_t j = 0; j < sizeof(decisive) / sizeof(*decisive); j++)
			if (!strcmp(r->unknown[i].name, p4d_request_option_info(decisive[j])->name))
				return false;
	return true;
}

static bool is(const p4d_reading *r, p4d_option option, const char *text)
{
	return r->value[option].file && !strcmp(r->value[option].text, text);
}

static uint64_t size_of(const p4d_reading *r, p4d_option option, uint64_t otherwise)
{
	uint64_t value;

	return p4d_number_whole(r->value[option].text, 1, 1 << 20, &value) ? value : otherwise;
}

/* Weights in 16 bits of a rank of Megatron-Core, the mean over its stages: the fullest has no fewer. */
static p4d_wide weights_of(const p4d_reading *r, const p4d_layout *l)
{
	const uint64_t tp = size_of(r, P4D_TP, 1), pp = size_of(r, P4D_PP, 1), ep = size_of(r, P4D_EP, 1),
		       etp = size_of(r, P4D_ETP, tp);
	const p4d_wide experts = (p4d_wide)p4d_expert_layers_before(l, l->layers) * l->experts *
				 (l->experts ? p4d_size_of_expert(l) : 0);

	return ((p4d_size_of_model(l) - experts) / (tp * pp) + experts / (ep * etp * pp)) * ELEMENT;
}

void p4d_guard__judge_weights(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			      void *context, p4d_verdict *verdict)
{
	const p4d_reading *r = job->reading;
	const char *framework = r ? p4d_guard__script_framework(r) : NULL;
	p4d_request request = {.model = ""};
	p4d_geometry geometry;
	p4d_layout l;

	if (r && !framework)
		framework = p4d_reading_framework(r);
	if (!r || strncmp(framework, "megatron", strlen("megatron")) != 0 || !is_sure(r) ||
	    is(r, P4D_FINETUNE, "qlora") || is(r, P4D_PRECISION, "fp8") ||
	    is(r, P4D_FP8_PARAM_GATHER, "on") || r->value[P4D_OFFLOAD].file ||
	    (r->value[P4D_QUANT].file && !is(r, P4D_QUANT, "none")) ||
	    p4d_request_set(&request, P4D_MODEL, r->value[P4D_MODEL].text, P4D_BY_SCRIPT, NULL) < 0 ||
	    !strcmp(request.model, "custom") ||
	    p4d_model_resolve(&request, p4d_site_datadir(site), NULL, NULL) < 0 || *request.unmodelled ||
	    (p4d_is_set(&request, P4D_STORED) && request.value[P4D_STORED] != P4D_STORED_FULL) ||
	    p4d_job_geometry(site, job, source, context, &geometry, NULL) < 0 || !geometry.gpu)
		return;
	p4d_layout_of_model(&request, &l);
	const p4d_wide bytes = weights_of(r, &l);
	if (bytes <= geometry.gpu->usable_bytes || bytes >> 62)
		return;
	verdict->action = P4D_WARN;
	p4d_verdict__say(verdict, P4D_E_DOES_NOT_FIT,
			 "the weights of %.100s alone take %.1f GiB of a GPU in 16 bits, and %s has %.1f",
			 request.model, p4d_to_gib((uint64_t)bytes), geometry.gpu->name,
			 p4d_to_gib(geometry.gpu->usable_bytes));
}
