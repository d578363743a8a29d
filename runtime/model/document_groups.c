/* SPDX-License-Identifier: Apache-2.0 */
#include "model/document_groups.h"

#include <stdlib.h>
#include <string.h>

enum { UNITS = P4D_DOCUMENT_ROWS - 1 };

static const p4d_tensor *row_of(const p4d_net *m)
{
	return m->set.document_mask ? m->row[B_DOCUMENT_PLACES] : NULL;
}

int p4d_document_groups__open(p4d_net *m, p4d_error *err)
{
	const p4d_tensor *row = row_of(m);
	p4d_document_groups *g = &m->document_groups;

	if (!row)
		return 0;
	g->places = calloc(row->shape[1] * row->shape[2], sizeof(*g->places));
	g->begin = calloc(m->n + 1, sizeof(*g->begin));
	g->count = calloc(row->shape[0], sizeof(*g->count));
	g->first = calloc(row->shape[0] * row->shape[1], sizeof(*g->first));
	if (g->places && g->begin && g->count && g->first)
		return 0;
	return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the documents of a micro-batch");
}

void p4d_document_groups__close(p4d_net *m)
{
	free(m->document_groups.places);
	free(m->document_groups.begin);
	free(m->document_groups.count);
	free(m->document_groups.first);
}

static char *at(const p4d_net *m, const p4d_tensor *row, uint64_t copy)
{
	return m->arena + row->offset + copy * (row->bytes / row->shape[0]);
}

p4d_attention_documents p4d_document_groups__of(const p4d_net *m, uint64_t copy)
{
	const p4d_tensor *row = row_of(m);

	if (!row)
		return (p4d_attention_documents){.most = 0};
	return (p4d_attention_documents){.most = row->shape[2] - P4D_DOCUMENT_PADDING,
					 .groups = m->document_groups.count[copy],
					 .first = m->document_groups.first + copy * row->shape[1],
					 .places = (const int32_t *)at(m, row, copy)};
}

/* Fills m->document_groups.begin; returns the number of documents. */
static uint64_t find_documents(p4d_net *m, const int32_t *documents)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < m->n; i++)
		if (i % m->length == 0 || (documents && documents[i] != documents[i - 1]))
			m->document_groups.begin[count++] = i;
	m->document_groups.begin[count] = m->n;
	return count;
}

/*
 * Describes a group of documents that begin at begin[0] .. begin[documents - 1]; the last one ends at
 * begin[documents].
 */
static void put_group(const p4d_net *m, int32_t *to, const uint64_t *begin, uint64_t documents,
		      uint64_t width)
{
	const uint64_t unit[UNITS] = {m->columns, m->q, m->q / m->l->head_dim};

	memset(to, 0, width * sizeof(*to));
	for (uint64_t i = 0; i < documents; i++)
		to[i] = (int32_t)(begin[i + 1] - begin[i]);
	for (uint64_t i = 0; i < width; i++) {
		const uint64_t place = begin[i < documents ? i : documents] - begin[0];
		for (uint64_t j = 0; j < UNITS; j++)
			to[(j + 1) * width + i] = (int32_t)(place * unit[j]);
	}
}

p4d_attention_documents p4d_document_groups__put(p4d_net *m, uint64_t copy, const int32_t *documents)
{
	const p4d_tensor *row = row_of(m);
	p4d_document_groups *g = &m->document_groups;

	if (!row)
		return (p4d_attention_documents){.most = 0};
	const uint64_t width = row->shape[2], most = width - P4D_DOCUMENT_PADDING,
		       size = P4D_DOCUMENT_ROWS * width;
	const uint64_t count = find_documents(m, documents);
	g->count[copy] = (count + most - 1) / most;
	for (uint64_t i = 0; i < g->count[copy]; i++) {
		const uint64_t left = count - i * most;
		g->first[copy * row->shape[1] + i] = g->begin[i * most];
		put_group(m, g->places + i * size, g->begin + i * most, left < most ? left : most, width);
	}
	m->d->upload(m->d, at(m, row, copy), g->places, g->count[copy] * size * sizeof(*g->places));
	return p4d_document_groups__of(m, copy);
}
