/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Predicted step times of layouts. */
#include "support/support.h"

#include <math.h>

#include "cost/cost_internal.h"
#include "plan/stage_memory.h"
#include "request/defaults.h"
#include "support/cost_gpus.h"

static inline p4d_layout layout_of(const char *options, uint64_t nodes, uint64_t per_node)
{
	p4d_request r = {.gpu = ""};
	p4d_layout l;
	p4d_error err;

	set_all(&r, options);
	p4d_request_complete(&r, 0, nodes * per_node);
	if (p4d_layout_build(&r, nodes, per_node, &l, &err) < 0)
		fail_msg("layout: %s", err.text);
	return l;
}

static inline p4d_step step_of(const p4d_layout *l, const p4d_gpu *gpu)
{
	p4d_timeline_work work = {0};
	p4d_step step;
	p4d_error err;

	if (p4d_cost_step(l, gpu, &work, &step, &err) < 0)
		fail_msg("step: %s", err.text);
	p4d_timeline_work_free(&work);
	return step;
}

static inline double seconds(const char *options, uint64_t nodes, uint64_t per_node, const p4d_gpu *gpu)
{
	p4d_layout l = layout_of(options, nodes, per_node);

	return step_of(&l, gpu).seconds;
}

#define SMALL \
	"model=custom layers=2 hidden=64 ffn=128 heads=4 kv-heads=2 head-dim=16 vocab=256 norm=rmsnorm " \
	"glu=on tied=off positions=rope bias=none qk-norm=off seq-len=32 micro-batch=1 "
