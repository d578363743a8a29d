/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of the device table: fused if possible, else with p4d's own kernels. */
#include "device/cuda/cuda_internal.h"
#include "device/cuda/kernels.h"

static bool takes(p4d_cuda *c, const p4d_attention_shape *shape)
{
	if (shape->head_dim <= P4D_KERNEL_HEAD_DIM)
		return true;
	if (c->failure.code == P4D_OK)
		p4d_fail(&c->failure, P4D_E_DEVICE, "attention kernels support head sizes up to %d, not %d",
			 P4D_KERNEL_HEAD_DIM, (int)shape->head_dim);
	return false;
}

static void attention(p4d_device *device, p4d_dtype type, void *o, float *lse, const void *q, const void *k,
		      const void *v, const p4d_attention_shape *shape, void *workspace)
{
	p4d_cuda *c = p4d_cuda_of(device);
	const p4d_sdpa_call call = {.q = q, .k = k, .v = v, .o = o, .lse = lse, .workspace = workspace};

	if (p4d_cuda_attention_fused(device, type, P4D_ATTENTION_FORWARD, shape, &call) || !takes(c, shape))
		return;
	p4d_kernel_attention(c->stream, type, o, lse, q, k, v, shape);
	p4d_cuda_queued(c, "attention");
}

/* Computes the row sums for p4d's own kernels; fused attention computes them itself. */
static void own_row_sums(p4d_cuda *c, p4d_dtype type, float *row_sums, const void *d_o,
			 const p4d_attention_shape *s)
{
	if (s->output)
		p4d_kernel_attention_row_sums(c->stream, type, row_sums, d_o, s->output,
					      s->batch * s->queries, s->heads, s->head_dim);
}

static void attention_backward(p4d_device *device, p4d_dtype type, float *dq, float *dk, float *dv,
			       const void *d_o, const float *lse, float *row_sums, const void *q,
			       const void *k, const void *v, const p4d_attention_shape *shape,
			       void *workspace)
{
	p4d_cuda *c = p4d_cuda_of(device);
	const p4d_sdpa_call call = {.q = q,
				    .k = k,
				    .v = v,
				    .o = (void *)shape->output,
				    .lse = (float *)lse,
				    .d_o = d_o,
				    .dq = dq,
				    .dk = dk,
				    .dv = dv,
				    .workspace = workspace};

	if (p4d_cuda_attention_fused(device, type, P4D_ATTENTION_ADD, shape, &call) || !takes(c, shape))
		return;
	own_row_sums(c, type, row_sums, d_o, shape);
	p4d_kernel_attention_backward(c->stream, type, P4D_DT_FP32, true, dq, dk, dv, d_o, lse, row_sums, q,
				      k, v, shape);
	p4d_cuda_queued(c, "attention_backward");
}

static char *column(const void *matrix, uint64_t at, p4d_dtype type)
{
	return (char *)matrix + at * (type == P4D_DT_BF16 ? 2 : 4);
}

static void attention_gradient(p4d_device *device, p4d_dtype type, void *dqkv, float *sums, const void *d_o,
			       const float *lse, float *row_sums, const void *qkv,
			       const p4d_attention_shape *shape, void *workspace)
{
	const uint64_t q = shape->heads * shape->head_dim, kv = shape->kv_heads * shape->head_dim;
	p4d_cuda *c = p4d_cuda_of(device);
	const p4d_sdpa_call call = {.q = qkv,
				    .k = column(qkv, q, type),
				    .v = column(qkv, q + kv, type),
				    .o = (void *)shape->output,
				    .lse = (float *)lse,
				    .d_o = d_o,
				    .dq = dqkv,
				    .dk = column(dqkv, q, type),
				    .dv = column(dqkv, q + kv, type),
				    .workspace = workspace};

	(void)sums;
	if (p4d_cuda_attention_fused(device, type, P4D_ATTENTION_SET, shape, &call) || !takes(c, shape))
		return;
	own_row_sums(c, type, row_sums, d_o, shape);
	p4d_kernel_attention_backward(c->stream, type, type, false, call.dq, call.dk, call.dv, d_o, lse,
				      row_sums, call.q, call.k, call.v, shape);
	p4d_cuda_queued(c, "attention_gradient");
}

void p4d_cuda_attention_table(p4d_device *device)
{
	device->attention = attention;
	device->attention_backward = attention_backward;
	device->attention_gradient = attention_gradient;
}
