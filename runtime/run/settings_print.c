/* SPDX-License-Identifier: Apache-2.0 */
#include "run/settings_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "plan/plan_line.h"
#include "run/settings_internal.h"

enum { SOURCE_COLUMN = 40 };

/* Prints a text in quotes, as TOML requires. Returns its length. */
static int put_quoted(const char *text)
{
	int length = 2;

	putchar('"');
	for (const char *at = text; *at; at++) {
		if (*at == '"' || *at == '\\')
			length += printf("\\%c", *at);
		else if ((unsigned char)*at < ' ' || *at == 0x7f)
			length += printf("\\u%04x", (unsigned char)*at);
		else
			length += printf("%c", *at);
	}
	putchar('"');
	return length;
}

/* Prints a value: numbers without quotes, all others with quotes. */
static int put_value(const p4d_option_info *info, const char *text)
{
	if (info->kind == P4D_SWITCH_KIND)
		return printf("true");
	if (info->kind == P4D_INTEGER_KIND || info->kind == P4D_DECIMAL_KIND)
		return printf("%s", text);
	return put_quoted(text);
}

static void put_source(int length, const char *source)
{
	printf("%*s  # %s\n", length < SOURCE_COLUMN ? SOURCE_COLUMN - length : 0, "", source);
}

static const char *source_of(const p4d_settings *s, p4d_setting setting)
{
	switch (s->source[setting]) {
	case P4D_SETTING_TYPED:
		return "typed";
	case P4D_SETTING_FILE:
		return s->config;
	default:
		return "default";
	}
}

static void put_several(const p4d_settings *s, p4d_setting setting)
{
	const p4d_option_info *info = &p4d_settings__table[setting];
	int length = printf("%s = [", info->name);
	const char *text;

	for (size_t i = 0; i < info->size; i++) {
		memcpy(&text, (const char *)s + info->field + i * sizeof(text), sizeof(text));
		if (!text)
			break;
		length += printf(i ? ", " : "") + put_quoted(text);
	}
	put_source(length + printf("]"), source_of(s, setting));
}

/* Whether a setting has a value to print. */
static bool has_value(const p4d_settings *s, p4d_setting setting)
{
	const p4d_option_info *info = &p4d_settings__table[setting];
	const int64_t value = p4d_settings__get(s, setting);

	if (setting == P4D_SETTING_config || setting == P4D_SETTING_print_config ||
	    setting == P4D_SETTING_where || p4d_settings__lacks(s, setting) ||
	    (setting == P4D_SETTING_steps && s->epochs > 0))
		return false;
	switch (info->kind) {
	case P4D_TEXT_KIND:
	case P4D_SWITCH_KIND:
		return value != 0;
	case P4D_INTEGER_KIND:
		return value >= info->min && value <= info->max;
	case P4D_DECIMAL_KIND:
		return p4d_option_real(value) >= info->least && p4d_option_real(value) <= info->most;
	default:
		return value >= 0;
	}
}

static void put_setting(const p4d_settings *s, p4d_setting setting)
{
	const p4d_option_info *info = &p4d_settings__table[setting];
	char buf[64];
	const char *text = buf;
	int64_t value;

	if (!has_value(s, setting))
		return;
	if (info->kind == P4D_TEXT_KIND && info->size) {
		put_several(s, setting);
		return;
	}
	value = p4d_settings__get(s, setting);
	if (info->kind == P4D_TEXT_KIND)
		memcpy(&text, (const char *)s + info->field, sizeof(text));
	else
		p4d_option_text(info, value, buf, sizeof(buf));
	int length = printf("%s = ", info->name);
	length += put_value(info, text);
	put_source(length, source_of(s, setting));
}

static const char *origin_text(const p4d_settings *s, const p4d_request *r, bool planned, p4d_option option)
{
	static const char *const names[] = {[P4D_BY_USER] = "given",
					    [P4D_BY_SCRIPT] = "job script",
					    [P4D_BY_SITE] = "site",
					    [P4D_BY_MODEL] = "model",
					    [P4D_BY_P4D] = "chosen by p4d"};
	const p4d_option_info *info = p4d_request_option_info(option);

	if (p4d_is_set(&s->request, option) && s->request.origin[option] != P4D_BY_P4D)
		return s->in_file[option] ? s->config : "typed";
	if (option == P4D_DEVICE && s->where != P4D_DEVICE_AUTO)
		return source_of(s, P4D_SETTING_where);
	if (r->origin[option] == P4D_BY_P4D && info->number >= 0 && info->number == r->value[option])
		return "default";
	if (r->origin[option] == P4D_BY_USER && planned)
		return "given with the job";
	return names[r->origin[option]];
}

/*
 * Prints an option. As comments, it prints the sizes of a named model, and options that p4d-train does not
 * have.
 */
static void put_option(const p4d_settings *s, const p4d_request *r, bool planned, p4d_option option)
{
	const p4d_option_info *info = p4d_request_option_info(option);
	const bool given = p4d_is_set(&s->request, option);
	const bool ranks = option == P4D_NODES || option == P4D_GPUS_PER_NODE;
	char text[1024];

	if (!p4d_is_set(r, option) || (!p4d_settings__takes(option) && !ranks && option != P4D_DEVICE))
		return;
	const bool comment = ranks || (!given && (r->origin[option] == P4D_BY_MODEL || option == P4D_MODEL));
	p4d_request_value_text(r, option, text, sizeof(text));
	int length = printf("%s%s = ", comment ? "# " : "", info->name);
	length += put_value(info, text);
	put_source(length, ranks                           ? "the ranks that were started"
			   : !given && option == P4D_MODEL ? "of --init-from"
							   : origin_text(s, r, planned, option));
}

static int put_header(const p4d_settings *s, const p4d_job_plan *plan, p4d_request *placed, p4d_error *err)
{
	char digest[P4D_DIGEST_TEXT];

	if (p4d_plan_add_checksum(placed, &plan->layout, plan->gpu, err) < 0)
		return -1;
	p4d_plan_digest(placed, digest);
	printf("# p4d-train %s --config THIS-FILE trains this, on %" PRIu64 " rank%s.\n"
	       "# plan: digest %s, buffers %s\n\n",
	       PACKAGE_VERSION, plan->layout.world, plan->layout.world == 1 ? "" : "s", digest,
	       placed->arena);
	if (s->epochs > 0)
		printf("# %g epochs of %" PRIu64 " sequences: %" PRIu64 " steps of %" PRIu64 "\n", s->epochs,
		       s->epoch_samples, s->steps, plan->layout.global_batch);
	return 0;
}

int p4d_settings_print(const p4d_settings *settings, const p4d_job_plan *plan, p4d_error *err)
{
	p4d_request placed = plan->request;

	if (put_header(settings, plan, &placed, err) < 0)
		return -1;
	for (int i = 0; i < P4D_SETTINGS; i++)
		put_setting(settings, (p4d_setting)i);
	puts("\n# model and layout");
	for (int i = 0; i < P4D_OPTIONS; i++)
		put_option(settings, &placed, plan->planned, (p4d_option)i);
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	return p4d_fail(err, P4D_E_IO, "standard output: %m");
}
