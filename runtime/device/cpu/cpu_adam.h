/* SPDX-License-Identifier: Apache-2.0 */
/* The step of AdamW. No guard: see cpu_types.h. */
#include "device/cpu/cpu_math.h"
#include "device/device.h"

/* Factors for all elements of a call. */
typedef struct adam_step {
	REAL beta1, beta2, scale, rate, epsilon, root, keep;
} adam_step;

P4D_INLINE adam_step step_of(const p4d_adam *adam)
{
	return (adam_step){.beta1 = adam->beta1,
			   .beta2 = adam->beta2,
			   .scale = adam->gradient_scale,
			   .rate = adam->learning_rate / adam->correction1,
			   .epsilon = adam->epsilon,
			   .root = 1 / SQRT((REAL)adam->correction2),
			   .keep = 1 - (REAL)adam->learning_rate * (REAL)adam->weight_decay};
}

/* Returns the new parameter. m, v: its new moments. */
P4D_INLINE REAL moved(const adam_step *s, REAL x, REAL m, REAL v)
{
	return x * s->keep - s->rate * m / (SQRT(v) * s->root + s->epsilon);
}

/* Replaces the moments by the new ones; returns the new parameter. */
P4D_INLINE REAL stepped(const adam_step *s, REAL x, REAL *m, REAL *v, REAL gradient)
{
	const REAL g = gradient * s->scale;

	*m = s->beta1 * *m + (1 - s->beta1) * g;
	*v = s->beta2 * *v + (1 - s->beta2) * g * g;
	return moved(s, x, *m, *v);
}

/* Returns the array to update: the master copy, or in fp32 the parameter itself. */
P4D_INLINE REAL *exact_of(ELEMENT *parameter, REAL *master)
{
#if P4D_CPU_TYPE == 16
	(void)parameter;
	return master;
#else
	(void)master;
	return parameter;
#endif
}
