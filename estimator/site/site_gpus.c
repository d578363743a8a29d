/* SPDX-License-Identifier: Apache-2.0 */
/* The `gpu` sections of p4d.conf, which change the table of GPUs. */
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "site/site_internal.h"

#define fail(l, line, code, ...) p4d_conf__fail((l)->conf, line, (l)->err, P4D_E_CONF_##code, __VA_ARGS__)

enum { MOST_GIB = 4096 };
static const double GIB = 1073741824.0;

static int unknown(p4d_site_load_state *l, unsigned line, const char *name, const char *way)
{
	p4d_suggest alike = {.wanted = name};

	for (size_t i = 0; i < l->site->gpus.count; i++)
		p4d_suggest_offer(&alike, l->site->gpus.gpu[i].name);
	return fail(l, line, RANGE, "GPU `%.64s` is not in gpus.json%s%s", name, p4d_suggest_text(&alike),
		    way);
}

int p4d_site__find_gpu(p4d_site_load_state *l, unsigned line, const char *name, const p4d_gpu **gpu,
		       unsigned *ambiguous)
{
	*gpu = p4d_site_gpu(l->site, name, ambiguous);
	return *gpu ? 0 : unknown(l, line, name, "");
}

/* Name of the GPU that a section describes. */
static const char *name_of(const p4d_site_load_state *l, const p4d_conf_section *section, unsigned *line)
{
	*line = section->lines[P4D_KEY_NAME];
	if (*line)
		return p4d_conf__value(l->conf, section, P4D_KEY_NAME, 0);
	*line = section->line;
	return section->title;
}

/* Reads a compute capability: "7.5" is stored as 75. */
static int read_capability(p4d_site_load_state *l, const p4d_conf_section *section, int *sm)
{
	const unsigned line = section->lines[P4D_KEY_COMPUTE_CAPABILITY];
	const char *text = p4d_conf__value(l->conf, section, P4D_KEY_COMPUTE_CAPABILITY, 0);
	unsigned major = 0, minor = 0;
	int end = 0;

	*sm = 0;
	if (!line)
		return 0;
	if (sscanf(text, "%2u.%1u%n", &major, &minor, &end) != 2 || text[end] || text[0] < '0')
		return fail(l, line, SYNTAX, "compute_capability = %.64s: not like 8.0", text);
	*sm = (int)(10 * major + minor);
	return 0;
}

/*
 * Adds the GPU that a section describes. If the table already has a GPU of this name, p4d keeps the table's
 * row, because a later release of p4d may have added it.
 */
static int add_described(p4d_site_load_state *l, const p4d_conf_section *section)
{
	p4d_gpu gpu = {.status = "site"};
	unsigned line;
	const char *name = name_of(l, section, &line);
	double size;

	if (p4d_gpu_find(&l->site->gpus, name, NULL))
		return 0;
	if (p4d_site__is_pattern(name) || strlen(name) >= sizeof(gpu.name) || strpbrk(name, ", \t"))
		return fail(l, line, RANGE,
			    "GPU `%.64s`: a new GPU needs a `name` of less than %zu characters, "
			    "without blanks, commas and wildcards",
			    name, sizeof(gpu.name));
	if (p4d_site__read_number(l, section->lines[P4D_KEY_MEMORY_GIB], P4D_KEY_MEMORY_GIB,
				  p4d_conf__value(l->conf, section, P4D_KEY_MEMORY_GIB, 0), MOST_GIB,
				  &size) < 0 ||
	    read_capability(l, section, &gpu.sm) < 0)
		return -1;
	memcpy(gpu.name, name, strlen(name));
	snprintf(gpu.label, sizeof(gpu.label), "%s", name);
	snprintf(gpu.source, sizeof(gpu.source), "p4d.conf");
	gpu.usable_bytes = gpu.nominal_bytes = (uint64_t)(size * GIB);
	return p4d_gpus_add(&l->site->gpus, &gpu, l->err);
}

int p4d_site__add_gpus(p4d_site_load_state *l)
{
	for (size_t i = 1; i < l->conf->sections; i++) {
		const p4d_conf_section *section = &l->conf->section[i];
		const bool described = section->kind == P4D_GPU_SECTION && section->lines[P4D_KEY_MEMORY_GIB];
		const bool changed = section->kind == P4D_GPU_SECTION && section->lines[P4D_KEY_USABLE_GIB];
		if (!described && !changed && section->kind != P4D_FRAMEWORK_SECTION)
			continue;
		if (p4d_gpus_own(&l->site->gpus, l->err) < 0 || (described && add_described(l, section) < 0))
			return -1;
	}
	return 0;
}

/* The line that sets a GPU's memory, and the key on that line. */
static unsigned size_line(const p4d_conf_section *section, p4d_conf_key *key)
{
	*key = section->lines[P4D_KEY_USABLE_GIB] ? P4D_KEY_USABLE_GIB : P4D_KEY_MEMORY_GIB;
	return section->lines[*key];
}

static int fail_twice(p4d_site_load_state *l, const p4d_conf_section *from, const p4d_gpu *gpu)
{
	p4d_conf_key key;
	char place[240];
	const unsigned line = size_line(from, &key);

	for (const p4d_conf_section *other = &l->conf->section[1]; other < from; other++) {
		p4d_conf_key theirs;
		if (other->kind == P4D_GPU_SECTION && size_line(other, &theirs) &&
		    l->site->section[other - &l->conf->section[1]].gpu == gpu)
			return fail(
			    l, line, DUPLICATE, "%s of %s is set twice; the first is on %s",
			    p4d_conf__key_table[key].name, gpu->name,
			    p4d_conf__place(l->conf, size_line(other, &theirs), line, place, sizeof(place)));
	}
	return 0;
}

/* Upper bound of usable memory: the size of the board. */
static double most_gib(const p4d_gpu *gpu)
{
	const double sold = (double)gpu->nominal_bytes / 1e9, reported = (double)gpu->reported_bytes / GIB;

	if (!strcmp(gpu->status, "site"))
		return MOST_GIB;
	return sold > reported ? sold : reported;
}

static int read_size(p4d_site_load_state *l, const p4d_conf_section *from, const p4d_gpu *gpu)
{
	const p4d_gpus *gpus = &l->site->gpus;
	p4d_conf_key key;
	const unsigned line = size_line(from, &key);
	const char *text = line ? p4d_conf__value(l->conf, from, key, 0) : NULL;
	double size;

	if (!line)
		return 0;
	if (from->lines[P4D_KEY_USABLE_GIB] && from->lines[P4D_KEY_MEMORY_GIB])
		return fail(l, line, DUPLICATE, "usable_gib and memory_gib of %s: one of them is enough",
			    gpu->name);
	if (fail_twice(l, from, gpu) < 0 || p4d_site__read_number(l, line, key, text, 1 << 20, &size) < 0)
		return -1;
	if (size > most_gib(gpu))
		return fail(l, line, RANGE, "%s = %.64s: %s has %.6g GiB at most",
			    p4d_conf__key_table[key].name, text, gpu->name, most_gib(gpu));
	gpus->owned[gpu - gpus->gpu].usable_bytes = (uint64_t)(size * GIB);
	return 0;
}

int p4d_site__read_gpu_section(p4d_site_load_state *l, const p4d_conf_section *from, p4d_site_section *to)
{
	unsigned line;
	const char *name = name_of(l, from, &line);

	/* the title of the section being read must not resolve to the section itself */
	to->gpu = p4d_gpu_find(&l->site->gpus, name, &to->ambiguous);
	if (!to->gpu)
		return unknown(
		    l, line, name,
		    from->lines[P4D_KEY_USABLE_GIB]
			? "; to describe a GPU that p4d does not know, use memory_gib instead of usable_gib"
			: "; to describe a GPU that p4d does not know, add memory_gib = N");
	if (from->lines[P4D_KEY_NAME])
		to->ambiguous = 1; /* the site has named one GPU exactly */
	return read_size(l, from, to->gpu);
}
