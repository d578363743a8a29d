/* SPDX-License-Identifier: Apache-2.0 */
#include "model/presets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/hub_name.h"
#include "model/model_internal.h"

const char *p4d_presets_name(size_t i)
{
	return p4d_presets_texts + p4d_presets_table[i].name;
}

const char *p4d_presets_aliases(size_t i)
{
	return p4d_presets_texts + p4d_presets_table[i].aliases;
}

static void unpack_text(uint32_t at, char *text, size_t size)
{
	snprintf(text, size, "%s", p4d_presets_texts + at);
}

void p4d_presets_unpack(size_t i, p4d_presets_row *row)
{
	const p4d_presets_packed *packed = &p4d_presets_table[i];
	p4d_preset *preset = &row->preset;
	p4d_request *model = &row->model;

	unpack_text(packed->name, preset->name, sizeof(preset->name));
	unpack_text(packed->aliases, preset->aliases, sizeof(preset->aliases));
	unpack_text(packed->source, preset->source, sizeof(preset->source));
	preset->parameters = packed->parameters;
	preset->exact = packed->exact;
	preset->rounding = packed->rounding;
	preset->global_batch = packed->global_batch;
	preset->seq_len = packed->seq_len;
	for (uint32_t v = packed->first; v < packed->first + packed->count; v++)
		p4d_request_put(model, (p4d_option)p4d_presets_options[v], p4d_presets_values[v],
				P4D_BY_MODEL);
	unpack_text(packed->rope_scaling, model->rope_scaling, sizeof(model->rope_scaling));
	unpack_text(packed->layer_pattern, model->layer_pattern, sizeof(model->layer_pattern));
	unpack_text(packed->judged_part, model->judged_part, sizeof(model->judged_part));
}

static p4d_presets_row *add_row(p4d_presets *all, const p4d_preset *preset, const p4d_request *model)
{
	p4d_presets_row *grown = realloc(all->row, (all->count + 1) * sizeof(*grown));

	if (!grown)
		return NULL;
	all->row = grown;
	grown[all->count] = (p4d_presets_row){*preset, *model};
	return &grown[all->count++];
}

/* Stores a preset. An alias with its own context length gets an additional row without a name. */
static void keep(const p4d_preset *preset, const p4d_request *model, void *context)
{
	add_row(context, preset, model);
	for (const char *at = preset->aliases; *at; at += *at == ',') {
		const size_t whole = strcspn(at, ","), length = strcspn(at, ",=");
		p4d_presets_row *row = length < whole ? add_row(context, preset, model) : NULL;
		if (row) {
			*row->preset.name = '\0';
			memcpy(row->preset.aliases, at, whole);
			row->preset.aliases[whole] = '\0';
			p4d_model__take_length(strtoll(at + length + 1, NULL, 10), &row->model);
		}
		at += whole;
	}
}

int p4d_presets_load(p4d_presets *presets, const char *datadir, p4d_error *err)
{
	return p4d_model_each(datadir, keep, presets, err);
}

void p4d_presets_free(p4d_presets *presets)
{
	free(presets->row);
	*presets = (p4d_presets){0};
}

const p4d_request *p4d_presets_find(const p4d_presets *presets, const char *name)
{
	const p4d_hub_name hub = p4d_model__hub_name(name);
	const p4d_request *found = NULL;
	int best = P4D_HUB_NAME_WHOLE - 1;

	for (int aliases = 0; aliases < 2; aliases++)
		for (size_t i = 0; i < presets->count && best < P4D_HUB_NAME_DOTTED; i++) {
			const p4d_preset *preset = &presets->row[i].preset;
			int64_t max_seq_len = 0;
			const int fits = p4d_model__hub_name_fits(
			    &hub, aliases ? preset->aliases : preset->name, &max_seq_len);
			if (fits <= best ||
			    (max_seq_len && *preset->name)) /* the alias has a row of its own */
				continue;
			best = fits;
			found = &presets->row[i].model;
		}
	return found;
}
