/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes measured step times from the reported figures, and ranks layouts of the same model, batch and
 * GPUs.
 */
#include <stdio.h>
#include <string.h>

#include "cost/cost.h"
#include "validate/measured.h"

/* Seconds of the step in a throughput row, computed from the reported figure. l: the row's layout. */
static double seconds_of(const p4d_measured *row, const p4d_layout *l)
{
	double gpus = (double)row->gpus;

	if (row->step_seconds > 0)
		return row->step_seconds;
	if (row->tokens_per_second_per_gpu > 0)
		return (double)l->global_batch * (double)l->seq_len / gpus / row->tokens_per_second_per_gpu;
	double flops = row->tflops_of_hardware ? p4d_cost_hardware_flops(l, NULL) : p4d_cost_model_flops(l);
	return flops / gpus / (row->tflops_per_gpu * 1e12);
}

p4d_gpu p4d_measured__gpu(const p4d_measured *row, const p4d_gpu *gpu)
{
	p4d_gpu of_row = *gpu;

	if (row->net_gb_per_s > 0)
		of_row.net_bytes_per_s = row->net_gb_per_s * 1e9;
	return of_row;
}

void p4d_measured__pair_set(p4d_measured_pair *pair, const p4d_measured *row, const p4d_layout *l,
			    double predicted)
{
	*pair = (p4d_measured_pair){.gpus = row->gpus,
				    .layers = l->layers,
				    .seq_len = l->seq_len,
				    .global_batch = l->global_batch,
				    .measured = seconds_of(row, l),
				    .predicted = predicted};
	snprintf(pair->model, sizeof(pair->model), "%s", row->model);
	snprintf(pair->gpu, sizeof(pair->gpu), "%s", row->gpu);
}

static bool alike(const p4d_measured_pair *a, const p4d_measured_pair *b)
{
	return a->gpus == b->gpus && a->layers == b->layers && a->seq_len == b->seq_len &&
	       a->global_batch == b->global_batch && !strcmp(a->model, b->model) && !strcmp(a->gpu, b->gpu);
}

unsigned p4d_measured__wrong_orders(const p4d_measured_pair *runs, size_t count, unsigned *pairs)
{
	unsigned wrong = 0;

	*pairs = 0;
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < i; j++) {
			if (!alike(&runs[i], &runs[j]))
				continue;
			++*pairs;
			wrong +=
			    (runs[i].measured < runs[j].measured) != (runs[i].predicted < runs[j].predicted);
		}
	return wrong;
}
