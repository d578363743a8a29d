/* SPDX-License-Identifier: Apache-2.0 */
#include "spank_options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "carried.h"
#include "export.h"

enum { NAME_MAX_BYTES = 128 };

static char *given[P4D_OPTIONS];

/* Slurm's variable for an option, as it was when the program started. */
static char *inherited[P4D_OPTIONS];

/* After the first component of a heterogeneous job, Slurm's own variables hold that component's options. */
static bool later_component;

/* "SLURM_SPANK__SLURM_SPANK_OPTION_p4d_p4d_tp": where Slurm reads option tp from. */
static const char *input_variable(p4d_option option, char *buf, size_t size)
{
	char variable[NAME_MAX_BYTES];

	snprintf(buf, size, "SLURM_SPANK_%s", p4d_option_variable(option, variable, sizeof(variable)));
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

static int given_option(int option, const char *text, int remote)
{
	char name[NAME_MAX_BYTES];

	/* Slurm hands over the environment's own string, which tells it from #SBATCH lines and the command
	 * line */
	if (!remote && later_component && text &&
	    text == getenv(input_variable((p4d_option)option, name, sizeof(name)))) {
		text = inherited[option];
		if (!text)
			return 0;
	}
	return keep(&given[option], text ? text : "");
}

int p4d_options_register(spank_t spank)
{
	char name[64];

	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_option_info_of((p4d_option)i);
		if (!(info->where & P4D_WHERE_SLURM))
			continue;
		snprintf(name, sizeof(name), "p4d-%s", info->name);
		struct spank_option option = {
		    .name = name,
		    .arginfo = (char *)info->argument,
		    .usage = (char *)info->help,
		    .has_arg = info->kind != P4D_SWITCH_KIND,
		    .val = i,
		    .cb = given_option,
		};
		if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
			return -1;
	}
	return 0;
}

void p4d_options_from_environment(const char *prefix)
{
	char source[NAME_MAX_BYTES], target[NAME_MAX_BYTES];

	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_option_info_of((p4d_option)i);
		if (!(info->where & P4D_WHERE_SLURM))
			continue;
		snprintf(source, sizeof(source), "%s_P4D_%s", prefix, info->name);
		for (char *at = source; *at; at++)
			*at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
		input_variable((p4d_option)i, target, sizeof(target));
		const char *text = getenv(source);
		if (text)
			setenv(target, text, 1);
		keep(&inherited[i], getenv(target));
	}
}

bool p4d_options_any(void)
{
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (given[i])
			return true;
	return false;
}

const char *p4d_options_text(p4d_option option)
{
	return given[option];
}

int p4d_options_request(p4d_request *request, p4d_error *err)
{
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (given[i] && p4d_request_set(request, (p4d_option)i, given[i], P4D_BY_USER, err) < 0)
			return -1;
	return 0;
}

void p4d_options_reset(void)
{
	for (int i = 0; i < P4D_OPTIONS; i++)
		keep(&given[i], NULL);
	later_component = true;
}

void p4d_environment_clean_job(spank_t spank)
{
	char name[NAME_MAX_BYTES];

	for (char **at = environ; at && *at;) {
		p4d_entry entry = p4d_entry_of(*at);
		size_t length = strcspn(*at, "=");
		if (entry.kind == P4D_ENTRY_OTHER || length >= sizeof(name)) {
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
		/* unsetenv moved the rest down: the same place holds the next one */
	}
}

void p4d_environment_clean(void)
{
	p4d_environment_clean_job(NULL);
}
