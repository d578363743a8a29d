/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of NCCL, and failures of ranks that others wait for on their devices. All ranks must end, and
 * name the same cause. */
#include "support/support.h"

#include <signal.h>

#include "support/training_curves.h"
#include "support/transports.h"

enum { COUNT = 1000, VICTIM = 1, RANKS = 3 };

static p4d_layout layout;
/* A thread that opens NCCL may still use the device after an error. The device therefore lives longer than
 * all calls, as in p4d-train. */
static transports_rank own;
static const char *broken_call;
static unsigned broken_after;
static fake_nccl_fault broken_how;

/* A rank that fails by itself tells all other ranks, as in p4d-train. */
static int end(p4d_world *world, p4d_error *err)
{
	p4d_error why;

	if (!p4d_world_failed(world, &why))
		p4d_world_abort(world, err->text);
	return -1;
}

/* Computes sums until something fails. */
static int sum_on(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	uint32_t ranks[FORKED_MOST];
	p4d_group *g;
	void *memory;

	if (rank == VICTIM && broken_call)
		break_nccl(broken_call, broken_after, broken_how);
	TRY(transports_open(&own, world, size, P4D_TRANSPORT_NCCL, err));
	TRY(own.device.allocate(&own.device, COUNT * sizeof(float), &memory, err));
	const p4d_traffic traffic = {.collectives = true, .scratch = memory};
	for (uint32_t i = 0; i < size; i++)
		ranks[i] = i;
	TRY(p4d_group_open(&g, world, ranks, size, err));
	TRY(p4d_comm_on_device(g, own.transport, &traffic, err));
	own.device.zero(&own.device, memory, COUNT * sizeof(float));
	for (;;) {
		TRY(p4d_comm_all_reduce(g, memory, COUNT, P4D_DT_FP32, P4D_SUM, err));
		/* while the host waits here, only the device's watch function polls the world */
		TRY(own.device.sync(&own.device, err));
	}
}

static int sum_and_tell(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	return sum_on(world, rank, size, err) < 0 ? end(world, err) : 0;
}

/* The victim must report NCCL's error, and all other ranks must report the victim's error. */
static void all_say(forked *f, const char *why)
{
	char told[600];

	snprintf(told, sizeof(told), "rank %d (n0): %s", VICTIM, why);
	assert_true(forked_finish(f, 30));
	for (int r = 0; r < RANKS; r++)
		if (f->status[r] != 1 << 8 || f->ends[r].err.code != P4D_E_RANK ||
		    strcmp(f->ends[r].err.text, r == VICTIM ? why : told) != 0)
			fail_msg("rank %d ended with %#x: %s", r, f->status[r], f->ends[r].err.text);
}

static const struct {
	const char *call;
	unsigned after;
	fake_nccl_fault how;
	const char *why;
} faults[] = {
    {"CommInitRankConfig", 1, FAKE_FAILS,
     "NCCL, group of 3 from rank 0 on, start: unhandled system error: the fake was told to fail"},
    {"AllReduce", 1, FAKE_FAILS,
     "NCCL, group of 3 from rank 0 on, first operation: unhandled system error: the fake was told to fail"},
    {"AllReduce", 7, FAKE_FAILS,
     "NCCL, group of 3 from rank 0 on, all-reduce: unhandled system error: the fake was told to fail"},
    {"AllReduce", 7, FAKE_NEVER_ENDS,
     "NCCL, group of 3 from rank 0 on, in progress: remote process exited: the fake was told to fail"},
};
enum { FAULTS = sizeof(faults) / sizeof(faults[0]) };

static void test_errors(void **state)
{
	forked f[FAULTS];

	(void)state;
	for (int i = 0; i < FAULTS; i++) {
		broken_call = faults[i].call;
		broken_after = faults[i].after;
		broken_how = faults[i].how;
		forked_init(&f[i], RANKS, NULL);
		forked_start(&f[i], sum_and_tell);
	}
	for (int i = 0; i < FAULTS; i++)
		all_say(&f[i], faults[i].why);
}

/* ---- ranks that are killed ---- */

static void all_blame(forked *f, int size)
{
	char who[64];

	snprintf(who, sizeof(who), "rank %d (n0) ended unexpectedly", VICTIM);
	assert_true(forked_finish(f, 30));
	for (int r = 0; r < size; r++)
		if (r != VICTIM && (f->status[r] != 1 << 8 || f->ends[r].err.code != P4D_E_RANK ||
				    !strstr(f->ends[r].err.text, who)))
			fail_msg("rank %d ended with %#x: %s", r, f->status[r], f->ends[r].err.text);
}

static void kill_victim(forked *f, int size, useconds_t after)
{
	for (int r = 0; r < size; r++)
		for (const double until = forked_now() + 30; *(volatile double *)&f->ends[r].opened == 0;) {
			if (forked_now() > until)
				fail_msg("rank %d has not joined after 30 s: %s", r, f->ends[r].err.text);
			usleep(1000);
		}
	usleep(after);
	kill(f->pids[VICTIM], SIGKILL);
	all_blame(f, size);
}

/* Kills ranks at random moments: while communicators are being opened, and while hosts wait for their
 * devices. */
static void test_killed(void **state)
{
	uint64_t draw = 11;

	(void)state;
	broken_call = NULL;
	for (int round = 0; round < 8; round++) {
		forked f;
		forked_init(&f, RANKS, NULL);
		forked_start(&f, sum_and_tell);
		kill_victim(&f, RANKS, forked_random(&draw) % 40000);
	}
}

/* Kills a rank while another rank waits for it inside NCCL, which would wait forever. */
static void test_killed_while_opening(void **state)
{
	forked f;

	(void)state;
	broken_call = "CommInitRankConfig";
	broken_after = 1;
	broken_how = FAKE_HANGS;
	forked_init(&f, RANKS, NULL);
	forked_start(&f, sum_and_tell);
	kill_victim(&f, RANKS, 100000);
}

/* NCCL fails on this rank before the rank learns that another has ended. It must name the ended rank
 * nevertheless. */
static int sum_once(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	if (rank == VICTIM)
		break_nccl("AllReduce", 2, FAKE_HANGS);
	else
		break_nccl("AllReduce", 2, FAKE_FAILS);
	return sum_and_tell(world, rank, size, err);
}

static void test_cause(void **state)
{
	forked f;

	(void)state;
	broken_call = NULL;
	forked_init(&f, RANKS, NULL);
	forked_start(&f, sum_once);
	kill_victim(&f, RANKS, 100000);
}

static void nothing(void)
{
}

/* Training with more layers than a device's queue has room for. Without pacing, the host would block. */
static int train(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_trainer *trainer;

	TRY(transports_open(&own, world, size, P4D_TRANSPORT_NCCL, err));
	p4d_trainer_settings settings = training_settings(&layout, &own.device, world, VOCAB);
	settings.net.transport = own.transport;
	TRY(p4d_trainer_open(&trainer, &settings, err));
	for (;;)
		TRY(curve_train(trainer, &layout, CURVE_STEPS, rank, nothing, err));
}

static int train_and_tell(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	if (rank == VICTIM && broken_call)
		break_nccl(broken_call, broken_after, broken_how);
	return train(world, rank, size, err) < 0 ? end(world, err) : 0;
}

/* If opening a trainer fails, work that never ends may remain on the stream of operations or on another
 * stream. */
static void test_errors_while_a_trainer_opens(void **state)
{
	static const struct {
		const char *call, *options, *why;
	} cases[] = {
	    {"AllReduce", "tp=3 cp=1 heads=6 kv-heads=6 hidden=48 head-dim=8 vocab=204 seq-len=30",
	     "NCCL, group of 3 from rank 0 on, in progress: remote process exited: the fake was told to "
	     "fail"},
	    {"ReduceScatter", "tp=1 cp=1 global-batch=6",
	     "NCCL, group of 3 from rank 0 on, in progress: remote process exited: the fake was told to "
	     "fail"},
	};

	(void)state;
	broken_after = 1;
	broken_how = FAKE_NEVER_ENDS;
	for (int i = 0; i < 2; i++) {
		char options[1024];
		p4d_error err;
		forked f;
		broken_call = cases[i].call;
		snprintf(options, sizeof(options), "%s precision=fp32 pp=1 vpp=1 micro-batch=1 %s",
			 TINY PLAIN, cases[i].options);
		if (training_layout(options, RANKS, &layout, &err) < 0)
			fail_msg("%s", err.text);
		forked_init(&f, RANKS, NULL);
		forked_start(&f, train_and_tell);
		all_say(&f, cases[i].why);
	}
}

static void test_killed_while_training(void **state)
{
	static const char *const options[] = {
	    TINY PLAIN "precision=fp32 tp=2 cp=1 pp=2 vpp=1 micro-batch=8 schedule=1f1b layers=64",
	    TINY PLAIN "precision=fp32 tp=1 cp=2 pp=2 vpp=2 micro-batch=2 schedule=zbv layers=64",
	};
	uint64_t draw = 5;

	(void)state;
	for (int round = 0; round < 4; round++) {
		p4d_error err;
		forked f;
		if (training_layout(options[round % 2], 4, &layout, &err) < 0)
			fail_msg("%s", err.text);
		forked_init(&f, 4, NULL);
		forked_start(&f, train);
		kill_victim(&f, 4, 300000 + forked_random(&draw) % 300000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_errors),
	    cmocka_unit_test(test_killed),
	    cmocka_unit_test(test_killed_while_opening),
	    cmocka_unit_test(test_cause),
	    cmocka_unit_test(test_errors_while_a_trainer_opens),
	    cmocka_unit_test(test_killed_while_training),
	};

	return cmocka_run_group_tests_name("failures on devices", tests, curve_setup, NULL);
}
