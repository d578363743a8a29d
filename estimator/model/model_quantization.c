/* SPDX-License-Identifier: Apache-2.0 */
/* "quantization_config" of a config.json: how a model's file stores its linear layers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json_file.h"
#include "model/model_hf.h"

/* The storage format (P4D_STORED_*) for integers with this many bits; -1: none. */
static int of_bits(int64_t bits)
{
	return bits == 4 ? P4D_STORED_INT4 : bits == 8 ? P4D_STORED_INT8 : -1;
}

/*
 * Reads bitsandbytes' settings. In some files, the names of the library's own fields begin with an
 * underscore.
 */
static int of_bitsandbytes(struct json_object *q, p4d_error *err)
{
	bool four = false, eight = false;

	if (p4d_json_boolean(q, "load_in_4bit", &four, err) < 0 ||
	    p4d_json_boolean(q, "_load_in_4bit", &four, err) < 0 ||
	    p4d_json_boolean(q, "load_in_8bit", &eight, err) < 0 ||
	    p4d_json_boolean(q, "_load_in_8bit", &eight, err) < 0)
		return -2;
	return four ? P4D_STORED_NF4 : eight ? P4D_STORED_INT8 : -1;
}

/*
 * Reads the settings of compressed-tensors: groups of layers, the first of which describes the weights of
 * linear layers.
 */
static int of_groups(struct json_object *q, p4d_error *err)
{
	struct json_object *groups = json_object_object_get(q, "config_groups"), *weights = NULL;
	char type[32] = "int";
	int64_t bits = 0;

	if (!json_object_is_type(groups, json_type_object))
		return -1;
	json_object_object_foreach(groups, key, group)
	{
		(void)key;
		if (!weights && json_object_is_type(group, json_type_object))
			weights = json_object_object_get(group, "weights");
	}
	if (!json_object_is_type(weights, json_type_object))
		return -1;
	if (p4d_json_integer(weights, "num_bits", 1, 64, &bits, err) < 0 ||
	    p4d_json_string(weights, "type", type, sizeof(type), err) < 0)
		return -2;
	if (!strcmp(type, "float"))
		return bits == 8 ? P4D_STORED_FP8 : bits == 4 ? P4D_STORED_FP4 : -1;
	return of_bits(bits);
}

int p4d_model__read_quantization(struct json_object *config, p4d_request *model, p4d_error *err)
{
	struct json_object *q = json_object_object_get(config, "quantization_config");
	char method[40] = "", algorithm[40] = "";
	int64_t bits = 0;
	int stored = -1;

	if (!json_object_is_type(q, json_type_object))
		return 0;
	if (p4d_json_string(q, "quant_method", method, sizeof(method), err) < 0 ||
	    p4d_json_string(q, "quant_algo", algorithm, sizeof(algorithm), err) < 0 ||
	    p4d_json_integer(q, "bits", 1, 64, &bits, err) < 0)
		return -1;
	if (!strcmp(method, "fp8") || !strcmp(method, "fbgemm_fp8") || !strcmp(algorithm, "FP8"))
		stored = P4D_STORED_FP8;
	else if (!strcmp(method, "mxfp4") || !strcmp(algorithm, "NVFP4"))
		stored = P4D_STORED_FP4;
	else if (!strcmp(method, "compressed-tensors"))
		stored = of_groups(q, err);
	else if (!strcmp(method, "bitsandbytes") || !*method)
		stored = of_bitsandbytes(q, err);
	else if (!strcmp(method, "gptq") || !strcmp(method, "awq") || !strcmp(method, "auto-round"))
		stored = of_bits(bits);
	if (stored == -2)
		return -1;
	if (stored >= 0)
		p4d_request_put(model, P4D_STORED, stored, P4D_BY_MODEL);
	else
		snprintf(model->unmodelled, sizeof(model->unmodelled),
			 "quantization %.40s%s of %" PRId64 " bits", *method ? method : "without a method",
			 *algorithm ? algorithm : "", bits);
	return 0;
}
