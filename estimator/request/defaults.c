/* SPDX-License-Identifier: Apache-2.0 */
#include "request/defaults.h"

#include "request/framework.h"

enum { DEFAULT_SEQ_LEN = 8192 };

uint64_t p4d_defaults__global_batch(uint32_t published_batch, uint64_t world, uint64_t tp, uint64_t cp,
				    uint64_t pp, uint64_t micro_batch)
{
	uint64_t dp = world / (tp * cp * pp);
	uint64_t replica = (dp ? dp : 1) * micro_batch;
	uint64_t full = replica * pp; /* as many micro-batches as stages */

	if (!published_batch)
		return full;
	if (published_batch % replica == 0)
		return published_batch;
	return (published_batch + full - 1) / full * full;
}

void p4d_request_complete(p4d_request *r, uint32_t published_batch, uint64_t world)
{
#define DEVICE(id, name, on_gpu, precision) precision,
	static const int precision[] = {P4D_DEVICE_KINDS(DEVICE)};
	static const int gradient[] = {
	    [P4D_BF16] = P4D_GRAD_FP32, [P4D_FP16] = P4D_GRAD_FP16, [P4D_FP32] = P4D_GRAD_FP32};
#undef DEVICE

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
	p4d_request_default(r, P4D_PRECISION, precision[r->value[P4D_DEVICE]], P4D_BY_P4D);
	p4d_request_default(r, P4D_GRAD_DTYPE, gradient[r->value[P4D_PRECISION]], P4D_BY_P4D);
	p4d_request_default(r, P4D_ACTIVATION, r->value[P4D_GLU] ? P4D_SWIGLU_ACTIVATION : P4D_GELU,
			    P4D_BY_P4D);
	p4d_request_default(r, P4D_CROSS_ENTROPY,
			    p4d_framework_of((int)r->value[P4D_FRAMEWORK])->fuses_cross_entropy, P4D_BY_P4D);
	p4d_request_default(r, P4D_DROPOUT, r->value[P4D_POSITIONS] == P4D_LEARNED, P4D_BY_P4D);
	p4d_request_follow(r, published_batch, world);
}

void p4d_request_follow(p4d_request *r, uint32_t published_batch, uint64_t world)
{
	p4d_request_default(r, P4D_SEQUENCE_PARALLEL, r->value[P4D_TP] > 1, P4D_BY_P4D);
	if (!p4d_is_set(r, P4D_GLOBAL_BATCH) && world)
		p4d_request_put(r, P4D_GLOBAL_BATCH,
				(int64_t)p4d_defaults__global_batch(
				    published_batch, world, (uint64_t)r->value[P4D_TP],
				    (uint64_t)r->value[P4D_CP], (uint64_t)r->value[P4D_PP],
				    (uint64_t)r->value[P4D_MICRO_BATCH]),
				P4D_BY_P4D);
}
