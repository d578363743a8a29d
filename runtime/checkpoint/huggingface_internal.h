/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "checkpoint/checkpoint_internal.h"
#include "checkpoint/huggingface.h"

/* Released weights, open for reading. */
typedef struct p4d_huggingface_weights {
	p4d_safetensors *files;
	bool *verified; /* for each tensor: its checksum was verified */
	const p4d_layout *layout;
	const char *path; /* borrowed */
} p4d_huggingface_weights;

/* Opens released weights. Errors: CHECKPOINT, NO_MEMORY. */
int p4d_huggingface__open(p4d_huggingface_weights *weights, const char *path, const p4d_layout *layout,
			  p4d_error *err);
void p4d_huggingface__close(p4d_huggingface_weights *weights);
/* A tensor, by its name in files of the whole model; NULL: there is none. */
const p4d_safetensors_tensor *p4d_huggingface__tensor(const p4d_huggingface_weights *weights,
						      const char *name);
/* A p4d_fetch for p4d_huggingface_weights; leaves moments unchanged. */
int p4d_huggingface__fetch(void *weights, p4d_state state, const p4d_weight_slice *slice, uint64_t at,
			   uint64_t count, float *to, p4d_error *err);

/* The adapter of a matrix in a checkpoint. Zero before use. */
typedef struct p4d_adapter_values {
	char name[sizeof(((p4d_weight_slice *)0)->name)]; /* name of the matrix */
	float *a, *b; /* the two factors, (rank, in) and (out, rank); NULL: the matrix has no adapter */
	uint64_t rank, in;
} p4d_adapter_values;

/*
 * Adds scale * B A to elements at .. at+count-1 of a matrix (row by row). Does nothing if the tensor has no
 * adapter. Errors: CHECKPOINT, NO_MEMORY.
 */
int p4d_adapter__add(p4d_adapter_values *adapter, p4d_checkpoint_reader *reader, double scale,
		     const p4d_weight_slice *whole, uint64_t at, uint64_t count, float *values,
		     p4d_error *err);
void p4d_adapter__close(p4d_adapter_values *adapter);

/* The last tensor of released weights that was quantized, with its values. Zero it before use. */
typedef struct p4d_quantized_base {
	char name[sizeof(((p4d_weight_slice *)0)->name)];
	float *values;
} p4d_quantized_base;

/*
 * Like p4d_huggingface__fetch, for a whole tensor of the model. If the layout `trained` quantizes the matrix,
 * its elements become the values of their codes. Errors: CHECKPOINT, NO_MEMORY.
 */
int p4d_quantized_base__fetch(p4d_quantized_base *base, p4d_huggingface_weights *from,
			      const p4d_checkpoint_map *model, const p4d_layout *trained,
			      const p4d_weight_slice *whole, uint64_t at, uint64_t count, float *to,
			      p4d_error *err);
void p4d_quantized_base__close(p4d_quantized_base *base);
