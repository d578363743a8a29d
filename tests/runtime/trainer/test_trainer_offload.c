/* SPDX-License-Identifier: Apache-2.0 */
/* Offloading to the host changes nothing. Losses and norms have the bits of the same layout with
 * everything on the device. Both arenas are those of the plan, and nothing is written outside of them. */
#include "support/support.h"

#include "plan/offload.h"
#include "plan/parameters.h"
#include "support/training_curves.h"

enum { STEPS = 4, GUARD = 4096, EARLY = 2 };

static p4d_layout layout;
static bool carried; /* after EARLY steps, copies the states to another trainer, as a checkpoint would */

/* ---- arenas between pages that may not be written ---- */

static int (*plain_host_allocate)(p4d_device *, uint64_t, void **, p4d_error *);
static unsigned host_arenas;
static char *guarded;

static int guarded_allocate(p4d_device *device, uint64_t bytes, void **arena, p4d_error *err)
{
	void *memory;

	TRY(plain_host_allocate(device, bytes + 2 * GUARD, &memory, err));
	device->host_allocated_bytes -= 2 * GUARD;
	guarded = memory;
	memset(guarded, 0x7f, bytes + 2 * GUARD);
	*arena = guarded + GUARD;
	host_arenas++;
	return 0;
}

static void guarded_release(p4d_device *device, void *arena)
{
	(void)device;
	free((char *)arena - GUARD);
}

static int check_arenas(const p4d_trainer *trainer, const p4d_device *device)
{
	const p4d_plan *plan = p4d_trainer_plan(trainer);

	CHECK(device->allocated_bytes == plan->arena_bytes);
	CHECK(device->host_allocated_bytes == plan->host_bytes);
	CHECK(host_arenas == (layout.offload ? 1 : 0));
	CHECK((plan->host_bytes > 0) == (layout.offload != 0));
	for (uint64_t i = 0; layout.offload && i < GUARD; i++)
		CHECK(guarded[i] == 0x7f && guarded[GUARD + plan->host_bytes + i] == 0x7f);
	return 0;
}

/* ---- one layout ---- */

static void nothing(void)
{
}

static int train(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_trainer *trainer;
	p4d_device device;

	(void)size;
	host_arenas = 0;
	TRY(p4d_device_cpu_open(&device, err));
	plain_host_allocate = device.host_allocate;
	device.host_allocate = guarded_allocate;
	device.host_release = guarded_release;
	p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
	TRY(p4d_trainer_open(&trainer, &settings, err));
	TRY(curve_train(trainer, &layout, STEPS, rank, nothing, err));
	TRY(check_arenas(trainer, &device));
	p4d_trainer_close(trainer);
	device.close(&device);
	return 0;
}

/* Checks that the host updates more subgroups of a rank than there are slots, and so does the device. */
static void assert_split(void)
{
	p4d_plan plan;
	const uint32_t share = p4d_offload_split_of(&layout, NULL).share;

	assert_int_equal(p4d_plan_build(&layout, NULL, 0, &plan, NULL), 0);
	const uint64_t all = p4d_plan_find(&plan, (p4d_buffer)(B_STATE + 1))->shape[0],
		       one = p4d_plan_find(&plan, B_HOST_GRADIENTS)->shape[0];
	assert_true(all / one > 2 * P4D_OFFLOAD_SLOTS);
	unsigned device = 0;
	for (uint64_t i = 0; i < all / one; i++)
		device += p4d_offload_on_device(share, i);
	assert_true(device > P4D_OFFLOAD_SLOTS && device < all / one - P4D_OFFLOAD_SLOTS);
}

/*
 * Whether offloading keeps the order in which the gradient norm is summed. With offloaded parameters, each
 * layer is a segment (p4d_cuts_segments). Without offloading, only sharded parameters have these segments.
 * In all other layouts the sum has another order.
 */
static bool same_sums(void)
{
	return !(layout.offload & P4D_OFFLOAD_PARAMS) || p4d_shards_parameters(&layout);
}

static bool is_equal(double a, double b)
{
	return same_sums() ? a == b : fabs(a / b - 1) < 1e-7;
}

static void assert_equal(const char *model, const shape *at, const char *offload)
{
	static size_t asked;
	const bool params = strstr(offload, "params");
	char options[1024];

	if (asked++ % test_stride(3, 4))
		return;
	snprintf(options, sizeof(options), "%s %s%s", model, at->options,
		 params && !strstr(at->options, "optimizer-sharding") ? " optimizer-sharding=parameters"
								      : "");
	const curve plain = curve_of(options, at->ranks, NULL, &layout, train);
	snprintf(options, sizeof(options), "%s %s %s", model, at->options, offload);
	const curve other = curve_of(options, at->ranks, NULL, &layout, train);
	if (at->ranks == 1 && layout.offload & P4D_OFFLOAD_OPTIMIZER)
		assert_split();
	assert_true(plain.loss[0] > 1);
	for (unsigned i = 0; i <= STEPS; i++)
		if (!is_equal(plain.loss[i], other.loss[i]) ||
		    (i < STEPS && !is_equal(plain.norm[i], other.norm[i])))
			fail_msg("%s: step %u has loss %.9g and norm %.9g, without %.9g and %.9g", options,
				 i + 1, other.loss[i], i < STEPS ? other.norm[i] : 0, plain.loss[i],
				 i < STEPS ? plain.norm[i] : 0);
}

static const shape few[] = {
    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2"},
    {2, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2"},
    {2, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2 optimizer-sharding=off recompute=full"},
    {2, "tp=2 cp=1 pp=1 vpp=1 micro-batch=1 schedule=zb1p"},
    {4, "tp=1 cp=2 pp=2 vpp=1 micro-batch=1 schedule=1f1b recompute=mlp"},
    {4, "tp=1 cp=1 pp=2 vpp=2 micro-batch=1 schedule=interleaved"},
    {4, "tp=2 cp=1 pp=2 vpp=2 micro-batch=1 schedule=v-half vocab-parallel=vocab-1"},
    {4, "tp=1 cp=1 pp=2 vpp=2 micro-batch=1 schedule=zbv"},
    {8, "tp=2 cp=2 pp=2 vpp=1 micro-batch=1 schedule=gpipe"},
};
enum { SHAPES_TRIED = sizeof(few) / sizeof(few[0]) };

static const char *const models[] = {
    TINY PLAIN "precision=fp32",
    TINY GROUPED "precision=bf16",
    TINY PLAIN "precision=bf16 optimizer-dtype=bf16",
    TINY GROUPED "precision=fp32 finetune=lora lora-rank=4",
};

static void optimizer_states(void **state)
{
	(void)state;
	for (int i = 0; i < SHAPES_TRIED; i++)
		assert_equal(models[0], &few[i], "offload=optimizer");
}

static void of_other_models(void **state)
{
	(void)state;
	for (size_t m = 1; m < sizeof(models) / sizeof(*models); m++)
		for (int i = (int)m - 1; i < SHAPES_TRIED; i += 3)
			assert_equal(models[m], &few[i], "offload=optimizer");
}

static void parameters(void **state)
{
	(void)state;
	for (size_t m = 0; m < sizeof(models) / sizeof(*models); m++)
		for (int i = (int)m; i < SHAPES_TRIED; i += m ? 3 : 1)
			assert_equal(models[m], &few[i],
				     (m + (size_t)i) % 2 ? "offload=params" : "offload=optimizer,params");
}

static void more_layers_are_resident(void **state)
{
	const shape sharded = {2, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2 optimizer-sharding=parameters"};

	(void)state;
	assert_equal(models[1], &few[0], "offload=params resident-layers=1");
	assert_equal(models[1], &few[1], "offload=params resident-layers=3");
	assert_equal(models[1], &few[6], "offload=optimizer,params resident-layers=100");
	assert_equal(models[0], &sharded, "resident-layers=5");
}

/* ---- copies into the window of layers ---- */

static int (*plain_allocate)(p4d_device *, uint64_t, void **, p4d_error *);
static void (*plain_move)(p4d_device *, void *, void *, const void *, uint64_t);
static char *arena, *window, *window_end;
static uint64_t brought;

static int remembering_allocate(p4d_device *device, uint64_t bytes, void **memory, p4d_error *err)
{
	TRY(plain_allocate(device, bytes, memory, err));
	arena = *memory;
	return 0;
}

static void counting_move(p4d_device *device, void *stream, void *to, const void *from, uint64_t bytes)
{
	brought += bytes && (char *)to >= window && (char *)to < window_end;
	plain_move(device, stream, to, from, bytes);
}

/* Counts the layers that a step copies to the device. The first step does not count. */
static int count_what_is_brought(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	training_text text = {.layout = &layout, .vocab = VOCAB};
	p4d_step_result result;
	p4d_trainer *trainer;
	p4d_device device;

	(void)rank, (void)size;
	TRY(p4d_device_cpu_open(&device, err));
	plain_allocate = device.allocate;
	plain_move = device.move;
	device.allocate = remembering_allocate;
	device.move = counting_move;
	p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
	TRY(p4d_trainer_open(&trainer, &settings, err));
	TRY(p4d_trainer_initialize(trainer, SEED, err));
	text.place = p4d_trainer_place(trainer);
	const p4d_tensor *row = p4d_plan_find(p4d_trainer_plan(trainer), B_LAYER_WINDOW);
	CHECK(row && arena);
	window = arena + row->offset;
	window_end = window + row->bytes;
	for (uint64_t step = 1; step <= 2; step++) {
		brought = 0;
		TRY(p4d_trainer_step(trainer, step, 1e-3f, training_source, &text, &result, err));
	}
	curve_shared->tokens = brought;
	p4d_trainer_close(trainer);
	device.close(&device);
	return 0;
}

static void as_many_layers_are_brought_as_predicted(void **state)
{
	static const unsigned resident[] = {1, 2, 3, 5, 7, 8, 100}, micro_batch[] = {2, 8};
	char options[1024];

	(void)state;
	for (size_t k = 0; k < sizeof(micro_batch) / sizeof(*micro_batch); k++)
		for (size_t i = 0; i < sizeof(resident) / sizeof(*resident); i++) {
			snprintf(options, sizeof(options),
				 "%s tp=1 cp=1 pp=1 vpp=1 micro-batch=%u offload=params resident-layers=%u",
				 models[0], micro_batch[k], resident[i]);
			const curve c = curve_of(options, 1, NULL, &layout, count_what_is_brought);
			const double uses = 2. * (double)layout.layers * (double)layout.micro_batches,
				     predicted = uses * p4d_offload_misses(&layout);
			if (fabs((double)c.tokens - predicted) > 1e-6)
				fail_msg("%s: %d layers are brought in %g uses, predicted %g", options,
					 (int)c.tokens, uses, predicted);
		}
}

/* Half of the layers swap their activations here, and the other half recompute. */
static void activations(void **state)
{
	static const shape some[] = {
	    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2"},
	    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=1 recompute=keep"},
	    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=1 schedule=gpipe recompute=mlp"},
	    {2, "tp=2 cp=1 pp=1 vpp=1 micro-batch=1 optimizer-sharding=parameters"},
	    {4, "tp=1 cp=2 pp=2 vpp=1 micro-batch=1 schedule=1f1b recompute=mlp"},
	    {4, "tp=1 cp=1 pp=2 vpp=2 micro-batch=1 schedule=interleaved"},
	    {4, "tp=1 cp=1 pp=4 vpp=1 micro-batch=1 schedule=1f1b vocab-parallel=vocab-1"},
	};
	const unsigned count = sizeof(some) / sizeof(*some);

	(void)state;
	for (unsigned m = 0; m < sizeof(models) / sizeof(*models); m++)
		for (unsigned i = m; i < count; i += m ? 3 : 1)
			assert_equal(models[m], &some[i],
				     i % 2 ? "offload=optimizer,activations" : "offload=activations");
	assert_equal(models[1], &some[3], "offload=optimizer,params,activations");
}

/* ---- states as checkpoints read them ---- */

enum { MOST_SEGMENTS = 64 };
typedef struct kept {
	float *state[MOST_SEGMENTS][P4D_MOST_STATES];
} kept;

static int take_states(p4d_trainer *trainer, kept *k, p4d_error *err)
{
	const p4d_weights *w = p4d_trainer_weights(trainer);
	uint64_t first, count;

	CHECK(w->segments <= MOST_SEGMENTS);
	for (uint32_t i = 0; i < w->segments; i++)
		for (p4d_state s = 0; s < P4D_MOST_STATES; s++) {
			p4d_trainer_shard(trainer, i, &first, &count);
			k->state[i][s] = malloc((count + 1) * sizeof(float));
			CHECK(k->state[i][s]);
			TRY(p4d_trainer_read(trainer, i, s, k->state[i][s], err));
		}
	return 0;
}

static int give_states(p4d_trainer *trainer, kept *k, p4d_error *err)
{
	for (uint32_t i = 0; i < p4d_trainer_weights(trainer)->segments; i++)
		for (p4d_state s = 0; s < P4D_MOST_STATES; s++) {
			TRY(p4d_trainer_write(trainer, i, s, k->state[i][s], err));
			free(k->state[i][s]);
		}
	return p4d_trainer_restore(trainer, err);
}

static int make_steps(p4d_trainer *trainer, uint64_t from, uint64_t to, uint32_t rank, p4d_error *err)
{
	training_text text = {.layout = &layout, .place = p4d_trainer_place(trainer), .vocab = VOCAB};
	p4d_step_result result;

	for (uint64_t i = from; i <= to; i++) {
		TRY(p4d_trainer_step(trainer, i, 1e-3f, training_source, &text, &result, err));
		if (rank == 0)
			curve_shared->loss[i - 1] = result.loss;
	}
	return 0;
}

/* Trains a part of the steps in each of two trainers. States that the first trainer has on the host are on
 * the device in the second, or the reverse. */
static int train_in_two(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	const unsigned offload = layout.offload;
	p4d_trainer *trainer;
	p4d_device device;
	kept states;

	(void)size;
	for (int turn = 0; turn <= (carried ? 1 : 0); turn++) {
		TRY(p4d_device_cpu_open(&device, err));
		layout.offload = turn ? P4D_OFFLOAD_OPTIMIZER - offload : offload;
		p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
		TRY(p4d_trainer_open(&trainer, &settings, err));
		TRY(turn ? give_states(trainer, &states, err) : p4d_trainer_initialize(trainer, SEED, err));
		TRY(make_steps(trainer, turn ? EARLY + 1 : 1, carried && !turn ? EARLY : STEPS, rank, err));
		if (carried && !turn)
			TRY(take_states(trainer, &states, err));
		p4d_trainer_close(trainer);
		device.close(&device);
	}
	return 0;
}

static void states_are_carried(void **state)
{
	char options[1024];

	(void)state;
	for (size_t m = 0; m + 1 < sizeof(models) / sizeof(*models); m++)
		for (int away = 0; away < 2; away++) {
			const shape *at = &few[1 + 3 * away];
			snprintf(options, sizeof(options), "%s %s %s", models[m], at->options,
				 away ? "offload=optimizer" : "");
			carried = false;
			const curve one = curve_of(options, at->ranks, NULL, &layout, train_in_two);
			carried = true;
			const curve two = curve_of(options, at->ranks, NULL, &layout, train_in_two);
			assert_true(one.loss[0] > 1 && one.loss[STEPS - 1] != one.loss[EARLY - 1]);
			assert_memory_equal(one.loss, two.loss, STEPS * sizeof(*one.loss));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(optimizer_states),
	    cmocka_unit_test(of_other_models),
	    cmocka_unit_test(parameters),
	    cmocka_unit_test(more_layers_are_resident),
	    cmocka_unit_test(activations),
	    cmocka_unit_test(states_are_carried),
	    cmocka_unit_test(as_many_layers_are_brought_as_predicted),
	};
	return cmocka_run_group_tests(tests, curve_setup, NULL);
}
