/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The units of torchtitan's models that FSDP2 gathers and reduces (torchtitan/distributed/fsdp.py,
 * models/deepseek_v3/sharding.py, models/common/moe_sharding.py).
 */
#include "framework/torchtitan.h"

static void add(p4d_torchtitan_group *g, uint64_t rows, uint64_t columns)
{
	const int64_t share = (int64_t)((rows + (uint64_t)g->ranks - 1) / (uint64_t)g->ranks * columns);

	g->whole += (int64_t)(rows * columns);
	g->padded += share * g->ranks;
	g->share += share;
	if ((int64_t)(rows * columns) > g->largest)
		g->largest = (int64_t)(rows * columns);
}

static void add_attention(p4d_torchtitan_group *g, const p4d_layout *l)
{
	const uint64_t h = l->hidden, heads = l->heads / l->tp;
	const uint64_t A = heads * l->head_dim, G = l->kv_heads / l->tp * l->head_dim;
	const uint64_t wide = heads * (l->head_dim + l->rope_dim);

	if (!l->kv_rank) {
		add(g, A + 2 * G, h);
		add(g, h, A);
		for (int i = 0; l->qk_norm && i < 2; i++)
			add(g, l->head_dim, 1);
		return;
	}
	if (l->q_rank) {
		add(g, l->q_rank, h);
		add(g, l->q_rank, 1);
	}
	add(g, wide, l->q_rank ? l->q_rank : h);
	add(g, l->kv_rank + l->rope_dim, h);
	add(g, l->kv_rank, 1);
	add(g, heads * (l->head_dim + l->v_dim), l->kv_rank);
	add(g, h, heads * l->v_dim);
}

static void add_experts(p4d_torchtitan_group *g, const p4d_layout *l)
{
	const uint64_t h = l->hidden, F = p4d_torchtitan__expert_columns(l), mine = l->experts / l->ep;

	/* with g->cut, the ranks divide the rows of each matrix; otherwise they divide the experts */
	for (int i = 0; i < 3; i++)
		if (g->cut)
			add(g, i < 2 ? F : h, mine * (i < 2 ? h : F));
		else
			add(g, mine, F * h);
}

/*
 * Whether experts are sharded by rows, which FSDP does if there are fewer experts than ranks. Without ep,
 * torchtitan counts the ranks of its mesh, which include replicas of the model and, without DTensor, also
 * tensor parallelism.
 */
static bool cuts_rows(const p4d_layout *l, const p4d_torchtitan_sizes *z)
{
	const uint64_t mesh = l->dp * l->cp * (l->cp > 1 ? 1 : l->tp);

	return (l->ep > 1 ? z->shards * l->tp : mesh) > l->experts;
}

/*
 * Adds a memory layer's parameters: query, keys, and the matmuls around the gate. All but the keys have a
 * bias.
 */
static void add_memory(p4d_torchtitan_group *g, const p4d_layout *l)
{
	const uint64_t h = l->hidden, heads = l->memory.heads, dim = l->memory.key_dim;

	add(g, heads * dim, h);
	add(g, heads * dim, 1);
	add(g, 2 * heads * l->memory.keys, dim / 2);
	for (int i = 0; i < 2; i++) {
		add(g, h, h);
		add(g, h, 1);
	}
}

p4d_torchtitan_unit p4d_torchtitan__layer_unit(const p4d_layout *l, const p4d_torchtitan_sizes *z,
					       bool sparse)
{
	p4d_torchtitan_unit u = {.groups = sparse && l->ep > 1 ? 2 : 1};
	const uint64_t h = l->hidden, f = (sparse ? l->shared_ffn : l->ffn) /
					  l->tp; /* a layer with a memory has no feed-forward part */
	p4d_torchtitan_group *own = &u.group[0], *of_experts = &u.group[u.groups - 1];

	own->ranks = (int64_t)z->shards;
	own->element = of_experts->element = l->fp8_params ? 1 : z->element;
	if (u.groups > 1) /* with ep, tensor-parallel ranks also divide the experts */
		of_experts->ranks = (int64_t)(z->shards * l->tp > l->ep ? z->shards * l->tp / l->ep : 1);
	add_attention(own, l);
	add(own, h, 2); /* two norms */
	if (f) {
		add(own, f, h); /* gate and up are two parameters */
		add(own, f, h);
		add(own, h, f);
	}
	if (sparse && l->memory.keys) {
		add_memory(own, l);
	} else if (sparse) {
		add(own, l->experts, h);
		own->largest = 0;
		of_experts->cut = cuts_rows(l, z);
		add_experts(of_experts, l);
	}
	return u;
}

p4d_torchtitan_unit p4d_torchtitan__table_unit(const p4d_layout *l, const p4d_torchtitan_sizes *z,
					       unsigned tables, bool norm)
{
	p4d_torchtitan_unit u = {.group = {{.ranks = (int64_t)z->shards, .element = z->element}},
				 .groups = tables > 0};

	for (unsigned i = 0; i < tables; i++)
		add(&u.group[0], z->V, l->hidden);
	if (norm)
		add(&u.group[0], l->hidden, 1);
	return u;
}

int64_t p4d_torchtitan__elements(const p4d_torchtitan_unit *u, bool share)
{
	int64_t sum = 0;

	for (int i = 0; i < u->groups; i++)
		sum += share ? u->group[i].share : u->group[i].padded;
	return sum;
}

int64_t p4d_torchtitan__gathered(const p4d_torchtitan_unit *u)
{
	int64_t sum = 0;

	for (int i = 0; i < u->groups; i++)
		sum += u->group[i].padded * u->group[i].element;
	return sum;
}
