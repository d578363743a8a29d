/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/gpu_table.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "request/fp8.h"

static bool ignored(char c)
{
	return c == '-' || c == '_' || c == ' ';
}

int p4d_gpus__compare(const char *name, const char *other, size_t length)
{
	const char *end = other + length;

	for (;;) {
		while (ignored(*name))
			name++;
		while (other < end && ignored(*other))
			other++;
		int a = tolower((unsigned char)*name),
		    b = other < end ? tolower((unsigned char)*other) : '\0';
		if (a != b || !a)
			return a - b;
		name++;
		other++;
	}
}

/*
 * Compares names. The first character decides in most cases, which matters because a job may name dozens of
 * GPUs, and each name is compared with all GPUs.
 */
static bool same_name(const char *name, const char *other, size_t length)
{
	if (length && !ignored(*name) && !ignored(*other) && ((*name ^ *other) & ~('a' - 'A')))
		return false;
	return p4d_gpus__compare(name, other, length) == 0;
}

static bool same_alias(const char *name, const char *aliases)
{
	for (const char *at = aliases; *at;) {
		const char *comma = strchr(at, ',');
		size_t length = comma ? (size_t)(comma - at) : strlen(at);
		if (same_name(name, at, length))
			return true;
		at += length + (comma != NULL);
	}
	return false;
}

bool p4d_gpu_is_named(const p4d_gpu *gpu, const char *name)
{
	return same_name(name, gpu->name, strlen(gpu->name)) || same_alias(name, gpu->aliases);
}

const p4d_gpu *p4d_gpu_find(const p4d_gpus *gpus, const char *name, unsigned *ambiguous)
{
	const p4d_gpu *least = NULL;
	unsigned candidates = 0;

	for (size_t i = 0; i < gpus->count; i++) {
		const p4d_gpu *gpu = &gpus->gpu[i];
		/* a GPU's own name is never ambiguous */
		if (same_name(name, gpu->name, strlen(gpu->name))) {
			least = gpu;
			candidates = 1;
			break;
		}
		if (!same_alias(name, gpu->aliases))
			continue;
		candidates++;
		if (!least || gpu->usable_bytes < least->usable_bytes)
			least = gpu;
	}
	if (least && ambiguous)
		*ambiguous = candidates;
	return least;
}

int p4d_gpu_lacks(const p4d_gpu *gpu, const char *precision)
{
	static const struct {
		const char *precision;
		int sm;
	} begins[] = {{"bf16", 80}, {"fp8", 89}};
	int sm = 0;

	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (!strcmp(precision, begins[i].precision))
			sm = begins[i].sm;
	for (int i = 0; i < P4D_FP8_RECIPES; i++)
		if (!strcmp(precision, p4d_fp8_recipes[i].name))
			sm = p4d_fp8_recipes[i].first_sm;
	return gpu->sm && gpu->sm < sm ? sm : 0;
}

const p4d_gpu_margin *p4d_gpu_margin_of(const p4d_gpu *gpu, int framework, int64_t model_code,
					int64_t precision)
{
	const p4d_gpu_margins *all = gpu ? gpu->margins : NULL;

	for (size_t i = 0; all && i < all->count; i++) {
		const p4d_gpu_margin *m = &all->margin[i];
		if (m->framework == framework && (m->model_code < 0 || m->model_code == model_code) &&
		    (m->precision < 0 || m->precision == precision) &&
		    (!m->gpu[0] || !strcmp(m->gpu, gpu->name)))
			return m;
	}
	return NULL;
}

bool p4d_gpu_is_mig(const p4d_gpu *gpu)
{
	/* in "3g.40gb", 3 is the number of compute slices, and 40gb the memory */
	for (const char *at = gpu->name; (at = strstr(at, "g.")); at++)
		if (at > gpu->name && isdigit((unsigned char)at[-1]) && isdigit((unsigned char)at[2]))
			return true;
	return false;
}

void p4d_gpus_free(p4d_gpus *gpus)
{
	free(gpus->owned);
	*gpus = (p4d_gpus){0};
}

void p4d_gpu_set_domain(const p4d_gpu *gpu, p4d_request *request)
{
	if (gpu && gpu->nvlink_domain)
		p4d_request_default(request, P4D_NVLINK_DOMAIN, gpu->nvlink_domain, P4D_BY_SITE);
}
