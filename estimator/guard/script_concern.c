/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether p4d reports anything about a script: only if it trains a language model. */
#include <string.h>

#include "guard/script_request.h"
#include "model/model.h"

/* Whether the script describes a model itself, or p4d knows its model by name. */
static bool has_language_model(const p4d_site *site, const p4d_reading *r, bool files)
{
	const p4d_read_value *model = &r->value[P4D_MODEL];
	p4d_request probe = {.model = ""};

	if (r->value[P4D_LAYERS].file && r->value[P4D_HIDDEN].file)
		return true;
	if (!model->file || !strcmp(model->text, "custom"))
		return false;
	if (p4d_site_preset(site, model->text))
		return true;
	return files && p4d_request_set(&probe, P4D_MODEL, model->text, P4D_BY_SCRIPT, NULL) == 0 &&
	       p4d_model_resolve(&probe, p4d_site_datadir(site), NULL, NULL) == 0 && !probe.unmodelled[0];
}

bool p4d_guard__script_concerns(const p4d_site *site, const p4d_reading *r, bool files)
{
	if (r->trains_nothing || (r->value[P4D_MODEL].file && p4d_model_is_other(r->value[P4D_MODEL].text)))
		return false;
	return r->named || has_language_model(site, r, files);
}
