/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulated steps of Megatron-LM allocate in several places. */
#include <string.h>

#include "framework/megatron_reserved.h"

bool p4d_megatron__ends(const p4d_megatron_step *p)
{
	return p->main.overflow || p->side.overflow || p->streams.exhausted;
}

uint64_t p4d_megatron__named(const p4d_megatron_step *p, const char *name)
{
	for (unsigned i = 0; i < p->plan->count; i++)
		if (!strcmp(p->plan->tensor[i].name, name))
			return p->plan->tensor[i].bytes;
	return 0;
}

/* A name that was allocated is found by its pointer, because layers ask for the same names again and again.
 */
void p4d_megatron__once(p4d_megatron_step *p, const char *name)
{
	for (unsigned i = 0; i < p->once_count; i++)
		if (p->once[i] == name)
			return;
	if (p->once_count < P4D_MEGATRON_ONCE)
		p->once[p->once_count++] = name;
	for (unsigned i = 0; i < p->plan->count; i++)
		if (!p->exists[i] && !strcmp(p->plan->tensor[i].name, name)) {
			take_bytes(p, p->plan->tensor[i].bytes);
			p->exists[i] = true;
		}
}

p4d_allocated p4d_megatron__matmul(p4d_megatron_step *p, p4d_wide elements)
{
	const p4d_allocated result = take(p, elements);

	if (!p->l->megatron.te_wgrad) {
		p4d_allocated workspace = take_bytes(p, p4d_megatron__named(p, "workspace"));
		give(p, &workspace);
	}
	return result;
}

p4d_allocated p4d_megatron__weight_gradient(p4d_megatron_step *p, const char *dummy, p4d_wide elements)
{
	if (!p->l->megatron.te_wgrad)
		return p4d_megatron__matmul(p, elements);
	p4d_megatron__once(p, dummy);
	return 0;
}

p4d_allocated p4d_megatron__gathered(p4d_megatron_step *p)
{
	return p->z.gathers ? take(p, p4d_megatron__wide(p)) : 0;
}

/* With sequence parallelism, each rank keeps only its tokens. */
p4d_allocated p4d_megatron__summed(p4d_megatron_step *p)
{
	p4d_allocated sum = p4d_megatron__matmul(p, p4d_megatron__wide(p));

	if (p->z.gathers)
		replace(p, &sum, p4d_megatron__narrow(p));
	return sum;
}
