/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of p4d-train against a closed form that shares no code with it, and the properties of every plan.
 */
#include "support.h"

#include "defaults.h"
#include "plan.h"

static uint64_t state_of_random = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t draw(uint64_t below)
{
	state_of_random ^= state_of_random << 13;
	state_of_random ^= state_of_random >> 7;
	state_of_random ^= state_of_random << 17;
	return (state_of_random >> 11) % below;
}

static uint64_t pick(const uint64_t *from, size_t count)
{
	return from[draw(count)];
}
#define PICK(...) \
	pick((const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static const p4d_gpu h100 = {.name = "h100-80gb", .usable_bytes = UINT64_C(84932804608), .sm = 90};

static void put(p4d_request *r, p4d_option option, uint64_t value)
{
	p4d_request_put(r, option, (int64_t)value, P4D_BY_USER);
}

/* A random training job of p4d-train; about a third of them pass the layout's rules. */
static bool random_layout(p4d_layout *l, int first_schedule, int last_schedule)
{
	p4d_request r = {.model = "random"};
	uint64_t head_dim = PICK(64, 80, 96, 128), kv = PICK(1, 2, 4, 5, 8, 16, 32),
		 group = PICK(1, 1, 2, 4, 8);
	uint64_t tp = PICK(1, 1, 2, 4, 8), cp = PICK(1, 1, 1, 2, 4), pp = PICK(1, 2, 3, 4, 6, 8, 16);
	uint64_t per_node = PICK(1, 4, 8), layers = PICK(8, 12, 16, 24, 32, 40, 48, 80);
	const int schedule = first_schedule + (int)draw((uint64_t)(last_schedule - first_schedule + 1));
	char split[256];

	set_all(&r, "model=custom framework=p4d norm=rmsnorm glu=on positions=rope max-seq-len=131072");
	put(&r, P4D_LAYERS, layers);
	put(&r, P4D_HEAD_DIM, head_dim);
	put(&r, P4D_KV_HEADS, kv);
	put(&r, P4D_HEADS, kv * group);
	put(&r, P4D_HIDDEN, PICK(256, 768, 1000, 2048, 4096, 5120, 8192));
	put(&r, P4D_FFN, PICK(512, 1000, 2816, 11008, 14336, 28672));
	put(&r, P4D_VOCAB, PICK(256, 32000, 50257, 128256, 256000));
	put(&r, P4D_TIED, draw(2));
	put(&r, P4D_BIAS, draw(2));
	put(&r, P4D_QK_NORM, draw(2));
	put(&r, P4D_TP, tp);
	put(&r, P4D_CP, cp);
	put(&r, P4D_PP, pp);
	put(&r, P4D_SCHEDULE, (uint64_t)schedule);
	if (schedule == P4D_INTERLEAVED)
		put(&r, P4D_VPP, PICK(2, 3, 4, 5));
	if (schedule == P4D_1F1B || schedule == P4D_V_HALF)
		put(&r, P4D_VOCAB_PARALLEL, last_schedule > P4D_INTERLEAVED ? draw(3) : 0);
	put(&r, P4D_RECOMPUTE, draw(4));
	put(&r, P4D_SEQUENCE_PARALLEL, draw(4) > 0);
	put(&r, P4D_OPTIMIZER_SHARDING, draw(4) > 0);
	put(&r, P4D_PRECISION, PICK(P4D_BF16, P4D_BF16, P4D_FP16, P4D_FP32));
	put(&r, P4D_DEVICE, PICK(P4D_CUDA, P4D_CUDA, P4D_CPU));
	put(&r, P4D_SEQ_LEN, PICK(96, 512, 2048, 8192, 32768));
	put(&r, P4D_MICRO_BATCH, PICK(1, 1, 2, 3, 4));
	uint64_t model = tp * cp * pp, dp = PICK(1, 2, 3, 4, 8), world = model * dp;
	if (world % per_node)
		return false;
	put(&r, P4D_GLOBAL_BATCH, dp * (uint64_t)r.value[P4D_MICRO_BATCH] * pp * (1 + draw(8)));
	if (schedule != P4D_INTERLEAVED && !p4d_is_v_shaped(schedule) && pp > 1 && pp <= 8 && draw(4) == 0) {
		/* the first stage gives a layer to the second */
		uint64_t even = layers / pp;
		if (layers % pp || even < 2)
			return false;
		int used = snprintf(split, sizeof(split), "%d,%d", (int)even - 1, (int)even + 1);
		for (uint64_t i = 2; i < pp; i++)
			used += snprintf(split + used, sizeof(split) - (size_t)used, ",%d", (int)even);
		if (p4d_request_set(&r, P4D_PIPELINE_SPLIT, split, P4D_BY_USER, NULL) < 0)
			fail();
	}
	p4d_request_complete(&r, 0, world);
	return p4d_layout_build(&r, world / per_node, per_node, l, NULL) == 0;
}

/* ---- the closed form ---- */

static uint64_t up(uint64_t bytes)
{
	return (bytes + 255) & ~UINT64_C(255);
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Micro-batches (chunks of them) that a stage holds at once, as the papers count. */
static uint64_t in_flight(const p4d_layout *l, uint64_t stage)
{
	uint64_t m = l->micro_batches, p = l->pp, v = l->vpp;
	uint64_t n = l->schedule == P4D_GPIPE  ? m
		     : l->schedule == P4D_1F1B ? p - stage
					       : 2 * (p - stage - 1) + (v - 1) * p + 1;

	return n < m * v ? n : m * v;
}

/* Parameters of a rank, each chunk padded to whole shards. */
static uint64_t parameters(const p4d_layout *l, uint64_t stage)
{
	uint64_t d = l->head_dim, A = l->heads * d, G = l->kv_heads * d, h = l->hidden;
	uint64_t layer = 2 * h + (h * (A + 2 * G) + A * h + 3 * l->ffn * h) / l->tp;
	uint64_t unit = 128 * (l->optimizer_sharding ? l->dp * l->cp : 1), sum = 0;

	layer += l->bias == P4D_BIAS_QKV ? (A + 2 * G) / l->tp : 0;
	layer += l->qk_norm ? 2 * d : 0;
	for (uint64_t chunk = 0; chunk < l->vpp; chunk++) {
		uint64_t n = l->stage_layers[stage] / l->vpp * layer;
		if (stage == 0 && chunk == 0)
			n += l->vocab * h / l->tp;
		if (stage == l->pp - 1 && chunk == l->vpp - 1)
			n += h + (l->tied && l->pp == 1 ? 0 : l->vocab * h / l->tp);
		sum += (n + unit - 1) / unit * unit;
	}
	return sum;
}

static uint64_t closed_form(const p4d_layout *l, uint64_t stage)
{
	const bool fp32 = l->precision == P4D_FP32, cpu = l->device == P4D_CPU;
	const bool first = stage == 0, last = stage == l->pp - 1;
	const uint64_t e = fp32 ? 4 : 2, d = l->head_dim, h = l->hidden;
	const uint64_t n = l->micro_batch * l->seq_len / l->cp, ns = l->sequence_parallel ? n / l->tp : n;
	const uint64_t a = l->heads / l->tp, A = a * d, G = l->kv_heads / l->tp * d, f = l->ffn / l->tp;
	const uint64_t P = parameters(l, stage), shard = P / (l->optimizer_sharding ? l->dp * l->cp : 1);
	const uint64_t flight = in_flight(l, stage), S = up(e * ns * h), N = up(e * n * h);

	uint64_t always = up(e * P) + up(4 * P) + (fp32 ? 2 : 3) * up(4 * shard) +
			  up(4 * l->seq_len / l->cp * d) + up(4 * l->seq_len) + 65536 +
			  (!cpu   ? 32 << 20
			   : fp32 ? 0
				  : 3145728) +
			  (l->pp > 1 ? 4 * S : 0) + (uint64_t)(first + last) * (flight + 1) * up(4 * n);

	uint64_t input = S,
		 rest = up(4 * ns) + up(e * n * (A + 2 * G)) + up(e * n * A) + up(4 * n * a) + S + up(4 * ns);
	uint64_t gate_up = up(e * n * 2 * f);
	if (l->qk_norm)
		rest += up(4 * n * (a + l->kv_heads / l->tp));
	uint64_t saved = input, again = 0;
	if (l->recompute == P4D_RECOMPUTE_FULL)
		again = rest + gate_up;
	else
		saved += rest;
	if (l->recompute == P4D_RECOMPUTE_MLP)
		again = gate_up;
	else if (l->recompute != P4D_RECOMPUTE_FULL)
		saved += gate_up;
	uint64_t slots = flight * (l->stage_layers[stage] / l->vpp * saved + (last ? S + up(4 * ns) : 0));

	uint64_t gathered = l->sequence_parallel ? N : 0, partial = l->tp > 1 ? N : 0;
	uint64_t scores = cpu ? 4 * 64 * (64 + 4 * d) : 256, row_sums = up(4 * n * a);
	uint64_t accumulator = !cpu ? up(4 * n * A) : fp32 ? 0 : up(4 * n * (A + 2 * G));
	uint64_t workspace = cpu ? 4 * 64 * (2 * 64 + 5 * d)
				 : 256 + (l->kv_heads < l->heads ? 2 * ((2 * n * A + 127) / 128 * 128) : 0);
	uint64_t ring = l->cp > 1 ? up(2 * e * n * 2 * G) + up(4 * n * A) + up(4 * n * a) : 0;
	uint64_t ring_back = l->cp > 1 ? up(2 * e * n * 2 * G) + up(2 * 4 * n * 2 * G) : 0;
	uint64_t chunk = n < 1024 ? n : 1024, V = l->vocab / l->tp;

	uint64_t hidden = 3 * S + partial + 2 * gathered;
	uint64_t forward = up(e * n * f) + scores + ring + again;
	uint64_t backward_ffn = 2 * up(e * n * f) + again;
	uint64_t backward_attention = up(e * n * A) + up(e * n * (A + 2 * G)) + accumulator + row_sums +
				      workspace + ring_back + (l->recompute == P4D_RECOMPUTE_FULL ? rest : 0);
	uint64_t head = last ? up(4 * chunk * V) + up(e * chunk * V) + up(12 * n) : 0;
	uint64_t transient = hidden + most(most(forward, backward_ffn), most(backward_attention, head));
	return always + slots + transient;
}

static void equals_the_closed_form(void **state)
{
	unsigned count = 0, each[3] = {0};
	static p4d_layout l;
	static p4d_plan plan;

	(void)state;
	while (count < 12000) {
		if (!random_layout(&l, P4D_GPIPE, P4D_INTERLEAVED))
			continue;
		uint32_t stage = (uint32_t)draw(l.pp);
		assert_int_equal(p4d_plan_build(&l, &h100, stage, &plan, NULL), 0);
		uint64_t expected = closed_form(&l, stage);
		if (plan.arena_bytes != expected)
			fail_msg("stage %u of %d, schedule %d, recompute %d, tp %d, cp %d: plan %llu, closed "
				 "form %llu",
				 stage, (int)l.pp, l.schedule, l.recompute, (int)l.tp, (int)l.cp,
				 (unsigned long long)plan.arena_bytes, (unsigned long long)expected);
		each[l.schedule]++;
		count++;
	}
	printf("%u configurations: gpipe %u, 1f1b %u, interleaved %u\n", count, each[0], each[1], each[2]);
	assert_true(each[0] > 1000 && each[1] > 1000 && each[2] > 1000);
}

/* ---- properties of every plan ---- */

static bool together(const p4d_tensor *a, const p4d_tensor *b)
{
	return a->lifetime != P4D_LIVES_AT_MOMENTS || b->lifetime != P4D_LIVES_AT_MOMENTS ||
	       (a->moments & b->moments);
}

/* Copies of one row may interleave with those of another (layers in a slot), so every copy is looked at. */
static bool overlap(const p4d_tensor *a, const p4d_tensor *b, bool same)
{
	for (uint32_t s = 0; s < a->slots; s++)
		for (uint32_t i = 0; i < a->layers; i++)
			for (uint32_t t = 0; t < b->slots; t++)
				for (uint32_t j = 0; j < b->layers; j++) {
					uint64_t x = a->offset + s * a->slot_stride + i * a->layer_stride;
					uint64_t y = b->offset + t * b->slot_stride + j * b->layer_stride;
					if (same && s == t && i == j)
						continue;
					if (x < y + b->bytes && y < x + a->bytes)
						return true;
				}
	return false;
}

static void buffers_do_not_overlap(void **state)
{
	static p4d_layout l;
	static p4d_plan plan;

	(void)state;
	for (unsigned count = 0; count < 60;) {
		if (!random_layout(&l, P4D_GPIPE, P4D_V_HALF) || l.micro_batches > 12 || l.layers / l.pp > 4)
			continue;
		count++;
		assert_int_equal(p4d_plan_build(&l, &h100, (uint32_t)draw(l.pp), &plan, NULL), 0);
		uint64_t end = 0;
		for (unsigned i = 0; i < plan.count; i++) {
			const p4d_tensor *a = &plan.tensor[i];
			uint64_t last = a->offset + (a->slots ? a->slots - 1 : 0) * a->slot_stride +
					(a->layers - 1) * a->layer_stride + a->bytes;
			assert_int_equal(a->offset % P4D_ARENA_ALIGNMENT, 0);
			end = last > end ? last : end;
			assert_ptr_equal(p4d_plan_find(&plan, a->name), a);
			for (unsigned j = i; j < plan.count; j++)
				if (together(a, &plan.tensor[j]) && overlap(a, &plan.tensor[j], i == j))
					fail_msg("%s and %s overlap", a->name, plan.tensor[j].name);
		}
		assert_int_equal(end, plan.arena_bytes);
	}
}

static void packing_is_tight(void **state)
{
	double worst = 1;
	static p4d_layout l;
	static p4d_plan plan;

	(void)state;
	for (unsigned count = 0; count < 5000;) {
		uint64_t sum = 0;
		if (!random_layout(&l, P4D_GPIPE, P4D_V_HALF))
			continue;
		count++;
		assert_int_equal(p4d_plan_build(&l, &h100, (uint32_t)draw(l.pp), &plan, NULL), 0);
		double packing = (double)plan.live_bytes / (double)plan.arena_bytes;
		worst = packing < worst ? packing : worst;
		assert_true(plan.live_bytes <= plan.arena_bytes);
		for (int part = 0; part < P4D_PART_COUNT; part++)
			sum += plan.part[part];
		assert_int_equal(sum, plan.arena_bytes);
	}
	printf("packing efficiency, worst of 5000: %.4f\n", worst);
	assert_true(worst >= 0.98);
}

/* Most bytes alive at once, by walking a stage's instruction list; independent of the slot counts in the
 * plan. */
static uint64_t replay(const p4d_layout *l, const p4d_plan *plan, const p4d_list *list)
{
	uint64_t slot[4] = {0}, always = 0, moment[P4D_MOMENTS] = {0}, alive = 0, peak = 0;

	for (unsigned i = 0; i < plan->count; i++) {
		const p4d_tensor *row = &plan->tensor[i];
		if (row->lifetime == P4D_LIVES_ALWAYS)
			always += row->bytes;
		else if (row->lifetime == P4D_LIVES_AT_MOMENTS)
			for (int m = 0; m < P4D_MOMENTS; m++)
				moment[m] += row->moments & 1u << m ? row->bytes : 0;
		else
			slot[row->lifetime] += row->bytes * row->layers;
	}
	const bool recompute = l->recompute >= P4D_RECOMPUTE_MLP;
	uint64_t forward = most(moment[P4D_AT_FORWARD], moment[P4D_AT_EMBED]);
	uint64_t backward = most(moment[P4D_AT_BACKWARD_FFN], moment[P4D_AT_BACKWARD_ATTENTION]);
	backward = most(most(backward, moment[P4D_AT_EMBED]), recompute ? moment[P4D_AT_RECOMPUTE] : 0);
	bool *received = calloc((size_t)l->micro_batches * l->vpp, 1);
	assert_non_null(received);
	for (size_t i = 0; i < list->count; i++) {
		const p4d_instruction *at = &list->at[i];
		bool *taken =
		    at->chunk < l->vpp ? &received[(size_t)at->micro_batch * l->vpp + at->chunk] : NULL;
		uint64_t working = 0;
		switch (at->op) {
		case P4D_OP_RECV_FORWARD:
		case P4D_OP_FORWARD:
			alive += *taken ? 0 : slot[P4D_LIVES_IN_SLOT];
			*taken = true;
			working = at->op == P4D_OP_FORWARD ? forward : 0;
			break;
		case P4D_OP_BACKWARD_INPUT:
			alive += slot[P4D_LIVES_IN_WEIGHT_SLOT];
			working = most(backward, l->vocab_parallel ? 0 : moment[P4D_AT_HEAD]);
			break;
		case P4D_OP_BACKWARD:
			working = most(backward, l->vocab_parallel ? 0 : moment[P4D_AT_HEAD]);
			break;
		case P4D_OP_BACKWARD_WEIGHT:
			working = moment[P4D_AT_WEIGHT];
			break;
		case P4D_OP_VOCAB_FORWARD:
			alive += slot[P4D_LIVES_IN_VOCABULARY_SLOT];
			working = moment[P4D_AT_HEAD];
			break;
		case P4D_OP_VOCAB_BACKWARD:
			working = moment[P4D_AT_HEAD];
			break;
		default:
			break;
		}
		peak = most(peak, always + alive + working);
		if (at->op == P4D_OP_BACKWARD)
			alive -= slot[P4D_LIVES_IN_SLOT];
		if (at->op == P4D_OP_BACKWARD_WEIGHT)
			alive -= slot[P4D_LIVES_IN_SLOT] + slot[P4D_LIVES_IN_WEIGHT_SLOT];
		if (at->op == P4D_OP_VOCAB_BACKWARD)
			alive -= slot[P4D_LIVES_IN_VOCABULARY_SLOT];
	}
	free(received);
	assert_int_equal(alive, 0);
	return peak;
}

/*
 * zbv is the one schedule whose activation slots and weight slots are not all taken at the same time: as the
 * pipeline runs dry, backward passes overtake weight passes.
 */
static void arena_is_what_the_lists_need(void **state)
{
	static p4d_layout l;
	static p4d_plan plan;
	double worst[P4D_V_HALF + 1] = {1, 1, 1, 1, 1, 1};
	unsigned each[P4D_V_HALF + 1] = {0};

	(void)state;
	for (unsigned count = 0; count < 600;) {
		if (!random_layout(&l, P4D_GPIPE, P4D_V_HALF))
			continue;
		count++;
		p4d_schedule s = p4d_schedule_of(&l);
		p4d_list *lists = calloc(l.pp, sizeof(*lists));
		assert_non_null(lists);
		assert_int_equal(p4d_schedule_compile(&s, lists, NULL), 0);
		uint32_t stage = (uint32_t)draw(l.pp);
		assert_int_equal(p4d_plan_build(&l, &h100, stage, &plan, NULL), 0);
		double packing = (double)replay(&l, &plan, &lists[stage]) / (double)plan.arena_bytes;
		const bool split = l.schedule >= P4D_ZB1P, again = l.recompute >= P4D_RECOMPUTE_MLP;
		const double least = l.schedule == P4D_ZBV || (split && again) ? 0.80
				     : split || l.vocab_parallel               ? 0.95
									       : 0.98;
		if (packing > 1 || packing < least)
			fail_msg("stage %u of %d, schedule %d, vocabulary %d, %d micro-batches: packing %.3f",
				 stage, (int)l.pp, l.schedule, l.vocab_parallel, (int)l.micro_batches,
				 packing);
		worst[l.schedule] = packing < worst[l.schedule] ? packing : worst[l.schedule];
		each[l.schedule]++;
		p4d_lists_free(lists, (uint32_t)l.pp);
		free(lists);
	}
	printf("most bytes alive while the list runs / arena, worst per schedule:");
	for (int schedule = 0; schedule <= P4D_V_HALF; schedule++) {
		printf(" %.4f", worst[schedule]);
		assert_true(each[schedule] > 10);
	}
	printf("\n");
}

static void ends_of_a_row_are_fullest(void **state)
{
	const p4d_capacity capacity = {&h100, 0, 0};
	static p4d_layout l;
	p4d_estimate e;
	p4d_stage stage;

	(void)state;
	for (unsigned count = 0; count < 1000;) {
		if (!random_layout(&l, P4D_GPIPE, P4D_V_HALF) || l.pp < 3)
			continue;
		count++;
		assert_int_equal(p4d_estimate_memory(&l, P4D_METHOD_CLOSED, &capacity, &e, NULL), 0);
		uint64_t fullest = 0, seen;
		for (uint32_t i = 0; i < l.pp; i++) {
			assert_int_equal(p4d_stage_memory(&l, P4D_METHOD_CLOSED, &h100, i, &stage, NULL), 0);
			fullest = most(fullest, stage.device_bytes);
		}
		if (fullest != e.peak.device_bytes)
			fail_msg("schedule %d, pp %d, %d micro-batches: a stage in the middle is fullest",
				 l.schedule, (int)l.pp, (int)l.micro_batches);
		if (e.capacity_bytes) {
			assert_int_equal(p4d_fits_below(&l, P4D_METHOD_CLOSED, &capacity, 0.5, &seen),
					 e.fraction <= 0.5);
			assert_true(p4d_least_states(&l) <= e.peak.device_bytes);
		}
	}
}

static void hash_tells_plans_apart(void **state)
{
	static p4d_layout l, other;
	uint64_t a, b, c;

	(void)state;
	while (!random_layout(&l, P4D_1F1B, P4D_1F1B) || l.pp < 2)
		;
	other = l;
	assert_int_equal(p4d_plan_hash(&l, &h100, &a, NULL), 0);
	assert_int_equal(p4d_plan_hash(&other, &h100, &b, NULL), 0);
	assert_true(a == b);
	other.stage_layers[0]++;
	assert_int_equal(p4d_plan_hash(&other, &h100, &c, NULL), 0);
	assert_true(a != c);
}

static void absurd_sizes_are_an_error(void **state)
{
	static p4d_layout l;
	static p4d_plan plan;
	p4d_error err;

	(void)state;
	while (!random_layout(&l, P4D_1F1B, P4D_1F1B))
		;
	l.seq_len = 134217728;
	l.micro_batch = 65536;
	l.hidden = 1048576;
	assert_int_equal(p4d_plan_build(&l, &h100, 0, &plan, &err), -1);
	assert_int_equal(err.code, P4D_E_OVERFLOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equals_the_closed_form),    cmocka_unit_test(buffers_do_not_overlap),
	    cmocka_unit_test(packing_is_tight),          cmocka_unit_test(arena_is_what_the_lists_need),
	    cmocka_unit_test(ends_of_a_row_are_fullest), cmocka_unit_test(hash_tells_plans_apart),
	    cmocka_unit_test(absurd_sizes_are_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
