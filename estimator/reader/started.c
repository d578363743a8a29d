/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that a script starts, for those who ask about more than p4d knows. */
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "reader/reader_internal.h"

static uint64_t told(p4d_value value)
{
	enum { MOST = 1 << 20 };
	char text[32];
	uint64_t number = 0;

	if (value.length && value.length < sizeof(text) && !p4d_value_unknown(value))
		p4d_number_whole(p4d_value_text(value, text, sizeof(text)), 1, MOST, &number);
	return number;
}

/* python -m NAME: neither a path nor a file of Python. */
static bool is_module(const p4d_launch *launch)
{
	char text[256];

	p4d_value_text(launch->words[0], text, sizeof(text));
	const size_t length = strlen(text);
	return launch->python && !strchr(text, '/') && !(length > 3 && !strcmp(text + length - 3, ".py"));
}

void p4d_reader__run(const p4d_reader_host *host, p4d_shell *shell, const p4d_command_run *like,
		     const p4d_launch *launch, p4d_value nodes, p4d_value gpus_per_node)
{
	p4d_command_run started = *like;

	started.words = launch->words;
	started.count = launch->count;
	started.module = is_module(launch);
	started.container = launch->container;
	started.nodes = told(nodes);
	started.gpus_per_node = told(gpus_per_node);
	for (unsigned i = 0; i < launch->options && i < P4D_COMMAND_OPTIONS; i++)
		started.option[started.options++] =
		    (p4d_command_option){launch->option[i].name, launch->option[i].value};
	host->runs(host->shell.context, shell, &started);
}

/* Words as the shell has them, in one piece of memory; NULL: there is none. */
static p4d_value *values_of(char *const *words, size_t count)
{
	size_t cells = 0;

	for (size_t i = 0; i < count; i++)
		cells += strlen(words[i]);
	p4d_value *values = calloc(1, count * sizeof(*values) + cells * sizeof(p4d_cell));
	p4d_cell *cell = (p4d_cell *)(values + count);
	for (size_t i = 0; values && i < count; i++) {
		values[i] = (p4d_value){cell, (uint32_t)strlen(words[i])};
		for (const char *c = words[i]; *c; c++, cell++)
			cell->c = *c;
	}
	return values;
}

size_t p4d_reader_program(char *const *words, size_t count, bool *module)
{
	p4d_value *values = values_of(words, count);
	p4d_launch launch = {.count = 0};

	*module = false;
	if (values)
		p4d_reader__launch(values, count, &launch);
	const size_t at = launch.count ? (size_t)(launch.words - values) : count;
	*module = launch.count && is_module(&launch);
	free(values);
	return at;
}
