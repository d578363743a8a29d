/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how long it takes to compile schedules, to check them, to count their slots without compiling,
 * and to time them. Prints the best of several runs. A long time is no failure. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "support/schedule_check.h"
#include "timeline/timeline.h"

enum { RUNS = 20, PASSES = 4096 };

static double seconds[PASSES];

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static double best(double a, double b)
{
	return a < b ? a : b;
}

static const char *name_of(const p4d_schedule *s, char *text, size_t size)
{
	char kind[16];

	p4d_request_choice_name(P4D_SCHEDULE, s->kind, kind, sizeof(kind));
	snprintf(text, size, "%s%s p=%u v=%u m=%u", kind,
		 s->vocabulary == P4D_VOCAB_1   ? "+vocab-1"
		 : s->vocabulary == P4D_VOCAB_2 ? "+vocab-2"
						: "",
		 s->stages, s->chunks, s->micro_batches);
	return text;
}

static void fail(const p4d_error *err)
{
	fprintf(stderr, "schedule_speed: %s\n", err->text);
	exit(1);
}

static void lists_speed(const p4d_schedule *s)
{
	double compile = 1e30, check = 1e30, run = 1e30, slots = 1e30;
	p4d_instruction_list *lists = calloc(s->stages, sizeof(*lists));
	const p4d_durations d = {
	    .forward = seconds, .backward_input = seconds, .backward_weight = seconds, .send = 0.1};
	p4d_timeline timeline;
	p4d_error err;
	size_t count = 0, used = 0;
	char name[80];

	for (int i = 0; lists && i < RUNS; i++) {
		double t0 = now_us();
		if (p4d_schedule_compile(s, lists, &err) < 0)
			fail(&err);
		double t1 = now_us();
		if (p4d_schedule_check(s, lists, &err) < 0)
			fail(&err);
		double t2 = now_us();
		if (p4d_timeline_run(s, lists, &d, false, &timeline, &err) < 0)
			fail(&err);
		double t3 = now_us();
		for (uint32_t stage = 0; stage < s->stages; stage++)
			used += p4d_schedule_slots(s, stage).activation;
		double t4 = now_us();
		compile = best(compile, t1 - t0);
		check = best(check, t2 - t1);
		run = best(run, t3 - t2);
		slots = best(slots, t4 - t3);
		p4d_timeline_free(&timeline, s->stages);
		for (uint32_t stage = 0; stage < s->stages; stage++)
			count += lists[stage].count;
		p4d_schedule_lists_free(lists, s->stages);
	}
	free(lists);
	printf("schedule_speed: %-32s %7zu instructions, %5zu slots: compile %7.0f us, check %7.0f us, "
	       "run %7.0f us, slots alone %5.1f us\n",
	       name_of(s, name, sizeof(name)), count / RUNS, used / RUNS, compile, check, run, slots);
}

static void seconds_speed(const p4d_schedule *s)
{
	double first = 1e30, again = 1e30, whole, bubble;
	char name[80];
	p4d_error err;

	for (int i = 0; i < RUNS; i++) {
		p4d_timeline_work work = {0};
		p4d_durations d = {
		    .forward = seconds, .backward_input = seconds, .backward_weight = seconds, .send = 0.1};
		for (int j = 0; j < RUNS; j++) {
			d.send = 0.01 * j;
			double t0 = now_us();
			if (p4d_timeline_seconds(s, &d, &work, &whole, &bubble, &err) < 0)
				fail(&err);
			double t1 = now_us();
			first = j ? first : best(first, t1 - t0);
			again = j ? best(again, t1 - t0) : again;
		}
		p4d_timeline_work_free(&work);
	}
	printf("schedule_speed: %-32s step time: first %6.1f us, again %6.1f us\n",
	       name_of(s, name, sizeof(name)), first, again);
}

int main(void)
{
	static const p4d_schedule lists[] = {
	    {P4D_1F1B, P4D_VOCAB_OFF, 64, 1, 512, 1, false},
	    {P4D_INTERLEAVED, P4D_VOCAB_OFF, 64, 4, 512, 1, false},
	    {P4D_ZB1P, P4D_VOCAB_OFF, 64, 1, 512, 1, false},
	    {P4D_ZBV, P4D_VOCAB_OFF, 64, 2, 512, 1, false},
	    {P4D_V_HALF, P4D_VOCAB_OFF, 64, 2, 512, 1, false},
	    {P4D_1F1B, P4D_VOCAB_2, 64, 1, 512, 1, false},
	};
	static const p4d_schedule steps[] = {
	    {P4D_GPIPE, P4D_VOCAB_OFF, 8, 1, 128, 1, false},
	    {P4D_1F1B, P4D_VOCAB_OFF, 8, 1, 128, 1, false},
	    {P4D_INTERLEAVED, P4D_VOCAB_OFF, 8, 2, 128, 1, false},
	    {P4D_INTERLEAVED, P4D_VOCAB_OFF, 8, 4, 128, 1, false},
	    {P4D_ZB1P, P4D_VOCAB_OFF, 8, 1, 128, 1, false},
	    {P4D_ZBV, P4D_VOCAB_OFF, 8, 2, 128, 1, false},
	    {P4D_V_HALF, P4D_VOCAB_OFF, 8, 2, 128, 1, false},
	    {P4D_1F1B, P4D_VOCAB_1, 8, 1, 128, 1, false},
	    {P4D_V_HALF, P4D_VOCAB_2, 8, 2, 128, 1, false},
	    {P4D_1F1B, P4D_VOCAB_OFF, 64, 1, 1024, 1, false},
	};

	/* some passes take 5 % longer, as on the first and the last stage */
	for (int i = 0; i < PASSES; i++)
		seconds[i] = i % 7 ? 1 : 1.05;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		lists_speed(&lists[i]);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		seconds_speed(&steps[i]);
	return 0;
}
