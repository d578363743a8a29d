/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over rows of partial sums. */
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"

const p4d_kernel *p4d_all_kernels;

/*
 * Shape of a thread block. There may be only 128 columns but thousands of rows, so many threads of a block
 * add rows of the same column.
 */
constexpr unsigned COLUMNS = 32, ROWS = 32;

__global__ void __launch_bounds__(COLUMNS *ROWS)
    add_columns(float *to, const float *partial, uint64_t rows, uint64_t columns)
{
	__shared__ float sums[ROWS][COLUMNS];
	const unsigned x = threadIdx.x % COLUMNS, y = threadIdx.x / COLUMNS;
	const uint64_t column = (uint64_t)blockIdx.x * COLUMNS + x;
	float sum = 0;

	for (uint64_t i = y; column < columns && i < rows; i += ROWS)
		sum += partial[i * columns + column];
	sums[y][x] = sum;
	__syncthreads();
	if (y > 0 || column >= columns)
		return;
	for (unsigned i = 1; i < ROWS; i++)
		sum += sums[i][x];
	to[column] += sum;
}

void p4d_reduce_columns(cudaStream_t stream, float *to, const float *partial, uint64_t rows, uint64_t columns)
{
	if (rows)
		p4d_launch<add_columns>(stream, {(columns + COLUMNS - 1) / COLUMNS, 1, COLUMNS * ROWS, 0}, to,
					partial, rows, columns);
}

cudaError_t p4d_kernel_load(void)
{
	struct cudaFuncAttributes attributes;
	cudaError_t status = cudaSuccess;

	for (const p4d_kernel *k = p4d_all_kernels; k && status == cudaSuccess; k = k->next)
		status = cudaFuncGetAttributes(&attributes, k->function);
	return status;
}
