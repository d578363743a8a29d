/* SPDX-License-Identifier: Apache-2.0 */
/* Factors in a config.json: on embeddings, residuals, scores and logits. They change the computation, but
 * no memory. */
#include <math.h>
#include <stdbool.h>

#include "base/json_file.h"
#include "model/model_hf.h"

/* A field of config.json, its option, and the power of the field that the option stores. */
typedef struct scale {
	const char *key;
	p4d_option option;
	double power, absent; /* absent: the value that the class uses if the field is absent */
} scale;

static const scale granite[] = {{"embedding_multiplier", P4D_EMBEDDING_SCALE, 1, 1},
				{"residual_multiplier", P4D_RESIDUAL_SCALE, 1, 1},
				{"attention_multiplier", P4D_ATTENTION_SCALE, 1, 1},
				{"logits_scaling", P4D_LOGIT_SCALE, -1, 1}};
static const scale gemma = {"query_pre_attn_scalar", P4D_ATTENTION_SCALE, -0.5, 256};

/* The option's value for a model that does not have the field. */
static double usual_of(const p4d_request *model, p4d_option option)
{
	if (option != P4D_ATTENTION_SCALE)
		return 1;
	if (p4d_is_set(model, P4D_HEAD_DIM))
		return 1 / sqrt((double)model->value[P4D_HEAD_DIM]);
	return p4d_is_set(model, P4D_HIDDEN) && p4d_is_set(model, P4D_HEADS)
		   ? sqrt((double)model->value[P4D_HEADS] / (double)model->value[P4D_HIDDEN])
		   : 0;
}

/* If the option does not accept the number, model_untrained.c handles it. */
static int read_scale(struct json_object *config, const scale *s, p4d_request *model, p4d_error *err)
{
	const p4d_option_info *info = p4d_request_option_info(s->option);
	double number = s->absent;

	if (p4d_json_number(config, s->key, -1e300, 1e300, &number, err) < 0)
		return -1;
	const double factor = number > 0 ? pow(number, s->power) : 0;
	const bool usual = fabs(factor / usual_of(model, s->option) - 1) < 1e-12;

	if (!usual && factor >= info->least && factor <= info->most)
		p4d_request_put_real(model, s->option, factor, P4D_BY_MODEL);
	return 0;
}

int p4d_model__own_granite(struct json_object *config, p4d_request *model, p4d_error *err)
{
	for (size_t i = 0; i < sizeof(granite) / sizeof(*granite); i++)
		if (read_scale(config, &granite[i], model, err) < 0)
			return -1;
	return 0;
}

/* Gemma 3's class also has a default for theta. */
int p4d_model__own_gemma3(struct json_object *config, p4d_request *model, p4d_error *err)
{
	if (!p4d_is_set(model, P4D_ROPE_THETA))
		p4d_request_put_real(model, P4D_ROPE_THETA, 1e6, P4D_BY_MODEL);
	return p4d_model__own_gemma(config, model, err);
}

int p4d_model__own_gemma(struct json_object *config, p4d_request *model, p4d_error *err)
{
	return read_scale(config, &gemma, model, err);
}
