/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the lines of a job's script that must change, with the arguments of its program. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "guard/script_request.h"
#include "guard/script_words.h"
#include "request/framework.h"

enum { ARGUMENTS = 2048, FLAGS = 64 };

/* The arguments of a layout. Each is a flag with its values: "--recompute-granularity full". */
typedef struct argument_list {
	char text[ARGUMENTS];
	unsigned count;
	struct {
		const char *text;
		size_t length, flag; /* length of the whole text, and of the flag */
	} at[FLAGS];
} argument_list;

/* The blank before the next flag or subcommand ("activation_checkpoint:full"); NULL: none. */
static const char *next_argument(const char *at)
{
	for (const char *blank = strchr(at, ' '); blank; blank = strchr(blank + 1, ' ')) {
		const size_t length = strcspn(blank + 1, " ");
		if (!strncmp(blank + 1, "--", 2) || memchr(blank + 1, ':', length))
			return blank;
	}
	return NULL;
}

static void cut(argument_list *list)
{
	list->count = 0;
	for (const char *at = list->text; *at && list->count < FLAGS;) {
		const char *next = next_argument(at);
		const size_t length = next ? (size_t)(next - at) : strlen(at), flag = strcspn(at, " =");
		list->at[list->count].text = at;
		list->at[list->count].length = length;
		list->at[list->count++].flag = flag < length ? flag : length;
		at += length + (next != NULL);
	}
}

/* Writes a layout as its framework's arguments. False: the framework has no arguments for layouts,
 * or the layout is invalid. */
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

/* Index of a flag; -1: absent. */
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

/*
 * Whether the fix changes this value, which belongs to an option of p4d or is one of the reader's additional
 * values.
 */
static bool changes(const p4d_reading *r, const p4d_read_value *v, const p4d_request *asked,
		    const p4d_request *candidate)
{
	const ptrdiff_t option = v - r->value;

	return option >= 0 && option < (ptrdiff_t)P4D_OPTIONS && p4d_is_set(candidate, (p4d_option)option) &&
	       asked->value[option] != candidate->value[option];
}

/* How DeepSpeed's and accelerate's files express options that make a job smaller. */
static const struct {
	const char *of, *text; /* prefix of the names of arguments in the file that has the ZeRO stage; the
				  words that a fix adds to that file */
	const char
	    *options; /* the same words as options of a launcher; NULL: the launcher has no such option */
	int64_t offload;
} file_words[] = {
    {"--deepspeed.", "\"offload_optimizer\": {\"device\": \"cpu\"}", NULL, P4D_OFFLOAD_OPTIMIZER},
    {"--deepspeed.", "\"offload_optimizer\": {\"device\": \"cpu\"}, \"offload_param\": {\"device\": \"cpu\"}",
     NULL, P4D_OFFLOAD_OPTIMIZER | P4D_OFFLOAD_PARAMS},
    {"--accelerate.", "offload_optimizer_device: cpu", "--offload_optimizer_device cpu",
     P4D_OFFLOAD_OPTIMIZER},
    {"--accelerate.", "offload_optimizer_device: cpu, offload_param_device: cpu",
     "--offload_optimizer_device cpu --offload_param_device cpu", P4D_OFFLOAD_OPTIMIZER | P4D_OFFLOAD_PARAMS},
};

static bool in_their_files(const char *argument)
{
	return !strncmp(argument, "--deepspeed.", 12) || !strncmp(argument, "--accelerate.", 13);
}

typedef struct mended {
	const p4d_reading *reading;
	const p4d_request *asked, *candidate;
	const p4d_layout *layout;       /* layout of the candidate */
	const argument_list *old, *new; /* arguments of the old and the new layout; empty if the program does
					   not take the framework's arguments */
	uint64_t micro_batches;         /* micro-batches of the requested layout; 0: none */
	bool accumulates;               /* only another number of micro-batches keeps the global batch */
	bool unread;         /* p4d could not read the added words, or does not know the program's words */
	bool batch_said;     /* the fix already gives the number of micro-batches, or the batch */
	const p4d_way *way;  /* the way whose options p4d_guard__script_way prints; NULL: none */
	p4d_request *pasted; /* values of the changed script */
} mended;

/* Copies the candidate's value to `pasted`, because the script has this value once the fix is pasted. */
static void note_pasted(const mended *m, ptrdiff_t option)
{
	if (option < 0 || option >= (ptrdiff_t)P4D_OPTIONS || !p4d_is_set(m->candidate, (p4d_option)option))
		return;
	m->pasted->origin[option] = P4D_UNSET; /* so that p4d_request_inherit copies texts as well */
	p4d_request_inherit(m->pasted, m->candidate, (p4d_option)option, P4D_BY_SCRIPT);
}

static bool is_of_way(const mended *m, ptrdiff_t option)
{
	return m->way && option >= 0 &&
	       (option == (ptrdiff_t)m->way->option || option == (ptrdiff_t)m->way->also);
}

static bool accumulates_by(const char *argument)
{
	return strstr(argument, "accumulation_steps") || strstr(argument, "global_batch_size");
}

static bool is_configuration(const p4d_read_value *v)
{
	return p4d_guard__format_of(v->file, v->argument) >= 0;
}

/* Writes the new value of an argument. False: the value does not change, or p4d does not know its words. */
static bool wanted(const mended *m, const p4d_read_value *v, char *value, size_t size)
{
	const p4d_option option = (p4d_option)(v - m->reading->value);
	const int before = find(m->old, v->argument, strlen(v->argument)),
		  after = find(m->new, v->argument, strlen(v->argument));
	const bool of_option = v - m->reading->value < (ptrdiff_t)P4D_OPTIONS;
	char text[64];

	if (after >= 0) {
		const size_t flag = m->new->at[after].flag + 1, length = m->new->at[after].length;
		if (before < 0 ? !changes(m->reading, v, m->asked, m->candidate)
			       : same(m->old, before, m->new, after))
			return false;
		snprintf(value, size, "%.*s", flag < length ? (int)(length - flag) : 4,
			 flag < length ? m->new->at[after].text + flag : "true");
		return true;
	}
	if (m->accumulates && strstr(v->argument, "accumulation_steps")) {
		snprintf(value, size, "%" PRIu64, m->layout->micro_batches);
		return m->layout->micro_batches != m->micro_batches;
	}
	if (!of_option)
		return false;
	return changes(m->reading, v, m->asked, m->candidate) &&
	       p4d_reading_say(m->reading, v->argument, option,
			       p4d_request_value_text(m->candidate, option, text, sizeof(text)), value, size);
}

/* Adds a second argument that the new value of the first one requires. */
static void add_beside(const mended *m, const p4d_read_value *v, const char *word, p4d_text *fix)
{
	const char *value, *other = p4d_reading_beside(m->reading, v->argument, word, &value);
	const p4d_read_value *there = other ? p4d_reading_argument(m->reading, other) : NULL;
	char text[128], place[128];

	if (!other)
		return;
	if (!p4d_guard__write_in_file(v->file, other, value, text, sizeof(text)))
		p4d_guard__on_line(m->reading, other, value, text, sizeof(text));
	p4d_text_entry(fix, "; ", "%s: %s%s", p4d_guard__place_of(there ? there : v, place, sizeof(place)),
		       there ? "" : "add ", text);
}

/* Whether no other argument expresses a value that this argument has no words for. Without the argument,
 * the program uses its default or its configuration. */
static bool says_alone(const mended *m, const p4d_read_value *v)
{
	const p4d_option option = (p4d_option)(v - m->reading->value);
	const char *name = p4d_reading_name(m->reading, option);

	return !m->new->count &&name && !strcmp(name, v->argument) &&
	       (p4d_reading_assigns(m->reading) || !p4d_layout_is_default(m->candidate, option));
}

/* Writes a line of the script, or of its configuration, in which an argument changes. */
static void mend_line(mended *m, const p4d_read_value *v, p4d_text *fix)
{
	const ptrdiff_t option = v - m->reading->value;
	const size_t length = strlen(v->argument);
	const int before = find(m->old, v->argument, length), after = find(m->new, v->argument, length);
	const bool says = before >= 0 || changes(m->reading, v, m->asked, m->candidate);
	char place[128], value[64], text[128];

	m->batch_said = m->batch_said || accumulates_by(v->argument);
	p4d_guard__place_of(v, place, sizeof(place));
	if (wanted(m, v, value, sizeof(value))) {
		note_pasted(m, option);
		if (p4d_guard__write_in_file(v->file, v->argument, value, text, sizeof(text)))
			p4d_text_entry(fix, "; ", "%s: %s", place, text);
		else if (after >= 0)
			p4d_text_entry(fix, "; ", "%s: %.*s", place, (int)m->new->at[after].length,
				       m->new->at[after].text);
		else if (!strcmp(value, "false") && !p4d_reading_assigns(m->reading))
			p4d_text_entry(fix, "; ", "%s: without %s", place,
				       p4d_guard__on_line(m->reading, v->argument, "", text, sizeof(text)));
		else
			p4d_text_entry(
			    fix, "; ", "%s: %s", place,
			    p4d_guard__on_line(m->reading, v->argument, value, text, sizeof(text)));
		add_beside(m, v, value, fix);
	} else if (after < 0 && says && !in_their_files(v->argument)) {
		m->unread = m->unread || (before < 0 && says_alone(m, v));
		note_pasted(m, option);
		p4d_text_entry(fix, "; ", "%s: without %s", place,
			       p4d_guard__on_line(m->reading, v->argument, "", text, sizeof(text)));
	}
}

/*
 * Writes an argument that the script lacks: as a line of the configuration that names the model, or on the
 * line that starts the program.
 */
static bool add_anywhere(const mended *m, const char *name, const char *said, p4d_text *fix)
{
	const char *file = m->reading->value[P4D_MODEL].file;
	char text[128];

	if (p4d_guard__write_in_file(file, name, said, text, sizeof(text)))
		p4d_text_entry(fix, "; ", "%s: add %s", file, text);
	else if (m->reading->line)
		p4d_text_entry(fix, "; ", "%s:%" PRIu32 ": add %s", m->reading->file,
			       m->reading->program_line,
			       p4d_guard__on_line(m->reading, name, said, text, sizeof(text)));
	else
		return false;
	return true;
}

/*
 * Adds values that the configuration or the command line does not have, for a program whose arguments are not
 * the framework's.
 */
static void add_to_configuration(mended *m, p4d_text *fix)
{
	static const char steps[] = "--gradient_accumulation_steps";
	char value[64], said[64];

	for (size_t i = 0; m->reading->value[P4D_MODEL].file && i < P4D_LAYOUT_OPTIONS; i++) {
		const p4d_option option = p4d_layout_options[i];
		const p4d_read_value *v = &m->reading->value[option];
		const char *name = p4d_reading_name(m->reading, option);
		if ((v->file && v->argument) || !name ||
		    m->asked->value[option] == m->candidate->value[option])
			continue;
		p4d_request_value_text(m->candidate, option, value, sizeof(value));
		if (p4d_reading_say(m->reading, name, option, value, said, sizeof(said)) &&
		    add_anywhere(m, name, said, fix))
			note_pasted(m, (ptrdiff_t)option);
	}
	if (m->accumulates && !m->batch_said && m->layout->micro_batches > 1 &&
	    m->reading->value[P4D_MODEL].file && p4d_reading_takes(m->reading, steps)) {
		snprintf(value, sizeof(value), "%" PRIu64, m->layout->micro_batches);
		m->batch_said = add_anywhere(m, steps, value, fix);
	}
}

static bool takes(const p4d_reading *r, const argument_list *list)
{
	char flag[64];

	snprintf(flag, sizeof(flag), "%.*s", list->count ? (int)list->at[0].flag : 0, list->text);
	return p4d_reading_takes(r, flag);
}

/* Whether the fix has already changed this configuration value under another name. */
static bool said_elsewhere(const mended *m, const char *flag)
{
	const int option = p4d_reading_option(m->reading, flag);
	const p4d_read_value *v = option >= 0 ? &m->reading->value[option] : NULL;
	char value[64];

	return v && v->file && v->argument && wanted(m, v, value, sizeof(value));
}

/* Whether p4d's own flags in the fix set the option, because the script does not set it. */
static bool said_by_flags(const mended *m, const char *flag)
{
	const int option = p4d_reading_option(m->reading, flag);

	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS; i++)
		if (option == (int)p4d_layout_options[i])
			return m->asked->origin[option] != P4D_BY_SCRIPT;
	return false;
}

/* Whether the script itself sets values of its layout that must change. */
static bool script_changes(const p4d_request *asked, const p4d_request *candidate)
{
	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS; i++) {
		const p4d_option option = p4d_layout_options[i];
		if (asked->origin[option] == P4D_BY_SCRIPT &&
		    asked->value[option] != candidate->value[option])
			return true;
	}
	return false;
}

/* Whether p4d would understand a flag in the script that is followed by " VALUE", "=VALUE" or nothing. */
static bool is_known(const p4d_reading *r, const char *flag, const char *rest, size_t length)
{
	char value[64];

	snprintf(value, sizeof(value), "%.*s", length > 1 ? (int)(length - 1) : 0,
		 length > 1 ? rest + 1 : "");
	return p4d_reading_knows(r, flag, value);
}

/* Adds an argument, quoted if it is a pipeline layout, because a shell would read its bars as pipes. */
static void add_argument(p4d_text *text, const argument_list *list, unsigned i)
{
	const int flag = (int)list->at[i].flag, length = (int)list->at[i].length;
	const char *at = list->at[i].text;

	if (length > flag && memchr(at, '|', (size_t)length))
		p4d_text_entry(text, " ", "%.*s'%.*s'", flag + 1, at, length - flag - 1, at + flag + 1);
	else
		p4d_text_entry(text, " ", "%.*s", length, at);
}

/*
 * Adds arguments to the line that starts the program: those that the script leaves to defaults. all: also
 * those that p4d's flags set.
 */
static void add_arguments(mended *m, bool all, p4d_text *fix)
{
	const p4d_reading *r = m->reading;
	char added[400], flag[64];
	p4d_text more = p4d_text_in(added, sizeof(added));

	for (unsigned i = 0; i < m->new->count; i++) {
		const int before = find(m->old, m->new->at[i].text, m->new->at[i].flag);
		if (m->new->at[i].flag >= sizeof(flag))
			continue;
		memcpy(flag, m->new->at[i].text, m->new->at[i].flag);
		flag[m->new->at[i].flag] = '\0';
		/* a value that the script omits follows from the micro-batch and the GPUs */
		const bool follows = m->accumulates && accumulates_by(flag);
		if ((before >= 0 && same(m->old, before, m->new, (int)i) && !follows) ||
		    is_of_way(m, p4d_reading_option(r, flag)) || p4d_reading_argument(r, flag) ||
		    said_elsewhere(m, flag) || (!all && said_by_flags(m, flag)))
			continue;
		add_argument(&more, m->new, i);
		m->unread = m->unread || !is_known(r, flag, &m->new->at[i].text[m->new->at[i].flag],
						   m->new->at[i].length - m->new->at[i].flag);
		m->batch_said = m->batch_said || accumulates_by(flag);
	}
	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS && r->line; i++)
		if (all || m->asked->origin[p4d_layout_options[i]] == P4D_BY_SCRIPT)
			note_pasted(m, (ptrdiff_t)p4d_layout_options[i]);
	if (all)
		note_pasted(m, (ptrdiff_t)P4D_PIPELINE_SPLIT);
	if (more.length && r->line)
		p4d_text_entry(fix, "; ", "%s:%" PRIu32 ": add %s", r->file, r->program_line, added);
}

uint32_t p4d_guard__script_untold(const p4d_reading *r, const p4d_request *asked, const p4d_geometry *now)
{
	argument_list own = {.count = 0};
	uint32_t untold = 0;

	/* a program with the framework's arguments accepts all of them; p4d must be able to read them back */
	const bool all = write_arguments(asked, now->nodes, now->gpus_per_node, &own) && takes(r, &own);
	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS; i++) {
		const char *name = p4d_reading_name(r, p4d_layout_options[i]);
		if (all ? p4d_layout_options[i] == P4D_VPP && name && !p4d_reading_knows(r, name, "2")
			: !name && !r->value[p4d_layout_options[i]].argument)
			untold |= 1u << i;
	}
	return untold;
}

uint32_t p4d_guard__script_unsaid(const p4d_reading *r, const p4d_request *asked, const p4d_geometry *now)
{
	const char *now_said = r->value[P4D_RECOMPUTE].argument,
		   *name = now_said ? now_said : p4d_reading_name(r, P4D_RECOMPUTE);
	argument_list own = {.count = 0};
	uint32_t unsaid = 0;
	char text[32], value[64];

	if (!name || (write_arguments(asked, now->nodes, now->gpus_per_node, &own) && takes(r, &own)))
		return 0;
	for (int i = 0; i <= P4D_RECOMPUTE_KEEP; i++) {
		p4d_request_choice_name(P4D_RECOMPUTE, i, text, sizeof(text));
		if (i != P4D_RECOMPUTE_NONE &&
		    !p4d_reading_say(r, name, P4D_RECOMPUTE, text, value, sizeof(value)))
			unsaid |= 1u << i;
	}
	return unsaid;
}

static uint64_t micro_batches_of(const p4d_request *asked, const p4d_geometry *now)
{
	p4d_layout layout;

	return p4d_layout_build(asked, now->nodes, now->gpus_per_node, &layout, NULL) < 0
		   ? 0
		   : layout.micro_batches;
}

bool p4d_guard__script_fix(const p4d_reading *r, const p4d_request *asked, const p4d_request *candidate,
			   const p4d_geometry *now, const p4d_geometry *then, const p4d_way *way, bool add,
			   p4d_request *pasted, p4d_text *fix)
{
	argument_list old = {.count = 0}, new = {.count = 0};
	p4d_layout layout;
	mended m = {.reading = r,
		    .asked = asked,
		    .candidate = candidate,
		    .layout = &layout,
		    .old = &old,
		    .new = &new,
		    .micro_batches = micro_batches_of(asked, now),
		    .way = way,
		    .pasted = pasted};

	if (p4d_layout_build(candidate, then->nodes, then->gpus_per_node, &layout, NULL) < 0)
		return false;
	/* false for programs that use the framework with arguments of their own */
	bool known = write_arguments(asked, now->nodes, now->gpus_per_node, &old);
	const bool own = write_arguments(candidate, then->nodes, then->gpus_per_node, &new) && takes(r, &new);
	if (!own)
		old.count = new.count = 0;
	/* the global batch would change if the number of micro-batches stayed */
	m.accumulates = asked->value[P4D_MICRO_BATCH] != candidate->value[P4D_MICRO_BATCH] ||
			asked->value[P4D_TP] * asked->value[P4D_CP] * asked->value[P4D_PP] !=
			    candidate->value[P4D_TP] * candidate->value[P4D_CP] * candidate->value[P4D_PP] ||
			now->nodes != then->nodes || now->gpus_per_node != then->gpus_per_node;
	m.batch_said = r->value[P4D_GLOBAL_BATCH].file && r->value[P4D_GLOBAL_BATCH].argument &&
		       !r->by_default[P4D_GLOBAL_BATCH];
	for (int i = 0; i < (int)P4D_OPTIONS + P4D_READ_EXTRAS; i++) {
		const p4d_read_value *v =
		    i < (int)P4D_OPTIONS ? &r->value[i] : &r->extra[i - (int)P4D_OPTIONS];
		/* writes each argument once, although it may contain several values */
		if (v->argument && v->file && p4d_reading_argument(r, v->argument) == v)
			mend_line(&m, v, fix);
	}
	if (own && known && (add || script_changes(asked, candidate)))
		add_arguments(&m, add, fix);
	else if (add && !own)
		add_to_configuration(&m, fix);
	if (m.unread)
		return false;
	return m.batch_said || !m.accumulates || asked->origin[P4D_GLOBAL_BATCH] != P4D_BY_SCRIPT ||
	       m.micro_batches == layout.micro_batches;
}

void p4d_guard__script_flag(const p4d_reading *r, char *flag, size_t size)
{
	char name[64], value[64], said[64], text[256], place[144], at[128];
	const char *equals = strchr(flag, '=');

	if (strncmp(flag, "--p4d-", 6) != 0 || !equals || strpbrk(flag, " ;") || equals - flag > 30)
		return;
	snprintf(name, sizeof(name), "%.*s", (int)(equals - flag - 6), flag + 6);
	snprintf(value, sizeof(value), "%.63s", equals + 1);
	const int option = p4d_request_option_find(name);
	const p4d_read_value *v = option < 0 ? NULL : &r->value[option];
	const char *argument = !v            ? NULL
			       : v->argument ? v->argument
					     : p4d_reading_name(r, (p4d_option)option);
	if (!argument || !p4d_reading_say(r, argument, (p4d_option)option, value, said, sizeof(said)))
		return;
	if (v->file && v->argument)
		snprintf(place, sizeof(place), "%s: ", p4d_guard__place_of(v, at, sizeof(at)));
	else
		snprintf(place, sizeof(place), "%.100s:%" PRIu32 ": add ", r->file, r->program_line);
	if (v->file && v->argument && p4d_guard__write_in_file(v->file, argument, said, text, sizeof(text)))
		snprintf(flag, size, "%s%s", place, text);
	else
		snprintf(flag, size, "%s%s", place,
			 p4d_guard__on_line(r, argument, said, text, sizeof(text)));
}

/*
 * Writes an added option: into the file that names the model, in the syntax of that file, or on the line that
 * starts the program.
 */
static bool write_way(const p4d_reading *r, p4d_option option, int64_t value, p4d_text *fix)
{
	const p4d_read_value *there = &r->value[option];
	const char *name = p4d_reading_name(r, option), *file = r->value[P4D_MODEL].file;
	p4d_request with = {.model = ""};
	char text[64], said[64], line[128], place[128];

	p4d_request_put(&with, option, value, P4D_BY_USER);
	p4d_request_value_text(&with, option, text, sizeof(text));
	if (!name || !file || !p4d_reading_say(r, name, option, text, said, sizeof(said)))
		return false;
	/* torchtitan also takes the tables of its TOML as options */
	if (!(r->line && p4d_guard__format_of(file, name) == P4D_TOML) &&
	    p4d_guard__write_in_file(file, name, said, line, sizeof(line)))
		p4d_text_entry(fix, "; ", "in %.100s: %s", file, line);
	else if (r->line && there->line)
		p4d_text_entry(fix, "; ", "%s: %s", p4d_guard__place_of(there, place, sizeof(place)),
			       p4d_guard__on_line(r, name, said, line, sizeof(line)));
	else if (r->line)
		p4d_text_entry(fix, "; ", "%s:%" PRIu32 ": add %s", r->file, r->program_line,
			       p4d_guard__on_line(r, name, said, line, sizeof(line)));
	else
		return false;
	return true;
}

/* Words that say which of two commands on one line (launcher or program) gets the option. */
static const char *of_launcher(const p4d_reading *r)
{
	return r->launches ? "" : " to accelerate launch";
}

/* Writes the change to a sharding framework, for a program that replicates the model on every GPU. */
static bool write_sharding(const p4d_reading *r, int64_t framework, int64_t zero_stage, p4d_text *fix)
{
	bool launcher = false;
	const char *words =
	    p4d_reading_shards(r, p4d_framework_of((int)framework)->name, zero_stage, &launcher);

	if (!words || !r->line)
		return false;
	/* accelerate accepts only one of --multi_gpu and this option */
	if (launcher && p4d_reading_argument(r, "--accelerate.multi_gpu"))
		p4d_text_entry(fix, "; ", "%s:%" PRIu32 ": replace --multi_gpu by %s", r->file, r->line,
			       words);
	else
		p4d_text_entry(fix, "; ", "%s:%" PRIu32 ": add %s%s", r->file,
			       launcher ? r->line : r->program_line, words, launcher ? of_launcher(r) : "");
	return true;
}

/*
 * Writes --offload at the place of the ZeRO stage: in DeepSpeed's or accelerate's file, or as an option of
 * accelerate launch.
 */
static bool write_offload(const p4d_reading *r, int64_t offload, p4d_text *fix)
{
	const p4d_read_value *stage = &r->value[P4D_ZERO_STAGE];

	for (size_t i = 0; stage->file && stage->argument && i < sizeof(file_words) / sizeof(*file_words);
	     i++) {
		if (offload != file_words[i].offload ||
		    strncmp(stage->argument, file_words[i].of, strlen(file_words[i].of)) != 0)
			continue;
		if (!file_words[i].options || is_configuration(stage))
			p4d_text_entry(fix, "; ", "in %.100s: %s", stage->file, file_words[i].text);
		else
			p4d_text_entry(fix, "; ", "%.100s:%" PRIu32 ": add %s%s", stage->file, stage->line,
				       file_words[i].options, of_launcher(r));
		return true;
	}
	return write_way(r, P4D_OFFLOAD, offload, fix);
}

static bool write_part(const p4d_reading *r, p4d_option option, int64_t value, p4d_text *fix)
{
	const p4d_read_value *there = &r->value[option];

	if (option == P4D_OPTIONS || (option == P4D_ZERO_STAGE && there->file && there->argument))
		return true; /* p4d_guard__script_fix writes the place */
	return option == P4D_OFFLOAD ? write_offload(r, value, fix) : write_way(r, option, value, fix);
}

bool p4d_guard__script_way(const p4d_reading *r, const p4d_way *way, p4d_text *fix)
{
	if (way->option == P4D_FRAMEWORK)
		return write_sharding(r, way->value, 0, fix);
	if (way->also == P4D_FRAMEWORK)
		return write_sharding(r, way->more, way->value, fix);
	return write_part(r, way->option, way->value, fix) && write_part(r, way->also, way->more, fix);
}
