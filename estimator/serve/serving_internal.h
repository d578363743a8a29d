/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/wide.h"
#include "request/layout.h"
#include "serve/serving.h"

/* The engine's model and degrees: model, tp, pp, dp (engines that divide the experts), ep. */
void p4d_serving__layout_of(const p4d_request *request, p4d_layout *layout);

/* How the GPU stores the weights of linear layers: P4D_STORED_*. */
int p4d_serving__stored_of(const p4d_request *request);
/* Size of a weight that is stored so, in thousandths of a byte. */
uint64_t p4d_serving__thousandths(int stored);

enum { P4D_SERVING_BLOCK = 16 }; /* tokens in a block of the KV cache */

typedef struct p4d_serving_cache {
	uint64_t token_bytes;    /* bytes of a token in one layer */
	uint64_t full, windowed; /* number of layers without and with a window */
	uint64_t window;         /* maximum number of tokens that a layer with a window holds */
} p4d_serving_cache;

/* Number of a stage's layers with a window, of this many. The other layers attend to all tokens. */
uint64_t p4d_serving__windowed_layers(const p4d_layout *layout, uint64_t layers);

/* Whether the model has layers with a window and others. Only then an engine may keep more than windows. */
bool p4d_serving__mixes_windows(const p4d_layout *layout);

/* Whether layers with a window free the keys and values outside of it (--hybrid-cache). */
bool p4d_serving__frees_windows(const p4d_request *request, const p4d_layout *layout);

/* Bytes of a sequence of this length. */
p4d_wide p4d_serving__sequence_bytes(const p4d_serving_cache *cache, uint64_t tokens);

/* The longest sequence, of at most `most` tokens, that fits into `available` bytes. */
uint64_t p4d_serving__longest_within(const p4d_serving_cache *cache, uint64_t available, uint64_t most);
