/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the tokens of a sequence. With context parallelism a sequence has 2*cp chunks. A rank has
 * chunks `rank` and 2*cp-1-rank, so that all ranks have equally much causal attention. Attention gets
 * positions and documents of tokens in blocks. With a ring, there is one block for the tokens of each rank.
 * If keys are gathered, there is one for this rank's tokens and one for the whole sequence.
 */
#include "model/sequence_order.h"

#include <string.h>

#include "model/buffers.h"
#include "model/document_groups.h"

uint64_t p4d_sequence__place(const p4d_layout *l, uint64_t rank, uint64_t i)
{
	const uint64_t length = l->seq_len / l->cp, chunk = l->cp > 1 ? length / 2 : length;

	return i < chunk ? rank * chunk + i : (2 * l->cp - 1 - rank) * chunk + i - chunk;
}

static bool gathers(const p4d_net *m)
{
	return m->l->cp_comm == P4D_CP_ALL_GATHER;
}

uint32_t p4d_sequence__own_block(const p4d_net *m)
{
	return gathers(m) ? 0 : m->place.cp;
}

static uint64_t blocks(const p4d_net *m)
{
	return gathers(m) ? 2 : m->l->cp;
}

/* Number of a sequence's tokens in a block. */
static uint64_t width(const p4d_net *m, uint64_t block)
{
	return gathers(m) && block == P4D_GATHERED_BLOCK ? m->l->seq_len : m->length;
}

/* Number of positions in a block; with slices, those of the whole sequence. */
static uint64_t positions_of(const p4d_net *m, uint64_t block)
{
	return m->l->slices > 1 ? m->l->seq_len : width(m, block);
}

/* The position in the sequence of token i of a block. */
static uint64_t place(const p4d_net *m, uint64_t block, uint64_t i)
{
	if (gathers(m))
		return block == P4D_GATHERED_BLOCK ? i : p4d_sequence__place(m->l, m->place.cp, i);
	return p4d_sequence__place(m->l, block, i);
}

void p4d_sequence__find_blocks(const p4d_net *m, uint32_t block, p4d_attention_shape *shape)
{
	const uint64_t length = m->length, half = length / 2, cp = m->l->cp, rank = m->place.cp;
	const p4d_attention_block own = {0, length, m->before + length, true},
				  earlier = {0, length, half, false}, later = {half, half, length, false};

	shape->blocks = 1;
	if (cp > 1 && gathers(m)) {
		shape->blocks = 2;
		shape->block[0] = (p4d_attention_block){0, half, (rank + 1) * half, true};
		shape->block[1] = (p4d_attention_block){half, half, (2 * cp - rank) * half, true};
	} else if (cp > 1 && shape->window) {
		/* in a ring's block, a query and a key may be further apart than their indices say */
		shape->blocks = 0;
	} else if (cp == 1 || block == rank) {
		shape->block[0] = own;
	} else {
		shape->block[0] = block < rank ? earlier : later;
	}
}

void p4d_sequence__fill_positions(p4d_net *m, int32_t *scratch)
{
	uint64_t count = 0;

	for (uint64_t block = 0; block < blocks(m); block++)
		for (uint64_t i = 0; i < positions_of(m, block); i++)
			scratch[count++] = (int32_t)place(m, block, i);
	m->d->upload(m->d, p4d_buffers_at(m, B_POSITIONS), scratch, count * sizeof(*scratch));
}

void p4d_sequence__by_slices(const p4d_net *m, int32_t *to, const int32_t *from)
{
	const p4d_layout *l = m->l;
	uint64_t before = 0;

	for (uint64_t i = 0; i < l->slices; before += l->slice_tokens[i++])
		for (uint64_t b = 0; b < l->micro_batch; b++, to += l->slice_tokens[i])
			memcpy(to, from + b * l->seq_len + before, l->slice_tokens[i] * sizeof(*to));
}

/*
 * Writes the documents of tokens, which come in the order of the sequences, in the order that attention
 * needs. Returns how many numbers it wrote.
 */
static uint64_t arrange(const p4d_net *m, int32_t *to, const int32_t *from)
{
	const uint64_t sequence = m->l->seq_len;
	uint64_t count = 0;

	if (m->l->slices > 1) {
		p4d_sequence__by_slices(m, to, from);
		memcpy(to + m->whole, from, m->whole * sizeof(*to));
		return 2 * m->whole;
	}
	for (uint64_t block = 0; block < blocks(m); block++)
		for (uint64_t b = 0; b < m->batch; b++)
			for (uint64_t i = 0; i < width(m, block); i++)
				to[count++] = from[b * sequence + place(m, block, i)];
	return count;
}

/* Writes the positions of this rank's tokens within their documents, in the order of the rows. */
static uint64_t arrange_places(const p4d_net *m, int32_t *to, const int32_t *documents, int32_t *places)
{
	const uint64_t sequence = m->l->seq_len, count = m->batch * m->length;

	for (uint64_t i = 0; i < m->batch * sequence; i++)
		places[i] = i % sequence && documents[i] == documents[i - 1] ? places[i - 1] + 1 : 0;
	if (m->l->slices > 1) {
		p4d_sequence__by_slices(m, to, places);
		return m->whole;
	}
	for (uint64_t row = 0; row < count; row++)
		to[row] = places[row / m->length * sequence +
				 p4d_sequence__place(m->l, m->place.cp, row % m->length)];
	return count;
}

const int32_t *p4d_sequence__places(const p4d_net *m)
{
	const uint64_t *shape = m->row[B_DOCUMENTS]->shape;

	return m->documents
		   ? m->documents + (shape[1] - 1) * shape[2] + (m->l->slices > 1 ? m->before * m->batch : 0)
		   : NULL;
}

int p4d_sequence_find_documents(p4d_net *m, uint32_t pass_micro_batch, p4d_error *err)
{
	const uint32_t micro_batch = pass_micro_batch / (uint32_t)m->l->slices;
	const p4d_tensor *row = m->row[B_DOCUMENTS];
	const uint64_t copies = row->shape[0], copy = micro_batch % copies, sequence = m->l->seq_len;
	const p4d_batch batch = {.documents = m->host_documents};
	int32_t *arranged = m->host_documents + m->batch * sequence;
	char *to = m->arena + row->offset + copy * (row->bytes / copies);

	m->documents = NULL;
	m->packed.most = 0;
	if (!m->set.document_mask)
		return 0;
	m->documents = (const int32_t *)to;
	m->packed = p4d_document_groups__of(m, copy);
	if (m->document_holder[copy] == micro_batch)
		return 0;
	if (m->source(m->context, m->number, micro_batch, &batch, err) < 0)
		return -1;
	uint64_t count = arrange(m, arranged, m->host_documents);
	if (m->l->positions) {
		count = (row->shape[1] - 1) * row->shape[2];
		count += arrange_places(m, arranged + count, m->host_documents,
					arranged + row->shape[1] * row->shape[2]);
	}
	m->d->upload(m->d, to, arranged, count * sizeof(*arranged));
	m->packed = p4d_document_groups__put(m, copy, m->host_documents);
	m->document_holder[copy] = micro_batch;
	return 0;
}
