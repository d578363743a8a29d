/* SPDX-License-Identifier: Apache-2.0 */
#include "job/export.h"

#include <inttypes.h>
#include <stdio.h>

#include "request/framework.h"

enum { ARGS_MAX = 3072 };

#define VALUE(option) \
	{ \
#option, option \
	}
static const struct {
	const char *name;
	p4d_option option;
} values[] = {VALUE(P4D_TP),        VALUE(P4D_CP),          VALUE(P4D_CP_COMM),       VALUE(P4D_PP),
	      VALUE(P4D_VPP),       VALUE(P4D_MICRO_BATCH), VALUE(P4D_GLOBAL_BATCH),  VALUE(P4D_SEQ_LEN),
	      VALUE(P4D_RECOMPUTE), VALUE(P4D_SCHEDULE),    VALUE(P4D_VOCAB_PARALLEL)};
#undef VALUE
enum { VALUES = sizeof(values) / sizeof(values[0]) };

/*
 * The names are repeated here instead of read from the frameworks' entries, which would make p4d.so load all
 * of libp4d.
 */
#define VARIABLE(id, name, variable) variable,
static const char *const variables[] = {P4D_FRAMEWORK_LIST(VARIABLE)};
#undef VARIABLE

const char *p4d_export_name(size_t index)
{
	if (index == 0)
		return P4D_EXPORT_PLAN;
	if (index <= VALUES)
		return values[index - 1].name;
	if (index == VALUES + 1)
		return "P4D_DP";
	index -= VALUES + 2;
	for (int i = 0; i < P4D_FRAMEWORKS; i++)
		if (variables[i] && index-- == 0)
			return variables[i];
	return NULL;
}

const p4d_framework_arguments *p4d_export_arguments(const p4d_request *request, const p4d_layout *layout,
						    const char **lacks)
{
	const int passes_to = p4d_framework_of(layout->framework)->passes_to;
	const p4d_framework_arguments *own = p4d_framework_arguments_of(layout),
				      *other = passes_to ? p4d_framework_of(passes_to)->arguments : own;
	const char *what = own ? NULL : other->lacks(request, layout);

	if (lacks)
		*lacks = what;
	return own ? own : what ? NULL : other;
}

void p4d_export(const p4d_request *request, const p4d_layout *layout, const char *plan,
		p4d_export_visit visit, void *context)
{
	char value[ARGS_MAX];

	visit(P4D_EXPORT_PLAN, plan, context);
	if (p4d_is_set(request, P4D_UNMODELLED))
		return; /* an unmodelled job has no layout */
	for (size_t i = 0; i < VALUES; i++)
		visit(values[i].name, p4d_request_value_text(request, values[i].option, value, sizeof(value)),
		      context);
	snprintf(value, sizeof(value), "%" PRIu64, layout->dp);
	visit("P4D_DP", value, context);
	const p4d_framework_arguments *arguments = p4d_export_arguments(request, layout, NULL);
	if (!arguments)
		return;
	arguments->write(request, layout, value, sizeof(value));
	visit(arguments->variable, value, context);
}
