/* SPDX-License-Identifier: Apache-2.0 */
/* Interrupted training continues as if nothing had happened: in the same layout with the same bits, and in
 * other layouts with the same loss. The test runs real trainers, with a process for each rank. */
#include "support/support.h"

#include <math.h>
#include <sys/mman.h>

#include "run/checkpoint_trainer.h"
#include "support/checkpoint_ranks.h"
#include "support/forked.h"
#include "support/training.h"

enum { SAVED = 3, STEPS = 6, VOCAB = 37 };

/* large enough that each of two ranks has whole 8-bit blocks */
#define BYTES "optimizer=adamw-8bit hidden=256 ffn=512 head-dim=128 "
#define MODEL \
	"model=custom layers=4 hidden=16 ffn=24 heads=4 kv-heads=4 head-dim=4 vocab=37 bias=none " \
	"qk-norm=off " \
	"max-seq-len=64 seq-len=16 global-batch=8 micro-batch=1 "

/* The task of a run's ranks. The forked children inherit it. */
static struct {
	const char *dir, *plan;
	const p4d_layout *layout;
	bool resume, save;
	double *losses; /* (STEPS + 1) losses of rank 0, in memory shared with the parent */
} run;

static int train(p4d_trainer *trainer, p4d_checkpoint_saver *saver, uint64_t first, training_text *text,
		 uint32_t rank, p4d_error *err)
{
	p4d_step_result result;
	bool done = false;

	for (uint64_t step = first; step <= STEPS; step++) {
		TRY(p4d_trainer_step(trainer, step, run.layout->hidden > 100 ? 1e-3f : 1e-2f, training_source,
				     text, &result, err));
		CHECK(result.applied);
		if (rank == 0)
			run.losses[step] = result.loss;
		if (saver && step == SAVED) {
			p4d_checkpoint_info info = {.step = step, .consumed = 8 * step};
			snprintf(info.plan, sizeof(info.plan), "%s", run.plan);
			TRY(p4d_checkpoint_saver_begin(saver, &info, err));
		}
		if (saver)
			TRY(p4d_checkpoint_saver_poll(saver, false, &done, err));
	}
	return saver ? p4d_checkpoint_saver_poll(saver, true, &done, err) : 0;
}

static int rank_work_of(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	uint32_t ranks[FORKED_MOST];
	p4d_device device;
	p4d_trainer *trainer;
	p4d_group *group;
	p4d_checkpoint_saver *saver = NULL;
	uint64_t first = 1;

	for (uint32_t i = 0; i < size; i++)
		ranks[i] = i;
	TRY(p4d_group_open(&group, world, ranks, size, err));
	TRY(p4d_device_cpu_open(&device, err));
	p4d_trainer_settings settings = training_settings(run.layout, &device, world, VOCAB);
	TRY(p4d_trainer_open(&trainer, &settings, err));
	p4d_checkpoint_storage storage = p4d_checkpoint_storage_of(trainer, run.layout, VOCAB);
	p4d_checkpoint_peers peers = p4d_checkpoint_peers_of(group);
	TRY(p4d_trainer_initialize(trainer, run.resume ? 999 : 1, err));
	if (run.resume) {
		p4d_checkpoint_info info;
		bool found;
		TRY(p4d_checkpoint_resume(run.dir, &storage, &peers, NULL, NULL, &info, &found, err));
		CHECK(found && info.step == SAVED && info.consumed == 8 * SAVED);
		TRY(p4d_trainer_restore(trainer, err));
		first = info.step + 1;
	}
	if (run.save)
		TRY(p4d_checkpoint_saver_open(&saver, run.dir, 0, &storage, &peers, err));
	training_text text = {.layout = run.layout, .place = p4d_trainer_place(trainer), .vocab = VOCAB};
	int rc = train(trainer, saver, first, &text, rank, err);
	p4d_checkpoint_saver_close(saver);
	p4d_trainer_close(trainer);
	device.close(&device);
	p4d_group_close(group);
	return rc;
}

/* A layout and its plan line. */
typedef struct place_to_run {
	p4d_layout layout;
	char plan[P4D_PLAN_MAX];
	uint32_t ranks;
} place_to_run;

static place_to_run place_of(const char *model, const char *options, uint32_t ranks)
{
	place_to_run place = {.ranks = ranks};
	p4d_request r;
	p4d_error err;

	memset(&r, 0, sizeof(r));
	set_all(&r, model);
	set_all(&r, options);
	set_all(&r, "framework=p4d device=cpu norm=rmsnorm glu=on positions=rope");
	p4d_plan_place(&r, 1, ranks, NULL);
	p4d_request_complete(&r, 0, ranks);
	if (p4d_layout_build(&r, 1, ranks, &place.layout, &err) < 0 ||
	    p4d_plan_write(&r, place.plan, sizeof(place.plan), &err) < 0)
		fail_msg("%s: %s", options, err.text);
	return place;
}

static void run_at(const place_to_run *place, bool resumes, bool saves, double losses[STEPS + 1])
{
	forked f;

	run.layout = &place->layout;
	run.plan = place->plan;
	run.resume = resumes;
	run.save = saves;
	forked_init(&f, place->ranks, NULL);
	forked_start(&f, rank_work_of);
	if (!forked_finish(&f, 60) || !forked_all_well(&f))
		fail_msg("%s", place->plan);
	memcpy(losses, run.losses, (STEPS + 1) * sizeof(*losses));
}

static void goes_on_anywhere(void **state)
{
	static const struct {
		const char *model, *from, *to;
		uint32_t from_ranks, to_ranks;
	} pairs[] = {
	    {MODEL "tied=off", "precision=fp32 tp=2 pp=2", "precision=fp32 tp=1 cp=2", 4, 2},
	    {MODEL "tied=on", "precision=fp32 pp=2 schedule=v-half vocab-parallel=vocab-2",
	     "precision=fp32 tp=2", 2, 4},
	    {MODEL "tied=off", "precision=fp32", "precision=fp32 pp=2 schedule=interleaved vpp=2", 2, 4},
	    {MODEL "tied=on", "precision=bf16 tp=2 cp=2", "precision=bf16 pp=2 schedule=zb1p", 4, 2},
	    {MODEL "tied=on", "precision=fp32 optimizer-dtype=bf16 tp=2 pp=2",
	     "precision=fp32 optimizer-dtype=bf16 cp=2 optimizer-sharding=off", 4, 2},
	    {MODEL "tied=on", "precision=fp32 pp=2 token-slices=3",
	     "precision=fp32 tp=2 token-slices=2 schedule=gpipe recompute=full", 4, 2},
	    {MODEL "tied=on", "precision=fp32 optimizer-sharding=parameters",
	     "precision=fp32 pp=2 optimizer-sharding=gradients", 4, 4},
	    {MODEL "tied=off", "precision=bf16 optimizer-sharding=gradients tp=2",
	     "precision=bf16 optimizer-sharding=parameters shard-degree=2", 4, 4},
	    {MODEL "tied=off", "precision=fp32 cp=2 optimizer-sharding=parameters shard-degree=2",
	     "precision=fp32 tp=2 pp=2", 4, 4},
	    {MODEL "tied=off", "precision=fp32 tp=8 tp-grid=2,2,2 micro-batch=2", "precision=fp32 tp=2 pp=2",
	     8, 4},
	    {MODEL "tied=on", "precision=fp32 tp=2 cp=2",
	     "precision=fp32 pp=2 tp=4 tp-grid=1,2,2 micro-batch=2 optimizer-sharding=off", 4, 8},
	    {MODEL "tied=off", "precision=fp32 tp=4 tp-grid=1,4,1",
	     "precision=fp32 tp=4 tp-grid=1,1,4 micro-batch=4 schedule=zb1p", 4, 8},
	    {MODEL "tied=on", "precision=fp32 optimizer-dtype=bf16 tp=4 tp-grid=2,1,2 micro-batch=2",
	     "precision=fp32 optimizer-dtype=bf16 tp=2", 4, 4},
	    {MODEL BYTES "tied=on", "precision=fp32 cp=2 pp=2", "precision=fp32 optimizer-sharding=off tp=2",
	     4, 4},
	    {MODEL BYTES "tied=off", "precision=fp32 optimizer-sharding=parameters",
	     "precision=fp32 pp=2 optimizer-sharding=gradients", 4, 4},
	};

	(void)state;
	run.losses = mmap(NULL, sizeof(double) * (STEPS + 1), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(run.losses != MAP_FAILED);
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		char name[16], dir[160];
		snprintf(name, sizeof(name), "run-%zu", i);
		snprintf(dir, sizeof(dir), "%s", in_directory(name));
		run.dir = dir;
		place_to_run from = place_of(pairs[i].model, pairs[i].from, pairs[i].from_ranks);
		place_to_run to = place_of(pairs[i].model, pairs[i].to, pairs[i].to_ranks);
		double whole[STEPS + 1], same[STEPS + 1], other[STEPS + 1], worst = 0;
		run_at(&from, false, true, whole);
		run_at(&from, true, false, same);
		run_at(&to, true, false, other);
		assert_true(whole[SAVED + 1] < whole[1]);
		for (int step = SAVED + 1; step <= STEPS; step++) {
			if (whole[step] != same[step])
				fail_msg("%s: step %d: %.17g, not %.17g", from.plan, step, same[step],
					 whole[step]);
			worst = fmax(worst, fabs(other[step] - whole[step]) / whole[step]);
		}
		printf("%s -> %s: %.2g\n", pairs[i].from, pairs[i].to, worst);
		assert_true(worst <= (strstr(pairs[i].from, "precision=bf16") ? 2e-2 : 1e-5));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(goes_on_anywhere)};

	return cmocka_run_group_tests(tests, make_quick_directory, remove_directory);
}
