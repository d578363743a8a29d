/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A Llama on one rank that uses only a device's operations. Tests compare it with other implementations,
 * and benchmarks measure its speed. It has no parallelism and no plan, and stores all activations. */
#include <stddef.h>

#include "device/device.h"

typedef struct llama_shape {
	uint64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab, batch, length;
} llama_shape;

enum { LLAMA_PER_LAYER = 6, LLAMA_NAME = 32 };

/* A parameter tensor, in the order of tests/parity/make_oracle.py. */
typedef struct llama_tensor {
	char name[LLAMA_NAME]; /* such as "0.qkv" */
	uint64_t offset,
	    count; /* the tensor's first element among all parameters, and its number of elements */
	bool norm;
} llama_tensor;

typedef struct llama_layer {
	void *input, *qkv, *attention, *middle, *gate_up;
	float *input_rstd, *lse, *middle_rstd;
} llama_layer;

typedef struct llama {
	p4d_device *device;
	p4d_dtype type;
	llama_shape shape;
	uint64_t n, columns; /* number of tokens; number of columns of qkv */
	uint64_t tensors, parameters;
	llama_tensor *tensor;
	llama_layer *layer;
	/* buffers in the arena */
	char *arena;
	uint64_t used, bytes;
	char *weights;
	float *gradients, *master, *first, *second; /* master: NULL in fp32 */
	void *hidden, *normed, *gradient, *normed_gradient, *product, *product_gradient, *attention_gradient;
	void *qkv_gradient, *logits, *workspace;
	float *qkv_sums, *row_sums, *statistics, *rstd, *rope;
	int32_t *tokens, *labels, *positions;
	double *loss;
	void *library, *sums; /* scratch memory lent to the device */
} llama;

/* Allocates a model, and aborts on failure. Weights are llama_weight times scale, those of norms
 * llama_weight. theta is 10000. */
void llama_open(llama *m, p4d_device *device, p4d_dtype type, const llama_shape *shape, float scale);
void llama_close(llama *m);

/* A hash of two numbers, and element i of a tensor. make_oracle.py has the same functions. */
uint32_t llama_mixed(uint32_t tensor, uint32_t i);
float llama_weight(uint32_t tensor, uint32_t i, bool norm);

/* Returns the mean loss over tokens with labels >= 0. Overwrites the gradients. */
double llama_gradients(llama *m, const int32_t *tokens, const int32_t *labels);
void llama_adam(llama *m, const p4d_adam *adam);

/*
 * FLOPs of a step's matmuls: 6 per token and parameter of a matrix, and 6 * layers * heads * d * length for
 * causal attention.
 */
double llama_flop(const llama_shape *shape);
