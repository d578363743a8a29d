/* SPDX-License-Identifier: Apache-2.0 */
#include "spank_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job_environment.h"
#include "spank_named.h"

enum { NAME_MAX_BYTES = 128 };

static p4d_given given;

/* The values that Slurm's option variables had when the program started. */
static char *inherited[P4D_OPTIONS];

/*
 * After the first component of a heterogeneous job, Slurm's own variables are gone, or contain that
 * component's options.
 */
static bool later_component, restored;

/* "SLURM_SPANK__SLURM_SPANK_OPTION_p4d_p4d_tp": the variable from which Slurm reads option tp. */
static const char *input_variable(p4d_option option, char *buf, size_t size)
{
	char variable[NAME_MAX_BYTES];

	snprintf(buf, size, "SLURM_SPANK_%s",
		 p4d_environment_option_variable(option, variable, sizeof(variable)));
	return buf;
}

static int keep(char **slot, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		return -1;
	free(*slot);
	*slot = copy;
	return 0;
}

/* Restores the variables with which the program was started. */
static void restore_environment(void)
{
	char name[NAME_MAX_BYTES];

	for (int i = 0; i < P4D_OPTIONS; i++)
		if (inherited[i])
			setenv(input_variable((p4d_option)i, name, sizeof(name)), inherited[i], 1);
	restored = true;
}

static int given_option(int option, const char *text, int remote)
{
	char name[NAME_MAX_BYTES];

	/* for a variable, Slurm passes the environment's own string; for #SBATCH and the command line it
	 * does not */
	const bool from_environment =
	    !remote && text && text == getenv(input_variable((p4d_option)option, name, sizeof(name)));
	if (from_environment && later_component) {
		text = inherited[option];
		if (!text)
			return 0;
	}
	/* the option is from an #SBATCH line; the environment has priority, and Slurm reads it next */
	if (later_component && !restored && spank_context() == S_CTX_ALLOCATOR)
		restore_environment();
	given.from_environment[option] = from_environment;
	return keep(&given.text[option], text ? text : "");
}

int p4d_options_register(spank_t spank)
{
	char name[64], help[P4D_HELP_TEXT];
	bool named[P4D_OPTIONS] = {false};
	const bool all = spank_context() == S_CTX_REMOTE || !p4d_spank_named(named);

	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		if (!(info->where & P4D_WHERE_SLURM) || !(all || named[i] || inherited[i]))
			continue;
		snprintf(name, sizeof(name), "p4d-%s", info->name);
		struct spank_option option = {
		    .name = name,
		    .arginfo = (char *)p4d_option_argument(info),
		    .usage = (char *)p4d_request_help((p4d_option)i, help),
		    .has_arg = info->kind != P4D_SWITCH_KIND,
		    .val = i,
		    .cb = given_option,
		};
		if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
			return -1;
	}
	return 0;
}

/* The option that "SBATCH_P4D_TP=8" sets; -1: another variable, or an empty one, which counts as unset. */
static int option_of_source(const char *entry)
{
	size_t prefix = given.prefix ? strlen(given.prefix) : 0;
	char name[NAME_MAX_BYTES];

	if (!prefix || strncmp(entry, given.prefix, prefix) != 0 || strncmp(entry + prefix, "_P4D_", 5) != 0)
		return -1;
	entry += prefix + 5;
	size_t length = strcspn(entry, "=");
	if (length >= sizeof(name) || entry[length] != '=' || !entry[length + 1])
		return -1;
	memcpy(name, entry, length);
	name[length] = '\0';
	int option = p4d_request_option_find(name);
	return option >= 0 && (p4d_request_option_info((p4d_option)option)->where & P4D_WHERE_SLURM) ? option
												     : -1;
}

void p4d_options_add_defaults(const char *prefix)
{
	given.prefix = prefix;
	for (char **at = environ; at && *at; at++) {
		int option = option_of_source(*at);
		if (option < 0 || given.text[option])
			continue;
		keep(&given.text[option], strchr(*at, '=') + 1);
		given.from_environment[option] = true;
	}
}

void p4d_options_from_environment(const char *prefix)
{
	given.prefix = prefix;
	for (char **at = environ; at && *at; at++) {
		p4d_environment_entry entry = p4d_environment_entry_of(*at);
		if (entry.kind == P4D_ENTRY_OPTION && entry.prefixed && !inherited[entry.index])
			keep(&inherited[entry.index], entry.value);
		int option = option_of_source(*at);
		if (option >= 0)
			keep(&inherited[option], strchr(*at, '=') + 1);
	}
	restore_environment(); /* not earlier, because setenv moves the environment */
}

const p4d_given *p4d_options_given(void)
{
	return &given;
}

void p4d_options_reset(void)
{
	for (int i = 0; i < P4D_OPTIONS; i++) {
		keep(&given.text[i], inherited[i]);
		given.from_environment[i] = inherited[i];
	}
	later_component = true;
	restored = false;
}

void p4d_options_clean_environment(spank_t spank)
{
	/* all components of srun share one environment, in which an earlier component's plan is still
	 * needed */
	bool keep_outputs = spank && later_component && spank_context() == S_CTX_LOCAL;
	char name[NAME_MAX_BYTES];

	if (!keep_outputs) {
		unsetenv(P4D_JOB_KEY);
		unsetenv("SLURM_SPANK_" P4D_JOB_KEY);
		if (spank)
			spank_job_control_unsetenv(spank, P4D_JOB_KEY);
	}
	for (char **at = environ; at && *at;) {
		p4d_environment_entry entry = p4d_environment_entry_of(*at);
		size_t length = strcspn(*at, "=");
		if (entry.kind == P4D_ENTRY_OTHER || (entry.kind == P4D_ENTRY_OUTPUT && keep_outputs) ||
		    length >= sizeof(name)) {
			at++;
			continue;
		}
		memcpy(name, *at, length);
		name[length] = '\0';
		if (spank)
			spank_job_control_unsetenv(spank,
						   entry.prefixed ? name + strlen("SLURM_SPANK_") : name);
		if (unsetenv(name) < 0)
			at++;
		/* unsetenv moved the rest down: *at is the next one */
	}
}
