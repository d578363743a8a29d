/* SPDX-License-Identifier: Apache-2.0 */
#include "request/defaults.h"

#include <inttypes.h>
#include <stdio.h>

#include "request/architecture.h"
#include "request/framework.h"
#include "request/layout.h"

enum { DEFAULT_SEQ_LEN = 8192 };

static uint64_t greatest_common(uint64_t a, uint64_t b)
{
	while (b) {
		const uint64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

/* The smallest multiple of `unit` and `other` that is at least `batch`; a multiple of only `other` if the
 * numbers are absurd. */
static uint64_t round_up(uint64_t batch, uint64_t unit, uint64_t other)
{
	uint64_t both, result;

	if (__builtin_mul_overflow(unit / greatest_common(unit, other), other, &both))
		both = other;
	return __builtin_mul_overflow((batch + both - 1) / both, both, &result) ? other : result;
}

static uint64_t global_batch(const p4d_request *r, uint32_t published_batch, uint64_t world,
			     uint64_t replicas)
{
	const uint64_t micro_batch = (uint64_t)r->value[P4D_MICRO_BATCH], pp = (uint64_t)r->value[P4D_PP];
	const bool in_groups = p4d_schedule_kinds[r->value[P4D_SCHEDULE]]->in_groups;
	uint64_t wanted = published_batch, unit = world;

	if (!wanted && p4d_on_gpu(r->value[P4D_DEVICE]))
		wanted = P4D_TOKENS_PER_STEP / (uint64_t)r->value[P4D_SEQ_LEN];
	if (!published_batch && wanted < world)
		wanted = world;
	while (unit > wanted && unit % 2 == 0)
		unit /= 2;
	const uint64_t batch = wanted < unit ? unit : (wanted + unit / 2) / unit * unit;
	if (batch % (micro_batch * replicas * (in_groups ? pp : 1)) == 0)
		return batch;
	return round_up(batch, unit, micro_batch * replicas * (in_groups ? pp : 1));
}

void p4d_request_default_batch(p4d_request *r, uint32_t published_batch, uint64_t world, uint64_t replicas)
{
	const uint32_t of_rank = p4d_framework_of((int)r->value[P4D_FRAMEWORK])->rank_batch;
	const bool asked =
	    r->origin[P4D_MICRO_BATCH] == P4D_BY_USER || r->origin[P4D_MICRO_BATCH] == P4D_BY_SCRIPT;

	if (of_rank) {
		p4d_request_default(r, P4D_GLOBAL_BATCH,
				    (int64_t)world * (asked ? r->value[P4D_MICRO_BATCH] : of_rank),
				    P4D_BY_P4D);
		return;
	}
	p4d_request_default(r, P4D_GLOBAL_BATCH, (int64_t)global_batch(r, published_batch, world, replicas),
			    published_batch ? P4D_BY_MODEL : P4D_BY_P4D);
}

const char *p4d_defaults_batch_text(const p4d_request *r, const char *prefix, char *buf, size_t size)
{
	const int64_t batch = r->value[P4D_GLOBAL_BATCH];
	const double tokens = (double)batch * (double)r->value[P4D_SEQ_LEN];
	const bool many = tokens >= 1e5;

	if (r->origin[P4D_GLOBAL_BATCH] == P4D_BY_P4D)
		snprintf(buf, size, "%" PRId64 " (assumed: %.*f%s tokens a step; %sglobal-batch sets it)",
			 batch, many, many ? tokens / 1e6 : tokens, many ? "M" : "", prefix);
	else if (r->origin[P4D_GLOBAL_BATCH] == P4D_BY_MODEL)
		snprintf(buf, size, "%" PRId64 " (the model's; %sglobal-batch sets it)", batch, prefix);
	else
		snprintf(buf, size, "%" PRId64, batch);
	return buf;
}

void p4d_request_complete(p4d_request *r, uint32_t published_batch, uint64_t world)
{
#define DEVICE(id, name, on_gpu, precision) precision,
	static const int precision[] = {P4D_DEVICE_KINDS(DEVICE)};
	static const int gradient[] = {[P4D_BF16] = P4D_GRAD_FP32,
				       [P4D_FP16] = P4D_GRAD_FP16,
				       [P4D_FP32] = P4D_GRAD_FP32,
				       [P4D_FP8] = P4D_GRAD_FP32};
#undef DEVICE

	const int64_t runs =
	    p4d_is_set(r, P4D_FRAMEWORK) ? r->value[P4D_FRAMEWORK] : p4d_framework_default(r);
	if (p4d_is_set(r, P4D_RECOMPUTE_MODULES) &&
	    p4d_heeds(r, (int)runs, P4D_RECOMPUTE_MODULES)) /* all other programs ignore this option */
		p4d_request_default(r, P4D_RECOMPUTE, P4D_RECOMPUTE_SELECTIVE, P4D_BY_P4D);
	if (p4d_architecture_of(r)->attention_sinks) /* PyTorch's fused attention supports no sinks */
		p4d_request_default(r, P4D_ATTENTION, 0, P4D_BY_P4D);
	if (p4d_framework_of((int)runs)->plans_transfers && p4d_is_set(r, P4D_OFFLOAD) &&
	    r->value[P4D_OFFLOAD] &
		P4D_OFFLOAD_PARAMS) /* parameters that are on the host are sharded over the ranks' hosts */
		p4d_request_default(r, P4D_OPTIMIZER_SHARDING, P4D_SHARD_PARAMETERS, P4D_BY_P4D);
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		if ((info->kind == P4D_INTEGER_KIND || info->kind == P4D_CHOICE_KIND) && info->number >= 0)
			p4d_request_default(r, (p4d_option)i, info->number, P4D_BY_P4D);
	}
	uint32_t chunks =
	    p4d_is_set(r, P4D_SCHEDULE) ? p4d_schedule_kinds[r->value[P4D_SCHEDULE]]->chunks : 1;
	p4d_request_default(r, P4D_VPP, chunks ? chunks : 1, P4D_BY_P4D);
	int64_t longest = p4d_is_set(r, P4D_MAX_SEQ_LEN) ? r->value[P4D_MAX_SEQ_LEN] : DEFAULT_SEQ_LEN;
	p4d_request_default(r, P4D_SEQ_LEN, longest < DEFAULT_SEQ_LEN ? longest : DEFAULT_SEQ_LEN,
			    P4D_BY_P4D);
	p4d_request_default(r, P4D_SCHEDULE,
			    r->value[P4D_VPP] > 1 ? P4D_SCHEDULE_OF_CHUNKS : P4D_SCHEDULE_DEFAULT,
			    P4D_BY_P4D);
	p4d_request_default(r, P4D_FRAMEWORK, p4d_framework_default(r), P4D_BY_P4D);
	const p4d_framework *framework = p4d_framework_of((int)r->value[P4D_FRAMEWORK]);
	p4d_request_default(r, P4D_PRECISION, precision[r->value[P4D_DEVICE]], P4D_BY_P4D);
	p4d_framework_put_defaults(r);
	/* sets the values that the framework has in any case, for flags and reports */
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_heeds_reason *f = p4d_framework_fixed_of(r, (p4d_option)i);
		if (f && f->value != P4D_NO_MEANING && !p4d_is_stated(r, (p4d_option)i) &&
		    !p4d_layout_lacks(r, (p4d_option)i))
			p4d_request_put(r, (p4d_option)i, f->value, P4D_BY_P4D);
	}
	p4d_request_default(r, P4D_GRAD_DTYPE, gradient[r->value[P4D_PRECISION]], P4D_BY_P4D);
	p4d_request_default(r, P4D_ACTIVATION, r->value[P4D_GLU] ? P4D_SWIGLU_ACTIVATION : P4D_GELU,
			    P4D_BY_P4D);
	/* recipes that overlap communication overlap all of it */
	p4d_request_default(r, P4D_OVERLAP_DP, r->value[P4D_TP_COMM_OVERLAP], P4D_BY_P4D);
	p4d_request_default(r, P4D_CROSS_ENTROPY, framework->fuses_cross_entropy, P4D_BY_P4D);
	p4d_request_default(r, P4D_DROPOUT, r->value[P4D_POSITIONS] == P4D_LEARNED, P4D_BY_P4D);
	p4d_request_follow(r);
	const uint64_t ranks = (uint64_t)(r->value[P4D_TP] * r->value[P4D_CP] * r->value[P4D_PP]);
	if (world)
		p4d_request_default_batch(r, published_batch, world, world < ranks ? 1 : world / ranks);
}

void p4d_request_follow(p4d_request *r)
{
	p4d_request_default(r, P4D_SEQUENCE_PARALLEL, r->value[P4D_TP] > 1, P4D_BY_P4D);
}
