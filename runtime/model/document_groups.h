/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Lengths and places of the documents in a micro-batch, for attention that computes each document as a
 * sequence of its own. One call of attention computes one group of documents. The plan has room for as many
 * documents as tokens. Functions do nothing if the plan has no row for them, or documents are not masked.
 */

/* Allocates memory on the host. Errors: NO_MEMORY. */
int p4d_document_groups__open(p4d_net *net, p4d_error *err);
void p4d_document_groups__close(p4d_net *net);

/* The documents that a copy of the row has; most 0: it has none. */
p4d_attention_documents p4d_document_groups__of(const p4d_net *net, uint64_t copy);

/*
 * Copies the documents of a micro-batch to a copy of the row, and returns them. documents (micro_batch,
 * seq_len): the number of each token's document; NULL: each sequence is one document.
 */
p4d_attention_documents p4d_document_groups__put(p4d_net *net, uint64_t copy, const int32_t *documents);
