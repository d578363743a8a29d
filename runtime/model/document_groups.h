/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Packed documents as sequences of their own: lengths and places of the documents of a micro-batch, in groups
 * for one call of attention each. The plan has room for a document of each token. Functions do nothing if the
 * plan has no row for them, or documents are not masked.
 */

/* Room on the host. Errors: NO_MEMORY. */
int p4d_document_groups__open(p4d_net *net, p4d_error *err);
void p4d_document_groups__close(p4d_net *net);

/* The documents in a copy of the row; most 0: there are none. */
p4d_attention_documents p4d_document_groups__of(const p4d_net *net, uint64_t copy);

/*
 * Copies the documents of a micro-batch to a copy of the row, and returns them. documents (micro_batch,
 * seq_len): the number of each token's document; NULL: each sequence is one document.
 */
p4d_attention_documents p4d_document_groups__put(p4d_net *net, uint64_t copy, const int32_t *documents);
