/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "support/support.h"

#include <inttypes.h>

#include "plan/plan.h"
#include "plan/stage_memory.h"
#include "request/defaults.h"

/* A model whose memory can be calculated by hand. */
#define SMALL \
	"model=custom layers=2 hidden=64 ffn=128 heads=4 kv-heads=2 head-dim=16 vocab=256 norm=rmsnorm " \
	"glu=on tied=off positions=rope bias=none qk-norm=off seq-len=32 micro-batch=1 "

/* Estimates the memory of a request on these GPUs, whose capacity does not matter. Completes the request
 * and stores its layout in *layout. */
static inline p4d_estimate estimate(const p4d_request *asked, uint64_t nodes, uint64_t gpus_per_node,
				    int method, p4d_layout *layout)
{
	p4d_request r = *asked;
	p4d_capacity none = {NULL, 0, 0};
	p4d_estimate e;
	p4d_error err;

	p4d_request_complete(&r, 0, nodes * gpus_per_node);
	if (p4d_layout_build(&r, nodes, gpus_per_node, layout, &err) < 0)
		fail_msg("layout: %s", err.text);
	if (p4d_memory_estimate(layout, method, &none, &e, &err) < 0)
		fail_msg("memory: %s", err.text);
	return e;
}

/* Fails with the difference and the plan's rows of one part, or of all parts (P4D_PART_COUNT). */
static inline void fail_with_rows(const p4d_layout *layout, const char *what, uint64_t is, uint64_t bytes,
				  p4d_memory_class part)
{
	p4d_plan plan;

	print_error("%s: %" PRIu64 " bytes, by hand %" PRIu64 ": %+" PRId64 "\n", what, is, bytes,
		    (int64_t)(is - bytes));
	assert_int_equal(p4d_plan_build(layout, NULL, 0, &plan, NULL), 0);
	for (unsigned i = 0; i < plan.count; i++) {
		const p4d_tensor *row = &plan.tensor[i];
		if (part == P4D_PART_COUNT || row->part == part)
			print_error("  %-32s %12" PRIu64 " bytes x %u layers x %u slots\n", row->name,
				    row->bytes, row->layers, row->slots);
	}
	fail();
}

/* Expects that this part of the memory at the peak has this many bytes, for a layout with one stage. */
static inline void assert_part(const p4d_layout *layout, const p4d_estimate *e, p4d_memory_class part,
			       uint64_t bytes)
{
	if (e->peak.part[part] != bytes)
		fail_with_rows(layout, p4d_memory_class_name(part), e->peak.part[part], bytes, part);
}

/* Expects that this phase allocates this many bytes, for a layout with one stage. */
static inline void assert_phase(const p4d_layout *layout, const p4d_estimate *e, p4d_phase phase,
				uint64_t bytes)
{
	if (e->peak.phase_bytes[phase] != bytes)
		fail_with_rows(layout, p4d_memory_phase_name(phase), e->peak.phase_bytes[phase], bytes,
			       P4D_PART_COUNT);
}
