/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on parameters that all kinds of sharding use, and the order of parameters in the model. */
#include "framework/transformers_reserved.h"

void p4d_reserved__add_gradient(void *owner, uint64_t bytes)
{
	p4d_reserved *r = owner;

	if (r->micro_batch == 0)
		p4d_reserved__take(r, &r->grads, bytes);
	else
		p4d_reserved__take_for_a_while(r, bytes);
}

void p4d_reserved__load(p4d_reserved *r, uint64_t elements)
{
	p4d_reserved__take(r, NULL, (p4d_wide)elements * r->stored);
}

void p4d_reserved__hold(p4d_reserved *r, uint64_t elements)
{
	p4d_reserved__take(r, &r->some, (p4d_wide)elements * r->stored);
}

static void list_experts(const p4d_layout *l, p4d_reserved_parameters *p)
{
	const uint64_t up = p4d_transformers__experts_up(l);

	p->of[p->count++] = (p4d_reserved_parameter){l->hidden * l->experts, {0, 0}};
	p->of[p->count++] = (p4d_reserved_parameter){up, {0, 0}};
	p->of[p->count++] = (p4d_reserved_parameter){up / (l->glu ? 2 : 1), {0, 0}};
}

void p4d_reserved__list_parameters(const p4d_layout *l, unsigned kind, p4d_reserved_parameters *p)
{
	p4d_transformers_linear linears[P4D_TRANSFORMERS_LINEARS];
	const size_t n = p4d_transformers__linears(l, kind, linears);

	p->count = 0;
	for (size_t i = 0; i < n; i++) {
		const bool adapts = p4d_transformers__adapts(l, linears[i].target);
		p->of[p->count++] = (p4d_reserved_parameter){
		    linears[i].in * linears[i].out,
		    {adapts ? l->lora.rank * linears[i].in : 0, adapts ? l->lora.rank * linears[i].out : 0}};
	}
	if (p4d_transformers__has_experts(kind))
		list_experts(l, p);
}

uint64_t p4d_reserved__table_of(const p4d_layout *l)
{
	return l->vocab * l->hidden;
}

static void each_of_layer(p4d_reserved *r, p4d_reserved_visit *visit, bool frozen)
{
	for (unsigned k = 0; k < r->parameters.count; k++) {
		const p4d_reserved_parameter *p = &r->parameters.of[k];
		if (r->full || frozen)
			visit(r, p->elements);
		if (!r->full && p->adapter[0]) {
			visit(r, p->adapter[0]);
			visit(r, p->adapter[1]);
		}
	}
}

void p4d_reserved__each_of_unit(p4d_reserved *r, unsigned unit, p4d_reserved_visit *visit)
{
	if (unit && unit <= r->layers)
		each_of_layer(r, visit, true);
	else
		visit(r, p4d_reserved__table_of(r->l));
}

p4d_wide p4d_reserved__unit_bytes(const p4d_reserved *r, unsigned unit)
{
	const unsigned kind = p4d_transformers__kind_of(r->l, 0);

	if (!unit || unit > r->layers)
		return (p4d_wide)(p4d_reserved__table_of(r->l) + (unit ? r->l->hidden : 0)) * r->w.weight;
	return (p4d_transformers__layer_size(r->l, kind, r->shards) +
		p4d_transformers__layer_adapters(r->l, kind)) *
	       r->w.weight;
}

/* Calls visit for each trained parameter in order: tables, matrices or adapters. */
void p4d_reserved__each_trained(p4d_reserved *r, p4d_reserved_visit *visit)
{
	const p4d_layout *l = r->l;

	if (r->full)
		visit(r, p4d_reserved__table_of(l));
	if (r->full && r->places)
		visit(r, r->places);
	for (uint32_t i = 0; i < r->layers; i++)
		each_of_layer(r, visit, false);
	if (r->full && !l->tied)
		visit(r, p4d_reserved__table_of(l));
}
