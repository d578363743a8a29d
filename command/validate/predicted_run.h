/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "gpu/gpu.h"
#include "plan/stage_memory.h"
#include "validate/measured.h"

/* p4d's prediction for a row of a P4D_MEASURED_RUNS file that trains. */

/* The request of a row, with its model resolved, and its GPUs. Errors: VALUE, those of models. */
int p4d_predicted_run_request(const p4d_gpus *gpus, const p4d_measured *row, p4d_request *request,
			      uint64_t *nodes, uint64_t *per_node, p4d_error *err);

/* Predicts a row's layout and memory, on a GPU of the table. */
int p4d_predicted_run(const p4d_gpus *gpus, const p4d_measured *row, p4d_layout *layout, p4d_estimate *out,
		      p4d_error *err);

/* Predicted GiB of the quantity that the row measured. "allocated" is the allocator's peak. "reserved"
 * also includes the allocator's fragmentation. "device" is all memory in use on the GPU. */
double p4d_predicted_run_gib(const p4d_measured *row, const p4d_stage *peak);
