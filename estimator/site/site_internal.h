/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/presets.h"
#include "site/conf.h"
#include "site/site.h"

/* Built by site_load.c and read by site.c; private to them. */

typedef struct p4d_site_section {
	p4d_conf_section_kind kind;
	char name[64];
	uint8_t length;  /* length of the name */
	bool is_pattern; /* the name has wildcards */
	uint64_t set;    /* bit mask of (1 << p4d_conf_key): the members of policy that the section sets */
	p4d_policy policy;
	p4d_site_partition partition; /* from a partition section */
	p4d_request *defaults;        /* from a partition section; NULL: none */
	const p4d_gpu *gpu;           /* from a gpu section */
	const char *program;          /* from a program section; owned by conf */
	unsigned ambiguous;
} p4d_site_section;

/* Whether a name (of a section or in a list) has wildcards. */
bool p4d_site__is_pattern(const char *name);

struct p4d_site {
	p4d_conf conf; /* the parsed file; zeroed if there is no file */
	char *datadir;
	p4d_gpus gpus;           /* the table of GPUs, with the usable_gib of gpu sections */
	p4d_gpu_margins margins; /* from framework sections; rows of the GPU table point to it */
	p4d_policy base;         /* values of keys that nobody set */
	p4d_site_section global; /* values of keys outside of sections */
	bool depends_on_gpus;    /* whether a plan is required depends on the job's GPUs */
	bool depends_on_accounts;
	p4d_log log;
	p4d_client_log client_log;
	p4d_admin_comment admin_comment;
	p4d_record_place record;
	const char *metrics; /* owned by conf; NULL: none */
	uint64_t host_bytes_per_rank;
	char *require_plan, *exempt_accounts, *exempt_qos, *exempt_users; /* comma-separated; NULL: none */
	p4d_request defaults;
	p4d_presets presets; /* empty until p4d_site_load_presets */
	size_t sections;
	p4d_site_section *section;
};

/* State while a p4d.conf is loaded. */
typedef struct p4d_site_load_state {
	const p4d_conf *conf;
	p4d_site *site;
	p4d_error *err;
} p4d_site_load_state;

/* A plain decimal number above 0 and up to max. Errors: CONF_SYNTAX, CONF_RANGE. */
int p4d_site__read_number(p4d_site_load_state *l, unsigned line, p4d_conf_key key, const char *text,
			  double max, double *out);

/* Resolves the name of a GPU, first by the `gpu` sections. Errors: CONF_RANGE. */
int p4d_site__find_gpu(p4d_site_load_state *l, unsigned line, const char *name, const p4d_gpu **gpu,
		       unsigned *ambiguous);

/*
 * Makes the table of GPUs writable if a section changes it. Adds the GPUs that sections describe with
 * memory_gib and that the table lacks. Call it before any pointer into the table exists.
 */
int p4d_site__add_gpus(p4d_site_load_state *l);

/* Loads all `framework` sections; the table of GPUs must be loaded. Errors: CONF_RANGE, NO_MEMORY. */
int p4d_site__read_margins(p4d_site_load_state *l);

/* Loads a `gpu` section without its policy. */
int p4d_site__read_gpu_section(p4d_site_load_state *l, const p4d_conf_section *from, p4d_site_section *to);
