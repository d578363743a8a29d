/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "account.h"
#include "pinned.h"
#include "settings.h"

enum { NAMES = 256, LONGEST = 480 /* maximum bytes of a reason */ };

typedef struct names {
	const char *name[NAMES];
	size_t count;
} names;

static _Atomic uint64_t counts[P4D_REPORT_COUNTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static names missing, doubts, unvalidated;
static uint64_t workspace;

void p4d_report_add(p4d_report_count count, uint64_t value)
{
	atomic_fetch_add_explicit(&counts[count], value, memory_order_relaxed);
}

void p4d_report_workspace(uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	if (bytes > workspace)
		workspace = bytes;
	pthread_mutex_unlock(&lock);
}

/* Adds a reason to a list. False: it is already there. */
static bool add_name(names *n, const char *name)
{
	size_t i = 0;

	pthread_mutex_lock(&lock);
	while (i < n->count && strcmp(n->name[i], name) != 0)
		i++;
	const bool is_new = i == n->count && i < NAMES;
	if (is_new)
		n->name[n->count++] = name;
	pthread_mutex_unlock(&lock);
	return is_new;
}

void p4d_report_missing(const char *name)
{
	if (add_name(&missing, name))
		p4d_report_add(P4D_REPORT_MISSING, 1);
}

void p4d_report_doubt(const char *doubt)
{
	add_name(&doubts, doubt);
}

ENTRY void p4d_report_unvalidated(const char *why)
{
	char *kept = strndup(why, LONGEST);

	if (!kept)
		return;
	for (char *c = kept; *c; c++)
		if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
			*c = '?'; /* may be part of a file's name */
	const bool is_new = add_name(&unvalidated, kept);
	if (!add_name(&doubts, kept) && !is_new)
		free(kept);
}

static void write_names(FILE *out, const char *member, const names *n)
{
	fprintf(out, ", \"%s\": [", member);
	for (size_t i = 0; i < n->count; i++)
		fprintf(out, "%s\"%s\"", i ? ", " : "", n->name[i]);
	fputc(']', out);
}

static void write_devices(FILE *out)
{
	const char *comma = "";

	fputs("{\"devices\": [", out);
	for (int i = 0; i < p4d_settings()->devices; i++) {
		uint64_t held, refused = p4d_account_refused(i, &held);
		if (!p4d_account_peak(i))
			continue;
		fprintf(out, "%s{\"device\": %d, \"peak_bytes\": %" PRIu64, comma, i, p4d_account_peak(i));
		if (refused)
			fprintf(out, ", \"refused_bytes\": %" PRIu64 ", \"held_bytes\": %" PRIu64, refused,
				held);
		fputc('}', out);
		comma = ", ";
	}
	fputc(']', out);
}

/* Names of counts in the report, in the order of p4d_report_count. */
static const char *const member[P4D_REPORT_COUNTS] = {"launches",
						      "products",
						      "flops",
						      "graphs",
						      "collectives",
						      "collective_bytes",
						      "unanswered",
						      "names_missing",
						      "flops_8",
						      "flops_tf32",
						      "flops_32",
						      "product_depth",
						      "product_bytes",
						      "allocations",
						      "freed",
						      "pinned_blocks",
						      "pinned_freed",
						      "streams",
						      "streams_ended",
						      "events",
						      "events_ended",
						      "communicators",
						      "communicators_ended",
						      "waits",
						      "questions",
						      "copies",
						      "plans"};

static void write_report(FILE *out)
{
	write_devices(out);
	fprintf(out, ", \"python\": %s", dlsym(RTLD_DEFAULT, "Py_IsInitialized") ? "true" : "false");
	fprintf(out, ", \"pinned_bytes\": %" PRIu64 ", \"managed_bytes\": %" PRIu64, p4d_pinned_peak(),
		p4d_pinned_managed_peak());
	for (int i = 0; i < P4D_REPORT_COUNTS; i++)
		fprintf(out, ", \"%s\": %" PRIu64, member[i], atomic_load(&counts[i]));
	pthread_mutex_lock(&lock);
	fprintf(out, ", \"workspace_bytes\": %" PRIu64, workspace);
	write_names(out, "missing", &missing);
	write_names(out, "doubts", &doubts);
	write_names(out, "unvalidated", &unvalidated);
	pthread_mutex_unlock(&lock);
	fputs("}\n", out);
}

ENTRY uint64_t p4d_report_count_of(int count)
{
	return count < 0 || count >= P4D_REPORT_COUNTS ? 0 : atomic_load(&counts[count]);
}

ENTRY int p4d_report_write(void)
{
	const char *path = p4d_settings()->report;

	if (!path)
		return 0;
	FILE *out = fopen(path, "we");
	if (!out)
		return -1;
	write_report(out);
	return fclose(out) ? -1 : 0;
}

/* Writes the report at the end. A process that never used a device (a shell, a helper) writes none. */
__attribute__((destructor)) static void write_at_end(void)
{
	for (int i = 0; i < p4d_settings()->devices; i++)
		if (p4d_account_peak(i)) {
			p4d_report_write();
			return;
		}
}
