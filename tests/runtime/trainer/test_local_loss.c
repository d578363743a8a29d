/* SPDX-License-Identifier: Apache-2.0 */
/* --local-loss=stage: a stage learns what a model with only its layers and its head would learn. Later
 * stages do not influence it. test_trainer_layouts shows that other parts of the layout change nothing. */
#include "support/support.h"

#include "base/hash.h"
#include "support/training_curves.h"

#define OF_2_LAYERS_A_STAGE \
	"model=custom hidden=32 ffn=96 heads=8 head-dim=4 vocab=203 seq-len=32 global-batch=4 " \
	"micro-batch=1 " \
	"tp=1 cp=1 precision=fp32 " PLAIN

/* The result of stage 0, for the parent. */
typedef struct left {
	double apart, largest; /* the largest difference of a gradient from that of a stage trained alone, and
				* the largest gradient */
	uint64_t compared;
	uint64_t hash; /* a hash of the gradients' bits */
} left;

static left *shared;
static p4d_layout staged, alone;
static uint64_t seed_behind; /* seed of the stages after the first */

static int open_trainer(p4d_trainer **trainer, p4d_device *device, const p4d_layout *layout, p4d_world *world,
			p4d_error *err)
{
	TRY(p4d_device_cpu_open(device, err));
	const p4d_trainer_settings settings = training_settings(layout, device, world, VOCAB);
	return p4d_trainer_open(trainer, &settings, err);
}

static int step(p4d_trainer *trainer, const p4d_layout *layout, p4d_error *err)
{
	training_text text = {.layout = layout, .place = p4d_trainer_place(trainer), .vocab = VOCAB};
	p4d_step_result result;

	TRY(p4d_trainer_step(trainer, 1, 1e-3f, training_source, &text, &result, err));
	CHECK(result.applied);
	return 0;
}

/* Copies all weights. Both trainers have flat buffers in the same order. */
static int copy_weights(p4d_trainer *to, p4d_trainer *from, p4d_error *err)
{
	const p4d_weights *weights = p4d_trainer_weights(from);
	float *values = malloc(weights->elements * sizeof(*values));

	CHECK(values && weights->elements == p4d_trainer_weights(to)->elements);
	CHECK(weights->segments == 1 && p4d_trainer_weights(to)->segments == 1);
	TRY(p4d_trainer_read(from, 0, P4D_STATE_MASTER, values, err));
	TRY(p4d_trainer_write(to, 0, P4D_STATE_MASTER, values, err));
	free(values);
	return p4d_trainer_restore(to, err);
}

/* Trains a model of the first stage's layers, with the stage's weights. */
static int learn_alone(p4d_trainer *stage, float *gradients, p4d_error *err)
{
	p4d_trainer *model;
	p4d_device device;
	p4d_world *world;
	p4d_ranks ranks;

	TRY(p4d_ranks_local(&ranks, 1, err));
	TRY(p4d_world_open(&world, &ranks, err));
	TRY(open_trainer(&model, &device, &alone, world, err));
	TRY(copy_weights(model, stage, err));
	TRY(step(model, &alone, err));
	memcpy(gradients, p4d_trainer_gradients(model),
	       p4d_trainer_weights(model)->elements * sizeof(*gradients));
	p4d_trainer_close(model);
	p4d_world_close(world);
	device.close(&device);
	return 0;
}

static void compare(const float *mine, const float *others, uint64_t count)
{
	*shared =
	    (left){.compared = count, .hash = p4d_hash_bytes((const char *)mine, count * sizeof(*mine))};
	for (uint64_t i = 0; others && i < count; i++) {
		shared->apart = fmax(shared->apart, fabs((double)mine[i] - (double)others[i]));
		shared->largest = fmax(shared->largest, fabs((double)mine[i]));
	}
}

static int work(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_trainer *trainer;
	p4d_device device;
	float *others = NULL;

	(void)size;
	TRY(open_trainer(&trainer, &device, &staged, world, err));
	TRY(p4d_trainer_initialize(trainer, rank ? seed_behind : SEED, err));
	const uint64_t count = p4d_trainer_weights(trainer)->elements;
	if (rank == 0 && staged.local_loss) {
		others = malloc(count * sizeof(*others));
		CHECK(others);
		TRY(learn_alone(trainer, others, err));
	}
	TRY(step(trainer, &staged, err));
	if (rank == 0)
		compare(p4d_trainer_gradients(trainer), others, count);
	free(others);
	p4d_trainer_close(trainer);
	device.close(&device);
	return 0;
}

static left run(const char *options, uint64_t seed)
{
	p4d_error err;
	forked f;

	seed_behind = seed;
	if (training_layout(options, 2, &staged, &err) < 0 ||
	    training_layout(OF_2_LAYERS_A_STAGE "layers=2 pp=1", 1, &alone, &err) < 0)
		fail_msg("%s", err.text);
	forked_init(&f, 2, NULL);
	forked_start(&f, work);
	if (!forked_finish(&f, CURVE_PATIENCE_SECONDS) || !forked_all_well(&f))
		fail_msg("%s", options);
	return *shared;
}

static void a_stage_learns_alone(void **state)
{
	const left one = run(OF_2_LAYERS_A_STAGE "layers=4 pp=2 local-loss=stage", SEED);

	(void)state;
	print_message("%llu gradients up to %g, %g apart\n", (unsigned long long)one.compared, one.largest,
		      one.apart);
	assert_true(one.largest > 1e-3);
	assert_true(one.apart <= 1e-6 * one.largest);
}

static void no_gradient_crosses(void **state)
{
	const left one = run(OF_2_LAYERS_A_STAGE "layers=4 pp=2 local-loss=stage", SEED),
		   two = run(OF_2_LAYERS_A_STAGE "layers=4 pp=2 local-loss=stage", SEED + 1);
	const left whole = run(OF_2_LAYERS_A_STAGE "layers=4 pp=2", SEED),
		   other = run(OF_2_LAYERS_A_STAGE "layers=4 pp=2", SEED + 1);

	(void)state;
	assert_true(one.hash == two.hash);
	assert_true(whole.hash != other.hash);
}

static int setup(void **state)
{
	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_stage_learns_alone),
	    cmocka_unit_test(no_gradient_crosses),
	};

	return cmocka_run_group_tests_name("losses of the stages' own", tests, setup, NULL);
}
