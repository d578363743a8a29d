/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a job's script to change, in the words of its program. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "guard/script_request.h"
#include "request/framework.h"

enum { ARGUMENTS = 2048, FLAGS = 64 };

/* Arguments of a layout, each flag with its values: "--recompute-granularity full". */
typedef struct argument_list {
	char text[ARGUMENTS];
	unsigned count;
	struct {
		const char *text;
		size_t length, flag; /* of all, and of the flag alone */
	} at[FLAGS];
} argument_list;

static void cut(argument_list *list)
{
	list->count = 0;
	for (const char *at = list->text; *at && list->count < FLAGS;) {
		const char *next = strstr(at + 1, " --");
		const size_t length = next ? (size_t)(next - at) : strlen(at), flag = strcspn(at, " =");
		list->at[list->count].text = at;
		list->at[list->count].length = length;
		list->at[list->count++].flag = flag < length ? flag : length;
		at += length + (next != NULL);
	}
}

/* False: the layout is none, so nobody could write it. */
static bool write_arguments(const p4d_request *request, uint64_t nodes, uint64_t gpus_per_node,
			    argument_list *list)
{
	const p4d_framework *framework = p4d_framework_of((int)request->value[P4D_FRAMEWORK]);
	p4d_layout layout;

	list->count = 0;
	list->text[0] = '\0';
	if (!framework->arguments || p4d_layout_build(request, nodes, gpus_per_node, &layout, NULL) < 0)
		return false;
	framework->arguments->write(request, &layout, list->text, sizeof(list->text));
	cut(list);
	return true;
}

/* Its index; -1: it is not there. */
static int find(const argument_list *list, const char *flag, size_t length)
{
	for (unsigned i = 0; i < list->count; i++)
		if (list->at[i].flag == length && !memcmp(list->at[i].text, flag, length))
			return (int)i;
	return -1;
}

static bool same(const argument_list *a, int i, const argument_list *b, int j)
{
	return a->at[i].length == b->at[j].length && !memcmp(a->at[i].text, b->at[j].text, a->at[i].length);
}

/* What the value in the script is of: an option of p4d, or none of its own. */
static bool changes(const p4d_reading *r, const p4d_read_value *v, const p4d_request *asked,
		    const p4d_request *candidate)
{
	const ptrdiff_t option = v - r->value;

	return option >= 0 && option < (ptrdiff_t)P4D_OPTIONS && p4d_is_set(candidate, (p4d_option)option) &&
	       asked->value[option] != candidate->value[option];
}

/* How files that DeepSpeed and accelerate read say what makes a job smaller. */
static const struct {
	const char *of, *text; /* where its ZeRO stage stands; what is to be there */
	p4d_way way;
} file_words[] = {
    {"--deepspeed.", "\"stage\": 3", {P4D_ZERO_STAGE, 3}},
    {"--deepspeed.", "\"offload_optimizer\": {\"device\": \"cpu\"}", {P4D_OFFLOAD, P4D_OFFLOAD_OPTIMIZER}},
    {"--deepspeed.",
     "\"offload_optimizer\": {\"device\": \"cpu\"}, \"offload_param\": {\"device\": \"cpu\"}",
     {P4D_OFFLOAD, P4D_OFFLOAD_OPTIMIZER | P4D_OFFLOAD_PARAMS}},
    {"--accelerate.", "zero_stage: 3", {P4D_ZERO_STAGE, 3}},
    {"--accelerate.", "offload_optimizer_device: cpu", {P4D_OFFLOAD, P4D_OFFLOAD_OPTIMIZER}},
    {"--accelerate.",
     "offload_optimizer_device: cpu, offload_param_device: cpu",
     {P4D_OFFLOAD, P4D_OFFLOAD_OPTIMIZER | P4D_OFFLOAD_PARAMS}},
};

static bool in_their_files(const char *argument)
{
	return !strncmp(argument, "--deepspeed.", 12) || !strncmp(argument, "--accelerate.", 13);
}

/* A line of the script that has an argument. */
static void mend_line(const p4d_reading *r, const p4d_read_value *v, const p4d_request *asked,
		      const p4d_request *candidate, const argument_list *old, const argument_list *new,
		      p4d_text *fix)
{
	const size_t length = strlen(v->argument);
	const int before = find(old, v->argument, length), after = find(new, v->argument, length);

	char place[128];

	snprintf(place, sizeof(place), v->line ? "%.100s:%" PRIu32 : "%.100s", v->file, v->line);
	if (after >= 0 && (before < 0 ? changes(r, v, asked, candidate) : !same(old, before, new, after)))
		p4d_text_entry(fix, "; ", "%s: %.*s", place, (int)new->at[after].length, new->at[after].text);
	else if (after < 0 && !in_their_files(v->argument) &&
		 (before >= 0 || changes(r, v, asked, candidate)))
		p4d_text_entry(fix, "; ", "%s: without %s", place, v->argument);
}

static bool takes(const p4d_reading *r, const argument_list *list)
{
	char flag[64];

	snprintf(flag, sizeof(flag), "%.*s", list->count ? (int)list->at[0].flag : 0, list->text);
	return p4d_reading_takes(r, flag);
}

void p4d_guard__script_fix(const p4d_reading *r, const p4d_request *asked, const p4d_request *candidate,
			   const p4d_geometry *now, const p4d_geometry *then, bool add, p4d_text *fix)
{
	argument_list old, new;
	char added[256];
	p4d_text more = p4d_text_in(added, sizeof(added));

	/* others may train with the same framework, in words of their own */
	const bool known = write_arguments(asked, now->nodes, now->gpus_per_node, &old);
	if (!write_arguments(candidate, then->nodes, then->gpus_per_node, &new) || !takes(r, &new))
		return;
	for (int i = 0; i < (int)P4D_OPTIONS + P4D_READ_EXTRAS; i++) {
		const p4d_read_value *v =
		    i < (int)P4D_OPTIONS ? &r->value[i] : &r->extra[i - (int)P4D_OPTIONS];
		/* one argument may be the place of several values */
		if (v->argument && v->file && p4d_reading_argument(r, v->argument) == v)
			mend_line(r, v, asked, candidate, &old, &new, fix);
	}
	for (unsigned i = 0; add && known && i < new.count; i++) {
		char flag[64];
		const int before = find(&old, new.at[i].text, new.at[i].flag);
		if (new.at[i].flag >= sizeof(flag) || (before >= 0 && same(&old, before, &new, (int)i)))
			continue;
		memcpy(flag, new.at[i].text, new.at[i].flag);
		flag[new.at[i].flag] = '\0';
		if (!p4d_reading_argument(r, flag))
			p4d_text_entry(&more, " ", "%.*s", (int)new.at[i].length, new.at[i].text);
	}
	if (more.length && r->line)
		p4d_text_entry(fix, "; ", "%s:%" PRIu32 ": add %s", r->file, r->line, added);
}

bool p4d_guard__script_way(const p4d_reading *r, const p4d_way *way, p4d_text *fix)
{
	const p4d_read_value *stage = &r->value[P4D_ZERO_STAGE];

	for (size_t i = 0; stage->file && stage->argument && i < sizeof(file_words) / sizeof(*file_words);
	     i++)
		if (!strncmp(stage->argument, file_words[i].of, strlen(file_words[i].of)) &&
		    way->option == file_words[i].way.option && way->value == file_words[i].way.value) {
			p4d_text_entry(fix, "; ", "in %.100s: %s", stage->file, file_words[i].text);
			return true;
		}
	return false;
}
