/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `framework` sections of p4d.conf: memory overheads that a site measured. Their title is a framework, or
 * FRAMEWORK/MODEL-CODE/PRECISION/GPU, where parts may be "*" or missing at the end.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "site/site_internal.h"

#define fail(l, line, code, ...) p4d_conf__fail((l)->conf, line, (l)->err, P4D_E_CONF_##code, __VA_ARGS__)

enum { MOST_RESERVE_GIB = 64, PARTS = 4 };
static const double GIB = 1073741824.0;

/* Splits the title at its slashes. A missing part becomes "*". -1: there are too many parts. */
static int split(char *title, const char *part[PARTS])
{
	int count = 0;

	for (char *at = title; at; count++) {
		char *slash = strchr(at, '/');
		if (count == PARTS)
			return -1;
		if (slash)
			*slash++ = '\0';
		part[count] = at;
		at = slash;
	}
	while (count < PARTS)
		part[count++] = "*";
	return 0;
}

static bool is_any(const char *part)
{
	return !strcmp(part, "*");
}

/* The value of an option for a part of the title; -1: any. */
static int read_part(p4d_site_load_state *l, const p4d_conf_section *from, p4d_option option,
		     const char *text, int64_t *value)
{
	static const char prefix[] = "--p4d-";
	p4d_request probe = {.model = ""};
	p4d_error local;

	*value = -1;
	if (is_any(text))
		return 0;
	if (p4d_request_set(&probe, option, text, P4D_BY_SITE, &local) < 0)
		return fail(l, from->line, RANGE, "framework `%s`: %s", from->title,
			    local.text + (strncmp(local.text, prefix, strlen(prefix)) ? 0 : strlen(prefix)));
	*value = probe.value[option];
	return 0;
}

static int read_title(p4d_site_load_state *l, const p4d_conf_section *from, p4d_gpu_margin *margin)
{
	char title[sizeof(from->title)];
	const char *part[PARTS];
	const p4d_gpu *gpu;
	int64_t framework;

	memcpy(title, from->title, sizeof(title));
	if (split(title, part) < 0 || is_any(part[0]))
		return fail(l, from->line, RANGE,
			    "framework `%s`: not FRAMEWORK or FRAMEWORK/MODEL-CODE/PRECISION/GPU",
			    from->title);
	if (read_part(l, from, P4D_FRAMEWORK, part[0], &framework) < 0 ||
	    read_part(l, from, P4D_MODEL_CODE, part[1], &margin->model_code) < 0 ||
	    read_part(l, from, P4D_PRECISION, part[2], &margin->precision) < 0)
		return -1;
	margin->framework = (int)framework;
	if (is_any(part[3]))
		return 0;
	if (p4d_site__find_gpu(l, from->line, part[3], &gpu, NULL) < 0)
		return -1;
	memcpy(margin->gpu, gpu->name, sizeof(margin->gpu));
	return 0;
}

static int read_value(p4d_site_load_state *l, const p4d_conf_section *from, p4d_conf_key key, double most,
		      double *value)
{
	*value = 0;
	return from->lines[key]
		   ? p4d_site__read_number(l, from->lines[key], key,
					   p4d_conf__value(l->conf, from, (int)key, 0), most, value)
		   : 0;
}

static int read_margin(p4d_site_load_state *l, const p4d_conf_section *from, p4d_gpu_margin *margin)
{
	double reserve, fragmentation;

	if (read_title(l, from, margin) < 0 ||
	    read_value(l, from, P4D_KEY_RESERVE_GIB, MOST_RESERVE_GIB, &reserve) < 0 ||
	    read_value(l, from, P4D_KEY_FRAGMENTATION, 1, &fragmentation) < 0)
		return -1;
	margin->reserve_bytes = (uint64_t)(reserve * GIB);
	margin->fragmentation = (unsigned)lround(1000 * fragmentation);
	return 0;
}

/* Number of parts of the title that are not "*". */
static int named(const p4d_gpu_margin *m)
{
	return (m->model_code >= 0) + (m->precision >= 0) + !!m->gpu[0];
}

/* Inserts a margin after those that have at least as many given parts. */
static void insert(p4d_gpu_margins *all, const p4d_gpu_margin *margin)
{
	size_t at = all->count++;

	for (; at && named(&all->margin[at - 1]) < named(margin); at--)
		all->margin[at] = all->margin[at - 1];
	all->margin[at] = *margin;
}

int p4d_site__read_margins(p4d_site_load_state *l)
{
	p4d_gpu_margins *all = &l->site->margins;

	for (size_t i = 1; i < l->conf->sections; i++) {
		const p4d_conf_section *from = &l->conf->section[i];
		p4d_gpu_margin margin = {.reserve_bytes = 0};
		if (from->kind != P4D_FRAMEWORK_SECTION)
			continue;
		if (!all->margin && !(all->margin = calloc(l->conf->sections, sizeof(*all->margin))))
			return p4d_fail(l->err, P4D_E_NO_MEMORY, "no memory for framework sections");
		if (read_margin(l, from, &margin) < 0)
			return -1;
		insert(all, &margin);
	}
	for (size_t i = 0; all->count && i < l->site->gpus.count; i++)
		l->site->gpus.owned[i].margins = all;
	return 0;
}
