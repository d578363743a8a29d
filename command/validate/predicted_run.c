/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/predicted_run.h"

#include <stdio.h>
#include <string.h>

#include "line/line.h"
#include "model/model.h"
#include "request/defaults.h"

/* Parses typed options, "--name value" or "--name=value", into the request; cuts the text into words. */
static int read_options(char *options, p4d_request *request, p4d_error *err)
{
	char *at;

	for (char *word = strtok_r(options, " ", &at); word; word = strtok_r(NULL, " ", &at)) {
		char *equals = strchr(word, '=');
		if (equals)
			*equals = '\0';
		const int option = strncmp(word, "--", 2) ? -1 : p4d_request_option_find(word + 2);
		const char *value = option < 0 ? NULL : equals ? equals + 1 : strtok_r(NULL, " ", &at);
		if (!value)
			return p4d_fail(err, P4D_E_VALUE, "\"%.64s\" is not an option with a value", word);
		if (p4d_request_set_typed(request, (p4d_option)option, value, err) < 0)
			return -1;
	}
	return 0;
}

static int count_or_1(const p4d_request *request, p4d_option option)
{
	return p4d_is_set(request, option) ? (int)request->value[option] : 1;
}

int p4d_predicted_run_request(const p4d_gpus *gpus, const p4d_measured *row, p4d_request *request,
			      uint64_t *nodes, uint64_t *per_node, p4d_error *err)
{
	char options[sizeof(row->options)];
	p4d_preset preset;

	*request = (p4d_request){.model = ""};
	snprintf(options, sizeof(options), "%s", row->options);
	if (read_options(options, request, err) < 0 ||
	    p4d_model_resolve(request, p4d_line_data_directory(), &preset, err) < 0)
		return -1;
	*nodes = (uint64_t)count_or_1(request, P4D_NODES);
	*per_node = (uint64_t)count_or_1(request, P4D_GPUS_PER_NODE);
	const p4d_gpu *gpu = p4d_gpu_find(gpus, row->gpu, NULL);
	if (gpu)
		p4d_gpu_set_domain(gpu, request);
	return 0;
}

int p4d_predicted_run(const p4d_gpus *gpus, const p4d_measured *row, p4d_layout *layout, p4d_estimate *out,
		      p4d_error *err)
{
	const p4d_capacity capacity = {.gpu = p4d_gpu_find(gpus, row->gpu, NULL)};
	uint64_t nodes, per_node;
	p4d_request request;

	if (p4d_predicted_run_request(gpus, row, &request, &nodes, &per_node, err) < 0)
		return -1;
	p4d_request_complete(&request, 0, nodes * per_node);
	if (p4d_layout_build(&request, nodes, per_node, layout, err) < 0)
		return -1;
	return p4d_memory_estimate(layout, P4D_METHOD_PLAN, &capacity, out, err);
}

double p4d_predicted_run_gib(const p4d_measured *row, const p4d_stage *peak)
{
	if (!strcmp(row->what, "device"))
		return p4d_to_gib(peak->device_bytes);
	return p4d_to_gib(peak->allocated_bytes +
			  (strcmp(row->what, "reserved") ? 0 : peak->part[P4D_PART_FRAGMENTATION]));
}
