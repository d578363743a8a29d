/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW with moments in 8 bits (plan/byte_moments.h), block by block. */
#include "device/byte_codes.h"
#include "device/cpu/cpu_adam.h"
#include "device/cpu/cpu_operations.h"
#include "device/cpu/cpu_threads.h"

/* The numbers that the codes of first and second moments stand for. */
typedef struct numbers {
	float first[P4D_BYTE_CODES], second[P4D_BYTE_CODES];
} numbers;

/* The arguments of a call, for the function that updates one block. of: the values that codes stand for. */
typedef struct blocks {
	const p4d_byte_moments *moments;
	const REAL *gradient;
	adam_step step;
	numbers of;
} blocks;

/* Elements from .. to-1 of a call, which are in one block, and their new moments. */
typedef struct byte_block {
	uint64_t from, to;
	REAL first[P4D_BYTE_BLOCK], second[P4D_BYTE_BLOCK];
	REAL first_scale, second_scale;
} byte_block;

static blocks blocks_of(const p4d_byte_moments *moments, const REAL *gradient, const p4d_adam *adam)
{
	blocks all = {.moments = moments, .gradient = gradient, .step = step_of(adam)};

	for (unsigned i = 0; i < P4D_BYTE_CODES; i++) {
		all.of.first[i] = p4d_nf4_of_eight_bits((uint8_t)i);
		all.of.second[i] = p4d_byte_sizes[i];
	}
	return all;
}

P4D_CLONES static void find_moments(byte_block *b, const blocks *all, uint64_t number)
{
	const p4d_byte_moments *m = all->moments;
	const adam_step step = all->step;
	const uint64_t begin = number * P4D_BYTE_BLOCK, end = begin + P4D_BYTE_BLOCK - m->before;
	const REAL first_scale = m->first_scale[number], second_scale = m->second_scale[number];

	b->from = begin > m->before ? begin - m->before : 0;
	b->to = end < m->count ? end : m->count;
	b->first_scale = b->second_scale = 0;
	for (uint64_t i = 0; i < b->to - b->from; i++) {
		const REAL g = all->gradient[b->from + i] * step.scale;
		const REAL x = all->of.first[m->first[b->from + i]] * first_scale,
			   y = all->of.second[m->second[b->from + i]] * second_scale;
		b->first[i] = step.beta1 * x + (1 - step.beta1) * g;
		b->second[i] = step.beta2 * y + (1 - step.beta2) * g * g;
	}
	for (uint64_t i = 0; i < b->to - b->from; i++) {
		const REAL size = b->first[i] < 0 ? -b->first[i] : b->first[i];
		b->first_scale = size > b->first_scale ? size : b->first_scale;
		b->second_scale = b->second[i] > b->second_scale ? b->second[i] : b->second_scale;
	}
}

/*
 * Sets the new scales of a block. If other ranks have elements of the block, the scales are those that all
 * ranks agreed on.
 */
static void agree(byte_block *b, const p4d_byte_moments *m, uint64_t number)
{
	const uint64_t last = (m->before + m->count - 1) / P4D_BYTE_BLOCK;
	const float *of_all = number == 0 && m->begin ? m->begin : number == last ? m->end : NULL;

	if (of_all) {
		b->first_scale = of_all[0];
		b->second_scale = of_all[1];
	}
	m->first_scale[number] = (float)b->first_scale;
	m->second_scale[number] = (float)b->second_scale;
}

P4D_CLONES static void store_codes(const byte_block *b, const blocks *all, uint64_t number)
{
	const p4d_byte_moments *m = all->moments;
	const float first = p4d_byte_factor(m->first_scale[number]),
		    second = p4d_byte_factor(m->second_scale[number]);

#pragma omp simd
	for (uint64_t i = 0; i < b->to - b->from; i++) {
		m->first[b->from + i] = p4d_byte_nearest(all->of.first, (float)b->first[i] * first);
		m->second[b->from + i] = p4d_byte_nearest(all->of.second, (float)b->second[i] * second);
	}
}

P4D_CLONES static void store_parameters(ELEMENT *parameter, REAL *exact, const byte_block *b,
					const blocks *all)
{
	const adam_step step = all->step;

#pragma omp simd
	for (uint64_t i = 0; i < b->to - b->from; i++) {
		const uint64_t at = b->from + i;
		exact[at] = moved(&step, exact[at], b->first[i], b->second[i]);
#if P4D_CPU_TYPE == 16
		parameter[at] = p4d_store(exact[at]);
#else
		(void)parameter;
#endif
	}
}

void OP(adam_bytes)(ELEMENT *parameter, REAL *master, const p4d_byte_moments *m, const REAL *gradient,
		    const p4d_adam *adam)
{
	const blocks all = blocks_of(m, gradient, adam);
	const uint64_t count = (m->before + m->count + P4D_BYTE_BLOCK - 1) / P4D_BYTE_BLOCK;

#pragma omp parallel for num_threads(p4d_cpu_team(m->count))
	for (uint64_t number = 0; number < count; number++) {
		byte_block b;
		find_moments(&b, &all, number);
		agree(&b, m, number);
		store_parameters(parameter, exact_of(parameter, master), &b, &all);
		store_codes(&b, &all, number);
	}
}

#if P4D_CPU_TYPE != 16

void OP(adam_byte_scales)(float *scales, const p4d_byte_moments *m, uint64_t number, const REAL *gradient,
			  const p4d_adam *adam)
{
	const blocks all = blocks_of(m, gradient, adam);
	byte_block b;

	find_moments(&b, &all, number);
	scales[0] = (float)b.first_scale;
	scales[1] = (float)b.second_scale;
}

#endif
