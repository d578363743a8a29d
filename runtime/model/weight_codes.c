/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weight_codes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/buffers.h"

int p4d_weight_codes__open(p4d_net *m, p4d_error *err)
{
	const uint64_t planned = p4d_net_bytes(m, B_FP8_WEIGHTS);
	uint64_t bytes = 0;

	if (!planned)
		return 0;
	m->codes.at = calloc(m->weights.count, sizeof(*m->codes.at));
	m->codes.made = calloc(m->weights.count, sizeof(*m->codes.made));
	if (!m->codes.at || !m->codes.made)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the places of %u weights",
				m->weights.count);
	for (uint32_t i = 0; i < m->weights.count; i++) {
		const p4d_weight *w = &m->weights.weight[i];
		m->codes.at[i] = bytes;
		if (p4d_weights_layers_of(w->kind).count)
			bytes += p4d_fp8_weight_bytes(m->l->fp8_recipe, w->rows, w->columns);
	}
	if (bytes == planned)
		return 0;
	return p4d_fail(err, P4D_E_PLAN_CHANGED,
			"stage %u: the FP8 weights have %" PRIu64 " bytes, but the plan has %" PRIu64
			" bytes for them",
			m->place.pp, bytes, planned);
}

void p4d_weight_codes__close(p4d_net *m)
{
	free(m->codes.at);
	free(m->codes.made);
}

void p4d_weight_codes__forget(p4d_net *m)
{
	if (m->codes.made)
		memset(m->codes.made, 0, m->weights.count * sizeof(*m->codes.made));
}

/* An operand whose codes begin at `at`; its scales follow them. */
static p4d_fp8_operand kept_at(char *at, p4d_fp8_operand_shape shape)
{
	return (p4d_fp8_operand){
	    .shape = shape, .codes = (uint8_t *)at, .scales = at + p4d_fp8_scales_place(&shape)};
}

p4d_fp8_operand p4d_weight_codes__of(p4d_net *m, p4d_weight_kind kind, uint32_t layer, bool turned)
{
	const p4d_weight *w = p4d_weights__find(&m->weights, kind, layer);
	const uint64_t number = (uint64_t)(w - m->weights.weight);
	const int recipe = m->l->fp8_recipe;
	char *at = (char *)p4d_buffers_at(m, B_FP8_WEIGHTS) + m->codes.at[number];
	const p4d_fp8_operand as_is =
	    kept_at(at, p4d_fp8_shape_of(recipe, P4D_FP8_WEIGHT, w->rows, w->columns));
	const p4d_fp8_operand other = kept_at(at + p4d_fp8_operand_bytes(&as_is.shape),
					      p4d_fp8_shape_of(recipe, P4D_FP8_WEIGHT, w->columns, w->rows));

	if (!m->codes.made[number])
		m->d->quantize(m->d, m->type, &as_is, &other, p4d_buffers__weight(m, kind, layer));
	m->codes.made[number] = true;
	return turned ? other : as_is;
}
