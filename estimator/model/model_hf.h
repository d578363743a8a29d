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
	unsigned biased;  /* linear layers with a bias that no field of config.json announces: P4D_BIASED_* */
	/* the library's values for fields that are absent (not null); the last entry has value 0 */
	struct {
		p4d_option option;
		int64_t value;
	} absent[P4D_HF_ABSENT];
	/* reads fields that only this family has, after the common ones. May set model->unmodelled */
	int (*own)(struct json_object *config, p4d_request *model, p4d_error *err);
	bool fixed_biases; /* its code ignores config.json's fields about biases */
	bool experts;      /* supports experts or latent attention, and p4d reads their fields */
	bool states;       /* supports layers with a state, and p4d reads their fields */
	bool partly;       /* p4d models only the text part of a multimodal model */
} p4d_hf_family;

/* Finds a family by class, then by type; NULL: none. */
const p4d_hf_family *p4d_model__family(const char *class_name, const char *model_type);

/* Functions `own` of hybrid families (model_hybrids.c). */
int p4d_model__own_nemotron_h(struct json_object *config, p4d_request *model, p4d_error *err);
int p4d_model__own_qwen3_next(struct json_object *config, p4d_request *model, p4d_error *err);
int p4d_model__own_lfm2(struct json_object *config, p4d_request *model, p4d_error *err);
int p4d_model__own_jamba(struct json_object *config, p4d_request *model, p4d_error *err);
int p4d_model__own_bamba(struct json_object *config, p4d_request *model, p4d_error *err);
int p4d_model__own_granite_hybrid(struct json_object *config, p4d_request *model, p4d_error *err);

/* Functions `own` of families with factors on embeddings, residuals, scores and logits (model_scales.c). */
int p4d_model__own_granite(struct json_object *config, p4d_request *model, p4d_error *err);
int p4d_model__own_gemma3(struct json_object *config, p4d_request *model, p4d_error *err);
int p4d_model__own_gemma(struct json_object *config, p4d_request *model, p4d_error *err);

/*
 * Sets model->untrained if the model has features that p4d-train would compute differently. Call it after all
 * other fields are read.
 */
int p4d_model__read_untrained(struct json_object *config, p4d_request *model, p4d_error *err);

/*
 * Reads "quantization_config": stores the storage of linear layers as P4D_STORED. May set model->unmodelled.
 */
int p4d_model__read_quantization(struct json_object *config, p4d_request *model, p4d_error *err);
