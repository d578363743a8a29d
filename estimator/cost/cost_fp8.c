/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of FP8 in a layer in addition to its matmuls: kernels that quantize the operands, as Transformer
 * Engine launches them (pytorch/module/linear.py, layernorm_linear.py); and the time that FP8 saves in
 * collectives and norms.
 *
 * Before Blackwell, matrix units multiply FP8 only by rows. So an operand of two matmuls has two copies, the
 * second one transposed. Block scales differ by direction, so with them there are two copies on any GPU. Each
 * cast reads 16 bits and writes one or two copies. Recipes that scale by a tensor's current maximum read the
 * tensor once more before the cast. So does NVFP4, which scales the 8-bit scales of its blocks by a scale of
 * the tensor.
 */
#include "cost/cost_internal.h"
#include "plan/parameters.h"
#include "request/fp8.h"

/*
 * How much longer casts and transposes take per byte than kernels that read and write in order, because they
 * go through shared memory and compute maxima. Chosen from three runs on H100 (recipes_measured.csv,
 * `chosen`). On Blackwell a tensor with one scale is cast in order, without a transposed copy;
 * IN_ORDER_SLOWNESS was chosen from Llama 3.1 405B with current scaling on GB200 and GB300. Nobody has timed
 * p4d-train's kernels that quantize; they are assumed to be as slow as those of Transformer Engine.
 */
#define CAST_SLOWNESS 2.5
#define IN_ORDER_SLOWNESS 1.45

/*
 * With one fp32 scale per block of 128 elements, the CUDA cores multiply the partial sums of each block by
 * the scales of both operands. In the passes of activations, one of the scales belongs to a square block of
 * the weight, so it is the same for a whole tile. In weight gradients, each row of both operands has its own
 * scale, which takes longer. Chosen from DeepSeek-V3's profile on an H800
 * (github.com/deepseek-ai/profile-data, train.json): 1.91e13 FLOPs of weight gradients in 27.5 ms, where p4d
 * would predict 20.3 ms with the 20 multiprocessors that the exchange of tokens takes. p4d-train's weight
 * gradients were never measured.
 */
#define ROW_SCALED_SLOWNESS 1.36

typedef struct casting {
	double reads;    /* bytes per element that a cast reads */
	double copies;   /* number of copies of an operand that two matmuls use */
	double bytes;    /* bytes per element of a copy */
	bool in_order;   /* a single copy in the tensor's order, with a single scale */
	bool transposes; /* only one copy is gathered, and the second copy is made from it */
} casting;

static casting casting_of(const p4d_layout *l, const p4d_cost_rates *r)
{
	const p4d_fp8_recipe *recipe = &p4d_fp8_recipes[l->fp8_recipe];
	const bool twice = !recipe->by_tensor || r->fp8_by_rows;

	return (casting){.reads = recipe->maxima ? 4 : 2,
			 .copies = twice ? 2 : 1,
			 .bytes = p4d_cost__cast_bytes(l),
			 .in_order = !twice,
			 .transposes = recipe->by_tensor && twice};
}

static double cast(const p4d_cost_rates *r, const casting *c, double elements, double copies)
{
	const double slowness = c->in_order ? IN_ORDER_SLOWNESS : CAST_SLOWNESS;

	return p4d_cost__memory_seconds(r, slowness * (c->reads + c->bytes * copies) * elements);
}

static double transpose(const p4d_cost_rates *r, const casting *c, double elements)
{
	return c->transposes ? p4d_cost__memory_seconds(r, CAST_SLOWNESS * 2 * elements) : 0;
}

/*
 * Seconds of FP8 in norms. With delayed scales, norms write FP8 themselves; otherwise a separate kernel casts
 * their result.
 */
static double norm_seconds(const p4d_layout *l, const p4d_cost_rates *r, const casting *c,
			   const p4d_cost_sizes *z, double copies)
{
	if (l->fp8_recipe == P4D_FP8_DELAYED)
		return p4d_cost__memory_seconds(r, z->residual) -
		       p4d_cost__memory_seconds(r, 2 * z->residual);
	return cast(r, c, z->residual, copies);
}

/*
 * Seconds to cast gradients of the hidden size, which are inputs of matmuls in the backward pass. With
 * sequence parallelism, a gradient is cast to one copy, this copy is gathered, and the other copy is made
 * from the gathered copy.
 */
static double gradient_seconds(const p4d_layout *l, const p4d_cost_rates *r, const casting *c,
			       const p4d_cost_sizes *z)
{
	const double rows = z->n * z->h;

	if (!l->sequence_parallel)
		return cast(r, c, rows, c->copies);
	return cast(r, c, z->residual, c->transposes ? 1 : c->copies) + transpose(r, c, rows);
}

/*
 * Seconds to agree on delayed scales. Transformer Engine (pytorch/quantization.py) copies the maxima of all
 * tensors into one tensor, reduces it over the ranks that share these layers, and computes the scales in one
 * kernel. This runs after the forward and after the backward pass of an autocast region. Megatron-LM opens
 * such a region for each chunk.
 */
double p4d_cost__maxima_seconds(const p4d_layout *l)
{
	enum { KERNELS = 4 };

	if (l->precision != P4D_FP8 || l->fp8_recipe != P4D_FP8_DELAYED ||
	    !p4d_framework_of(l->framework)->cost.reduces_maxima)
		return 0;
	return KERNELS * P4D_LAUNCH_SECONDS +
	       p4d_cost__small_sum_seconds(p4d_cost__ring_of(l, l->tp * l->cp * l->dp, 1));
}

double p4d_cost__cast_seconds(const p4d_layout *l, const p4d_cost_rates *r, double elements)
{
	const casting c = casting_of(l, r);

	return l->precision == P4D_FP8 && elements > 0 ? cast(r, &c, elements, c.copies) : 0;
}

double p4d_cost__weight_gradient_slowness(const p4d_layout *l)
{
	const p4d_fp8_recipe *recipe = l->precision == P4D_FP8 ? &p4d_fp8_recipes[l->fp8_recipe] : NULL;

	return recipe && recipe->block && recipe->scale_bytes == 4 &&
		       p4d_framework_of(l->framework)->cost.slow_row_scales
		   ? ROW_SCALED_SLOWNESS
		   : 1;
}

/* Adds the casts of latent attention, where each matmul's input and gradient are cast separately. */
static void latent_casts(const p4d_layout *l, const p4d_cost_rates *r, const casting *c,
			 const p4d_cost_sizes *z, p4d_cost_share *forward, p4d_cost_share *backward)
{
	const double heads = (double)l->heads / (double)l->tp, own = z->residual / z->h;
	const double ranks = (double)l->q_rank + (double)l->kv_rank, d = (double)l->head_dim;
	const double rope = (double)l->rope_dim, v = (double)l->v_dim;

	forward->memory_bound += 2 * cast(r, c, z->residual, c->copies) + cast(r, c, own * ranks, c->copies) +
				 cast(r, c, z->n * heads * v, c->copies);
	backward->memory_bound += gradient_seconds(l, r, c, z) +
				  cast(r, c, z->n * heads * (2 * d + rope + v), c->copies) +
				  cast(r, c, own * (ranks + rope), c->copies);
}

/*
 * Adds the casts of a pair of matmuls: the norm's result (input of the first), the input of the second, and
 * the gradients of both.
 */
static void pair_casts(const p4d_layout *l, const p4d_cost_rates *r, const casting *c,
		       const p4d_cost_sizes *z, double columns, double next, p4d_cost_share *forward,
		       p4d_cost_share *backward)
{
	/* with sequence parallelism, the gathered input is transposed for the weight gradients */
	const double again = transpose(r, c, z->n * z->h);
	const bool later = l->sequence_parallel;

	forward->memory_bound += norm_seconds(l, r, c, z, c->copies) + cast(r, c, z->n * next, c->copies) +
				 (later || l->fp8_recipe != P4D_FP8_DELAYED ? 0 : again);
	backward->memory_bound +=
	    gradient_seconds(l, r, c, z) + cast(r, c, z->n * columns, c->copies) + (later ? again : 0);
}

double p4d_cost__quantize_seconds(const p4d_cost_rates *r, double bytes)
{
	return p4d_cost__memory_seconds(r, CAST_SLOWNESS * bytes);
}

/*
 * Seconds of p4d-train's kernel that quantizes a matrix into this many copies: as it is and transposed.
 * reads: bytes that it reads for an element.
 */
static double quantize(const p4d_layout *l, const p4d_cost_rates *r, double elements, double reads,
		       double copies)
{
	const double times = p4d_fp8_recipes[l->fp8_recipe].maxima ? 2 : 1;

	return elements > 0 ? p4d_cost__quantize_seconds(r, (times * reads + copies) * elements) : 0;
}

/*
 * A matmul y (n, out) = x (n, in) w^T of p4d-train. x, dy: bytes that are read to quantize an element of the
 * input and of the result's gradient; 2 if they are stored. kept: the layer keeps the transposed codes of x.
 * halves: the two matmuls of dy are in different halves of the backward pass.
 */
typedef struct cast_product {
	double in, out, x, dy;
	bool kept, halves;
} cast_product;

/* Adds the casts of p4d-train for a matmul. Weights that are quantized once per step are not in here. */
static void product_casts(const p4d_layout *l, const p4d_cost_rates *r, double n, const cast_product *p,
			  p4d_cost_share *forward, p4d_cost_share *backward)
{
	const double weight = p4d_fp8_keeps_weights(l) ? 0 : quantize(l, r, p->in * p->out, 2, 1);
	const double dy = quantize(l, r, n * p->out, p->dy, 1);

	forward->memory_bound += weight + quantize(l, r, n * p->in, p->x, p->kept ? 2 : 1);
	backward->memory_bound += weight;
	if (p4d_cost__freezes(l)) {
		backward->memory_bound += dy;
		return;
	}
	backward->memory_bound += p->halves ? 2 * dy : quantize(l, r, n * p->out, p->dy, 2);
	backward->memory_bound += p->kept ? 0 : quantize(l, r, n * p->in, p->x, 1);
}

static bool waits(const p4d_layout *l)
{
	return p4d_is_split(l->schedule) && l->recompute != P4D_RECOMPUTE_FULL;
}

/* Whether the gradient of gate and up waits in its slot for the second half of the backward pass. */
static bool gate_up_waits(const p4d_layout *l)
{
	return waits(l) && l->recompute != P4D_RECOMPUTE_MLP;
}

static void all_casts(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		      p4d_cost_share *forward, p4d_cost_share *backward)
{
	const bool fuses = p4d_fp8_fuses_swiglu(l), kept = p4d_fp8_keeps_inputs(l),
		   norms = p4d_fp8_keeps_norms(l);
	/*
	 * With a fused SwiGLU, gate and up (4 bytes) are read to quantize an element of its result. To
	 * quantize an element of the gradients of gate and up, 2 bytes of gate and up and 1 byte of the
	 * result's gradient are read.
	 */
	const cast_product all[] = {
	    {z->h, z->A + 2 * z->G, 2, 2, norms, waits(l)},
	    {z->A, z->h, 2, 2, kept, false},
	    {z->h, z->up, 2, fuses && !gate_up_waits(l) ? 3 : 2, norms, gate_up_waits(l)},
	    {z->f, z->h, fuses ? 4 : 2, 2, kept, false},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		product_casts(l, r, z->n, &all[i], forward, backward);
}

p4d_cost_fp8_stored p4d_cost__fp8_stored(const p4d_layout *l)
{
	const bool own = p4d_framework_of(l->framework)->cost.casts_each_product;

	return (p4d_cost_fp8_stored){.activation = !own || !p4d_fp8_fuses_swiglu(l),
				     .gradient = !own || !p4d_fp8_fuses_swiglu(l) || gate_up_waits(l)};
}

double p4d_cost__weight_casts(const p4d_layout *l, const p4d_cost_rates *r)
{
	const p4d_cost_sizes z = p4d_cost__sizes_of(l);

	if (!p4d_framework_of(l->framework)->cost.casts_each_product || !p4d_fp8_keeps_weights(l))
		return 0;
	return quantize(l, r, z.h * (z.A + 2 * z.G), 2, 2) + quantize(l, r, z.h * z.A, 2, 2) +
	       quantize(l, r, z.h * z.up, 2, 2) + quantize(l, r, z.h * z.f, 2, 2);
}

void p4d_cost__casts(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z, bool experts,
		     p4d_cost_share *forward, p4d_cost_share *backward)
{
	const casting c = casting_of(l, r);

	if (p4d_framework_of(l->framework)->cost.casts_each_product) {
		all_casts(l, r, z, forward, backward);
		return;
	}
	if (l->kv_rank)
		latent_casts(l, r, &c, z, forward, backward);
	else
		pair_casts(l, r, &c, z, z->A + 2 * z->G, z->A, forward, backward);
	if (!experts) /* cost_experts.c counts the casts of experts */
		pair_casts(l, r, &c, z, z->up, z->f, forward, backward);
}
