/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If any rank is killed (kill -9) at any moment, all ranks end within 5 seconds, and one line says which
 * rank died, and where. If the same command is started again, it continues as if nothing had happened: all
 * losses have the same digits, and the last checkpoint has the same bytes. In another layout, losses agree
 * to 1e-5.
 *
 * A chain is a run of p4d-train with 4 ranks that is killed repeatedly, at its start, in its steps, and
 * while it saves. At the end it may finish. P4D_TEST_ALL makes more kills, and P4D_TEST_SEED=N other
 * moments.
 */
#include "support/support.h"

#include <math.h>
#include <signal.h>

#include "support/runs.h"

enum { EXIT_KILLED = 137 };
static const double GONE_SECONDS = 5, LOOK_SECONDS = 5e-4;

/* Number of kills in each chain. With sanitizers all steps are slow. */
enum { KILLS = 2 };
#ifndef __SANITIZE_ADDRESS__
enum { KILLS_ALL = 10 };
#else
enum { KILLS_ALL = KILLS };
#endif

/* Options of the run with 4 ranks, and options that continue it in another layout. */
typedef struct chain {
	const char *layout, *other;
} chain;

static const chain chains[] = {
    {"--tp 2 --pp 2", "--local-ranks 2 --cp 2"},
    {"--cp 2", "--local-ranks 4 --pp 4"},
    {"--micro-batch 2", "--local-ranks 2 --tp 2 --optimizer-sharding off"},
    {"--pp 4 --vocab-parallel vocab-1", "--local-ranks 1"},
    {"--pp 2 --token-slices 4", "--local-ranks 2 --tp 2"},
    {"--tp 4 --tp-grid 1,2,2 --micro-batch 2", "--local-ranks 4 --tp 2 --pp 2"},
    {"--pp 2 --vpp 2 --schedule v-half --vocab-parallel vocab-2", "--local-ranks 8 --tp 2 --pp 2 --cp 2"},
    {"--tp 2 --optimizer-sharding gradients", "--local-ranks 2 --pp 2"},
    {"--pp 2 --optimizer-sharding parameters", "--local-ranks 2 --optimizer-sharding off"},
    {"--cp 2 --optimizer-sharding parameters --shard-degree 2 --resident-layers 3",
     "--local-ranks 4 --tp 2 --optimizer-sharding gradients"},
    {"--optimizer-sharding gradients --shard-degree 2", "--local-ranks 4 --optimizer-sharding parameters"},
    {"--tp 2 --offload optimizer", "--local-ranks 2 --pp 2"},
    {"--pp 2 --offload params --resident-layers 1", "--local-ranks 1 --offload activations"},
    {"--pp 2 --vpp 2 --schedule interleaved --offload optimizer,activations", "--local-ranks 2 --cp 2"},
    {"--pp 2 --local-loss stage", "--local-ranks 4 --tp 2 --pp 2 --local-loss stage"},
};
enum { CHAINS = sizeof(chains) / sizeof(*chains) };

typedef enum moment { AT_START, IN_STEPS, WHILE_SAVING, MOMENTS } moment;
static const char *const moment_name[MOMENTS] = {"at the start", "in a step", "while saving"};

/* Counts over all chains. A kill while saving also counts as a kill in a step. */
static struct {
	unsigned at[MOMENTS], others;
	double longest, off;
} seen;

typedef struct attempt {
	uint64_t seed;
	moment moment;
	uint32_t rank;
	uint64_t resumes; /* the step after which the run will resume; 0: from the beginning */
	uint64_t waits;   /* the kill happens in this step, or while its checkpoint is saved */
	double delay;     /* seconds from the beginning of that moment to the kill */
} attempt;

/* Chooses the moment of a kill. start_seconds: about how long a start takes. */
static attempt plan_attempt(uint64_t seed, double start_seconds)
{
	uint64_t state = seed;
	attempt a = {.seed = seed, .resumes = newest("chain")};
	const double share = (double)(next_random(&state) >> 11) / 9007199254740992.0;

	a.moment = (moment)(seed % MOMENTS);
	a.rank = (uint32_t)(next_random(&state) % RANKS);
	switch (a.moment) {
	case AT_START:
		a.delay = share * start_seconds;
		break;
	case IN_STEPS:
		a.waits = a.resumes + 1 + next_random(&state) % (2 * SAVE_EVERY);
		a.delay = 2e-3 * share;
		break;
	default: /* half of the kills come immediately */
		a.waits = a.resumes + SAVE_EVERY * (1 + next_random(&state) % 2);
		a.delay = next_random(&state) % 2 ? 3e-3 * share : 0;
	}
	return a;
}

static bool is_time(const attempt *a, const run_curve *curve)
{
	const run_log log = run_log_compare(log_of("chain"), curve);

	/* the log and the checkpoints are those of the previous run until this run has started */
	if (a->moment == AT_START || !log.starts)
		return a->moment == AT_START;
	return a->moment == IN_STEPS ? log.step >= a->waits : is_saving("chain", a->waits);
}

/* Waits for the moment of the kill. False: the run ended before. */
static bool moment_comes(launched *l, const attempt *a, const run_curve *curve)
{
	if (!launched_wait_ranks(l, RANKS))
		return false;
	while (!is_time(a, curve)) {
		if (launched_ended(l))
			return false;
		launched_sleep(LOOK_SECONDS);
	}
	launched_sleep(a->delay);
	return true;
}

/* Checks that one line says which rank was killed, and on which host. */
static void says_who_was_killed(const attempt *a)
{
	char host[65] = "", who[128];
	const char *said = errors(), *end = strchr(said, '\n');

	gethostname(host, sizeof(host) - 1);
	snprintf(who, sizeof(who), "rank %u (%.60s", a->rank, host);
	if (!end || end[1] || !strstr(said, who) || !strstr(said, "killed"))
		fail_msg("rank %u of %s was killed, it says: %s", a->rank, host, said);
}

/* Checks the files after a kill: no checkpoint is missing or damaged. */
static void leaves_what_it_made(const attempt *a, const run_curve *curve)
{
	const run_log log = run_log_compare(log_of("chain"), curve);
	bool saving = false;

	if (log.starts && log.resumed != a->resumes)
		fail_msg("step %d is continued, not %d", (int)log.resumed, (int)a->resumes);
	if (log.saved > newest("chain") || newest("chain") < a->resumes)
		fail_msg("step %d was saved, %d is there", (int)log.saved, (int)newest("chain"));
	if (log.differ)
		fail_msg("%d steps differ, the loss by %g", (int)log.differ, log.off);
	newest_is_whole("chain");
	for (uint64_t step = a->resumes; step <= STEPS; step += SAVE_EVERY)
		saving = saving || is_saving("chain", step);
	seen.at[log.step ? IN_STEPS : AT_START]++;
	seen.at[WHILE_SAVING] += log.step && saving;
}

/* Runs until the kill. Returns false if the run finished first. */
static bool is_killed(const char *layout, const attempt *a, const run_curve *curve)
{
	launched l;

	shell("rm -f chain.jsonl");
	start(&l, local(layout), "chain");
	if (!moment_comes(&l, a, curve) || kill(l.rank[a->rank], SIGKILL) < 0) {
		comes_to_its_end(&l);
		return false;
	}
	const double began = launched_now();
	if (!launched_gone(&l, GONE_SECONDS))
		fail_msg("ranks are there %g s after one was killed", GONE_SECONDS);
	const double took = launched_now() - began;
	if (launched_status(&l) == 0)
		return false;
	if (launched_status(&l) != EXIT_KILLED)
		fail_msg("it ends with %d: %s", launched_status(&l), errors());
	says_who_was_killed(a);
	leaves_what_it_made(a, curve);
	print_message("\tgone in %.3f s, step %d is saved\n", took, (int)newest("chain"));
	seen.longest = fmax(seen.longest, took);
	return true;
}

/* Continues a copy of the killed run in another layout. Returns false if there was no checkpoint, or if
 * the run was complete. */
static bool other_layout_goes_on(const char *layout, const run_curve *curve)
{
	const uint64_t step = newest("chain");
	launched l;

	if (step == 0 || step == STEPS)
		return false;
	shell("rm -rf other other.jsonl && cp -r chain other");
	start(&l, layout, "other");
	comes_to_its_end(&l);
	const run_log log = run_log_compare(log_of("other"), curve);
	if (log.resumed != step || log.steps != STEPS - step || !(log.off <= 1e-5))
		fail_msg("%s: continues %d instead of %d, makes %d steps, off by %g", layout,
			 (int)log.resumed, (int)step, (int)log.steps, log.off);
	seen.others++;
	seen.off = fmax(seen.off, log.off);
	return true;
}

/* Trains without kills. Returns the seconds that the start takes. */
static double run_whole(const char *layout, run_curve *curve)
{
	launched l;

	shell("rm -rf chain whole whole.jsonl");
	start(&l, local(layout), "whole");
	assert_true(launched_wait_ranks(&l, RANKS));
	const double began = launched_now();
	while (run_log_compare(log_of("whole"), curve).starts == 0 && !launched_ended(&l))
		launched_sleep(LOOK_SECONDS);
	const double took = launched_now() - began;
	comes_to_its_end(&l);
	const run_log log = run_log_keep(log_of("whole"), curve);
	assert_int_equal(log.steps, STEPS);
	assert_int_equal(log.saved, STEPS);
	return took;
}

static void goes_on_to_the_same_end(const char *layout, const run_curve *curve)
{
	char differ[160];
	launched l;

	shell("rm -f chain.jsonl");
	start(&l, local(layout), "chain");
	comes_to_its_end(&l);
	const run_log log = run_log_compare(log_of("chain"), curve);
	if (log.differ)
		fail_msg("%d steps differ, the loss by %g", (int)log.differ, log.off);
	assert_int_equal(newest("chain"), STEPS);
	snprintf(differ, sizeof(differ),
		 "diff -r whole/step-%08d chain/step-%08d >differ || { cat differ; exit 1; }", STEPS, STEPS);
	shell(differ);
}

/* Repeats chains until there were enough kills and enough runs in another layout. Counts kills and seeds. */
static void kill_again_and_again(const chain *c, uint64_t *seed, unsigned *killed)
{
	const unsigned kills = getenv("P4D_TEST_ALL") ? KILLS_ALL : KILLS;
	static run_curve curve;
	const double began = launched_now(), start_seconds = run_whole(c->layout, &curve);
	bool elsewhere = false;

	for (unsigned k = 0; k < kills || !elsewhere; ++*seed) {
		assert_true(k < 50); /* within 50 kills one comes after a checkpoint, from which another
				      * layout goes on */
		const attempt a = plan_attempt(*seed, start_seconds);
		print_message("%s, seed %d: kill rank %u %s\n", c->layout, (int)*seed, a.rank,
			      moment_name[a.moment]);
		/* a finished chain is removed, so that the next one begins from the start */
		if (!is_killed(c->layout, &a, &curve)) {
			goes_on_to_the_same_end(c->layout, &curve);
			shell("rm -rf chain");
			continue;
		}
		++*killed;
		if (++k % 5 == 2 || (k > 2 && !elsewhere))
			elsewhere |= other_layout_goes_on(c->other, &curve);
	}
	goes_on_to_the_same_end(c->layout, &curve);
	print_message("%s: %.1f s\n", c->layout, launched_now() - began);
}

static void killed_chains(void **state)
{
	const char *base = getenv("P4D_TEST_SEED");
	uint64_t seed = base ? strtoull(base, NULL, 10) : 0;
	unsigned killed = 0;

	(void)state;
	for (size_t c = 0; c < CHAINS; c += test_stride(2, 4))
		kill_again_and_again(&chains[c], &seed, &killed);
	print_message(
	    "%u kills: %u before the first step, %u behind it, %u while a checkpoint was written; all "
	    "gone in %.2f s; %u times another layout went on, off by %.2g\n",
	    killed, seen.at[AT_START], seen.at[IN_STEPS], seen.at[WHILE_SAVING], seen.longest, seen.others,
	    seen.off);
	for (int m = 0; m < MOMENTS; m++)
		assert_true(seen.at[m] > 0);
}

/* The process that waits for the ranks is killed: the ranks end as well. */
static void launcher_is_killed(void **state)
{
	static run_curve curve;
	launched l;

	(void)state;
	shell("rm -rf chain chain.jsonl");
	start(&l, local("--tp 2"), "chain");
	assert_true(launched_wait_ranks(&l, RANKS));
	while (run_log_compare(log_of("chain"), &curve).step < 3 && !launched_ended(&l))
		launched_sleep(LOOK_SECONDS);
	assert_int_equal(kill(l.pid, SIGKILL), 0);
	assert_true(launched_gone(&l, GONE_SECONDS));
	start(&l, local("--tp 2"), "chain");
	comes_to_its_end(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(killed_chains),
	    cmocka_unit_test(launcher_is_killed),
	};

	return cmocka_run_group_tests_name("ranks that are killed", tests, prepare, remove_directory);
}
