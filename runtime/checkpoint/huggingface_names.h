/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/weights.h"

/* Where a tensor of the model is in the files of the transformers library. */
typedef struct p4d_file_tensor {
	char name[96];
	/*
	 * rows of the file's tensor as an (out, in) matrix, or elements of a vector; it may join several of
	 * p4d's tensors
	 */
	uint64_t rows;
	uint64_t first;  /* the first row or element of p4d's tensor in the file's tensor */
	bool transposed; /* stored (in, out) */
} p4d_file_tensor;

/*
 * Files of most models have the names of p4d_weight_slice. GPT-2's files have other names, one tensor for
 * query, key and value, and matrices as (in, out). Phi-3's files have one tensor for query, key and value,
 * and one for gate and up. Adapters are stored in PEFT's form, also those of GPT-2, and never as (in, out).
 */
p4d_file_tensor p4d_huggingface__file_tensor(const p4d_layout *layout, const p4d_weight_slice *slice);

/*
 * The name of a linear layer of p4d_adapted_of in PEFT's target_modules: "q_proj"; for GPT-2 "attn.c_attn".
 */
const char *p4d_huggingface__module_name(const p4d_layout *layout, unsigned number);

/* Whether the files store matrices as (in, out). */
bool p4d_huggingface__transposes(const p4d_layout *layout);
