/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of attention in Megatron-LM's layers: Transformer Engine's fused attention, alone and with context
 * parallelism (context_parallel.py: AttnFuncWithCPAndKVP2P, AttnFuncWithCPAndKVAllGather,
 * AttnFuncWithCPAndQKVOA2A). The rank is the last one of a ring, which attends to all keys. Steps of the ring
 * and halves of the sequence take turns on two streams.
 */
#include "framework/megatron_reserved_attention.h"

static p4d_wide queries(const p4d_megatron_step *p)
{
	return (p4d_wide)p->z.tokens * p->z.A;
}

static p4d_wide keys(const p4d_megatron_step *p)
{
	return (p4d_wide)p->z.tokens * p->z.G;
}

/* Sums of the softmax in fp32. */
static p4d_wide statistics(const p4d_megatron_step *p)
{
	return (p4d_wide)p->z.tokens * (p->l->heads / p->l->tp) * 4 / p->element;
}

/* Size of the backward kernel's fp32 sums, in elements of the model's dtype. There is one sum for each of the
 * `elements` of the queries, and one for each head of each token. */
static p4d_wide sums_of(const p4d_megatron_step *p, p4d_wide elements)
{
	return (elements + elements / p->l->head_dim) * 4 / p->element;
}

static void sum_queries(p4d_megatron_step *p)
{
	p4d_allocated block = take(p, sums_of(p, queries(p)));

	give(p, &block);
}

static void give_all(p4d_megatron_step *p, p4d_allocated *kept, const p4d_megatron_kept *of, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		give(p, &kept[of[i]]);
}

/* ---- the kernel ---- */

static void forward_plain(p4d_megatron_step *p, p4d_allocated *kept)
{
	kept[KEPT_VALUE] = take(p, keys(p));
	kept[KEPT_OUTPUT] = take(p, queries(p));
	kept[KEPT_STATISTICS] = take(p, statistics(p));
}

static void backward_plain(p4d_megatron_step *p, p4d_allocated gradient[3])
{
	sum_queries(p);
	gradient[0] = take(p, queries(p));
	gradient[1] = take(p, keys(p));
	gradient[2] = take(p, keys(p));
}

static p4d_allocated take_in_turn(p4d_megatron_step *p, unsigned step, p4d_wide elements)
{
	return step % 2 ? take_aside(p, elements) : take(p, elements);
}

/*
 * Keys and values of all ranks pass through the ring. A step allocates the buffers for the keys and values
 * that the next step uses.
 */
static void forward_ring(p4d_megatron_step *p, p4d_allocated *kept)
{
	const unsigned ranks = (unsigned)p->l->cp;
	p4d_allocated pair[P4D_MEGATRON_RING], output[P4D_MEGATRON_RING], sums[P4D_MEGATRON_RING];

	kept[KEPT_VALUE] = take(p, keys(p));
	pair[0] = take(p, 2 * keys(p));
	for (unsigned i = 0; i < ranks; i++) {
		if (i + 1 < ranks)
			pair[i + 1] = take_in_turn(p, i, 2 * keys(p));
		output[i] = take_in_turn(p, i, queries(p));
		sums[i] = take_in_turn(p, i, statistics(p));
		if (i == 1)
			kept[KEPT_STATISTICS] = take(p, statistics(p));
	}
	kept[KEPT_OUTPUT] = take(p, queries(p));
	for (unsigned i = ranks; i-- > 0;)
		give(p, &output[i]);
	for (unsigned i = ranks; i-- > 0;)
		give(p, &sums[i]);
	for (unsigned i = 0; i + 1 < ranks; i++)
		give(p, &pair[i]);
	kept[KEPT_RING] = pair[ranks - 1];
	give(p, &kept[KEPT_VALUE]);
}

/*
 * The ring has two buffers, gradient[2] and `other`. Each of them holds keys, values, and the gradients of
 * both. A rank sends from one buffer while it receives into the other. In the end gradient[2] has the
 * gradients of keys and values, so it stays until the gradient of the first matmul's result exists.
 */
static void backward_ring(p4d_megatron_step *p, p4d_allocated gradient[3])
{
	const p4d_wide A = queries(p), G = keys(p);

	gradient[0] = take(p, A);
	gradient[2] = take(p, 4 * G);
	p4d_allocated other = take(p, 4 * G);
	for (uint64_t i = 0; i < p->l->cp; i++) { /* before the last step, half of the keys are visible */
		const p4d_wide visible = i + 1 < p->l->cp ? G / 2 : G;
		sum_queries(p);
		p4d_allocated query = take(p, A), key = take(p, visible), value = take(p, visible);
		give(p, &query);
		give(p, &key);
		give(p, &value);
	}
	give(p, &other);
}

/* Keys or values of all ranks, in the order of tokens. */
static p4d_allocated gather(p4d_megatron_step *p, p4d_allocated *gathered)
{
	const p4d_allocated ordered = take(p, p->l->cp * keys(p));

	give(p, gathered);
	return ordered;
}

static void gather_both(p4d_megatron_step *p, p4d_allocated of[2])
{
	p4d_allocated key = take(p, p->l->cp * keys(p)), value = take(p, p->l->cp * keys(p));

	of[0] = gather(p, &key);
	of[1] = gather(p, &value);
}

static void forward_gathered(p4d_megatron_step *p, p4d_allocated *kept)
{
	p4d_allocated of[2];

	kept[KEPT_VALUE] = take(p, keys(p));
	gather_both(p, of);
	kept[KEPT_OUTPUT] = take(p, queries(p));
	kept[KEPT_FIRST_HALF] = take(p, queries(p) / 2);
	kept[KEPT_SECOND_HALF] = take_aside(p, queries(p) / 2);
	give(p, &of[0]);
	give(p, &of[1]);
}

/*
 * A rank has two of the 2*cp chunks of the sequence. The second half of the last rank's queries sees one
 * chunk of keys more than the first half.
 */
static void backward_halves(p4d_megatron_step *p, p4d_allocated half[6])
{
	const p4d_wide A = queries(p) / 2, G = p->l->cp * keys(p) / 2, more = G + keys(p) / 2;

	p4d_allocated sums = take(p, sums_of(p, A));
	give(p, &sums);
	half[1] = take(p, A);
	half[3] = take(p, G);
	half[5] = take(p, G);
	sums = take_aside(p, sums_of(p, A));
	give(p, &sums);
	half[0] = take_aside(p, A);
	half[2] = take_aside(p, more);
	half[4] = take_aside(p, more);
}

static void backward_gathered(p4d_megatron_step *p, p4d_allocated gradient[3])
{
	const p4d_wide all = p->l->cp * keys(p);
	p4d_allocated of[2], half[6], key, value;

	gradient[0] = take(p, queries(p));
	key = take(p, all);
	value = take(p, all);
	gather_both(p, of);
	backward_halves(p, half);
	replace(p, &key, all);
	replace(p, &value, all);
	gradient[1] = take(p, keys(p));
	give(p, &key);
	gradient[2] = take(p, keys(p));
	give(p, &value);
	for (unsigned i = 0; i < 6; i++)
		give(p, &half[i]);
	give(p, &of[0]);
	give(p, &of[1]);
}

/* After the all-to-all, a rank has all tokens of some heads instead of some tokens of all heads. */
static void forward_exchanged(p4d_megatron_step *p, p4d_allocated *kept)
{
	const p4d_wide A = queries(p), G = keys(p);

	kept[KEPT_VALUE] = take(p, G);
	p4d_allocated query[2] = {take(p, A), take(p, A)}, key[2] = {take(p, G), take(p, G)};
	kept[KEPT_OTHER_QUERY] = take_aside(p, A);
	p4d_allocated value[2] = {take(p, G), take(p, G)};
	kept[KEPT_OTHER_KEY] = take_aside(p, G);
	kept[KEPT_OTHER_VALUE] = take_aside(p, G);
	for (unsigned i = 0; i < 2; i++) {
		give(p, &value[i]);
		give(p, &key[i]);
		give(p, &query[i]);
	}
	kept[KEPT_OTHER_OUTPUT] = take(p, A);
	kept[KEPT_STATISTICS] = take(p, statistics(p));
	p4d_allocated ordered = take(p, A), exchanged = take(p, A);
	kept[KEPT_OUTPUT] = take_aside(p, A);
	give(p, &ordered);
	give(p, &exchanged);
	give(p, &kept[KEPT_VALUE]);
}

static void backward_exchanged(p4d_megatron_step *p, p4d_allocated gradient[3])
{
	const p4d_wide A = queries(p), G = keys(p);
	p4d_allocated output[2] = {take(p, A), take(p, A)}, ordered = take_aside(p, A), block[9];

	give(p, &output[0]);
	give(p, &output[1]);
	sum_queries(p);
	p4d_allocated query = take(p, A), key = take(p, G), value = take(p, G);
	block[0] = take(p, A);
	block[1] = take(p, A);
	block[2] = take(p, G);
	block[3] = take(p, G);
	block[4] = take(p, G);
	gradient[0] = take_aside(p, A);
	block[5] = take(p, G);
	gradient[1] = take_aside(p, G);
	gradient[2] = take_aside(p, G);
	for (unsigned i = 0; i < 6; i++)
		give(p, &block[i]);
	give(p, &query);
	give(p, &key);
	give(p, &value);
	give(p, &ordered);
}

typedef struct attention_kernel {
	void (*forward)(p4d_megatron_step *p, p4d_allocated *kept);
	/*
	 * allocates the gradients of queries, keys and values; in a ring, those of keys and values are one
	 * block
	 */
	void (*backward)(p4d_megatron_step *p, p4d_allocated gradient[3]);
} attention_kernel;

static const attention_kernel *kernel_of(const p4d_layout *l)
{
	static const attention_kernel plain = {forward_plain, backward_plain},
				      ring = {forward_ring, backward_ring},
				      gathered = {forward_gathered, backward_gathered},
				      exchanged = {forward_exchanged, backward_exchanged};

	if (l->cp == 1)
		return &plain;
	return l->cp_comm == P4D_CP_P2P ? &ring : l->cp_comm == P4D_CP_ALL_GATHER ? &gathered : &exchanged;
}

/*
 * Tensors that only the kernel keeps. It also keeps queries, keys, statistics and the output, which the next
 * matmul keeps as well.
 */
static const p4d_megatron_kept of_kernel[] = {KEPT_VALUE,       KEPT_RING,        KEPT_FIRST_HALF,
					      KEPT_SECOND_HALF, KEPT_OTHER_QUERY, KEPT_OTHER_KEY,
					      KEPT_OTHER_VALUE, KEPT_OTHER_OUTPUT};
enum { OF_KERNEL = sizeof(of_kernel) / sizeof(of_kernel[0]) };

static bool checkpoints(const p4d_megatron_step *p)
{
	return p4d_megatron__again(p->l, P4D_MODULE_CORE_ATTENTION);
}

/* ---- around the kernel ---- */

/*
 * Elements of the first matmul's result. If ranks have copies of key/value heads, the results of all ranks
 * are gathered.
 */
static p4d_wide product(const p4d_megatron_step *p)
{
	const p4d_layout *l = p->l;

	return l->kv_heads < l->tp ? (p4d_wide)p->z.tokens * (l->heads + 2 * l->kv_heads) * l->head_dim
				   : queries(p) + 2 * keys(p);
}

/* Queries of several groups are copied into the order of heads. Norms keep their inputs. */
static void split(p4d_megatron_step *p, p4d_allocated *kept, p4d_allocated copy[2])
{
	const bool copies = p->z.G > p->l->head_dim && p->z.A > p->z.G;

	copy[0] = copy[1] = 0;
	if (p->l->qk_norm) {
		kept[KEPT_QUERY_BEFORE_NORM] = take(p, queries(p));
		copy[0] = take(p, queries(p));
		kept[KEPT_KEY_BEFORE_NORM] = take(p, keys(p));
		copy[1] = take(p, keys(p));
	} else if (copies) {
		copy[0] = take(p, queries(p));
	}
	kept[KEPT_QUERY] = take(p, queries(p));
	kept[KEPT_KEY] = take(p, keys(p));
}

void p4d_megatron__forward_attention(p4d_megatron_step *p, p4d_allocated *kept, bool saves)
{
	static const p4d_megatron_kept after[] = {
	    KEPT_QUERY_BEFORE_NORM, KEPT_KEY_BEFORE_NORM, KEPT_QUERY, KEPT_KEY, KEPT_PRODUCT, KEPT_OUTPUT};
	p4d_allocated copy[2];

	kept[KEPT_NORM] = take(p, p4d_megatron__narrow(p));
	p4d_allocated whole = p4d_megatron__gathered(p);
	if (p->l->megatron.te_wgrad)
		p4d_megatron__once(p, "workspace");
	kept[KEPT_PRODUCT] = p4d_megatron__matmul(p, product(p));
	give(p, &whole);
	if (!saves)
		give(p, &kept[KEPT_NORM]);
	split(p, kept, copy);
	kernel_of(p->l)->forward(p, kept);
	if (!saves || checkpoints(p)) {
		give(p, &kept[KEPT_STATISTICS]);
		give_all(p, kept, of_kernel, OF_KERNEL);
	}
	p4d_allocated result = p4d_megatron__summed(p);
	give(p, &copy[0]);
	give(p, &copy[1]);
	if (saves && !checkpoints(p)) {
		if (kept[KEPT_OTHER_QUERY]) /* the kernel keeps KEPT_OTHER_QUERY instead */
			give(p, &kept[KEPT_QUERY]);
		if (kept[KEPT_RING] || kept[KEPT_OTHER_KEY])
			give(p, &kept[KEPT_KEY]);
		give(p, &kept[KEPT_PRODUCT]);
	}
	if (!saves)
		give_all(p, kept, after, sizeof(after) / sizeof(after[0]));
	kept[KEPT_MIDDLE] = take(p, p4d_megatron__narrow(p));
	give(p, &result);
}

/* The gradients of queries, keys and values before the rotation. */
static void backward_kernel(p4d_megatron_step *p, p4d_allocated *kept, p4d_allocated gradient[3])
{
	static const p4d_megatron_kept inputs[] = {KEPT_QUERY, KEPT_KEY};
	p4d_allocated again[P4D_MEGATRON_KEPT] = {0}, whole = p4d_megatron__gathered(p);
	p4d_allocated of_output = p4d_megatron__matmul(p, queries(p));

	give(p, &whole);
	p4d_allocated of_weight = p4d_megatron__weight_gradient(p, "dummy.output", (p4d_wide)p->z.h * p->z.A);
	give(p, &of_weight);
	/* the kernel recomputes the output below, or keeps it in another block */
	if (checkpoints(p) || kept[KEPT_OTHER_OUTPUT] || kept[KEPT_FIRST_HALF])
		give(p, &kept[KEPT_OUTPUT]);
	if (checkpoints(p))
		kernel_of(p->l)->forward(p, again);
	kernel_of(p->l)->backward(p, gradient);
	give_all(p, again, of_kernel, OF_KERNEL);
	give(p, &again[KEPT_STATISTICS]);
	give(p, &again[KEPT_OUTPUT]);
	give(p, &of_output);
	give_all(p, kept, inputs, 2);
	give(p, &kept[KEPT_PRODUCT]);
	give_all(p, kept, of_kernel, OF_KERNEL);
	give(p, &kept[KEPT_OUTPUT]);
	give(p, &kept[KEPT_STATISTICS]);
}

static p4d_allocated backward_product(p4d_megatron_step *p, p4d_allocated *kept)
{
	const p4d_wide A = queries(p), G = keys(p);
	p4d_allocated gradient[3] = {0};

	backward_kernel(p, kept, gradient);
	for (int norms = 0; norms <= (p->l->qk_norm ? 1 : 0);
	     norms++) { /* backward passes of the rotation, and of norms before it */
		replace(p, &gradient[1], G);
		replace(p, &gradient[0], A);
	}
	give(p, &kept[KEPT_QUERY_BEFORE_NORM]);
	give(p, &kept[KEPT_KEY_BEFORE_NORM]);
	const p4d_allocated of_product = take(p, product(p));
	for (int i = 0; i < 3; i++)
		give(p, &gradient[i]);
	return of_product;
}

p4d_allocated p4d_megatron__backward_norm(p4d_megatron_step *p, p4d_allocated *norm,
					  p4d_allocated *of_product, const char *dummy, p4d_wide weight)
{
	const p4d_wide narrow = p4d_megatron__narrow(p);
	p4d_allocated input = p4d_megatron__gathered(p),
		      of_input = p4d_megatron__matmul(p, p4d_megatron__wide(p));
	p4d_allocated own = p->z.gathers ? take(p, narrow) : 0;

	p4d_allocated of_weight = 0;

	if (!p->l->megatron.te_wgrad) { /* the weight gradient is complete before the norm's backward pass */
		of_weight = p4d_megatron__weight_gradient(p, dummy, weight);
		give(p, of_product);
	}
	give(p, norm);
	give(p, &of_weight);
	give(p, &input);
	const p4d_allocated of_norm = take(p, narrow);
	give(p, &own);
	if (p->l->megatron.te_wgrad)
		p4d_megatron__weight_gradient(p, dummy, weight);
	give(p, &of_input);
	give(p, of_product);
	return of_norm;
}

p4d_allocated p4d_megatron__backward_attention(p4d_megatron_step *p, p4d_allocated *kept,
					       p4d_allocated gradient, bool into)
{
	p4d_allocated of_product = backward_product(p, kept), sum = gradient;
	p4d_allocated of_norm = p4d_megatron__backward_norm(p, &kept[KEPT_NORM], &of_product, "dummy.qkv",
							    (p4d_wide)(p->z.A + 2 * p->z.G) * p->z.h);

	if (!into) {
		give(p, &kept[KEPT_INPUT]);
		sum = take(p, p4d_megatron__narrow(p));
		give(p, &gradient);
	}
	give(p, &of_norm);
	return sum;
}
