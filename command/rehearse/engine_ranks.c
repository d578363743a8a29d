/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/engine_ranks.h"

#include <string.h>

#include "base/number.h"

static bool is_named(const p4d_words *w, size_t i, const char *name)
{
	const char *slash = strrchr(w->at[i].text, '/');

	return !strcmp(slash ? slash + 1 : w->at[i].text, name);
}

/* Whether the words start "vllm serve", or vLLM's server as a Python module. */
static bool is_server(const p4d_words *w)
{
	static const char *const modules[] = {"vllm.entrypoints.openai.api_server",
					      "vllm.entrypoints.api_server"};

	for (size_t i = 1; i < w->count; i++) {
		if (!strcmp(w->at[i].text, "serve") &&
		    (is_named(w, i - 1, "vllm") || is_named(w, i - 1, "vllm.entrypoints.cli.main")))
			return true;
		for (size_t k = 0; k < sizeof(modules) / sizeof(modules[0]); k++)
			if (!strcmp(w->at[i - 1].text, "-m") && !strcmp(w->at[i].text, modules[k]))
				return true;
	}
	return false;
}

/* Whether a word is this option. vLLM accepts underscores instead of hyphens: --tensor_parallel_size. */
static bool is_option(const char *text, size_t length, const char *name)
{
	if (strlen(name) != length)
		return false;
	for (size_t i = 0; i < length; i++)
		if (name[i] != text[i] && (text[i] != '_' || name[i] != '-' || i < 2))
			return false;
	return true;
}

/* The last value of an option with two names. */
static uint64_t value_of(const p4d_words *w, const char *name, const char *brief)
{
	uint64_t found = 1;

	for (size_t i = 0; i < w->count; i++) {
		const char *text = w->at[i].text, *equals = strchr(text, '=');
		const size_t length = strcspn(text, "=");
		const char *value = equals ? equals + 1 : i + 1 < w->count ? w->at[i + 1].text : "";
		if (is_option(text, length, name) || is_option(text, length, brief))
			p4d_number_whole(value, 1, P4D_PLAYER_RANKS, &found);
	}
	return found;
}

void p4d_engine_ranks__take(const p4d_words *words, p4d_rehearse_ranks *r)
{
	if (r->started || !is_server(words))
		return;
	const uint64_t gpus = value_of(words, "--tensor-parallel-size", "-tp") *
			      value_of(words, "--pipeline-parallel-size", "-pp") *
			      value_of(words, "--data-parallel-size", "-dp");
	r->nodes = r->ranks_per_node = 1;
	r->gpus_per_node = r->gpus_per_node ? r->gpus_per_node : gpus;
	r->is_typed = false;
}
