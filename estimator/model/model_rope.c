/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions in model files: Hugging Face's "rope_theta" with "rope_scaling", or both in
 * "rope_parameters". */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/json_file.h"
#include "base/number.h"
#include "base/text.h"
#include "model/model_json.h"
#include "request/architecture.h"

/* Fields that a type of scaling needs, in the order of --rope-scaling. */
static const char *const llama3_numbers[] = {"factor", "low_freq_factor", "high_freq_factor",
					     "original_max_position_embeddings", NULL};
static const char *const linear_numbers[] = {"factor", NULL};

/*
 * Appends ",number" for each field. If a field is missing, appends nothing, so that p4d-train refuses the
 * type.
 */
static int add_numbers(struct json_object *object, const char *const *keys, char *type, size_t size,
		       p4d_error *err)
{
	char buf[P4D_NUMBER_TEXT];
	const size_t begin = strlen(type);
	p4d_text text = p4d_text_in(type + begin, size - begin);

	for (; *keys; keys++) {
		double number = 0;
		if (p4d_json_number(object, *keys, 0, 1e9, &number, err) < 0)
			return -1;
		if (number <= 0) {
			type[begin] = '\0';
			return 0;
		}
		p4d_text_print(&text, ",%s", p4d_number_text(number, 9, buf));
	}
	return 0;
}

static bool is_nested(struct json_object *object)
{
	json_object_object_foreach(object, key, member)
	{
		(void)key;
		if (json_object_is_type(member, json_type_object))
			return true;
	}
	return false;
}

/* Reads the name of the scaling type, or a description of what the object has instead; "" if absent. */
static int read_type(struct json_object *object, char *text, size_t size, p4d_error *err)
{
	/* older files call it "type" */
	if (p4d_json_string(object, "type", text, size, err) < 0 ||
	    p4d_json_string(object, "rope_type", text, size, err) < 0)
		return -1;
	if (!*text && is_nested(object))
		snprintf(text, size, "layer");
	else if (!*text && json_object_object_get(object, "factor"))
		snprintf(text, size, "factor");
	return 0;
}

static int read_scaling(struct json_object *object, p4d_request *model, p4d_error *err)
{
	char text[sizeof(model->rope_scaling)] = "";
	double turned = 1;

	if (read_type(object, text, sizeof(text), err) < 0 ||
	    p4d_json_number(object, "partial_rotary_factor", 0, 1, &turned, err) < 0)
		return -1;
	if (turned < 1)
		snprintf(text, sizeof(text), "partial");
	if (!strcmp(text, "llama3") && add_numbers(object, llama3_numbers, text, sizeof(text), err) < 0)
		return -1;
	if (!strcmp(text, "linear") && add_numbers(object, linear_numbers, text, sizeof(text), err) < 0)
		return -1;
	if (!*text || !strcmp(text, "default"))
		snprintf(text, sizeof(text), "none");
	return p4d_request_set(model, P4D_ROPE_SCALING, text, P4D_BY_MODEL, err);
}

static int read_theta(struct json_object *object, p4d_request *model, p4d_error *err)
{
	const p4d_option_info *info = p4d_request_option_info(P4D_ROPE_THETA);
	double theta = 0;

	if (p4d_json_number(object, "rope_theta", info->least, info->most, &theta, err) < 0)
		return -1;
	if (theta > 0)
		p4d_request_put_real(model, P4D_ROPE_THETA, theta, P4D_BY_MODEL);
	return 0;
}

int p4d_model__read_rope(struct json_object *model_file, p4d_request *model, p4d_error *err)
{
	static const char *const keys[] = {"rope_scaling", "rope_parameters"};
	const bool plain = p4d_architecture_of(model)->plain_windows;

	if (read_theta(model_file, model, err) < 0)
		return -1;
	for (int i = 0; i < 2; i++) {
		struct json_object *object = json_object_object_get(model_file, keys[i]);
		if (!object)
			continue;
		if (!json_object_is_type(object, json_type_object))
			return p4d_fail(err, P4D_E_JSON, "\"%s\" is %.40s, not an object", keys[i],
					json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
		/* the object for layers without a window, if the architecture decides how layers with a
		 * window rotate */
		struct json_object *full = json_object_object_get(object, "full_attention");
		if (plain && json_object_is_type(full, json_type_object))
			object = full;
		if (read_theta(object, model, err) < 0 || read_scaling(object, model, err) < 0)
			return -1;
	}
	return 0;
}
