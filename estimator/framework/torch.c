/* SPDX-License-Identifier: Apache-2.0 */
#include "framework/torch.h"

/* The functions that write all rows of a plan except those of libraries, by model code. */
static void (*const write_rows[P4D_MODEL_CODES])(p4d_rows *rows) = {
    [P4D_MODEL_CODE_TORCHTITAN] = p4d_torchtitan__write,
    [P4D_MODEL_CODE_TRANSFORMERS] = p4d_transformers__write,
    [P4D_MODEL_CODE_LITGPT] = p4d_transformers__write,
};

/* cuBLAS's workspace on Hopper, from the first matmul on (PyTorch's CublasHandlePool.cpp). */
static void add_libraries(p4d_rows *rows)
{
	const bool before_hopper = rows->gpu && rows->gpu->sm && rows->gpu->sm < 90;

	p4d_row(rows, "workspace", "", P4D_PART_LIBRARIES, P4D_DT_BYTES,
		before_hopper ? (8 << 20) + (1 << 17) : 32 << 20, 0, 0)
	    ->at_first_step = true;
}

void p4d_torch__rows(p4d_rows *rows)
{
	add_libraries(rows);
	write_rows[rows->layout->torch.model_code](rows);
}
