/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Random schedules for tests. Include after support.h. */
#include "schedule/schedule.h"
#include "timeline/timeline.h"

static uint64_t shapes_state = 0x9e3779b97f4a7c15;

/* splitmix64: the same numbers on every machine */
static inline uint32_t random_below(uint32_t n)
{
	uint64_t z = shapes_state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

/* A random schedule with at most these sizes. A layout can have it. */
static inline p4d_schedule random_schedule(uint32_t most_stages, uint32_t most_micro_batches)
{
	p4d_schedule s = {.kind = (int)random_below(P4D_SCHEDULES)};
	const p4d_schedule_kind *kind = p4d_schedule_kinds[s.kind];

	s.stages = kind->chunks == 1 ? 1 + random_below(most_stages) : 2 + random_below(most_stages - 1);
	s.chunks = kind->chunks ? kind->chunks : 2 + random_below(4);
	if (kind->vocabulary && s.stages > 1)
		s.vocabulary = (int)random_below(3);
	s.micro_batches = 1 + random_below(most_micro_batches);
	if (kind->in_groups)
		s.micro_batches = (s.micro_batches + s.stages - 1) / s.stages * s.stages;
	if (kind->slices && !s.vocabulary && random_below(2)) {
		s.slices = 1 + random_below(6);
		s.micro_batches *= s.slices;
	}
	/* every stage trains on a loss of its own */
	s.local = s.kind == P4D_1F1B && s.vocabulary == P4D_VOCAB_OFF && s.stages > 1 && s.slices <= 1 &&
		  s.micro_batches % 3 == 0;
	return s;
}

/* The fewest chunks that a schedule can have. */
static inline uint32_t least_chunks(int kind)
{
	return p4d_schedule_kinds[kind]->chunks ? p4d_schedule_kinds[kind]->chunks : 2;
}

/* A schedule as text, for messages. */
static inline const char *shape_text(const p4d_schedule *s)
{
	static char text[120];
	char name[16];

	p4d_request_choice_name(P4D_SCHEDULE, s->kind, name, sizeof(name));
	snprintf(text, sizeof(text), "%s%s vocabulary=%d stages=%u chunks=%u micro-batches=%u slices=%u",
		 name, s->local ? " with local losses" : "", s->vocabulary, s->stages, s->chunks,
		 s->micro_batches, p4d_schedule_slices(s));
	return text;
}

static inline p4d_instruction_list *compiled(const p4d_schedule *s)
{
	p4d_instruction_list *lists = calloc(s->stages, sizeof(*lists));
	p4d_error err;

	assert_non_null(lists);
	if (p4d_schedule_compile(s, lists, &err) < 0)
		fail_msg("%s: %s", shape_text(s), err.text);
	return lists;
}

static inline void release(p4d_instruction_list *lists, const p4d_schedule *s)
{
	p4d_schedule_lists_free(lists, s->stages);
	free(lists);
}
