/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt's matrix products, by the cpu device. */
#include <stdlib.h>

#include "device/cuda/gemm.h"

struct p4d_gemm {
	p4d_device cpu;
	_Alignas(P4D_ARENA_ALIGNMENT) char workspace[P4D_CPU_PRODUCT_BYTES];
};

int p4d_gemm_open(p4d_gemm **products, p4d_error *err)
{
	p4d_gemm *p = aligned_alloc(P4D_ARENA_ALIGNMENT, sizeof(*p));

	if (!p)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for matrix products");
	if (p4d_device_cpu_open(&p->cpu, err) < 0) {
		free(p);
		return -1;
	}
	p->cpu.set_workspace(&p->cpu, p->workspace, sizeof(p->workspace), NULL, 0);
	*products = p;
	return 0;
}

void p4d_gemm_close(p4d_gemm *p)
{
	if (!p)
		return;
	p->cpu.close(&p->cpu);
	free(p);
}

void p4d_gemm_set_workspace(p4d_gemm *p, void *workspace, uint64_t bytes)
{
	(void)p, (void)workspace, (void)bytes;
}

void p4d_gemm_target(p4d_gemm *p, int multiprocessors)
{
	(void)p;
	p4d_shim_gpu.target = multiprocessors;
}

int p4d_gemm_multiply_fp8(p4d_gemm *p, cudaStream_t stream, const p4d_gemm_fp8_call *x, p4d_error *err)
{
	(void)stream, (void)err;
	p4d_shim_gpu.launches++;
	if (!p4d_shim_gpu.dry)
		p->cpu.product(&p->cpu, x->type, x->to, x->add, x->a, x->b);
	return 0;
}

int p4d_gemm_multiply(p4d_gemm *p, cudaStream_t stream, const p4d_gemm_call *x, p4d_error *err)
{
	p4d_device *cpu = &p->cpu;

	(void)stream, (void)err;
	p4d_shim_gpu.launches++;
	if (p4d_shim_gpu.dry)
		return 0;
	switch (x->kind) {
	case P4D_PRODUCT_LINEAR:
		if (x->stride != x->out || x->scale != 1)
			cpu->columns(cpu, x->type, x->to, x->stride, x->x, x->w, x->n, x->out, x->in,
				     x->scale, x->add != NULL);
		else
			cpu->linear(cpu, x->type, x->to, x->add, x->x, x->w, x->n, x->out, x->in);
		break;
	case P4D_PRODUCT_INPUT:
		if (x->stride != x->out || x->scale != 1)
			cpu->columns_input(cpu, x->type, x->to, x->x, x->stride, x->w, x->n, x->out, x->in,
					   x->scale);
		else
			cpu->linear_input(cpu, x->type, x->to, x->x, x->w, x->n, x->out, x->in,
					  x->add != NULL);
		break;
	case P4D_PRODUCT_WEIGHT:
		if (x->stride != x->out || x->scale != 1)
			cpu->columns_weight(cpu, x->type, x->to, x->x, x->stride, x->w, x->n, x->out, x->in,
					    x->scale, x->add != NULL);
		else
			cpu->linear_weight(cpu, x->type, x->to, x->x, x->w, x->n, x->out, x->in,
					   x->add != NULL);
		break;
	}
	return 0;
}
