/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts on a device that queues operations. Ranks communicate through a stand-in for NCCL or through the
 * host. Losses are those of one rank on the cpu. If an operation does not wait for another one, the loss
 * changes.
 */
#include "support/support.h"

#include "support/training_curves.h"
#include "support/transports.h"

enum { STEPS = 3, COUNTED = 2, CARELESS = 14, TRIES = 5 };

static p4d_layout layout;
static p4d_transport_kind kind;

static void nothing(void)
{
}

static int train_on_cpu(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_trainer *trainer;
	p4d_device device;

	(void)size;
	TRY(p4d_device_cpu_open(&device, err));
	p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
	TRY(p4d_trainer_open(&trainer, &settings, err));
	TRY(curve_train(trainer, &layout, STEPS, rank, nothing, err));
	p4d_trainer_close(trainer);
	device.close(&device);
	return 0;
}

/* A rank whose queue a test inspects while it trains. */
typedef struct stepping {
	transports_rank r;
	p4d_device host; /* device for offloaded tensors */
	training_text text;
	p4d_trainer *trainer;
	uint64_t steps;
} stepping;

static int begin_steps(stepping *s, p4d_world *world, uint32_t size, p4d_error *err)
{
	*s = (stepping){.text = {.layout = &layout, .vocab = VOCAB}};
	TRY(transports_open(&s->r, world, size, kind, err));
	p4d_trainer_settings settings = training_settings(&layout, &s->r.device, world, VOCAB);
	settings.net.transport = s->r.transport;
	settings.net.host = &s->host;
	TRY(p4d_device_cpu_open(&s->host, err));
	TRY(p4d_trainer_open(&s->trainer, &settings, err));
	s->text.place = p4d_trainer_place(s->trainer);
	return 0;
}

static int make_step(stepping *s, p4d_error *err)
{
	p4d_step_result result;

	return p4d_trainer_step(s->trainer, ++s->steps, 1e-3f, training_source, &s->text, &result, err);
}

static int end_steps(stepping *s)
{
	p4d_trainer_close(s->trainer);
	transports_close(&s->r);
	s->host.close(&s->host);
	return 0;
}

/* The host waits once per step, for the step's result. All other waits are on the device. */
static int count_waits(stepping *s, p4d_error *err)
{
	const uint64_t before = queued_device_waits(&s->r.device);

	while (s->steps < COUNTED)
		TRY(make_step(s, err));
	const uint64_t waits = queued_device_waits(&s->r.device) - before;
	if (waits != COUNTED)
		return p4d_fail(err, P4D_E_VALUE, "%d steps, and the host waited %d times", COUNTED,
				(int)waits);
	return 0;
}

/* NCCL must connect all its channels before the first step, because connecting allocates GPU memory and
 * waits for other ranks. */
static int train(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	stepping s;

	TRY(begin_steps(&s, world, size, err));
	const unsigned channels = nccl_channels();
	TRY(curve_train(s.trainer, &layout, STEPS, rank, nothing, err));
	if (kind == P4D_TRANSPORT_NCCL)
		TRY(count_waits(&s, err));
	if (nccl_channels() != channels)
		return p4d_fail(err, P4D_E_VALUE, "%u channels of NCCL were connected in steps",
				nccl_channels() - channels);
	return end_steps(&s);
}

/* Layouts with all kinds of pipelines and groups. */
static const shape few[] = {
    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2 schedule=1f1b"},
    {2, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2 optimizer-sharding=off"},
    {4, "tp=2 cp=1 pp=1 vpp=1 micro-batch=1 recompute=mlp"},
    {4, "tp=1 cp=4 pp=1 vpp=1 micro-batch=2"},
    {4, "tp=1 cp=1 pp=2 vpp=2 micro-batch=1 schedule=interleaved"},
    {4, "tp=1 cp=2 pp=2 vpp=2 micro-batch=1 schedule=zbv"},
    {4, "tp=2 cp=1 pp=2 vpp=2 micro-batch=1 schedule=v-half vocab-parallel=vocab-1"},
    {8, "tp=2 cp=2 pp=2 vpp=1 micro-batch=1 schedule=1f1b recompute=full"},
    {2, "tp=2 cp=1 pp=1 vpp=1 micro-batch=2 tp-comm-overlap=on"},
    {4, "tp=2 cp=1 pp=1 vpp=1 micro-batch=1 tp-comm-overlap=on recompute=full"},
    {4, "tp=1 cp=2 pp=2 vpp=1 micro-batch=1 schedule=zb1p optimizer-sharding=gradients"},
    {4, "tp=2 cp=1 pp=1 vpp=1 micro-batch=1 optimizer-sharding=parameters"},
    {8, "tp=1 cp=1 pp=2 vpp=2 micro-batch=1 schedule=v-half optimizer-sharding=parameters shard-degree=2"},
    {4, "tp=2 cp=1 pp=2 vpp=2 micro-batch=1 schedule=v-half tp-comm-overlap=on vocab-parallel=vocab-2"},
    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2 offload=optimizer"},
    {4, "tp=2 cp=1 pp=1 vpp=1 micro-batch=1 offload=optimizer"},
    {4, "tp=1 cp=1 pp=2 vpp=2 micro-batch=1 schedule=zbv offload=optimizer"},
    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2 offload=params"},
    {4, "tp=2 cp=1 pp=1 vpp=1 micro-batch=1 offload=optimizer,params resident-layers=3"},
    {4, "tp=1 cp=1 pp=2 vpp=1 micro-batch=1 schedule=1f1b offload=params optimizer-sharding=off"},
    {1, "tp=1 cp=1 pp=1 vpp=1 micro-batch=2 offload=activations"},
    {4, "tp=1 cp=2 pp=2 vpp=1 micro-batch=1 schedule=1f1b offload=optimizer,params,activations"},
    {4, "tp=4 tp-grid=2,2,1 cp=1 pp=1 vpp=1 micro-batch=1"},
    {4, "tp=4 tp-grid=2,1,2 cp=1 pp=1 vpp=1 micro-batch=2 recompute=full"},
    {8, "tp=4 tp-grid=1,2,2 cp=1 pp=2 vpp=2 micro-batch=2 schedule=zbv"},
    /* a segment per layer, as on GPUs */
    {4, "tp=2 tp-grid=1,1,2 cp=1 pp=1 vpp=1 micro-batch=2 device=cuda precision=fp32"},
};
enum { FEW = sizeof(few) / sizeof(few[0]) };

static void all_equal(const char *model, double limit, size_t first, size_t each)
{
	const bool all = getenv("P4D_TEST_ALL") || getenv("P4D_TEST_LAYOUT");
	const shape *table = all ? shapes : few;
	const size_t count = all ? SHAPES : FEW;
	const char *only = getenv("P4D_TEST_LAYOUT");
	char options[1024];
	unsigned wrong = 0;
	double worst = 0;

	snprintf(options, sizeof(options), "%s tp=1 cp=1 pp=1 vpp=1 micro-batch=2", model);
	const curve one = curve_of(options, 1, NULL, &layout, train_on_cpu);
	for (size_t i = all ? 0 : first; i < count; i += all ? 1 : each * test_stride(1, 6)) {
		if (only && !strstr(table[i].options, only))
			continue;
		const double start = forked_now();
		snprintf(options, sizeof(options), "%s %s", model, table[i].options);
		const curve other = curve_of(options, table[i].ranks, NULL, &layout, train);
		double norm;
		const double off = curve_off_by(&one, &other, &norm);
		worst = fmax(worst, off);
		if (getenv("P4D_TEST_VERBOSE"))
			print_message("%u ranks, %-80s %.1e %.2f s\n", table[i].ranks, table[i].options, off,
				      forked_now() - start);
		if (!(off <= limit && norm <= 100 * limit)) {
			print_message("%u ranks, %s: off by %.3g\n", table[i].ranks, table[i].options, off);
			wrong++;
		}
	}
	print_message("worst relative difference %.2g\n", worst);
	assert_int_equal(wrong, 0);
}

static void by_nccl(void **state)
{
	(void)state;
	kind = P4D_TRANSPORT_NCCL;
	all_equal(TINY PLAIN "precision=fp32", 1e-5, 0, 2);
}

/* The first and the last stage share the vocabulary table, and tp ranks sum the gradients of norms. */
static void grouped_by_nccl(void **state)
{
	(void)state;
	kind = P4D_TRANSPORT_NCCL;
	all_equal(TINY GROUPED "precision=fp32", 1e-5, 4, 3);
}

/* In bf16, sums are rounded after each addition. */
static void bf16_by_nccl(void **state)
{
	(void)state;
	kind = P4D_TRANSPORT_NCCL;
	all_equal(TINY PLAIN "precision=bf16", 2e-2, 2, 5);
}

static void staged(void **state)
{
	(void)state;
	kind = P4D_TRANSPORT_STAGED;
	all_equal(TINY PLAIN "precision=fp32", 1e-5, 1, 4);
}

static unsigned most_left;

static void noting_leave(p4d_device *device, unsigned multiprocessors)
{
	(void)device;
	most_left = multiprocessors > most_left ? multiprocessors : most_left;
}

/* When the host queues the last weight gradient of the lowest layer, the reductions of all other layers
 * are already queued. */
static int count_beside(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	stepping s;

	(void)rank;
	TRY(begin_steps(&s, world, size, err));
	TRY(p4d_trainer_initialize(s.trainer, SEED, err));
	const uint64_t before = queued_device_beside(&s.r.device);
	s.r.device.leave = noting_leave;
	TRY(make_step(&s, err));
	CHECK(most_left == 8); /* number of multiprocessors that matmuls leave to collectives */
	const uint64_t beside = queued_device_beside(&s.r.device) - before;
	const uint64_t gathered = layout.optimizer_sharding ? layout.layers : 0;
	if (beside < gathered + layout.layers - 1)
		return p4d_fail(err, P4D_E_VALUE, "%d layers were gathered and %d reduced", (int)gathered,
				(int)beside - (int)gathered);
	return end_steps(&s);
}

static void gradients_are_reduced_beside_the_backward_pass(void **state)
{
	static const char *const options[] = {"micro-batch=2", "micro-batch=1 optimizer-sharding=off"};
	char text[1024];

	(void)state;
	kind = P4D_TRANSPORT_NCCL;
	for (int i = 0; i < 2; i++) {
		snprintf(text, sizeof(text), "%s tp=1 cp=1 pp=1 vpp=1 device=cuda %s",
			 TINY PLAIN "precision=fp32", options[i]);
		curve_of(text, 2, NULL, &layout, count_beside);
	}
}

/* ---- registered memory ---- */

static unsigned refusing; /* number of the rank whose NCCL refuses to register memory, from 1; 0: none */

/* Registers the arena with all groups whose ranks have arenas of the same size, and with messages between
 * stages in both directions. */
static int register_arena(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	const unsigned groups = 1, messages = layout.pp > 1 ? 2 : 0;
	stepping s;

	CHECK(setenv("P4D_NCCL_REGISTER", "1", 1) == 0);
	if (refusing == rank + 1)
		break_nccl("CommRegister", 1, FAKE_FAILS);
	TRY(begin_steps(&s, world, size, err));
	if (nccl_registered() != (refusing ? 0 : groups + messages))
		return p4d_fail(err, P4D_E_VALUE, "rank %u: %u communicators have the arena", rank,
				nccl_registered());
	TRY(p4d_trainer_initialize(s.trainer, SEED, err));
	TRY(make_step(&s, err));
	TRY(end_steps(&s));
	CHECK(nccl_registered() == 0);
	return 0;
}

static void the_arena_is_registered_by_all_or_none(void **state)
{
	(void)state;
	kind = P4D_TRANSPORT_NCCL;
	refusing = 0;
	curve_of(TINY PLAIN "precision=fp32 tp=2 cp=1 pp=1 vpp=1 micro-batch=2", 2, NULL, &layout,
		 register_arena);
	curve_of(TINY PLAIN "precision=fp32 tp=2 cp=1 pp=2 vpp=1 micro-batch=1 schedule=1f1b", 4, NULL,
		 &layout, register_arena);
	refusing = 2;
	curve_of(TINY PLAIN "precision=fp32 tp=2 cp=1 pp=1 vpp=1 micro-batch=2", 2, NULL, &layout,
		 register_arena);
}

/* ---- receives ---- */

static uint64_t beside_first; /* number of operations that other streams had queued when a step called
			       * attention for the first time; 0: not yet */
static void (*device_attention)(p4d_device *, p4d_dtype, void *, float *, const void *, const void *,
				const void *, const p4d_attention_shape *, void *);

static void noting_attention(p4d_device *device, p4d_dtype type, void *o, float *lse, const void *q,
			     const void *k, const void *v, const p4d_attention_shape *of, void *workspace)
{
	if (!beside_first)
		beside_first = queued_device_beside_now(device);
	device_attention(device, type, o, lse, q, k, v, of, workspace);
}

/* The first stage does not wait for a message before its first pass. Its receives are already queued then,
 * so messages may arrive. */
static int post_early(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	stepping s;

	TRY(begin_steps(&s, world, size, err));
	TRY(p4d_trainer_initialize(s.trainer, SEED, err));
	device_attention = s.r.device.attention;
	s.r.device.attention = noting_attention;
	const uint64_t before = queued_device_beside_now(&s.r.device);
	beside_first = 0;
	TRY(make_step(&s, err));
	if (beside_first - before != 1)
		return p4d_fail(err, P4D_E_VALUE, "rank %u: %d messages before the first attention", rank,
				(int)(beside_first - before));
	return end_steps(&s);
}

static void receives_are_posted_early(void **state)
{
	(void)state;
	kind = P4D_TRANSPORT_NCCL;
	/* the last stage first receives its input, and the first stage a gradient */
	curve_of(TINY PLAIN "precision=fp32 tp=1 cp=1 pp=2 vpp=1 micro-batch=1 schedule=1f1b", 2, NULL,
		 &layout, post_early);
}

/* ---- a missing wait ---- */

static unsigned dropped, waited; /* dropped: which wait for another stream is left out, from 1; waited:
				  * number of waits until now */
static void (*device_event_wait)(p4d_device *, void *, void *);

static void dropping_event_wait(p4d_device *device, void *waiter, void *event)
{
	if (waiter || ++waited != dropped)
		device_event_wait(device, waiter, event);
}

/* Trains a step without one of its waits. */
static int train_carelessly(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	stepping s;

	TRY(begin_steps(&s, world, size, err));
	device_event_wait = s.r.device.event_wait;
	s.r.device.event_wait = dropping_event_wait;
	waited = 0;
	TRY(curve_train(s.trainer, &layout, 1, rank, nothing, err));
	return end_steps(&s);
}

/* Other streams are late here, so an operation that does not wait for them uses old data. The first waits
 * of a step are for gathered or summed halves, and each of them is needed. */
static void a_missing_wait_shows(void **state)
{
	static const char options[] =
	    TINY PLAIN "precision=fp32 tp=2 cp=1 pp=1 vpp=1 micro-batch=2 tp-comm-overlap=on";
	unsigned shown = 0;

	(void)state;
	kind = P4D_TRANSPORT_NCCL;
	dropped = 0;
	const curve right = curve_of(options, 2, NULL, &layout, train_carelessly),
		    again = curve_of(options, 2, NULL, &layout, train_carelessly);
	assert_memory_equal(&right, &again, sizeof(right));
	for (dropped = 1; dropped <= CARELESS; dropped++) {
		bool shows = false;
		/* on a busy machine the data may have arrived by chance */
		for (int i = 0; i < TRIES && !shows; i++) {
			const curve wrong = curve_of(options, 2, NULL, &layout, train_carelessly);
			shows = memcmp(&right, &wrong, sizeof(right)) != 0;
		}
		if (getenv("P4D_TEST_VERBOSE"))
			print_message("without wait %u: %s\n", dropped, shows ? "wrong" : "right");
		shown += shows;
	}
	assert_int_equal(shown, CARELESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(by_nccl),
	    cmocka_unit_test(grouped_by_nccl),
	    cmocka_unit_test(bf16_by_nccl),
	    cmocka_unit_test(staged),
	    cmocka_unit_test(gradients_are_reduced_beside_the_backward_pass),
	    cmocka_unit_test(receives_are_posted_early),
	    cmocka_unit_test(the_arena_is_registered_by_all_or_none),
	    cmocka_unit_test(a_missing_wait_shows),
	};

	return cmocka_run_group_tests_name("layouts on devices", tests, curve_setup, NULL);
}
