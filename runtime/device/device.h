/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "device/rounding.h"
#include "plan/byte_moments.h"
#include "plan/fp8_operand.h"
#include "plan/nf4.h"
#include "plan/plan.h"

/*
 * The operations that the parallel logic needs from a device. There is one table per backend; code outside a
 * backend does not know which one it is. All pointers are in the arena; no operation allocates. Matrices are
 * row-major. Comments give shapes: n tokens, h hidden, f feed-forward columns, a query heads, k KV heads, d
 * head size, V vocabulary rows, all on this rank.
 *
 * `type` is the storage type of activations and parameters: BF16 or FP32. Arithmetic is fp32; gradients of
 * parameters, softmax sums and optimizer state are fp32. Operations are queued in order; `sync` waits for
 * all, and fails with the first error of any of them. Structures and host memory that an operation gets may
 * be changed as soon as it returns.
 */
typedef struct p4d_device p4d_device;

/*
 * Which keys of a rank its queries see, as far as the host knows: in each sequence, queries first_query ..
 * first_query+queries-1 see the first `keys` keys. causal: the last of these queries sees all of these keys,
 * and each query before it one key less. A call has at most two blocks. A query is in at most one block; if
 * it is in none, it sees no key. With a window, blocks are causal, and a query sees the last `window` of
 * these keys.
 */
typedef struct p4d_attention_block {
	uint64_t first_query, queries, keys;
	bool causal;
} p4d_attention_block;
enum { P4D_ATTENTION_BLOCKS = 2 };

/*
 * Documents of all sequences one after the other, in groups of `most`; the last group may have fewer. A
 * document is in one sequence. For a device that computes each as a sequence of its own. most 0: unknown.
 */
typedef struct p4d_attention_documents {
	uint64_t most, groups;
	const uint64_t *first; /* (groups), on the host: the first token of a group */
	/*
	 * (groups, P4D_DOCUMENT_ROWS, most + P4D_DOCUMENT_PADDING), in the arena: lengths, 0 after the last
	 * document; then where each document begins and the last one ends, from the group's first token on,
	 * as elements of rows of query_stride, of heads * head_dim, and of heads.
	 */
	const int32_t *places;
} p4d_attention_documents;

/* One attention call. Query, key and value are columns of a fused qkv matrix: rows of `stride` elements. */
typedef struct p4d_attention_shape {
	uint64_t batch, queries, keys; /* per sequence on this rank */
	uint64_t heads, kv_heads, head_dim;
	/*
	 * Positions in the sequence. Query i of a sequence is at query_position[i], key j at key_position[j].
	 * A query sees keys at its own and earlier positions; with a window (0: none) only at the last
	 * `window` positions, including its own. With document boundaries, both must also be in the same
	 * document. NULL documents: one.
	 */
	const int32_t *query_position, *key_position; /* (queries), (keys): the same for every sequence */
	const int32_t *query_document, *key_document; /* (batch, queries), (batch, keys) */
	uint64_t query_stride, key_stride;            /* elements between rows of q and of k, v */
	uint64_t window;
	float scale;
	float cap; /* scores become cap * tanh(score / cap); 0: no cap */
	/*
	 * Hints with which a device may compute faster. block: which keys queries see, in agreement with the
	 * positions; 0 blocks: only the positions say it. packed: as the documents. Then the bytes of the
	 * call's workspace. For gradients, the output o (n, a*d) over all keys; NULL: unknown.
	 */
	uint32_t blocks;
	p4d_attention_block block[P4D_ATTENTION_BLOCKS];
	p4d_attention_documents packed;
	uint64_t workspace_bytes;
	const void *output;
} p4d_attention_shape;

/* The heads of a qkv matrix. */
typedef struct p4d_heads {
	uint64_t n, length; /* number of tokens, and of a sequence: token i has position[i % length] */
	uint64_t heads, kv_heads, head_dim;
	const void *bias, *query_weight, *key_weight; /* NULL: none */
	float epsilon;
	/* One norm over all queries, and one over all keys. Its weights have as many elements as there are
	 * columns here, and the norm is over query_width or key_width columns on all ranks together.
	 * dots: input of heads_backward. See head_sums. */
	bool wide;
	uint64_t query_width, key_width;
	float plus; /* added to the weights of norms */
	const float *dots;
	const float
	    *rope; /* (length, d): for each position d/2 cosines, then d/2 sines; pairs are (i, i + d/2) */
} p4d_heads;

typedef struct p4d_adam {
	float learning_rate, beta1, beta2, epsilon, weight_decay;
	float correction1, correction2; /* 1 - beta^step */
	float gradient_scale;           /* factor for clipping and averaging */
} p4d_adam;

/*
 * Elements of a tensor, one after the other, whose moments are in 8 bits (byte_moments.h). begin, end: scales
 * of both moments for the first and the last block, if another rank also has elements of that block; NULL: no
 * other rank has.
 */
typedef struct p4d_byte_moments {
	uint8_t *first, *second;           /* codes */
	float *first_scale, *second_scale; /* scales of blocks, beginning with the first element's block */
	uint64_t count,
	    before; /* number of elements; number of elements of the first block that precede them */
	const float *begin, *end;
} p4d_byte_moments;

/* A step of Muon. rate: the learning rate times the factor of the matrix's shape. */
typedef struct p4d_muon {
	float learning_rate, rate, weight_decay, momentum, gradient_scale;
} p4d_muon;

/*
 * The polynomial of a Newton-Schulz iteration, by Keller Jordan and in torch.optim.Muon; and the least norm,
 * by which a smaller norm is replaced.
 */
#define P4D_MUON_A 3.4445f
#define P4D_MUON_B -4.775f
#define P4D_MUON_C 2.0315f
#define P4D_MUON_LEAST 1e-7

/* An operand of an FP8 matmul: its shape, codes (rows, depth) and the scales of its blocks. */
typedef struct p4d_fp8_operand {
	p4d_fp8_operand_shape shape;
	uint8_t *codes;
	void *scales;
} p4d_fp8_operand;

/* A rank's part of a tensor in nf4; nf4.h has the memory layout. */
typedef struct p4d_nf4_tensor {
	p4d_nf4_shape shape;
	uint64_t first_row,
	    first_column; /* the row and column in the whole tensor at which this part begins */
	const void *at;
} p4d_nf4_tensor;

/*
 * Dropout of a matrix (n, h): it drops the elements whose random bits (p4d_rounding_bits) are below `below`.
 * The matrix's rows are tokens of a pass, sequence after sequence, starting at row `first`. An element's bits
 * depend on its token's place in the step's batch and on its feature, not on the rank or the pass.
 */
typedef struct p4d_dropout {
	uint64_t key;               /* made from the seed, the step and the adapter */
	uint64_t first, length;     /* length: tokens of a sequence in the pass */
	uint64_t sequence, seq_len; /* index of row 0's sequence in the batch; tokens of a whole sequence */
	const int32_t *position;    /* (length), in the arena: places of tokens in their sequence */
	uint64_t first_column, all_columns; /* in the matrix on all tp ranks together */
	uint32_t below;
	float factor; /* factor for kept elements */
} p4d_dropout;

/* One of the algorithms that a device's library proposes for matmuls of a shape. */
typedef struct p4d_product_choice {
	uint64_t shape; /* a hash of everything that the library's proposals depend on */
	uint32_t algorithm,
	    proposed; /* index of the chosen algorithm (0: the library's first choice); number of proposals */
} p4d_product_choice;

typedef struct p4d_timed_product {
	p4d_product_choice choice;
	float gain;    /* time of algorithm 0 divided by that of the chosen one, both measured here */
	char text[92]; /* for people: "2048x16384x8192 tn bf16" */
} p4d_timed_product;

#define P4D_LIST(...) __VA_ARGS__

struct p4d_device {
	const char *name; /* "cpu", "cuda" */
	char text[96];    /* description for people: "NVIDIA H200 (sm_90, 139.8 GiB)" */
	int sm;           /* compute capability, as 90 for 9.0; 0: not a GPU */
	void *state;
	/* A worldwide unique name of the processor: two ranks with the same text share it. "": its memory
	 * is the host's. */
	char identity[64];
	/* The library that computes attention: "cuDNN 9.19.0", or why slower kernels do. "": there is no
	 * choice. */
	char attention_text[256];
	bool attention_slow; /* attention uses p4d's own, slower kernels, although nobody asked for them */
	bool lacks_cudnn;    /* cuDNN could not be opened */
	/*
	 * Set by the caller. It is called every few milliseconds while the host waits for the device. It
	 * returns -1 if queued operations will never finish, because they need a rank that is gone. The host
	 * then stops waiting, and that error is the first error of `sync`. NULL: no queued operation needs
	 * other ranks.
	 */
	int (*watch)(void *context, p4d_error *err);
	void *watch_context;

	/* memory */
	uint64_t allocated_bytes; /* the largest number of bytes that `allocate` ever returned */
	int (*allocate)(p4d_device *, uint64_t bytes, void **arena, p4d_error *err);
	/* waits for all operations queued on any stream, without calling `watch` */
	void (*release)(p4d_device *, void *arena);
	/* like `allocate` and `release`, for an arena on the host, which `move` accesses at the full rate of
	 * the link */
	uint64_t host_allocated_bytes;
	int (*host_allocate)(p4d_device *, uint64_t bytes, void **arena, p4d_error *err);
	void (*host_release)(p4d_device *, void *arena);
	/* Bytes of its memory that are in use by all programs, and total bytes. On the cpu: the peak of
	 * this process, and 0. */
	void (*usage)(p4d_device *, uint64_t *used, uint64_t *total);
	void (*zero)(p4d_device *, void *to, uint64_t bytes);
	/* copies inside the arena; the two ranges must not overlap */
	void (*copy)(p4d_device *, void *to, const void *from, uint64_t bytes);
	/* copies rows of row_bytes inside the arena; the starts of rows are to_stride and from_stride bytes
	 * apart */
	void (*copy_rows)(p4d_device *, void *to, uint64_t to_stride, const void *from, uint64_t from_stride,
			  uint64_t row_bytes, uint64_t rows);
	/* when these return, from_host may be changed, and to_host is complete */
	void (*upload)(p4d_device *, void *to, const void *from_host, uint64_t bytes);
	void (*download)(p4d_device *, void *to_host, const void *from, uint64_t bytes);
	/* copies between the arena and the host's arena, or inside one of them. It is queued on a stream:
	 * neither range may change until it is done */
	void (*move)(p4d_device *, void *stream, void *to, const void *from, uint64_t bytes);
	/* waits for all queued operations. Errors: DEVICE, also if an earlier operation failed; after a
	 * failure all later calls fail. */
	int (*sync)(p4d_device *, p4d_error *err);
	void (*close)(p4d_device *);
	/*
	 * Lends memory of the arena to the device from then on: the workspace of matmuls (row library.gemm of
	 * the plan); and partial sums (row reductions), which the cpu does not need. NULL and 0 if a plan has
	 * no such row.
	 */
	void (*set_workspace)(p4d_device *, void *workspace, uint64_t workspace_bytes, void *sums,
			      uint64_t sums_bytes);
	/*
	 * To find memory that was never written: fills it with a word; counts the words that still equal it.
	 * NULL: not supported by this device.
	 */
	void (*fill)(p4d_device *, void *to, uint32_t word, uint64_t words);
	int (*count)(p4d_device *, uint64_t *number, const void *from, uint32_t word, uint64_t words);

	/*
	 * Streams. All operations are queued on one stream, which is called NULL here; communication may have
	 * additional ones. An event marks a place in a stream; a new event counts as reached. Both live until
	 * close. On the cpu all these functions are NULL: an operation is done when its call returns. Queued
	 * operations may wait for other ranks, so no operation may need an idle device to begin, for instance
	 * to load its code.
	 */
	void *stream; /* stream of all operations, in the type of the device's libraries (cudaStream_t) */
	int (*stream_open)(p4d_device *, void **stream, p4d_error *err); /* in the type of the device's
									  * libraries */
	/* operations queued later on `waiter` start after those queued so far on `awaited` */
	void (*stream_wait)(p4d_device *, void *waiter, void *awaited);
	int (*event_open)(p4d_device *, void **event, p4d_error *err);
	void (*event_record)(p4d_device *, void *event,
			     void *stream); /* marks the operations that were queued on the stream so far */
	void (*event_wait)(p4d_device *, void *waiter, void *event); /* waits for the operations
								      * before it */
	int (*event_reached)(p4d_device *, void *event,
			     p4d_error *err); /* 1: reached, 0: not yet, -1: an error, as in sync */
	/* makes this device current for libraries in the calling thread; the thread that opened it does
	 * not need this */
	int (*attach)(p4d_device *, p4d_error *err);

	/*
	 * From now on, matmuls leave this many multiprocessors to other streams. (A matmul that counts on all
	 * of them would take two rounds.) NULL: not supported.
	 */
	void (*leave)(p4d_device *, unsigned multiprocessors);

	/*
	 * While this is on, the first matmul of a shape runs each proposed algorithm, waits, and keeps the
	 * fastest. This must happen before any operation is queued that waits for other ranks; operands may
	 * have any contents. timed_product returns the timed ones by number; false after the last.
	 * choose_product adopts another rank's choice if the same number of algorithms is proposed here.
	 * NULL: there is no choice.
	 */
	void (*time_products)(p4d_device *, bool on);
	bool (*timed_product)(p4d_device *, unsigned number, p4d_timed_product *);
	void (*choose_product)(p4d_device *, const p4d_product_choice *);

	/* matrix products; dx and dw += with accumulate, else = */
	/* y (n, out) = add + x (n, in) * w (out, in)^T; add NULL: nothing; it may be y itself */
	void (*linear)(p4d_device *, p4d_dtype type, void *y, const void *add, const void *x, const void *w,
		       uint64_t n, uint64_t out, uint64_t in);
	/* dx (n, in) = dy (n, out) * w (out, in) */
	void (*linear_input)(p4d_device *, p4d_dtype type, void *dx, const void *dy, const void *w,
			     uint64_t n, uint64_t out, uint64_t in, bool accumulate);
	/* dw (out, in), fp32, = dy (n, out)^T * x (n, in) */
	void (*linear_weight)(p4d_device *, p4d_dtype type, float *dw, const void *dy, const void *x,
			      uint64_t n, uint64_t out, uint64_t in, bool accumulate);
	/*
	 * Like the three above, times scale, for y and dy that are columns of a wider matrix: their rows are
	 * `stride` elements apart. y (n, out) = scale * x (n, in) * w (out, in)^T; += with accumulate
	 */
	void (*columns)(p4d_device *, p4d_dtype type, void *y, uint64_t stride, const void *x, const void *w,
			uint64_t n, uint64_t out, uint64_t in, float scale, bool accumulate);
	/* dx (n, in) = scale * dy (n, out) * w (out, in) */
	void (*columns_input)(p4d_device *, p4d_dtype type, void *dx, const void *dy, uint64_t stride,
			      const void *w, uint64_t n, uint64_t out, uint64_t in, float scale);
	/* dw (out, in), fp32, = scale * dy (n, out)^T * x (n, in); += with accumulate */
	void (*columns_weight)(p4d_device *, p4d_dtype type, float *dw, const void *dy, uint64_t stride,
			       const void *x, uint64_t n, uint64_t out, uint64_t in, float scale,
			       bool accumulate);

	/* y (a.rows, b.rows) = add + a * b^T, with operands in FP8; add as in `linear`. NULL: the device does
	 * not support it */
	void (*product)(p4d_device *, p4d_dtype type, void *y, const void *add, const p4d_fp8_operand *a,
			const p4d_fp8_operand *b);

	/*
	 * o (n, a*d), lse (a, n): softmax(scale * q k^T) v over the keys that a query may see; for a query
	 * that sees none, o = 0 and lse = -inf. O(n) memory: tiles of P4D_ATTENTION_TILE. workspace: as
	 * planned. With packed documents a device may lay lse out in another way, which its gradients know.
	 */
	void (*attention)(p4d_device *, p4d_dtype type, void *o, float *lse, const void *q, const void *k,
			  const void *v, const p4d_attention_shape *, void *workspace);
	/*
	 * Gradients through one block of keys, with the lse of the whole row. Adds to dq, dk and dv, in fp32,
	 * with the row strides of q (query_stride), k and v (key_stride), so they may be columns of one fp32
	 * matrix with the shape of qkv. row_sums (a, n): if the shape has the output, memory for them, for a
	 * device that needs them; else the result of attention_row_sums.
	 */
	void (*attention_backward)(p4d_device *, p4d_dtype type, float *dq, float *dk, float *dv,
				   const void *d_o, const float *lse, float *row_sums, const void *q,
				   const void *k, const void *v, const p4d_attention_shape *,
				   void *workspace);
	/*
	 * Like attention_backward if one block has all keys: sets dqkv (type), the gradient of qkv, of which
	 * q, k and v are columns. sums: (n, columns) fp32 if the plan has attention.qkv_gradient.
	 */
	void (*attention_gradient)(p4d_device *, p4d_dtype type, void *dqkv, float *sums, const void *d_o,
				   const float *lse, float *row_sums, const void *qkv,
				   const p4d_attention_shape *, void *workspace);

	/* for the optimizer; both add to a number in the arena, so that nothing waits until it is
	 * downloaded */
	/* *sum += squares of x, in an order that depends only on count; finite if and only if all x are */
	void (*sum_squares)(p4d_device *, double *sum, const float *x, uint64_t count);
	void (*count_nonfinite)(p4d_device *, uint64_t *number, const float *x, uint64_t count);
	void (*cast)(p4d_device *, p4d_dtype to, void *y, p4d_dtype from, const void *x, uint64_t count);
	void (*accumulate)(p4d_device *, float *y, p4d_dtype type, const void *x,
			   uint64_t count); /* y += x */

#define TYPED(name, parameters, arguments) void (*name)(p4d_device *, p4d_dtype type, P4D_LIST parameters);
#define PLAIN(name, parameters, arguments) void (*name)(p4d_device *, P4D_LIST parameters);
#include "device/operations.def"
};

/*
 * The cpu backend. Types are BF16 and FP32. Its operations are written once for any type; tests call them in
 * double, so that gradients can be compared with finite differences. bf16 matmuls are converted block by
 * block in the lent P4D_CPU_PRODUCT_BYTES. The thread that opens and uses it treats denormal numbers as 0
 * from then on. No dimension or stride of a matrix reaches 2^31. Results are the same every time, with any
 * number of threads, on the same kind of processor. Only `allocate` allocates, except for the working memory
 * of additional threads (cpu_threads.h).
 */
int p4d_device_cpu_open(p4d_device *device, p4d_error *err);
/*
 * Sets the number of threads of this process on the cpu device; it is 1 when the device opens. Without
 * OpenMP, only matmuls use several threads.
 */
void p4d_device_cpu_threads(uint32_t threads);
