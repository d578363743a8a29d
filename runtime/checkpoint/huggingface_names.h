/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/weights.h"

/* Where a tensor of the model lies in files of the transformers library. */
typedef struct p4d_file_tensor {
	char name[96];
	uint64_t rows;   /* of the matrix as p4d has it, (out, in), or elements of a vector; maybe of several
			    tensors */
	uint64_t first;  /* of these, the first of this tensor */
	bool transposed; /* stored (in, out) */
} p4d_file_tensor;

/*
 * Most models' files have the names of p4d_weight_slice. GPT-2's have its own, query, key and value as one,
 * and matrices as (in, out). Adapters are as PEFT stores them, of GPT-2, too, never as (in, out).
 */
p4d_file_tensor p4d_huggingface__file_tensor(const p4d_layout *layout, const p4d_weight_slice *slice);

/* What PEFT's target_modules name a linear layer of p4d_adapted_of: "q_proj", of GPT-2 "attn.c_attn". */
const char *p4d_huggingface__module_name(const p4d_layout *layout, unsigned number);

bool p4d_huggingface__is_gpt2(const p4d_layout *layout);
