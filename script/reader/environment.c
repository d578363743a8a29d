/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that launchers set for the command that they start: srun --export=ALL,TP=8, env TP=8. */
#include <stdio.h>
#include <string.h>

#include "reader/reader_internal.h"

enum { NAME = 64, MOST = 32 };

/* The options of launchers that set variables. */
static const struct {
	const char *launcher, *options;
	p4d_launch_variables kind;
} setters[] = {
    {"srun", " export ", P4D_LAUNCH_LIST},
    {"apptainer", " env ", P4D_LAUNCH_LIST},
    {"singularity", " env ", P4D_LAUNCH_LIST},
    {"docker", " e env ", P4D_LAUNCH_ONE},
    {"podman", " e env ", P4D_LAUNCH_ONE},
    {"podman-hpc", " e env ", P4D_LAUNCH_ONE},
    {"shifter", " e env ", P4D_LAUNCH_ONE},
    {"sarus", " e env ", P4D_LAUNCH_ONE},
    {"enroot", " e env ", P4D_LAUNCH_ONE},
    {"ch-run", " set_env ", P4D_LAUNCH_ONE},
    {"flux", " env ", P4D_LAUNCH_ONE},
    {"mpirun", " x ", P4D_LAUNCH_ONE},
    {"mpiexec", " x ", P4D_LAUNCH_ONE},
    {"orterun", " x ", P4D_LAUNCH_ONE},
    {"docker", " env_file ", P4D_LAUNCH_FILE},
    {"podman", " env_file ", P4D_LAUNCH_FILE},
    {"podman-hpc", " env_file ", P4D_LAUNCH_FILE},
    {"apptainer", " env_file ", P4D_LAUNCH_FILE},
    {"singularity", " env_file ", P4D_LAUNCH_FILE},
};

/* Switches of launchers with which the command does not get the variables of the script. */
static const struct {
	const char *launcher, *switches;
} cleaners[] = {
    {"apptainer", " cleanenv e containall C "},
    {"singularity", " cleanenv e containall C "},
    {"env", " i ignore_environment "},
    {"ch-run", " unset_env "},
};

typedef struct settings {
	p4d_shell *shell;
	p4d_shell_setting at[MOST];
	size_t count;
} settings;

void p4d_reader__note_setting(p4d_launch *launch, const char *launcher, const char *option, p4d_value value)
{
	char word[NAME + 2];

	snprintf(word, sizeof(word), " %.*s ", NAME - 1, option ? option : "");
	for (size_t i = 0; option && i < sizeof(cleaners) / sizeof(cleaners[0]); i++)
		if (!strcmp(cleaners[i].launcher, launcher) && strstr(cleaners[i].switches, word))
			launch->cleans = cleaners[i].launcher;
	if (launch->settings == P4D_LAUNCH_SETTINGS || !value.length)
		return;
	if (!option) /* an assignment before the command */
		launch->setting[launch->settings++] = (p4d_launch_setting){value, P4D_LAUNCH_ONE};
	for (size_t i = 0; option && i < sizeof(setters) / sizeof(setters[0]); i++)
		if (!strcmp(setters[i].launcher, launcher) && strstr(setters[i].options, word)) {
			launch->setting[launch->settings++] = (p4d_launch_setting){value, setters[i].kind};
			return;
		}
}

static void add(settings *to, const char *name, p4d_value value)
{
	if (to->count < MOST)
		to->at[to->count++] = (p4d_shell_setting){p4d_shell_keep(to->shell, name), value};
}

/* Adds NAME=VALUE. A name without a value passes the variable on as it is. */
static void add_word(settings *to, p4d_value word)
{
	char name[NAME];
	uint32_t equals = 0;
	p4d_value value;

	while (equals < word.length && !word.at[equals].unknown && word.at[equals].c != '=')
		equals++;
	if (!equals || equals >= sizeof(name) || (equals < word.length && word.at[equals].unknown))
		return;
	p4d_value_text((p4d_value){word.at, equals}, name, sizeof(name));
	if (equals < word.length)
		add(to, name, (p4d_value){word.at + equals + 1, word.length - equals - 1});
	else if (p4d_shell_exported(to->shell, name, &value))
		add(to, name, value);
}

static void add_setting(settings *to, const p4d_launch_setting *setting)
{
	p4d_value rest = setting->text;

	while (rest.length) {
		uint32_t end = 0;
		while (end < rest.length &&
		       (setting->kind != P4D_LAUNCH_LIST || rest.at[end].unknown || rest.at[end].c != ','))
			end++;
		add_word(to, (p4d_value){rest.at, end});
		end += end < rest.length;
		rest = (p4d_value){rest.at + end, rest.length - end};
	}
}

/* Apptainer and Singularity set NAME in the container if the script exports APPTAINERENV_NAME. */
static void add_of_container(void *context, const char *name, p4d_value value)
{
	static const char *const prefixes[] = {"APPTAINERENV_", "SINGULARITYENV_"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])) && name[strlen(prefixes[i])])
			add(context, name + strlen(prefixes[i]), value);
}

/* Whether a list of srun --export has ALL, with which the step gets the variables of the script. */
static bool has_all(p4d_value list)
{
	for (uint32_t i = 0; i + 3 <= list.length; i++)
		if (p4d_value_is((p4d_value){list.at + i, 3}, "ALL") && (!i || list.at[i - 1].c == ',') &&
		    (i + 3 == list.length || list.at[i + 3].c == ','))
			return true;
	return false;
}

/* The launcher that does not pass the variables of the script on to its command; NULL: none. */
static const char *keeps_variables(const p4d_launch *launch)
{
	static const char *const names[] = {"ssh", "pdsh", "docker", "podman", "podman-hpc"};

	for (unsigned i = 0; i < launch->launchers; i++)
		for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++)
			if (!strcmp(launch->launcher[i].name, names[j]))
				return names[j];
	if (launch->cleans)
		return launch->cleans;
	return launch->exports.length && !p4d_value_unknown(launch->exports) && !has_all(launch->exports)
		   ? "srun --export"
		   : NULL;
}

p4d_shell_scope *p4d_reader__enter_environment(p4d_shell *shell, const p4d_launch *launch)
{
	settings found = {.shell = shell};
	bool prefixed = false;

	for (unsigned i = 0; i < launch->launchers; i++)
		prefixed = prefixed || !strcmp(launch->launcher[i].name, "apptainer") ||
			   !strcmp(launch->launcher[i].name, "singularity");
	if (prefixed)
		p4d_shell_each_exported(shell, add_of_container, &found);
	for (unsigned i = 0; i < launch->settings; i++) /* files come first, so that a variable that is set
							 * by itself overrides one from a file */
		if (launch->setting[i].kind == P4D_LAUNCH_FILE && found.count < MOST)
			found.at[found.count++] = (p4d_shell_setting){NULL, launch->setting[i].text};
	for (unsigned i = 0; i < launch->settings; i++)
		if (launch->setting[i].kind != P4D_LAUNCH_FILE)
			add_setting(&found, &launch->setting[i]);
	return p4d_shell_enter_environment(shell, found.at, found.count, keeps_variables(launch));
}
