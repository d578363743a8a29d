/* SPDX-License-Identifier: Apache-2.0 */
#include "job_environment.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "job/export.h"

#define OPTION_PREFIX "_SLURM_SPANK_OPTION_p4d_p4d_"
#define COPY_PREFIX "SLURM_SPANK_"

const char *p4d_environment_option_variable(p4d_option option, char *buf, size_t size)
{
	snprintf(buf, size, "%s%s", OPTION_PREFIX, p4d_request_option_info(option)->name);
	for (char *at = buf; *at; at++)
		if (!isalnum((unsigned char)*at))
			*at = '_';
	return buf;
}

static int option_of(const char *name, size_t length)
{
	char buf[64];

	if (length >= sizeof(buf))
		return -1;
	memcpy(buf, name, length);
	buf[length] = '\0';
	int option = p4d_request_option_find(buf);
	return option >= 0 && (p4d_request_option_info((p4d_option)option)->where & P4D_WHERE_SLURM) ? option
												     : -1;
}

static int output_of(const char *name, size_t length)
{
	const char *output;

	for (int i = 0; i < P4D_ENVIRONMENT_EXPORTS && (output = p4d_export_name((size_t)i)); i++)
		if (output[4] == name[4] && !strncmp(output, name, length) && !output[length])
			return i; /* All names begin with P4D_; most comparisons end there. */
	int option = option_of(name + strlen("P4D_"), length - strlen("P4D_"));
	return option >= 0 ? P4D_ENVIRONMENT_EXPORTS + option : -1;
}

/* The name of an output, such as "P4D_TP". */
static const char *output_name(int index, char *buf, size_t size)
{
	if (index < P4D_ENVIRONMENT_EXPORTS) {
		snprintf(buf, size, "%s", p4d_export_name((size_t)index));
		return buf;
	}
	snprintf(buf, size, "P4D_%s",
		 p4d_request_option_info((p4d_option)(index - P4D_ENVIRONMENT_EXPORTS))->name);
	for (char *at = buf; *at; at++)
		*at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
	return buf;
}

p4d_environment_entry p4d_environment_entry_of(const char *text)
{
	p4d_environment_entry entry = {.kind = P4D_ENTRY_OTHER};
	const char *name = text;

	/* most variables have another first letter */
	if (*name != 'P' && *name != 'S' && *name != '_')
		return entry;
	if (!strncmp(name, COPY_PREFIX, sizeof(COPY_PREFIX) - 1)) {
		entry.prefixed = true;
		name += sizeof(COPY_PREFIX) - 1;
	}
	bool option = !strncmp(name, OPTION_PREFIX, sizeof(OPTION_PREFIX) - 1);
	entry.named = option || !strncmp(name, "P4D_", 4);
	const char *equals = entry.named ? strchr(name, '=') : NULL;
	if (!equals)
		return entry;
	if (option) {
		name += sizeof(OPTION_PREFIX) - 1;
		entry.index = option_of(name, (size_t)(equals - name));
		if (entry.index >= 0)
			entry.kind = P4D_ENTRY_OPTION;
	} else {
		entry.index = output_of(name, (size_t)(equals - name));
		if (entry.index >= 0)
			entry.kind = P4D_ENTRY_OUTPUT;
		else if (!strncmp(name, P4D_EXPORT_VERDICT "=", sizeof(P4D_EXPORT_VERDICT)))
			entry.kind = P4D_ENTRY_NOTE;
	}
	entry.value = equals + 1;
	return entry;
}

static const char *entry_name(const p4d_environment_entry *entry, char *buf, size_t size)
{
	if (entry->kind == P4D_ENTRY_OUTPUT)
		return output_name(entry->index, buf, size);
	snprintf(buf, size, "--p4d-%s", p4d_request_option_info((p4d_option)entry->index)->name);
	return buf;
}

static void keep(p4d_environment *env, const char **slot, unsigned *count, const p4d_environment_entry *entry)
{
	char name[80];

	if (!*slot) {
		*slot = entry->value;
		++*count;
	} else if (strcmp(*slot, entry->value) && !env->conflict.code) {
		p4d_fail(&env->conflict, P4D_E_PLAN_CHANGED,
			 "the job has conflicting values of %s: \"%.64s\" and \"%.64s\"",
			 entry_name(entry, name, sizeof(name)), *slot, entry->value);
		p4d_fix(&env->conflict,
			"unset P4D_PLAN and submit with sbatch, salloc or srun and --p4d- options only");
	}
}

void p4d_environment_scan(p4d_environment *env, char *const *environment, size_t count)
{
	unsigned named = 0;

	for (size_t i = 0; environment && i < count && i < P4D_ENVIRONMENT_SIZE; i++) {
		if (!environment[i])
			continue;
		p4d_environment_entry entry = p4d_environment_entry_of(environment[i]);
		if (entry.named && ++named > P4D_ENVIRONMENT_MOST)
			return;
		if (entry.kind == P4D_ENTRY_NOTE) {
			env->note = env->note ? env->note : entry.value;
		} else if (entry.kind == P4D_ENTRY_OUTPUT) {
			keep(env, &env->output[entry.index], &env->outputs, &entry);
		} else if (entry.kind == P4D_ENTRY_OPTION) {
			const p4d_option_info *info = p4d_request_option_info((p4d_option)entry.index);
			/* Slurm writes a switch as "" in one place and as "(null)" in another */
			if (info->kind == P4D_SWITCH_KIND)
				entry.value = "on";
			keep(env, &env->option[entry.index], &env->options, &entry);
		}
	}
}

int p4d_environment_request(const p4d_environment *env, p4d_request *request, p4d_error *err)
{
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (env->option[i] &&
		    p4d_request_set(request, (p4d_option)i, env->option[i], P4D_BY_USER, err) < 0)
			return -1;
	return 0;
}
