/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields of a config.json that change what a model computes but not its memory, and for which p4d-train
 * supports one value only: request->untrained names the first one with another value. Only for the families
 * that p4d-train supports.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json_file.h"
#include "model/model_hf.h"
#include "request/architecture.h"

__attribute__((format(printf, 2, 3))) static int untrained(p4d_request *model, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(model->untrained, sizeof(model->untrained), format, list);
	va_end(list);
	return 0;
}

/* The field's text in the file, for messages. */
static const char *text_of(struct json_object *config, const char *key)
{
	return json_object_to_json_string_ext(json_object_object_get(config, key), JSON_C_TO_STRING_PLAIN);
}

/* GELU's tanh formula; Gemma's files of 2024 say "gelu" but mean this formula. */
static int check_activation(struct json_object *config, p4d_request *model)
{
	static const char *const keys[] = {"hidden_activation", "hidden_act", "activation_function", NULL};
	const bool gemma = model->value[P4D_ARCHITECTURE] == P4D_ARCHITECTURE_GEMMA;
	const char *const *key = keys;

	while (*key && !json_object_object_get(config, *key))
		key++;
	if (!*key || !strcmp(text_of(config, *key), "\"gelu_new\"") ||
	    !strcmp(text_of(config, *key), "\"gelu_pytorch_tanh\"") ||
	    (gemma && !strcmp(text_of(config, *key), "\"gelu\"")))
		return 0;
	return untrained(model, "%s=%.40s, only GELU's formula with tanh (gelu_pytorch_tanh)", *key,
			 text_of(config, *key));
}

static int check_flags(struct json_object *config, p4d_request *model, p4d_error *err)
{
	static const struct {
		const char *key;
		bool usual;
	} flags[] = {{"scale_attn_weights", true},
		     {"scale_attn_by_inverse_layer_idx", false},
		     {"use_bidirectional_attention", false}};

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		bool flag = flags[i].usual;
		if (p4d_json_boolean(config, flags[i].key, &flag, err) < 0)
			return -1;
		if (flag != flags[i].usual)
			return untrained(model, "%s=%s", flags[i].key, flag ? "true" : "false");
	}
	return 0;
}

/*
 * Checks a number against p4d-train's value. Absent means the architecture's value; null means that the model
 * has no such number.
 */
static int check_number(struct json_object *config, const char *key, double usual, p4d_request *model,
			p4d_error *err)
{
	double number = usual;

	if (p4d_json_number(config, key, 0, 1e9, &number, err) < 0)
		return -1;
	const bool none =
	    usual > 0 && json_object_object_get_ex(config, key, NULL) && !json_object_object_get(config, key);
	if (!none && number >= usual && number <= usual)
		return 0;
	return untrained(model, "%s=%s, only %g", key, text_of(config, key), usual);
}

/* Whether layer i of the file has the window; also false if the file has an invalid list. */
static bool is_windowed(struct json_object *types, int64_t first, int64_t i)
{
	const char *name = types ? json_object_get_string(json_object_array_get_idx(types, (size_t)i)) : NULL;

	return types ? name && strcmp(name, "full_attention") != 0 : i >= first;
}

/* The layers with a window: a list of all layers, or (Qwen) all from a number on; otherwise the
 * architecture decides. */
static int check_windows(struct json_object *config, p4d_request *model, p4d_error *err)
{
	const unsigned every = p4d_architecture_of(model)->full_attention_every;
	struct json_object *types = json_object_object_get(config, "layer_types");
	const bool counted = json_object_object_get(config, "max_window_layers") != NULL;
	int64_t first = 0, windowed = 0, others = 0;

	if (!p4d_is_set(model, P4D_SLIDING_WINDOW) || (!types && !counted))
		return 0;
	if (p4d_json_integer(config, "max_window_layers", 0, 65536, &first, err) < 0)
		return -1;
	if (types && !json_object_is_type(types, json_type_array))
		return 0;
	for (int64_t i = 0; i < model->value[P4D_LAYERS]; i++) {
		const bool has = is_windowed(types, first, i), usual = !(every && (i + 1) % every == 0);
		windowed += has;
		others += has != usual;
	}
	if (windowed == 0) { /* no layer has a window */
		model->value[P4D_SLIDING_WINDOW] = 0;
		model->origin[P4D_SLIDING_WINDOW] = P4D_UNSET;
		return 0;
	}
	return others ? untrained(model, "the window of %" PRId64 " of %" PRId64 " layers (%s)", windowed,
				  model->value[P4D_LAYERS], types ? "layer_types" : "max_window_layers")
		      : 0;
}

/* The layers that rotate: SmolLM3's file has a list with 1 for each such layer, or an interval. */
static int check_rotations(struct json_object *config, p4d_request *model, p4d_error *err)
{
	const unsigned every = p4d_architecture_of(model)->unrotated_every;
	struct json_object *list = json_object_object_get(config, "no_rope_layers");
	int64_t interval = every, others = 0;

	if (!every)
		return 0;
	if (p4d_json_integer(config, "no_rope_layer_interval", 0, 65536, &interval, err) < 0)
		return -1;
	if (!json_object_is_type(list, json_type_array))
		return interval == every
			   ? 0
			   : untrained(model, "no_rope_layer_interval=%" PRId64 ", only %u", interval, every);
	for (int64_t i = 0; i < model->value[P4D_LAYERS]; i++) {
		const bool turns = json_object_get_int64(json_object_array_get_idx(list, (size_t)i)) != 0;
		others += turns != ((i + 1) % every != 0);
	}
	return others ? untrained(model, "no_rope_layers with other layers than each %uth", every) : 0;
}

/* The rotation of layers with a window and, in older files, which layers these are. */
static int check_window_rotation(struct json_object *config, p4d_request *model, p4d_error *err)
{
	const p4d_architecture *a = p4d_architecture_of(model);
	struct json_object *both = json_object_object_get(config, "rope_parameters"),
			   *pattern = json_object_object_get(config, "sliding_window_pattern");
	struct json_object *own = json_object_is_type(both, json_type_object)
				      ? json_object_object_get(both, "sliding_attention")
				      : NULL;
	double base = (double)a->window_theta;
	char type[40] = "default";

	if (!a->plain_windows || a->window_theta <= 0)
		return 0;
	if (p4d_json_number(config, "rope_local_base_freq", 0, 1e12, &base, err) < 0 ||
	    (json_object_is_type(own, json_type_object) &&
	     (p4d_json_number(own, "rope_theta", 0, 1e12, &base, err) < 0 ||
	      p4d_json_string(own, "rope_type", type, sizeof(type), err) < 0)))
		return -1;
	if (base < (double)a->window_theta || base > (double)a->window_theta)
		return untrained(model, "a RoPE base of %g in layers with a window, only %g", base,
				 (double)a->window_theta);
	if (strcmp(type, "default") != 0)
		return untrained(model, "RoPE scaling %s of layers with a window", type);
	if (json_object_is_type(pattern, json_type_int) &&
	    json_object_get_int64(pattern) != a->full_attention_every)
		return untrained(model, "sliding_window_pattern=%s, only %u",
				 text_of(config, "sliding_window_pattern"), a->full_attention_every);
	return 0;
}

/* Factors that the options do not accept. */
static int check_factors(struct json_object *config, p4d_request *model, p4d_error *err)
{
	static const char *const keys[] = {"embedding_multiplier", "residual_multiplier",
					   "attention_multiplier", "logits_scaling"};

	for (size_t i = 0; p4d_architecture_of(model)->scales_residual && i < 4; i++) {
		double number = 1;
		if (p4d_json_number(config, keys[i], -1e300, 1e300, &number, err) < 0)
			return -1;
		if (!(number >= 1e-6 && number <= 1e6))
			return untrained(model, "%s=%s", keys[i], text_of(config, keys[i]));
	}
	return 0;
}

int p4d_model__read_untrained(struct json_object *config, p4d_request *model, p4d_error *err)
{
	const p4d_architecture *a = p4d_architecture_of(model);

	model->untrained[0] = '\0';
	if (model->value[P4D_ACTIVATION] == P4D_GELU || model->value[P4D_ACTIVATION] == P4D_GEGLU)
		(void)check_activation(config, model);
	if (check_flags(config, model, err) < 0 || check_windows(config, model, err) < 0 ||
	    check_rotations(config, model, err) < 0 || check_factors(config, model, err) < 0 ||
	    check_window_rotation(config, model, err) < 0)
		return -1;
	if (a->rotated == P4D_ROTATED_PADDED &&
	    check_number(config, "partial_rotary_factor", 1, model, err) < 0)
		return -1;
	if (!a->scaled_embedding || a->place != P4D_NORMS_AROUND) /* Gemma 2 and 3 have caps */
		return 0;
	if (check_number(config, "attn_logit_softcapping", a->attention_cap, model, err) < 0)
		return -1;
	return check_number(config, "final_logit_softcapping", a->logit_cap, model, err);
}
