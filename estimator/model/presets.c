/* SPDX-License-Identifier: Apache-2.0 */
#include "model/presets.h"

#include <stdlib.h>
#include <string.h>

#include "model/hub_name.h"

static void keep(const p4d_preset *preset, const p4d_request *model, void *context)
{
	p4d_presets *all = context;
	p4d_presets_row *grown = realloc(all->row, (all->count + 1) * sizeof(*grown));

	if (!grown)
		return;
	all->row = grown;
	all->row[all->count++] = (p4d_presets_row){*preset, *model};
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
			const int fits =
			    p4d_model__hub_name_fits(&hub, aliases ? preset->aliases : preset->name);
			if (fits <= best)
				continue;
			best = fits;
			found = &presets->row[i].model;
		}
	return found;
}
