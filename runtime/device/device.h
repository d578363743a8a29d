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
 * The operations that the model's code needs from a device. Each backend fills one such table; code outside a
 * backend does not know which backend it uses. All pointers are in the arena; no operation allocates.
 * Matrices are row-major. Comments give shapes: n tokens, h hidden, f feed-forward columns, a query heads, k
 * KV heads, d head size, V vocabulary rows, all on this rank.
 *
 * `type` is the storage type of activations and parameters: BF16 or FP32. Arithmetic is fp32; gradients of
 * parameters, softmax sums and optimizer state are fp32. Operations are queued in order; `sync` waits for all
 * of them, and fails with the first error of any. The caller may change structures and host memory that it
 * passed to an operation as soon as the call returns.
 */
typedef struct p4d_device p4d_device;

/*
 * Which keys a query sees, as far as the host knows. In each sequence, queries first_query ..
 * first_query+queries-1 see the first `keys` keys of this rank. causal: the last of these queries sees all of
 * these keys, and each query before it one key less. A call has at most two blocks. A query is in at most one
 * block; if it is in none, it sees no key. With a window, blocks are causal, and a query sees only the last
 * `window` of these keys.
 */
typedef struct p4d_attention_block {
	uint64_t first_query, queries, keys;
	bool causal;
} p4d_attention_block;
enum { P4D_ATTENTION_BLOCKS = 2 };

/*
 * Documents of all sequences, one after the other, for a device that computes each document as a sequence of
 * its own. They form groups of `most` documents; the last group may have fewer. No document crosses a
 * sequence's end. most 0: unknown.
 */
typedef struct p4d_attention_documents {
	uint64_t most, groups;
	const uint64_t *first; /* (groups), on the host: the first token of a group */
	/*
	 * (groups, P4D_DOCUMENT_ROWS, most + P4D_DOCUMENT_PADDING), in the arena. The first row has the
	 * documents' lengths, 0 after the last document. The other rows have where each document begins and
	 * where the last one ends. They count from the group's first token, in elements per token:
	 * query_stride, heads * head_dim, and heads.
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
	 * `window` positions, including its own. query_document and key_document: the document of each token;
	 * query and key must also be in the same document. If they are NULL, a sequence is one document.
	 */
	const int32_t *query_position, *key_position; /* (queries), (keys): the same for every sequence */
	const int32_t *query_document, *key_document; /* (batch, queries), (batch, keys) */
	/* elements from one row to the next: of q, and of k and v */
	uint64_t query_stride, key_stride;
	uint64_t window;
	float scale;
	float cap; /* scores become cap * tanh(score / cap); 0: no cap */
	/*
	 * Hints with which a device may compute faster. block: which keys queries see; must agree with the
	 * positions. blocks 0: the host does not know. packed: the same documents as in query_document.
	 * workspace_bytes: size of the call's workspace. output: only for gradients, o (n, a*d) over all
	 * keys; NULL: unknown.
	 */
	uint32_t blocks;
	p4d_attention_block block[P4D_ATTENTION_BLOCKS];
	p4d_attention_documents packed;
	uint64_t workspace_bytes;
	const void *output;
} p4d_attention_shape;

/* The heads of a qkv matrix. */
typedef struct p4d_heads {
	uint64_t n, length; /* number of tokens, and tokens per sequence: token i has position[i % length] */
	uint64_t heads, kv_heads, head_dim;
	const void *bias, *query_weight, *key_weight; /* NULL: none */
	float epsilon;
	/*
	 * wide: one norm over all queries of a token, and one over all its keys. The norm is over query_width
	 * or key_width columns, on all ranks together. Its weights have one element for each of this rank's
	 * columns. dots: input of heads_backward. See head_sums.
	 */
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
 * Elements of a tensor, one after the other, whose moments are in 8 bits (byte_moments.h). begin, end: the
 * scales of both moments in the first and in the last block, if another rank also has elements of that block.
 * NULL: no other rank has.
 */
typedef struct p4d_byte_moments {
	uint8_t *first, *second;           /* codes */
	float *first_scale, *second_scale; /* scales of blocks, beginning with the first element's block */
	/* number of elements, and number of elements of the first block that precede them */
	uint64_t count, before;
	const float *begin, *end;
} p4d_byte_moments;

/* A step of Muon. rate: the learning rate times the factor of the matrix's shape. */
typedef struct p4d_muon {
	float learning_rate, rate, weight_decay, momentum, gradient_scale;
} p4d_muon;

/*
 * Coefficients of the polynomial of a Newton-Schulz iteration, by Keller Jordan, as in torch.optim.Muon.
 * LEAST: a matrix whose norm is smaller is divided by this instead of by its norm.
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
 * depend on its token's place in the step's batch and on its column in the whole matrix, so every rank and
 * every recompute drops the same elements.
 */
typedef struct p4d_dropout {
	uint64_t key;           /* made from the seed, the step and the adapter */
	uint64_t first, length; /* length: tokens of a sequence in the pass */
	/* sequence: index of row 0's sequence in the batch; seq_len: tokens of a whole sequence */
	uint64_t sequence, seq_len;
	const int32_t *position;            /* (length), in the arena: places of tokens in their sequence */
	uint64_t first_column, all_columns; /* in the matrix on all tp ranks together */
	uint32_t below;
	float factor; /* factor for kept elements */
} p4d_dropout;

/* One of the algorithms that a device's library proposes for matmuls of a shape. */
typedef struct p4d_product_choice {
	uint64_t shape; /* a hash of everything that the library's proposals depend on */
	/* algorithm: index of the chosen one; 0: the library's first choice. proposed: number of proposals */
	uint32_t algorithm, proposed;
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
	/*
	 * Name of the library that computes attention, "cuDNN 9.19.0", or why p4d's slower kernels compute
	 * it. "": the device has only one way.
	 */
	char attention_text[256];
	/* attention uses p4d's own, slower kernels, although the user did not choose them */
	bool attention_slow;
	bool lacks_cudnn; /* cuDNN could not be opened */
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
	/*
	 * like `allocate` and `release`, for an arena on the host. `move` copies between the two arenas at
	 * the full rate of the link
	 */
	uint64_t host_allocated_bytes;
	int (*host_allocate)(p4d_device *, uint64_t bytes, void **arena, p4d_error *err);
	void (*host_release)(p4d_device *, void *arena);
	/*
	 * Bytes of the device's memory that all programs together use, and its size. On the cpu: the peak of
	 * this process, and 0.
	 */
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
	/*
	 * copies between the arena and the host's arena, or inside one of them. It only queues the copy on a
	 * stream: neither range may change until the copy is done
	 */
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
	 * To find memory that was never written: `fill` writes a word everywhere, and `count` counts the
	 * words that still equal it. NULL: the device does not support this.
	 */
	void (*fill)(p4d_device *, void *to, uint32_t word, uint64_t words);
	int (*count)(p4d_device *, uint64_t *number, const void *from, uint32_t word, uint64_t words);

	/*
	 * Streams. All operations are queued on one stream, which is called NULL here; communication may have
	 * additional ones. An event marks a place in a stream; a new event counts as reached. Streams and
	 * events live until close. On the cpu all these functions are NULL, because an operation is done when
	 * its call returns. Queued operations may wait for other ranks. So an operation must not need an idle
	 * device before it can begin, for instance to load its code.
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
	 * From now on, matmuls leave this many multiprocessors to other streams. A matmul that is divided
	 * among all multiprocessors would need a second round if some of them are taken. NULL: not supported.
	 */
	void (*leave)(p4d_device *, unsigned multiprocessors);

	/*
	 * While this is on, the first matmul of a shape runs each proposed algorithm, waits, and keeps the
	 * fastest. This must happen before any operation is queued that waits for other ranks; operands may
	 * have any contents. timed_product returns the timed matmuls by number; false after the last.
	 * choose_product adopts another rank's choice if the library proposes the same number of algorithms
	 * here. NULL: the device has only one algorithm.
	 */
	void (*time_products)(p4d_device *, bool on);
	bool (*timed_product)(p4d_device *, unsigned number, p4d_timed_product *);
	void (*choose_product)(p4d_device *, const p4d_product_choice *);

	/* matmuls; dx and dw are added to if `accumulate`, else set */
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
	 * Like the three above, with a factor `scale`. y and dy are columns of a wider matrix, whose rows are
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
	 * that sees none, o = 0 and lse = -inf. O(n) memory: tiles of P4D_ATTENTION_TILE. workspace:
	 * workspace_bytes bytes. With packed documents a device may lay lse out in its own way, which its
	 * attention_backward and attention_gradient also use.
	 */
	void (*attention)(p4d_device *, p4d_dtype type, void *o, float *lse, const void *q, const void *k,
			  const void *v, const p4d_attention_shape *, void *workspace);
	/*
	 * Gradients through one block of keys. lse: over all keys of a query. Adds to dq, dk and dv, in fp32.
	 * They have the row strides of q (query_stride), k and v (key_stride), so they may be columns of one
	 * fp32 matrix with the shape of qkv. row_sums (a, n): if the shape has the output, scratch memory for
	 * a device that computes them itself; else the result of attention_row_sums.
	 */
	void (*attention_backward)(p4d_device *, p4d_dtype type, float *dq, float *dk, float *dv,
				   const void *d_o, const float *lse, float *row_sums, const void *q,
				   const void *k, const void *v, const p4d_attention_shape *,
				   void *workspace);
	/*
	 * Like attention_backward, if one call has all keys. Sets dqkv (type), the gradient of qkv; q, k and
	 * v are columns of qkv. sums: (n, columns) fp32 if the plan has attention.qkv_gradient.
	 */
	void (*attention_gradient)(p4d_device *, p4d_dtype type, void *dqkv, float *sums, const void *d_o,
				   const float *lse, float *row_sums, const void *qkv,
				   const p4d_attention_shape *, void *workspace);

	/*
	 * for the optimizer; both add to a number in the arena, so that the host does not wait for the device
	 */
	/*
	 * *sum += squares of x, in an order that depends only on count; the sum is finite if and only if all
	 * x are
	 */
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
 * The cpu backend. Types are BF16 and FP32. Its operations are written once for any type. Tests call them in
 * double, to compare gradients with finite differences. bf16 matmuls convert their operands block by block,
 * in the P4D_CPU_PRODUCT_BYTES that set_workspace lends. From then on the thread that opens the device treats
 * denormal numbers as 0. No dimension or stride of a matrix reaches 2^31. Results are the same every time,
 * with any number of threads, on the same kind of processor. Only `allocate` allocates, except for the
 * working memory of additional threads (cpu_threads.h).
 */
int p4d_device_cpu_open(p4d_device *device, p4d_error *err);
/*
 * Sets the number of threads of this process on the cpu device; it is 1 when the device opens. Without
 * OpenMP, only matmuls use several threads.
 */
void p4d_device_cpu_threads(uint32_t threads);
