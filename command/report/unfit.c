/* SPDX-License-Identifier: Apache-2.0 */
#include "report/unfit.h"
#include "request/framework.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "guard/guard.h"
#include "plan/memory_played.h"
#include "request/defaults.h"
#include "request/heeds.h"

/* Names the rule that the request breaks, with a fix. */
static void not_divisible(const p4d_subject *subject, p4d_error *err)
{
	p4d_request complete = subject->request;
	p4d_error why = {.text = ""};
	p4d_layout layout;

	p4d_request_complete(&complete, subject->preset.global_batch,
			     subject->nodes * subject->gpus_per_node);
	const int rc = p4d_layout_build(&complete, subject->nodes, subject->gpus_per_node, &layout, &why);
	p4d_fail(err, P4D_E_NO_LAYOUT,
		 "no layout of %" PRIu64 " x %" PRIu64
		 " GPUs with these flags meets the divisibility rules%s%.300s",
		 subject->nodes, subject->gpus_per_node, rc < 0 ? ": " : "", rc < 0 ? why.text : "");
	if (rc < 0 && why.fix[0])
		p4d_fix(err, "%s", why.fix);
}

/* Explains how close the search came to a layout that fits, and what it searched. */
static void too_large(const p4d_subject *subject, const p4d_search_space *space, const p4d_candidate *least,
		      p4d_error *err)
{
	char searched[160], shape[160];
	p4d_text open = p4d_text_in(searched, sizeof(searched)), text = p4d_text_in(shape, sizeof(shape));
	p4d_layout layout;
	p4d_estimate e = {.fraction = 0};

	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS; i++) {
		const p4d_option option = p4d_layout_options[i];
		char value[64];
		const bool of_experts = option == P4D_EP || option == P4D_ETP;
		const bool of_pipelines = option == P4D_SCHEDULE || option == P4D_VPP;
		const p4d_framework *framework = p4d_framework_of((int)least->request.value[P4D_FRAMEWORK]);
		if ((of_pipelines && p4d_framework_fixed_of(&least->request, P4D_PP)) ||
		    (option == P4D_VOCAB_PARALLEL && framework->no_vocab_parallel))
			continue;
		if (option == P4D_EVAL_MICRO_BATCH || option == P4D_CP_COMM ||
		    (of_experts && !p4d_is_set(&least->request, P4D_EXPERTS)) ||
		    (option == P4D_TOKEN_SLICES && p4d_layout_is_default(&least->request, option)))
			continue;
		if (!p4d_is_set(&subject->request, option) &&
		    !p4d_framework_fixed_of(&least->request, option))
			p4d_text_entry(&open, ", ", "%s", p4d_request_option_info(option)->name);
		if (!p4d_layout_is_default(&least->request, option))
			p4d_text_entry(&text, " ", "%s=%s", p4d_request_option_info(option)->name,
				       p4d_request_value_text(&least->request, option, value, sizeof(value)));
	}
	p4d_layout_add_sharing(&least->request, "", &text);
	if (p4d_layout_build(&least->request, subject->nodes, subject->gpus_per_node, &layout, NULL) == 0 &&
	    p4d_memory_estimate(&layout, subject->method, &subject->capacity, &e, NULL) == 0)
		p4d_memory_play(&layout, &subject->capacity, &e);
	const uint64_t *part = e.peak.part;
	p4d_fail(err, P4D_E_NO_LAYOUT,
		 "%.60s does not fit on %" PRIu64 " x %" PRIu64
		 " %s: the best layout needs %.1f of %.1f GiB (limit %.0f %%), of which %.1f GiB are "
		 "parameters, gradients and optimizer states, with %s; p4d searched %s",
		 subject->model, subject->nodes, subject->gpus_per_node,
		 subject->capacity.gpu ? subject->capacity.gpu->name : "CPU ranks",
		 p4d_to_gib(e.peak.device_bytes), p4d_to_gib(e.capacity_bytes), 100 * space->limit,
		 p4d_to_gib(part[P4D_PART_PARAMS] + part[P4D_PART_GRADS] + part[P4D_PART_OPTIMIZER]),
		 text.length ? shape : "tp=1 pp=1",
		 open.length ? searched : "no others, because the command sets every layout option");
}

/* Writes the command with these options for more GPUs, if it needs fewer than *least GPUs. Then *least
 * becomes its number of GPUs. */
static void grow_with(const p4d_subject *subject, const p4d_request *with, const p4d_search_space *space,
		      uint64_t *least, char *fix, size_t room)
{
	uint64_t nodes, gpus_per_node;
	p4d_candidate found;

	if (p4d_search_smallest(with, space, p4d_subject_most_gpus(subject), &nodes, &gpus_per_node, &found) <
		0 ||
	    nodes * gpus_per_node >= *least)
		return;
	*least = nodes * gpus_per_node;
	p4d_subject_command(subject, &found.request, nodes, gpus_per_node, fix, room);
}

/*
 * Called if the model fits on no larger number of these GPUs. Writes the command for the smallest number
 * of GPUs on which it fits if it is also sharded instead of replicated, or if the loss is computed in
 * chunks. "": it still fits on no number of GPUs.
 */
static void grow_otherwise(const p4d_subject *subject, const p4d_request *asked,
			   const p4d_search_space *space, char *fix, size_t room)
{
	static const p4d_way zero3 = {P4D_ZERO_STAGE, 3, P4D_FRAMEWORK, P4D_FRAMEWORK_DEEPSPEED},
			     chunks = {P4D_CHUNKED_LOSS, 1, P4D_OPTIONS, 0};
	const p4d_framework *framework = p4d_framework_of((int)asked->value[P4D_FRAMEWORK]);
	p4d_request with = *asked;
	uint64_t least = UINT64_MAX;

	/* p4d chose as many sequences as there are GPUs, so it must choose again for another number of
	 * GPUs */
	if (with.origin[P4D_GLOBAL_BATCH] == P4D_BY_P4D)
		with.origin[P4D_GLOBAL_BATCH] = P4D_UNSET;
	if (framework->sharing == P4D_SHARES_NOTHING) {
		p4d_way_take(&zero3, &with);
		grow_with(subject, &with, space, &least, fix, room);
	}
	if (p4d_is_set(&with, P4D_CHUNKED_LOSS) ||
	    !p4d_heeds(&with, (int)with.value[P4D_FRAMEWORK], P4D_CHUNKED_LOSS) ||
	    p4d_framework_fixed_of(&with, P4D_CHUNKED_LOSS))
		return;
	p4d_way_take(&chunks, &with);
	grow_with(subject, &with, space, &least, fix, room);
}

const char *p4d_unfit_ways_out(const p4d_subject *subject, const p4d_request *asked,
			       const p4d_search_space *space, bool grown, char *words, size_t size, char *fix,
			       size_t room)
{
	const bool alone = subject->nodes * subject->gpus_per_node == 1;
	const char *own;
	p4d_text text = p4d_text_in(words, size);
	p4d_candidate found;
	p4d_request with = *asked;
	p4d_way way[P4D_WAYS];
	char ways[200];

	fix[0] = '\0';
	p4d_guard_ways_out(subject->site, NULL, asked, space, "--", way, ways, sizeof(ways));
	if (!grown && way[0].option == P4D_OPTIONS)
		grow_otherwise(subject, asked, space, fix, room);
	/* no_fit advises to shard, which does not help on one GPU, unless the fix has more GPUs */
	own = alone && !fix[0] ? NULL : p4d_framework_of((int)asked->value[P4D_FRAMEWORK])->no_fit;
	if (ways[0])
		p4d_text_print(&text, "%s%s", P4D_WITHOUT_MORE_GPUS, ways);
	else if (!grown)
		p4d_text_print(&text, "; the job does not fit on any number of these GPUs%s%s",
			       own ? ": " : "", own ? own : "");
	if (way[0].option == P4D_OPTIONS)
		return words;
	p4d_way_take(&way[0], &with);
	if (p4d_search_nearest(&with, space, &found) >= 0)
		p4d_subject_command(subject, &found.request, subject->nodes, subject->gpus_per_node, fix,
				    room);
	return words;
}

int p4d_unfit_explain(const p4d_subject *subject, const p4d_search_space *space,
		      const p4d_search_counts *counts, p4d_error *err)
{
	char command[480], smaller[480], words[320];
	p4d_candidate found;
	uint64_t nodes, gpus_per_node;

	if (counts->considered)
		too_large(subject, space, &counts->smallest, err);
	else
		not_divisible(subject, err);
	if (p4d_search_nearest(&subject->request, space, &found) >= 0)
		return p4d_fix(err, "%s",
			       p4d_subject_command(subject, &found.request, subject->nodes,
						   subject->gpus_per_node, command, sizeof(command)));
	const p4d_error inner = *err;
	const bool grown = p4d_search_smallest(&subject->request, space, p4d_subject_most_gpus(subject),
					       &nodes, &gpus_per_node, &found) == 0;
	p4d_unfit_ways_out(subject, &subject->request, space, grown, words, sizeof(words), smaller,
			   sizeof(smaller));
	if (counts->considered) /* these ways help only if memory was too small */
		p4d_fail(err, inner.code, "%.320s%.180s", inner.text, words);
	if (!grown)
		return p4d_fix(err, "%s", inner.fix[0] ? inner.fix : smaller);
	return p4d_fix(
	    err, "%s",
	    p4d_subject_command(subject, &found.request, nodes, gpus_per_node, command, sizeof(command)));
}
