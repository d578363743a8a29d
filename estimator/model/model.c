/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "model/model_internal.h"
#include "model/rope.h"
#include "request/architecture.h"
#include "request/layers.h"
#include "request/model_size.h"

static bool is_model_option(int option)
{
	return p4d_request_option_info((p4d_option)option)->where & P4D_WHERE_MODEL;
}

/* Derives the head size if the model gives hidden and heads, and heads divide hidden. */
static void derive_head_dim(p4d_request *model)
{
	if (p4d_is_set(model, P4D_HIDDEN) && p4d_is_set(model, P4D_HEADS) &&
	    model->value[P4D_HIDDEN] % model->value[P4D_HEADS] == 0)
		p4d_request_default(model, P4D_HEAD_DIM, model->value[P4D_HIDDEN] / model->value[P4D_HEADS],
				    P4D_BY_MODEL);
}

/* Names every mandatory number that is missing. */
static int check_complete(const p4d_request *model, p4d_error *err)
{
	static const p4d_option mandatory[] = {P4D_LAYERS, P4D_HIDDEN, P4D_FFN,
					       P4D_HEADS,  P4D_VOCAB,  P4D_MAX_SEQ_LEN};
	char flags[160] = "", values[160] = "";

	for (size_t i = 0; i < sizeof(mandatory) / sizeof(mandatory[0]); i++) {
		const char *name = p4d_request_option_info(mandatory[i])->name;
		size_t flags_used = strlen(flags), values_used = strlen(values);
		if (p4d_is_set(model, mandatory[i]))
			continue;
		if (mandatory[i] == P4D_MAX_SEQ_LEN && model->value[P4D_POSITIONS] != P4D_LEARNED)
			continue;
		snprintf(flags + flags_used, sizeof(flags) - flags_used, " --p4d-%s", name);
		snprintf(values + values_used, sizeof(values) - values_used, "%s--p4d-%s=N",
			 values_used ? " " : "", name);
	}
	if (!*flags)
		return 0;
	p4d_fail(err, P4D_E_INCOMPLETE_MODEL, "the model lacks%s", flags);
	return p4d_fix(err, "%s", values);
}

static int check_heads(const p4d_request *model, p4d_error *err)
{
	int64_t hidden = model->value[P4D_HIDDEN], heads = model->value[P4D_HEADS];
	int64_t kv_heads = model->value[P4D_KV_HEADS], fit = kv_heads < heads ? kv_heads : heads;

	if (!p4d_is_set(model, P4D_HEAD_DIM)) {
		p4d_fail(err, P4D_E_VALUE,
			 "hidden %lld is not a multiple of heads %lld, and no head-dim is given",
			 (long long)hidden, (long long)heads);
		return p4d_fix(err, "--p4d-head-dim=%lld", (long long)(hidden < heads ? 1 : hidden / heads));
	}
	if (heads % kv_heads == 0)
		return 0;
	while (heads % fit)
		fit--;
	p4d_fail(err, P4D_E_VALUE, "%s: kv-heads %lld, heads %lld",
		 kv_heads > heads ? "more key/value heads than heads"
				  : "heads are not a multiple of key/value heads",
		 (long long)kv_heads, (long long)heads);
	return p4d_fix(err, "--p4d-kv-heads=%lld", (long long)fit);
}

/* Refuses malformed RoPE scaling. Only p4d-train needs the values, so it checks them further. */
static int check_rope(const p4d_request *model, p4d_error *err)
{
	p4d_error why;
	p4d_rope rope;

	if (p4d_rope_of(model, &rope, &why) == 0 || why.code == P4D_E_UNMODELLED ||
	    model->origin[P4D_ROPE_SCALING] != P4D_BY_USER)
		return 0;
	if (err)
		*err = why;
	return -1;
}

/* Derives whether the feed-forward layer is gated from its activation, or the reverse. */
static int pair_activation(p4d_request *model, p4d_error *err)
{
	const bool gated = p4d_is_gated((int)model->value[P4D_ACTIVATION]);

	if (!p4d_is_set(model, P4D_ACTIVATION) && p4d_is_set(model, P4D_GLU))
		p4d_request_put(model, P4D_ACTIVATION,
				model->value[P4D_GLU] ? P4D_SWIGLU_ACTIVATION : P4D_GELU,
				(p4d_origin)model->origin[P4D_GLU]);
	else if (p4d_is_set(model, P4D_ACTIVATION))
		p4d_request_default(model, P4D_GLU, gated, (p4d_origin)model->origin[P4D_ACTIVATION]);
	if (!p4d_is_set(model, P4D_GLU) ||
	    !!model->value[P4D_GLU] == p4d_is_gated((int)model->value[P4D_ACTIVATION]))
		return 0;
	p4d_fail(
	    err, P4D_E_VALUE,
	    "the activation contradicts glu=%s: swiglu and geglu are gated, all other activations are not",
	    model->value[P4D_GLU] ? "on" : "off");
	return p4d_fix(err, "--p4d-glu=%s", gated ? "on" : "off");
}

/* Fills the request's open values from the model, then from defaults, and checks all of them. */
static int fill(p4d_request *request, p4d_request *model, p4d_error *err)
{
	p4d_request merged = *request;

	derive_head_dim(model);
	if (pair_activation(&merged, err) < 0 || pair_activation(model, err) < 0)
		return -1;
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (is_model_option(i))
			p4d_request_inherit(&merged, model, (p4d_option)i, P4D_BY_MODEL);
	p4d_architecture_defaults(&merged);
	p4d_rope_default(&merged);
	if (check_complete(&merged, err) < 0)
		return -1;
	p4d_request_default(&merged, P4D_KV_HEADS, merged.value[P4D_HEADS], P4D_BY_MODEL);
	derive_head_dim(&merged);
	if (check_heads(&merged, err) < 0 || check_rope(&merged, err) < 0 ||
	    p4d_layers_check(&merged, err) < 0)
		return -1;
	if (!p4d_is_set(&merged, P4D_UNMODELLED)) /* the user's own --unmodelled is kept */
		merged.unmodelled[0] = '\0';
	*request = merged;
	return 0;
}

/* Applies a model file, or a row of the table. what: names it in messages. */
static int take(p4d_request *model, const p4d_preset *found, const char *what, p4d_request *request,
		p4d_preset *preset, p4d_error *err)
{
	/* from here on, numbers that the user typed may be the cause of an error */
	if (!*model->unmodelled && fill(request, model, err) < 0)
		return p4d_error_in(err, *request->model ? request->model : what);
	memcpy(request->untrained, model->untrained, sizeof(model->untrained));
	if (*model->unmodelled)
		memcpy(request->unmodelled, model->unmodelled, sizeof(model->unmodelled));
	if (preset)
		*preset = *found;
	return 0;
}

int p4d_model__custom(p4d_request *request, p4d_error *err)
{
	p4d_request model = {0};

	return fill(request, &model, err);
}

int p4d_model__take(const p4d_presets_row *row, const char *what, p4d_request *request, p4d_preset *preset,
		    p4d_error *err)
{
	p4d_request model = row->model;

	return take(&model, &row->preset, what, request, preset, err);
}

void p4d_model__take_length(int64_t max_seq_len, p4d_request *request)
{
	const p4d_option_info *info = p4d_request_option_info(P4D_MAX_SEQ_LEN);

	if (max_seq_len >= info->min && max_seq_len <= info->max &&
	    (!p4d_is_set(request, P4D_MAX_SEQ_LEN) || request->origin[P4D_MAX_SEQ_LEN] == P4D_BY_MODEL))
		p4d_request_put(request, P4D_MAX_SEQ_LEN, max_seq_len, P4D_BY_MODEL);
}

int p4d_model__parse(const char *text, size_t length, const char *what, p4d_request *request,
		     p4d_preset *preset, p4d_error *err)
{
	p4d_presets_row row = {.preset = {.name = ""}};

	if (p4d_model_file_parse(text, length, what, &row, err) < 0)
		return -1;
	return take(&row.model, &row.preset, what, request, preset, err);
}

int p4d_model__read_file(const char *path, p4d_request *request, p4d_preset *preset, p4d_error *err)
{
	p4d_presets_row row = {.preset = {.name = ""}};

	if (p4d_model_file_read(path, &row, err) < 0)
		return -1;
	return take(&row.model, &row.preset, path, request, preset, err);
}

uint64_t p4d_model_parameters(const p4d_request *request)
{
	p4d_layout l;

	p4d_layout_of_model(request, &l);
	const p4d_wide total = p4d_size_of_model(&l);
	return total > UINT64_MAX ? UINT64_MAX : (uint64_t)total;
}
