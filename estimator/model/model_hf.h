/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>

#include "base/error.h"
#include "request/request.h"

/* Model families of the transformers library, and of remote code, as their config.json describes them. */

enum { P4D_HF_ABSENT = 6 };

typedef struct p4d_hf_family {
	const char *class_name, *model_type;
	int architecture; /* the row of architectures.def */
	unsigned biased;  /* linear layers that have a bias without a field in config.json: P4D_BIASED_* */
	/* what the library takes for fields that are absent, not null; ends with a value of 0 */
	struct {
		p4d_option option;
		int64_t value;
	} absent[P4D_HF_ABSENT];
	/* what only this family has; model has the common fields already. May say model->unmodelled */
	int (*own)(struct json_object *config, p4d_request *model, p4d_error *err);
	bool fixed_biases; /* its code looks at no field for them */
	bool experts;      /* has them, or latent attention, and p4d reads which */
	bool states;       /* has layers with a state, and p4d reads which */
	bool partly;       /* only the text part of a model that has more */
} p4d_hf_family;

/* By class, then by type; NULL: none. */
const p4d_hf_family *p4d_model__family(const char *class_name, const char *model_type);

/* `own` of hybrid families (model_hybrids.c). */
int p4d_model__own_nemotron_h(struct json_object *config, p4d_request *model, p4d_error *err);
int p4d_model__own_qwen3_next(struct json_object *config, p4d_request *model, p4d_error *err);
int p4d_model__own_lfm2(struct json_object *config, p4d_request *model, p4d_error *err);
int p4d_model__own_jamba(struct json_object *config, p4d_request *model, p4d_error *err);
int p4d_model__own_bamba(struct json_object *config, p4d_request *model, p4d_error *err);
int p4d_model__own_granite_hybrid(struct json_object *config, p4d_request *model, p4d_error *err);

/* Factors on embeddings, residuals, scores and logits (model_scales.c). */
int p4d_model__own_granite(struct json_object *config, p4d_request *model, p4d_error *err);
int p4d_model__own_gemma3(struct json_object *config, p4d_request *model, p4d_error *err);
int p4d_model__own_gemma(struct json_object *config, p4d_request *model, p4d_error *err);

/* model->untrained: what p4d-train would compute otherwise. After all else of the file. */
int p4d_model__read_untrained(struct json_object *config, p4d_request *model, p4d_error *err);

/* Absent leaves *flag; JSON: neither true nor false. */
int p4d_model__flag(struct json_object *config, const char *key, bool *flag, p4d_error *err);

/* "quantization_config": how the linear layers are stored, as P4D_STORED; says model->unmodelled. */
int p4d_model__read_quantization(struct json_object *config, p4d_request *model, p4d_error *err);
