/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands of FP8 matmuls. Matrix units take both operands in rows along the depth, so a matrix is quantized
 * as it is, transposed, or both ways in one pass. A block of threads has a tile of 128 x 128 elements, which
 * is a whole number of blocks in any recipe, and transposes it through shared memory. A thread has 16
 * elements of a row in each of four passes, then 16 of a column. The matrix is stored in memory, or a kernel
 * computes it while it quantizes: SwiGLU and its gradient, rounded as if they were stored.
 */
#include "device/cuda/elements.h"
#include "device/cuda/kernels.h"
#include "device/cuda/reduce.h"
#include "device/cuda/swiglu.h"
#include "device/fp8_codes.h"

constexpr unsigned TILE = 128, RUN = 16, RUNS = TILE / RUN, PASS_ROWS = P4D_THREADS / RUNS,
		   PASSES = TILE / PASS_ROWS;
static_assert(PASS_ROWS == 32, "a pass has the rows of a block of 32");
/*
 * Thread blocks per multiprocessor. A block needs more registers on GPUs without conversion instructions, and
 * also if it computes the matrix.
 */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
constexpr unsigned SQUARES_AT_ONCE = 1, COMPUTED_AT_ONCE = 1, STORED_AT_ONCE = 1;
#else
constexpr unsigned SQUARES_AT_ONCE = 2, COMPUTED_AT_ONCE = 2, STORED_AT_ONCE = 3;
#endif

/* The scales of a tile as they are stored: fp32 or, in blocks of 32, the four exponents of a row. */
struct alignas(16) tile_scales {
	uint32_t words[TILE];
};

/* Two codes, the first in the lower byte. */
__device__ static inline uint32_t two_codes(float first, float second, p4d_fp8_format format)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
	uint16_t codes;

	/*
	 * makes NaN of infinite numbers, which satfinite would turn into the largest number; leaves all
	 * others unchanged
	 */
	first = fmaf(first, 0.0f, first);
	second = fmaf(second, 0.0f, second);
	if (format == P4D_E4M3)
		asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
	else
		asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
	return codes;
#else
	return (uint32_t)p4d_fp8_encode(first, format) | (uint32_t)p4d_fp8_encode(second, format) << 8;
#endif
}

/* Stores the codes of 16 elements, multiplied by `inverse`. */
__device__ static inline void store_codes(uint8_t *to, const float *x, float inverse, p4d_fp8_format format)
{
	p4d_run<uint32_t, 4> codes;

	P4D_UNROLL_ALL
	for (unsigned i = 0; i < 4; i++) {
		const float *four = x + 4 * i;
		codes.x[i] = two_codes(four[0] * inverse, four[1] * inverse, format) |
			     two_codes(four[2] * inverse, four[3] * inverse, format) << 16;
	}
	p4d_store(reinterpret_cast<uint32_t *>(to), codes);
}

__device__ static inline uint32_t largest(const float *x)
{
	uint32_t most = 0;

	P4D_UNROLL_ALL
	for (unsigned i = 0; i < RUN; i++)
		most = p4d_larger(most, p4d_fp8_size(x[i]));
	return most;
}

/* The maximum over the block; all threads get it. */
__device__ static inline uint32_t block_largest(uint32_t most)
{
	__shared__ uint32_t warps[P4D_THREADS / P4D_WARP];

	most = p4d_group_max(most, P4D_WARP);
	if (threadIdx.x % P4D_WARP == 0)
		warps[threadIdx.x / P4D_WARP] = most;
	__syncthreads();
	return p4d_group_max(warps[threadIdx.x % (P4D_THREADS / P4D_WARP)], P4D_WARP);
}

/* Stores the scale of the block that begins at `depth`. For padding beyond the operand it stores 0. */
template <int BLOCK>
__device__ static inline void put(tile_scales *scales, unsigned row, unsigned depth, bool there, int exponent)
{
	if (BLOCK == 32)
		reinterpret_cast<uint8_t *>(scales->words)[4 * (row % 32 * 4 + row / 32) + depth / 32] =
		    there ? (uint8_t)(exponent + 127) : 0;
	else
		scales->words[row] = there ? p4d_fp8__bits(p4d_fp8_power(exponent)) : 0;
}

/* Stores the scales of a tile together, including padding. */
template <int BLOCK, bool SQUARES>
__device__ static inline void store_scales(const p4d_fp8_operand &to, uint64_t row, uint64_t depth,
					   const tile_scales &scales, int exponent)
{
	const uint64_t at = p4d_fp8_scale_at(&to.shape, row, depth / (BLOCK ? BLOCK : TILE));
	const unsigned i = 4 * threadIdx.x;

	if constexpr (BLOCK == 0) {
		if (threadIdx.x == 0 && (SQUARES || blockIdx.x == 0))
			p4d_fp8_put_scale(to.scales, &to.shape, at, exponent);
	} else if (i < TILE && (BLOCK == 32 || row + i < to.shape.rows)) {
		p4d_store(static_cast<uint32_t *>(to.scales) + at / (BLOCK == 32 ? 4 : 1) + i,
			  p4d_load<4>(scales.words + i));
	}
}

/*
 * The index of an element in a transposed tile in shared memory. Threads read rows that are 16 apart, so
 * these rows must be in different banks.
 */
template <typename E> __device__ static inline unsigned tile_at(unsigned row, unsigned column)
{
	return row * TILE + row / RUN * p4d_widest<E>::width + column;
}

/*
 * Sources of the matrix that is quantized. at: W adjacent elements of a row. tile: which column of tiles a
 * block computes, given its number in a row of blocks.
 */
template <typename T> struct stored {
	using E = T;
	static constexpr unsigned AT_ONCE = STORED_AT_ONCE;
	const E *x;
	uint64_t columns;

	template <int W> __device__ p4d_run<E, W> at(uint64_t row, uint64_t column) const
	{
		return p4d_load<W>(x + row * columns + column);
	}
	__device__ unsigned tile(unsigned number, unsigned) const
	{
		return number;
	}
};

/* Results of SwiGLU (n, f). gate_up (n, 2f): all gates, then all ups */
template <typename T> struct swiglu_of {
	using E = T;
	static constexpr unsigned AT_ONCE = COMPUTED_AT_ONCE;
	const E *gate_up;
	uint64_t f;

	template <int W> __device__ p4d_run<E, W> at(uint64_t row, uint64_t column) const
	{
		const E *gate = gate_up + row * 2 * f + column;
		const p4d_run<E, W> g = p4d_load<W>(gate), u = p4d_load<W>(gate + f);
		p4d_run<E, W> y;

		P4D_UNROLL_ALL
		for (int k = 0; k < W; k++)
			p4d_round(&y.x[k], p4d_swiglu(p4d_value(g.x[k]), p4d_value(u.x[k])));
		return y;
	}
	__device__ unsigned tile(unsigned number, unsigned) const
	{
		return number;
	}
};

/*
 * Gradients of gate and up (n, 2f). A tile of gates and the tile of their ups read the same numbers, so
 * neighbouring blocks compute them: the second one finds these numbers in the cache.
 */
template <typename T> struct swiglu_gradient {
	using E = T;
	static constexpr unsigned AT_ONCE = COMPUTED_AT_ONCE;
	const E *gate_up, *dact;
	uint64_t f;

	template <int W> __device__ p4d_run<E, W> at(uint64_t row, uint64_t column) const
	{
		const bool ups = column >= f;
		const uint64_t j = ups ? column - f : column;
		const E *gate = gate_up + row * 2 * f + j;
		const p4d_run<E, W> g = p4d_load<W>(gate), d = p4d_load<W>(dact + row * f + j);
		p4d_run<E, W> u = {}, y;

		if (!ups)
			u = p4d_load<W>(gate + f);
		P4D_UNROLL_ALL
		for (int k = 0; k < W; k++) {
			const float x = p4d_value(g.x[k]), dy = p4d_value(d.x[k]), s = p4d_sigmoid(x);
			p4d_round(&y.x[k], ups ? p4d_swiglu_up(x, dy, s)
					       : p4d_swiglu_gate(x, p4d_value(u.x[k]), dy, s));
		}
		return y;
	}
	__device__ unsigned tile(unsigned number, unsigned across) const
	{
		return f % TILE ? number : number % 2 * (across / 2) + number / 2;
	}
};

/* Loads a thread's elements of a tile; 0 beyond the end of the matrix. */
template <int W, typename SOURCE>
__device__ static inline void load_tile(p4d_run<typename SOURCE::E, W> (&mine)[PASSES][RUN / W],
					const SOURCE &source, uint64_t rows, uint64_t columns, uint64_t row,
					uint64_t column)
{
	P4D_UNROLL_ALL
	for (unsigned p = 0; p < PASSES; p++) {
		P4D_UNROLL_ALL
		for (unsigned k = 0; k < RUN / W; k++) {
			mine[p][k] = {};
			if (row + p * PASS_ROWS < rows && column < columns)
				mine[p][k] = source.template at<W>(row + p * PASS_ROWS, column + k * W);
		}
	}
}

template <typename E, int W>
__device__ static inline void keep_tile(E *tile, const p4d_run<E, W> (&mine)[PASSES][RUN / W], unsigned row,
					unsigned column)
{
	P4D_UNROLL_ALL
	for (unsigned p = 0; p < PASSES; p++) {
		P4D_UNROLL_ALL
		for (unsigned k = 0; k < RUN / W; k++)
			p4d_store(tile + tile_at<E>(row + p * PASS_ROWS, column + k * W), mine[p][k]);
	}
}

template <typename E, int W>
__device__ static inline void values_of(float (&x)[RUN], const p4d_run<E, W> (&mine)[RUN / W])
{
	P4D_UNROLL_ALL
	for (unsigned i = 0; i < RUN; i++)
		x[i] = p4d_value(mine[i / W].x[i % W]);
}

/*
 * Quantizes 16 elements that are adjacent along the depth, at (row, depth) of a tile that begins at (i, j) of
 * the operand. All lanes call it, also those beyond the operand's end. exponent: the tile's, if the tile has
 * one scale.
 */
template <int BLOCK>
__device__ static inline void quantize_run(const p4d_fp8_operand &to, tile_scales *scales, const float *x,
					   uint64_t i, uint64_t j, unsigned row, unsigned depth, int exponent)
{
	const p4d_fp8_format format = BLOCK ? P4D_E4M3 : to.shape.format;
	const bool there = i + row < to.shape.rows && j + depth < to.shape.depth;

	if constexpr (BLOCK != 0) {
		exponent = p4d_fp8_exponent(p4d_group_max(largest(x), BLOCK / RUN), format);
		if (depth % BLOCK == 0)
			put<BLOCK>(scales, row, depth, there, exponent);
	}
	if (there)
		store_codes(to.codes + (i + row) * to.shape.depth + j + depth, x, p4d_fp8_power(-exponent),
			    format);
}

/*
 * Quantizes the tile by columns, which transposes it. A thread reads one word of each of 16 rows: one fp32
 * element, or two bf16 neighbours.
 */
template <typename E, int BLOCK>
__device__ static inline void by_columns(const p4d_fp8_operand &to, tile_scales *scales, const E *tile,
					 uint64_t row, uint64_t column, int exponent)
{
	constexpr unsigned W = 4 / sizeof(E), LANES = P4D_WARP / RUNS, ONCE = P4D_THREADS / RUNS * W;
	const unsigned depth = threadIdx.x % RUNS * RUN,
		       first = (threadIdx.x / P4D_WARP * LANES + threadIdx.x % P4D_WARP / RUNS) * W;
	p4d_run<E, W> mine[RUN];
	float x[RUN];

	for (unsigned c = first; c < TILE; c += ONCE) {
		P4D_UNROLL_ALL
		for (unsigned i = 0; i < RUN; i++)
			mine[i] = p4d_load<W>(tile + tile_at<E>(depth + i, c));
		P4D_UNROLL_ALL
		for (unsigned k = 0; k < W; k++) {
			P4D_UNROLL_ALL
			for (unsigned i = 0; i < RUN; i++)
				x[i] = p4d_value(mine[i].x[k]);
			quantize_run<BLOCK>(to, scales, x, column, row, c + k, depth, exponent);
		}
	}
}

/* The maximum over the whole matrix, from the maxima that partial_maxima stored. */
__device__ static inline uint32_t largest_of_all(const uint32_t *maxima, unsigned count)
{
	uint32_t most = 0;

	for (unsigned i = threadIdx.x; i < count; i += blockDim.x)
		most = p4d_larger(most, maxima[i]);
	return block_largest(most);
}

/*
 * BLOCK: number of elements that share a scale. If it is 0, a tile shares a scale (SQUARES) or the whole
 * matrix does. The matrix has the shape of `to`, and the transposed shape of `turned`; codes NULL: not
 * wanted. maxima is only used if the whole matrix shares a scale.
 */
template <typename SOURCE, int W, int BLOCK, bool SQUARES>
__global__ void __launch_bounds__(P4D_THREADS, SQUARES ? SQUARES_AT_ONCE : SOURCE::AT_ONCE)
    quantize_tiles(p4d_fp8_operand to, p4d_fp8_operand turned, SOURCE source, uint64_t rows, uint64_t columns,
		   unsigned across, const uint32_t *maxima, unsigned count)
{
	using E = typename SOURCE::E;
	__shared__ tile_scales row_scales, column_scales;
	P4D_SHARED(E, tile);
	const uint64_t row = (uint64_t)(blockIdx.x / across) * TILE,
		       column = (uint64_t)source.tile(blockIdx.x % across, across) * TILE;
	const unsigned first = threadIdx.x / RUNS, depth = threadIdx.x % RUNS * RUN;
	const p4d_fp8_format format = to.codes ? to.shape.format : turned.shape.format;
	p4d_run<E, W> mine[PASSES][RUN / W];
	float values[RUN];
	int exponent = 0;

	load_tile<W>(mine, source, rows, columns, row + first, column + depth);
	if (turned.codes)
		keep_tile<E, W>(tile, mine, first, depth);
	if (SQUARES) {
		uint32_t most = 0;
		P4D_UNROLL_ALL
		for (unsigned p = 0; p < PASSES; p++) {
			values_of<E, W>(values, mine[p]);
			most = p4d_larger(most, largest(values));
		}
		exponent = p4d_fp8_exponent(block_largest(most), format);
	} else if (!BLOCK) {
		exponent = p4d_fp8_exponent(largest_of_all(maxima, count), format);
	}
	P4D_UNROLL_ALL
	for (unsigned p = 0; p < PASSES && to.codes; p++) {
		values_of<E, W>(values, mine[p]);
		quantize_run<BLOCK>(to, &row_scales, values, row, column, p * PASS_ROWS + first, depth,
				    exponent);
	}
	__syncthreads();
	if (turned.codes)
		by_columns<E, BLOCK>(turned, &column_scales, tile, row, column, exponent);
	__syncthreads();
	if (to.codes)
		store_scales<BLOCK, SQUARES>(to, row, column, row_scales, exponent);
	if (turned.codes)
		store_scales<BLOCK, SQUARES>(turned, column, row, column_scales, exponent);
}

/* Stores the maximum that each block found. */
template <typename SOURCE, int W>
__global__ void partial_maxima(uint32_t *maxima, SOURCE source, uint64_t rows, uint64_t columns)
{
	const uint64_t step = (uint64_t)gridDim.x * blockDim.x * W, count = rows * columns;
	uint32_t most = 0;

	for (uint64_t i = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) * W; i < count; i += step) {
		const p4d_run<typename SOURCE::E, W> run = source.template at<W>(i / columns, i % columns);
		P4D_UNROLL_ALL
		for (int k = 0; k < W; k++)
			most = p4d_larger(most, p4d_fp8_size(p4d_value(run.x[k])));
	}
	most = block_largest(most);
	if (threadIdx.x == 0)
		maxima[blockIdx.x] = most;
}

/* SQUARES: whether one scale may be for several rows. Only weights have such blocks. */
template <bool SQUARES, typename SOURCE>
static void quantize(cudaStream_t stream, float *sums, const p4d_fp8_operand &to,
		     const p4d_fp8_operand &turned, const SOURCE &source)
{
	using E = typename SOURCE::E;
	constexpr int W = p4d_widest<E>::width;
	const p4d_fp8_operand_shape &s = to.codes ? to.shape : turned.shape;
	const uint64_t rows = to.codes ? s.rows : s.depth, columns = to.codes ? s.depth : s.rows;
	const unsigned across = (unsigned)((columns + TILE - 1) / TILE),
		       count =
			   p4d_least((rows * columns / W + P4D_THREADS - 1) / P4D_THREADS, P4D_FP8_MAXIMA);
	const size_t shared = turned.codes ? (TILE * TILE + RUNS * W) * sizeof(E) : 0;
	const p4d_grid grid = {(rows + TILE - 1) / TILE * across, 1, P4D_THREADS, shared};
	uint32_t *const maxima = reinterpret_cast<uint32_t *>(sums), *const none = nullptr;

	if (!s.block)
		p4d_launch<partial_maxima<SOURCE, W>>(stream, {count, 1, P4D_THREADS, 0}, maxima, source,
						      rows, columns);
	if (!s.block)
		p4d_launch<quantize_tiles<SOURCE, W, 0, false>>(stream, grid, to, turned, source, rows,
								columns, across, maxima, count);
	else if (s.block == 32)
		p4d_launch<quantize_tiles<SOURCE, W, 32, false>>(stream, grid, to, turned, source, rows,
								 columns, across, none, 0);
	else if (s.block_rows == 1)
		p4d_launch<quantize_tiles<SOURCE, W, 128, false>>(stream, grid, to, turned, source, rows,
								  columns, across, none, 0);
	else if constexpr (SQUARES)
		p4d_launch<quantize_tiles<SOURCE, W, 0, true>>(stream, grid, to, turned, source, rows,
							       columns, across, none, 0);
}

static p4d_fp8_operand operand(const p4d_fp8_operand *of)
{
	return of ? *of : p4d_fp8_operand{};
}

/* The number of columns of the matrix that is quantized. */
static uint64_t columns_of(const p4d_fp8_operand *to, const p4d_fp8_operand *turned)
{
	return to ? to->shape.depth : turned->shape.rows;
}

void p4d_kernel_quantize(cudaStream_t stream, float *sums, p4d_dtype type, const p4d_fp8_operand *to,
			 const p4d_fp8_operand *turned, const void *x)
{
	P4D_WITH_TYPE(type, E, {
		quantize<true>(stream, sums, operand(to), operand(turned),
			       stored<E>{(const E *)x, columns_of(to, turned)});
	});
}

void p4d_kernel_quantize_swiglu(cudaStream_t stream, float *sums, p4d_dtype type, const p4d_fp8_operand *to,
				const p4d_fp8_operand *turned, const void *gate_up)
{
	P4D_WITH_TYPE(type, E, {
		quantize<false>(stream, sums, operand(to), operand(turned),
				swiglu_of<E>{(const E *)gate_up, columns_of(to, turned)});
	});
}

void p4d_kernel_quantize_swiglu_backward(cudaStream_t stream, float *sums, p4d_dtype type,
					 const p4d_fp8_operand *to, const p4d_fp8_operand *turned,
					 const void *gate_up, const void *dact)
{
	P4D_WITH_TYPE(type, E, {
		quantize<false>(
		    stream, sums, operand(to), operand(turned),
		    swiglu_gradient<E>{(const E *)gate_up, (const E *)dact, columns_of(to, turned) / 2});
	});
}
