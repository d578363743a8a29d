/* SPDX-License-Identifier: Apache-2.0 */
#include "accounting/accounting.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "accounting/accounting_internal.h"
#include "accounting/sacct.h"

enum { HELP_BYTES = 1 << 16 };

/* The release in sacct's version text: "slurm-wlm 22.05.8", "slurm 24.11.5". */
static unsigned release_of(const char *version)
{
	const char *digit = version + strcspn(version, "0123456789");
	unsigned year, month;

	return sscanf(digit, "%2u.%2u", &year, &month) == 2 ? year * 100 + month : 0;
}

p4d_accounting *p4d_accounting_open(p4d_error *err)
{
	char *version = p4d_sacct__output((const char *const[]){"sacct", "--version", NULL}, HELP_BYTES, err);
	char *fields =
	    version ? p4d_sacct__output((const char *const[]){"sacct", "--helpformat", NULL}, HELP_BYTES, err)
		    : NULL;
	p4d_accounting *a = fields ? calloc(1, sizeof(*a)) : NULL;

	if (a) {
		*a = (p4d_accounting){release_of(version), fields};
	} else {
		if (fields)
			p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the fields of sacct");
		free(fields);
	}
	free(version);
	return a;
}

void p4d_accounting_close(p4d_accounting *accounting)
{
	if (accounting)
		free(accounting->fields);
	free(accounting);
}

unsigned p4d_accounting_release(const p4d_accounting *accounting)
{
	return accounting->release;
}

bool p4d_accounting_has(const p4d_accounting *accounting, const char *field)
{
	const size_t length = strlen(field);

	for (const char *at = accounting->fields; *at;) {
		at += strspn(at, " \t\r\n");
		const size_t word = strcspn(at, " \t\r\n");
		if (word == length && !strncasecmp(at, field, length))
			return true;
		at += word;
	}
	return false;
}

double p4d_accounting_gpu_hours(const p4d_accounting_job *job)
{
	return job->start ? (double)job->elapsed_s * job->gpus / 3600 : 0;
}

/* Reads a size such as "61.2G". */
static bool read_size(const char *text, uint64_t unit, uint64_t *number)
{
	static const char suffixes[] = "KMGTPE";
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	const double value = strtod(text, &end);
	const char *suffix = *end ? strchr(suffixes, toupper((unsigned char)*end)) : NULL;
	double scale = suffix ? 1024 : (double)unit;
	for (ptrdiff_t i = suffix ? suffix - suffixes : 0; i > 0; i--)
		scale *= 1024;
	if (value * scale >= 0x1p63 || (*end && *end != ',' && !suffix))
		return false;
	*number = (uint64_t)(value * scale);
	return true;
}

bool p4d_accounting_tres(const char *text, const char *name, uint64_t unit, uint64_t *number)
{
	const size_t length = strlen(name);

	for (; *text; text += *text == ',') {
		if (!strncmp(text, name, length) && text[length] == '=')
			return read_size(text + length + 1, unit, number);
		text += strcspn(text, ",");
	}
	return false;
}

/*
 * Whether a number can be the memory of a GPU. Sites report impossible numbers for GPUs that they do not
 * measure.
 */
static bool is_possible(uint64_t bytes)
{
	return bytes && bytes < (uint64_t)1 << 40;
}

static uint64_t memory_of(const p4d_accounting *a, const p4d_accounting_step *step,
			  p4d_accounting_measured *how)
{
	enum { SUMS = 2405 }; /* from this release on, a task's number is the sum over its GPUs */

	*how = P4D_MEASURED_NOT;
	if (!step->gpus || !step->tasks)
		return 0;
	const bool of_gpu = step->tasks >= step->gpus;
	const bool last = !of_gpu && a->release < SUMS;
	const double each =
	    of_gpu || last ? (double)step->most_bytes : (double)step->most_bytes * step->tasks / step->gpus;
	if (each >= 0x1p40 || !is_possible((uint64_t)each))
		return 0;
	*how = of_gpu ? P4D_MEASURED_GPU : last ? P4D_MEASURED_LAST : P4D_MEASURED_MEAN;
	return (uint64_t)each;
}

uint64_t p4d_accounting_gpu_memory(const p4d_accounting *a, const p4d_accounting_job *job,
				   p4d_accounting_measured *how)
{
	uint64_t most = 0;

	*how = P4D_MEASURED_NOT;
	for (size_t i = 0; i < job->steps; i++) {
		p4d_accounting_measured by;
		const uint64_t bytes = memory_of(a, &job->step[i], &by);
		if (bytes > most) {
			most = bytes;
			*how = by;
		}
	}
	return most;
}
