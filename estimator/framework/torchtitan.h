/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "framework/torch.h"
#include "framework/transformers.h"

/* torchtitan's modules: between torchtitan_layer.c, torchtitan_experts.c and torchtitan_fsdp.c. */

typedef struct p4d_torchtitan_writer {
	p4d_tape_writer w;
	unsigned products; /* linear layers of this layer until now */
} p4d_torchtitan_writer;

/* A layer's tape: with experts, or without, in a model that has experts or latent attention. */
void p4d_torchtitan__layer(p4d_torchtitan_writer *writer, bool sparse);

/* write_sparse of p4d_torch_modules. */
void p4d_torchtitan__sparse_rows(p4d_rows *rows, p4d_torch_sizes *sizes);

/* The loss, beside the head. */
void p4d_torchtitan__loss(p4d_rows *rows, const p4d_torch_sizes *sizes);
