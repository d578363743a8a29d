/* SPDX-License-Identifier: Apache-2.0 */
#include "request/request.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/choice.h"
#include "base/text.h"
#include "request/heeds.h"

#define ARCHITECTURE(id, name, ...) "|" name
enum {
	ARCHITECTURES_SIZE = sizeof(
#include "request/architectures.def"
	    )
};
#define PROGRAM(name, reader, kind) "|" name
enum {
	PROGRAMS_SIZE = sizeof(
#include "request/programs.def"
	    )
};

/* The options and, after them in memory, the lists of choices that are too long for a row. */
typedef struct option_table {
	p4d_option_info option[P4D_OPTIONS];
	char architectures[ARCHITECTURES_SIZE];
	char programs[PROGRAMS_SIZE];
} option_table;

/* The words of the column that names programs and workloads. */
enum {
#define WORD(name) name = P4D_HEEDS_##name
	WORD(P4DTRAIN),
	WORD(MEGATRON),
	WORD(TORCHTITAN),
	WORD(FSDP),
	WORD(DEEPSPEED),
	WORD(DDP),
	WORD(SPLIT),
	WORD(MODULES),
	WORD(PYTORCH),
	WORD(TRAIN),
	WORD(SERVE),
	WORD(RL),
	WORD(PREFERENCE),
	WORD(ALL),
	WORD(JOB)
#undef WORD
};
#define S P4D_WHERE_SLURM
#define C P4D_WHERE_COMMAND
#define P P4D_WHERE_PLAN
#define M P4D_WHERE_MODEL
#define O P4D_WHERE_OPTIONAL
#define LIST(id, member) (offsetof(option_table, member) - offsetof(option_table, option[P4D_##id]))
static const option_table rows = {
    .option =
	{
#define INTEGER(id, name, argument, low, high, where, by, otherwise, help) \
	[P4D_##id] = {name,        argument,   help,        P4D_INTEGER_KIND,   where, \
		      .heeds = by, .min = low, .max = high, .number = otherwise},
#define DECIMAL(id, name, argument, low, high, where, by, help) \
	[P4D_##id] = {name, argument, help, P4D_DECIMAL_KIND, where, .heeds = by, .least = low, .most = high},
#define CHOICE(id, name, list, where, by, otherwise, help) \
	[P4D_##id] = {name, \
		      list, \
		      help, \
		      P4D_CHOICE_KIND, \
		      where, \
		      .heeds = by, \
		      .number = otherwise, \
		      .choices = sizeof(list) > 1          ? 0 \
				 : P4D_##id == P4D_PROGRAM ? LIST(id, programs) \
							   : LIST(id, architectures)},
#define TEXT(id, name, argument, member, where, by, help) \
	[P4D_##id] = {name, \
		      argument, \
		      help, \
		      P4D_TEXT_KIND, \
		      where, \
		      .heeds = by, \
		      .field = offsetof(p4d_request, member), \
		      .size = sizeof(((p4d_request *)0)->member)},
#define SWITCH(id, name, where, by, help) [P4D_##id] = {name, "", help, P4D_SWITCH_KIND, where, .heeds = by},
#include "request/options.def"
#undef INTEGER
#undef DECIMAL
#undef CHOICE
#undef TEXT
#undef SWITCH
	},
    .architectures =
#include "request/architectures.def"
	,
    .programs =
#include "request/programs.def"
	,
};
static const p4d_option_info *const table = rows.option;
/* the compiler accepts an initializer that fills the array without room for a NUL */
#define FITS(a, b, c) \
	_Static_assert(sizeof(a) <= sizeof(table->name) && sizeof(b) <= sizeof(table->argument) && \
			   sizeof(c) <= sizeof(table->help), \
		       a);
#define INTEGER(id, name, argument, low, high, where, by, otherwise, help) FITS(name, argument, help)
#define DECIMAL(id, name, argument, low, high, where, by, help) FITS(name, argument, help)
#define CHOICE(id, name, list, where, by, otherwise, help) FITS(name, list, help)
#define TEXT(id, name, argument, member, where, by, help) FITS(name, argument, help)
#define SWITCH(id, name, where, by, help) FITS(name, "", help)
#include "request/options.def"
#undef INTEGER
#undef DECIMAL
#undef CHOICE
#undef TEXT
#undef SWITCH
#undef FITS
#undef S
#undef C
#undef P
#undef M
#undef O

const p4d_option_info *p4d_request_option_info(p4d_option option)
{
	return &table[option];
}

_Static_assert((P4D_BY_USER ^ P4D_BY_SCRIPT) == 3 && P4D_BY_SITE == 3 && P4D_BY_MODEL == 4 && P4D_BY_P4D == 5,
	       "stated: one of the last two bits of an origin, and not the third");

p4d_option p4d_request_next_stated(const p4d_request *r, p4d_option from)
{
	unsigned option = from;
	uint64_t eight;

	while (option < P4D_OPTIONS && !p4d_is_stated(r, (p4d_option)option)) {
		option++;
		for (; option + sizeof(eight) <= P4D_OPTIONS; option += (unsigned)sizeof(eight)) {
			memcpy(&eight, r->origin + option, sizeof(eight));
			if ((eight ^ eight >> 1) & ~(eight >> 2) & UINT64_C(0x0101010101010101))
				break;
		}
	}
	return (p4d_option)option;
}

const char *p4d_request_heeded_by(p4d_option option, char *buf, size_t size)
{
#define OF(id, name, variable) {#name, P4D_HEEDS_OF(P4D_FRAMEWORK_##id)},
	static const struct {
		const char *name;
		unsigned heeds;
	} who[] = {P4D_FRAMEWORK_LIST(OF){"serve", SERVE}, {"rl", RL}, {"preference", PREFERENCE}};
#undef OF
	const unsigned heeds = table[option].heeds;
	const bool all = heeds & JOB || table[option].where & P4D_WHERE_MODEL || (heeds & TRAIN) == TRAIN;
	p4d_text text = p4d_text_in(buf, size);

	for (size_t i = 0; i < sizeof(who) / sizeof(*who) && !all; i++)
		if (heeds & who[i].heeds)
			p4d_text_entry(&text, ", ", "%s", who[i].name);
	return buf;
}

const char *p4d_request_help(p4d_option option, char buf[P4D_HELP_TEXT])
{
	char by[64];

	p4d_request_heeded_by(option, by, sizeof(by));
	snprintf(buf, P4D_HELP_TEXT, *by ? "%s (%s)" : "%s", table[option].help, by);
	return buf;
}

int p4d_request_option_find(const char *name)
{
	return p4d_option_find(table, P4D_OPTIONS, name);
}

const char *p4d_request_variable(const char *prefix, p4d_option option, char *buf, size_t size)
{
	snprintf(buf, size, "%s_P4D_%s", prefix, table[option].name);
	for (char *at = buf; *at; at++)
		*at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
	return buf;
}

const char *p4d_request_choice_name(p4d_option option, int64_t value, char *buf, size_t size)
{
	return p4d_choice_name(p4d_option_choices(&table[option]), (int)value, buf, size);
}

static const char *text_of(const p4d_request *request, p4d_option option)
{
	return (const char *)request + table[option].field;
}

const char *p4d_request_value_text(const p4d_request *request, p4d_option option, char *buf, size_t size)
{
	if (table[option].kind != P4D_TEXT_KIND)
		return p4d_option_text(&table[option], request->value[option], buf, size);
	p4d_text text = p4d_text_in(buf, size);
	p4d_text_add(&text, text_of(request, option));
	return buf;
}

int p4d_request_parse(p4d_option option, const char *prefix, const char *text, int64_t *value, p4d_error *err)
{
	if (option == P4D_OPTIMIZER_SHARDING && !strcasecmp(text, "on"))
		text = "states";
	if (option == P4D_LORA_DROPOUT) /* "on" is the default of TRL, ms-swift and LitGPT */
		text = !strcasecmp(text, "on") ? "0.05" : !strcasecmp(text, "off") ? "0" : text;
	/* values of earlier releases: the Trainer without FSDP or DeepSpeed is DDP */
	static const struct {
		const char *word, *name;
	} called[] = {{"hf", "ddp"},          {"trainer", "ddp"},     {"transformers", "ddp"},
		      {"huggingface", "ddp"}, {"trl", "ddp"},         {"megatron-lm", "megatron"},
		      {"mcore", "megatron"},  {"torchtitan", "fsdp"}, {"fsdp2", "fsdp"},
		      {"zero", "deepspeed"},  {"p4d-train", "p4d"}};
	for (size_t i = 0; option == P4D_FRAMEWORK && i < sizeof(called) / sizeof(*called); i++)
		if (!strcasecmp(text, called[i].word))
			text = called[i].name;
	return p4d_option_parse(&table[option], prefix, text, value, err);
}

int p4d_request_set(p4d_request *request, p4d_option option, const char *text, p4d_origin origin,
		    p4d_error *err)
{
	const p4d_option_info *info = &table[option];
	int64_t value;

	if (p4d_request_parse(option, "--p4d-", text, &value, err) < 0)
		return -1;
	if (info->kind == P4D_TEXT_KIND)
		memcpy((char *)request + info->field, text, strlen(text) + 1);
	p4d_request_put(request, option, value, origin);
	return 0;
}

int p4d_request_set_typed(p4d_request *request, p4d_option option, const char *text, p4d_error *err)
{
	char first[256], second[256];
	const bool again = p4d_is_set(request, option);

	p4d_request_value_text(request, option, first, sizeof(first));
	if (p4d_request_set(request, option, text, P4D_BY_USER, err) < 0) {
		if (err)
			p4d_request_without_prefix(err->text);
		return -1;
	}
	p4d_request_value_text(request, option, second, sizeof(second));
	return again ? p4d_option_twice(table[option].name, first, second, err) : 0;
}

void p4d_request_put(p4d_request *request, p4d_option option, int64_t value, p4d_origin origin)
{
	request->value[option] = value;
	request->origin[option] = (uint8_t)origin;
}

void p4d_request_default(p4d_request *request, p4d_option option, int64_t value, p4d_origin origin)
{
	if (!p4d_is_set(request, option))
		p4d_request_put(request, option, value, origin);
}

void p4d_request_put_real(p4d_request *request, p4d_option option, double value, p4d_origin origin)
{
	p4d_request_put(request, option, p4d_option_bits(value), origin);
}

double p4d_request_real(const p4d_request *request, p4d_option option)
{
	return p4d_option_real(request->value[option]);
}

void p4d_request_inherit(p4d_request *request, const p4d_request *from, p4d_option option, p4d_origin origin)
{
	const p4d_option_info *info = &table[option];

	if (p4d_is_set(request, option) || !p4d_is_set(from, option))
		return;
	if (info->kind == P4D_TEXT_KIND)
		memcpy((char *)request + info->field, text_of(from, option), info->size);
	p4d_request_put(request, option, from->value[option], origin);
}

void p4d_request_without_prefix(char *text)
{
	for (char *at = text; (at = strstr(at, "--p4d-"));)
		memmove(at + 2, at + 6, strlen(at + 6) + 1);
}

bool p4d_request_any(const p4d_request *request)
{
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (request->origin[i] == P4D_BY_USER && (table[i].where & P4D_WHERE_SLURM))
			return true;
	return false;
}

size_t p4d_request_flags(const p4d_request *request, const char *prefix, unsigned only, char *buf,
			 size_t size)
{
	p4d_text text = p4d_text_in(buf, size);
	char value[1024];

	for (int i = 0; i < P4D_OPTIONS; i++) {
		p4d_origin origin = (p4d_origin)request->origin[i];
		if (origin == P4D_UNSET || !(only & (1u << origin)) || !(table[i].where & P4D_WHERE_SLURM))
			continue;
		if ((table[i].where & P4D_WHERE_MODEL) && origin != P4D_BY_USER)
			continue;
		p4d_request_value_text(request, (p4d_option)i, value, sizeof(value));
		const bool is_switch = table[i].kind == P4D_SWITCH_KIND;
		p4d_text_entry(&text, " ", "%s%s%s%s", prefix, table[i].name, is_switch ? "" : "=",
			       is_switch ? "" : value);
	}
	return text.length;
}
