/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/sdpa_graph.h"

#include <string.h>

typedef cudnnBackendDescriptor_t descriptor;

enum { VIRTUAL = P4D_GRAPH_TENSORS }; /* tensors with this number or above exist only inside the graph */
enum { ALIGNMENT = 16, STATISTICS_ALIGNMENT = 4 };

typedef struct extent {
	int64_t size[4], stride[4];
} extent;

static void note(p4d_sdpa_graph *g, cudnnStatus_t status)
{
	if (status == CUDNN_STATUS_SUCCESS || g->status != CUDNN_STATUS_SUCCESS)
		return;
	g->status = status;
	p4d_cudnn_why(g->cudnn, status, g->why, sizeof(g->why));
}

descriptor p4d_sdpa_graph_make(p4d_sdpa_graph *g, cudnnBackendDescriptorType_t type)
{
	descriptor d = NULL;

	if (g->status != CUDNN_STATUS_SUCCESS)
		return NULL;
	if (g->count == P4D_GRAPH_DESCRIPTORS) {
		note(g, CUDNN_STATUS_INTERNAL_ERROR);
		return NULL;
	}
	note(g, g->cudnn->BackendCreateDescriptor(type, &d));
	if (g->status == CUDNN_STATUS_SUCCESS)
		g->made[g->count++] = d;
	return d;
}

void p4d_sdpa_graph_set(p4d_sdpa_graph *g, descriptor d, cudnnBackendAttributeName_t name,
			cudnnBackendAttributeType_t type, int64_t count, const void *value)
{
	if (g->status == CUDNN_STATUS_SUCCESS)
		note(g, g->cudnn->BackendSetAttribute(d, name, type, count, value));
}

void p4d_sdpa_graph_refer(p4d_sdpa_graph *g, descriptor d, cudnnBackendAttributeName_t name, descriptor value)
{
	p4d_sdpa_graph_set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void p4d_sdpa_graph_finish(p4d_sdpa_graph *g, descriptor d)
{
	if (g->status == CUDNN_STATUS_SUCCESS)
		note(g, g->cudnn->BackendFinalize(d));
}

int p4d_sdpa_graph_failed(const p4d_sdpa_graph *g, p4d_error *err)
{
	return g->status == CUDNN_STATUS_SUCCESS ? 0 : p4d_fail(err, P4D_E_DEVICE, "%s", g->why);
}

static void set_type(p4d_sdpa_graph *g, descriptor d, cudnnBackendAttributeName_t name, cudnnDataType_t type)
{
	p4d_sdpa_graph_set(g, d, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

/* The unit in which the places of documents in a tensor are counted. */
static p4d_sdpa_unit unit_of(int64_t number)
{
	switch (number) {
	case P4D_GRAPH_Q:
	case P4D_GRAPH_K:
	case P4D_GRAPH_V:
	case P4D_GRAPH_DQ:
	case P4D_GRAPH_DK:
	case P4D_GRAPH_DV:
	case P4D_GRAPH_QUERY_GRADIENT:
	case P4D_GRAPH_DK_HEADS: /* cuDNN multiplies these places by the number of query heads per key head */
	case P4D_GRAPH_DV_HEADS:
		return P4D_UNIT_QKV;
	case P4D_GRAPH_O:
	case P4D_GRAPH_DO:
		return P4D_UNIT_QUERY;
	case P4D_GRAPH_LSE:
	case P4D_GRAPH_ROW_SUMS:
		return P4D_UNIT_SUMS;
	default:
		return P4D_NO_UNIT;
	}
}

/* unit: P4D_NO_UNIT if the tensor holds no documents. */
static descriptor tensor_in(p4d_sdpa_graph *g, int64_t number, cudnnDataType_t type, extent e, bool by_value,
			    p4d_sdpa_unit unit)
{
	const descriptor d = p4d_sdpa_graph_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	const int64_t alignment =
	    number == P4D_GRAPH_LSE || number == P4D_GRAPH_ROW_SUMS ? STATISTICS_ALIGNMENT : ALIGNMENT;
	const bool yes = true;

	set_type(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
	p4d_sdpa_graph_set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, e.size);
	p4d_sdpa_graph_set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, e.stride);
	p4d_sdpa_graph_set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number);
	p4d_sdpa_graph_set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
	if (number >= VIRTUAL)
		p4d_sdpa_graph_set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
	else
		g->given |= UINT32_C(1) << number;
	if (by_value)
		p4d_sdpa_graph_set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
	if (unit != P4D_NO_UNIT && g->offsets[unit])
		p4d_sdpa_graph_refer(g, d, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, g->offsets[unit]);
	p4d_sdpa_graph_finish(g, d);
	return d;
}

static descriptor tensor(p4d_sdpa_graph *g, int64_t number, cudnnDataType_t type, extent e, bool by_value)
{
	return tensor_in(g, number, type, e, by_value, unit_of(number));
}

static extent whole(uint64_t batch, uint64_t heads, uint64_t rows, uint64_t columns)
{
	const int64_t h = (int64_t)heads, r = (int64_t)rows, c = (int64_t)columns;

	return (extent){{(int64_t)batch, h, r, c}, {h * r * c, r * c, c, 1}};
}

static extent turned(extent e)
{
	return (extent){{e.size[0], e.size[1], e.size[3], e.size[2]},
			{e.stride[0], e.stride[1], e.stride[3], e.stride[2]}};
}

/*
 * Makes a tensor that exists only inside the graph. Tensors are made in the order of use, and a tensor's
 * number is its index among all descriptors.
 */
static descriptor inner(p4d_sdpa_graph *g, cudnnDataType_t type, extent e)
{
	return tensor(g, VIRTUAL + (int64_t)g->count, type, e, false);
}

static descriptor scalar(p4d_sdpa_graph *g, p4d_sdpa_tensor number, cudnnDataType_t type)
{
	return tensor(g, number, type, whole(1, 1, 1, 1), true);
}

static extent of_queries(const p4d_sdpa_shape *s, p4d_sdpa_stride stride)
{
	return (extent){{(int64_t)s->batch, (int64_t)s->heads, (int64_t)s->queries, (int64_t)s->head_dim},
			{(int64_t)stride.sequence, (int64_t)s->head_dim, (int64_t)stride.token, 1}};
}

static extent of_keys(const p4d_sdpa_shape *s, p4d_sdpa_stride stride)
{
	return (extent){{(int64_t)s->batch, (int64_t)s->kv_heads, (int64_t)s->keys, (int64_t)s->head_dim},
			{(int64_t)stride.sequence, (int64_t)s->head_dim, (int64_t)stride.token, 1}};
}

static extent of_scores(const p4d_sdpa_shape *s)
{
	return whole(s->batch, s->heads, s->queries, s->keys);
}

static extent of_rows(const p4d_sdpa_shape *s)
{
	return whole(s->batch, s->heads, s->queries, 1);
}

static extent of_lse(const p4d_sdpa_shape *s)
{
	return (extent){{(int64_t)s->batch, (int64_t)s->heads, (int64_t)s->queries, 1},
			{(int64_t)s->lse_sequence, (int64_t)s->lse_head, (int64_t)s->lse_token, 1}};
}

/* Rows of all heads. With documents they have the strides of lse. */
static extent of_row_sums(const p4d_sdpa_shape *s)
{
	return s->documents ? of_lse(s) : of_rows(s);
}

static extent of_query_gradient(const p4d_sdpa_shape *s)
{
	return s->documents ? of_queries(s, s->dq) : whole(s->batch, s->heads, s->queries, s->head_dim);
}

/*
 * dK or dV with a head for each query head. cuDNN derives the places of documents here from the places in dK,
 * so all strides must be the same multiple of dK's.
 */
static extent of_key_heads(const p4d_sdpa_shape *s)
{
	const int64_t group = (int64_t)(s->heads / s->kv_heads);
	extent e = of_keys(s, s->dkv);

	e.size[1] = (int64_t)s->heads;
	e.stride[0] *= group;
	e.stride[2] *= group;
	return e;
}

static void take_documents(p4d_sdpa_graph *g, const p4d_sdpa_shape *s)
{
	const cudnnDataType_t type = CUDNN_DATA_INT32;

	if (!s->documents)
		return;
	/* both tensors have the same numbers, because cuDNN's pattern wants two */
	g->lengths = tensor(g, P4D_GRAPH_LENGTHS, type, whole(s->batch, 1, 1, 1), false);
	g->key_lengths = tensor(g, P4D_GRAPH_KEY_LENGTHS, type, whole(s->batch, 1, 1, 1), false);
	for (int unit = 0; unit < P4D_UNITS; unit++)
		g->offsets[unit] =
		    tensor(g, P4D_GRAPH_OFFSETS + unit, type, whole(s->batch + 1, 1, 1, 1), false);
}

static void add_operation(p4d_sdpa_graph *g, descriptor operation)
{
	p4d_sdpa_graph_finish(g, operation);
	if (g->operations == P4D_GRAPH_OPERATIONS)
		note(g, CUDNN_STATUS_INTERNAL_ERROR);
	else
		g->operation[g->operations++] = operation;
}

/* What a matmul computes: scores, sums over keys for each query, or sums over queries for each key. */
typedef enum product_kind { SCORES, OVER_KEYS, OVER_QUERIES } product_kind;

/* Sets the two dimensions of a matmul that have the length of a document. */
static void put_lengths(p4d_sdpa_graph *g, descriptor operation, product_kind what)
{
	const descriptor rows = what == OVER_QUERIES ? g->key_lengths : g->lengths;
	const descriptor other = what == OVER_QUERIES ? g->lengths : g->key_lengths;

	p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, rows);
	p4d_sdpa_graph_refer(g, operation,
			     what == SCORES ? CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC
					    : CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC,
			     other);
}

static descriptor multiply(p4d_sdpa_graph *g, descriptor a, descriptor b, descriptor to, product_kind what)
{
	const descriptor how = p4d_sdpa_graph_make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);

	set_type(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
	p4d_sdpa_graph_finish(g, how);
	const descriptor operation = p4d_sdpa_graph_make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
	p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
	p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
	p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, to);
	p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
	if (g->lengths)
		put_lengths(g, operation, what);
	add_operation(g, operation);
	return to;
}

static descriptor reduce(p4d_sdpa_graph *g, cudnnReduceTensorOp_t by, descriptor x, descriptor to)
{
	const descriptor how = p4d_sdpa_graph_make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);

	set_type(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
	p4d_sdpa_graph_set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &by);
	p4d_sdpa_graph_finish(g, how);
	const descriptor operation = p4d_sdpa_graph_make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
	p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
	p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, to);
	p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
	add_operation(g, operation);
	return to;
}

static descriptor reshape(p4d_sdpa_graph *g, descriptor x, descriptor to)
{
	const descriptor operation = p4d_sdpa_graph_make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

	p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
	p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, to);
	add_operation(g, operation);
	return to;
}

/* An elementwise operation. axis: only for GEN_INDEX. b, third: NULL if the mode has no such operand. */
typedef struct pointwise {
	cudnnPointwiseMode_t mode;
	cudnnDataType_t type; /* type of its arithmetic; 0 is FLOAT */
	int64_t axis;
	descriptor x, b, third, to;
} pointwise;

static descriptor compute(p4d_sdpa_graph *g, pointwise p)
{
	const descriptor how = p4d_sdpa_graph_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);

	p4d_sdpa_graph_set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &p.mode);
	set_type(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, p.type);
	if (p.mode == CUDNN_POINTWISE_GEN_INDEX)
		p4d_sdpa_graph_set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &p.axis);
	p4d_sdpa_graph_finish(g, how);
	const descriptor operation = p4d_sdpa_graph_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
	p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
	p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, p.x);
	if (p.b)
		p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p.b);
	if (p.third)
		p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p.third);
	p4d_sdpa_graph_refer(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, p.to);
	add_operation(g, operation);
	return p.to;
}

/* Applies an operation to two fp32 tensors. */
static descriptor pair(p4d_sdpa_graph *g, cudnnPointwiseMode_t mode, descriptor x, descriptor b,
		       descriptor to)
{
	return compute(g, (pointwise){.mode = mode, .x = x, .b = b, .to = to});
}

static descriptor index_of(p4d_sdpa_graph *g, const p4d_sdpa_shape *s, int64_t axis, descriptor scores)
{
	const descriptor to = inner(g, CUDNN_DATA_INT32, of_scores(s));

	return compute(g,
		       (pointwise){.mode = CUDNN_POINTWISE_GEN_INDEX, .axis = axis, .x = scores, .to = to});
}

static descriptor shifted(p4d_sdpa_graph *g, const p4d_sdpa_shape *s, cudnnPointwiseMode_t mode, descriptor x,
			  p4d_sdpa_tensor by)
{
	const descriptor b = scalar(g, by, CUDNN_DATA_INT32);

	return compute(g, (pointwise){.mode = mode,
				      .type = CUDNN_DATA_INT32,
				      .x = x,
				      .b = b,
				      .to = inner(g, CUDNN_DATA_INT32, of_scores(s))});
}

static descriptor where(p4d_sdpa_graph *g, const p4d_sdpa_shape *s, cudnnPointwiseMode_t mode, descriptor x,
			descriptor b)
{
	return compute(g, (pointwise){.mode = mode,
				      .type = CUDNN_DATA_BOOLEAN,
				      .x = x,
				      .b = b,
				      .to = inner(g, CUDNN_DATA_BOOLEAN, of_scores(s))});
}

/* Replaces the scores that are not `seen` by the score of a masked key. */
static descriptor choose(p4d_sdpa_graph *g, const p4d_sdpa_shape *s, descriptor scores, descriptor seen)
{
	const descriptor unseen = scalar(g, P4D_GRAPH_MASKED, CUDNN_DATA_FLOAT);

	return compute(g, (pointwise){.mode = CUDNN_POINTWISE_BINARY_SELECT,
				      .x = scores,
				      .b = unseen,
				      .third = seen,
				      .to = inner(g, CUDNN_DATA_FLOAT, of_scores(s))});
}

/* Masks scores beyond the end of a document, whose length limits both rows and columns. */
static descriptor within_documents(p4d_sdpa_graph *g, const p4d_sdpa_shape *s, descriptor scores)
{
	if (!s->documents)
		return scores;
	const descriptor row = index_of(g, s, 2, scores), column = index_of(g, s, 3, scores);
	const descriptor rows = where(g, s, CUDNN_POINTWISE_CMP_LT, row, g->lengths);
	const descriptor columns = where(g, s, CUDNN_POINTWISE_CMP_LT, column, g->key_lengths);

	return choose(g, s, scores, where(g, s, CUDNN_POINTWISE_LOGICAL_AND, rows, columns));
}

/*
 * Masks scores. Query i sees key j if i + keys - queries >= j and, with a window, i + keys - queries < j +
 * window.
 */
static descriptor masked(p4d_sdpa_graph *g, const p4d_sdpa_shape *s, descriptor scores)
{
	if (!s->causal)
		return scores;
	descriptor row = index_of(g, s, 2, scores);
	const descriptor column = index_of(g, s, 3, scores);
	if (s->keys != s->queries) {
		row = shifted(g, s, CUDNN_POINTWISE_ADD, row, P4D_GRAPH_KEYS);
		row = shifted(g, s, CUDNN_POINTWISE_SUB, row, P4D_GRAPH_QUERIES);
	}
	scores = choose(g, s, scores, where(g, s, CUDNN_POINTWISE_CMP_GE, row, column));
	if (!s->window)
		return scores;
	const descriptor end = shifted(g, s, CUDNN_POINTWISE_ADD, column, P4D_GRAPH_WINDOW);
	return choose(g, s, scores, where(g, s, CUDNN_POINTWISE_CMP_GT, end, row));
}

static descriptor scaled_scores(p4d_sdpa_graph *g, const p4d_sdpa_shape *s, descriptor q, descriptor k,
				descriptor scale)
{
	const descriptor product = multiply(g, q, k, inner(g, CUDNN_DATA_FLOAT, of_scores(s)), SCORES);

	return pair(g, CUDNN_POINTWISE_MUL, product, scale, inner(g, CUDNN_DATA_FLOAT, of_scores(s)));
}

static descriptor take(p4d_sdpa_graph *g, p4d_sdpa_tensor number, extent e)
{
	return tensor(g, number, CUDNN_DATA_BFLOAT16, e, false);
}

static void forward(p4d_sdpa_graph *g, const p4d_sdpa_shape *s)
{
	const cudnnDataType_t fp32 = CUDNN_DATA_FLOAT;
	const descriptor q = take(g, P4D_GRAPH_Q, of_queries(s, s->q));
	const descriptor k = take(g, P4D_GRAPH_K, turned(of_keys(s, s->kv)));
	const descriptor v = take(g, P4D_GRAPH_V, of_keys(s, s->kv));
	const descriptor o = take(g, P4D_GRAPH_O, of_queries(s, s->o));
	const descriptor lse = tensor(g, P4D_GRAPH_LSE, fp32, of_lse(s), false);
	const descriptor scale = scalar(g, P4D_GRAPH_SCALE, fp32);
	const descriptor scores = masked(g, s, within_documents(g, s, scaled_scores(g, s, q, k, scale)));
	const descriptor most = reduce(g, CUDNN_REDUCE_TENSOR_MAX, scores, inner(g, fp32, of_rows(s)));
	const descriptor below = pair(g, CUDNN_POINTWISE_SUB, scores, most, inner(g, fp32, of_scores(s)));
	const descriptor power = pair(g, CUDNN_POINTWISE_EXP, below, NULL, inner(g, fp32, of_scores(s)));
	const descriptor sum = reduce(g, CUDNN_REDUCE_TENSOR_ADD, power, inner(g, fp32, of_rows(s)));
	const descriptor log = pair(g, CUDNN_POINTWISE_LOG, sum, NULL, inner(g, fp32, of_rows(s)));

	pair(g, CUDNN_POINTWISE_ADD, most, log, lse);
	const descriptor share =
	    pair(g, CUDNN_POINTWISE_DIV, power, sum, inner(g, CUDNN_DATA_BFLOAT16, of_scores(s)));
	multiply(g, share, v, o, OVER_KEYS);
}

/*
 * to (batch, kv heads, keys, head size) = x^T y. Each query head makes its own result, and the results of a
 * key head are summed. With documents the results before the sum are the caller's tensors `heads`, because
 * inside the graph each document would have memory for the longest one.
 */
static void over_queries(p4d_sdpa_graph *g, const p4d_sdpa_shape *s, descriptor x, descriptor y,
			 descriptor to, p4d_sdpa_tensor heads)
{
	const cudnnDataType_t bf16 = CUDNN_DATA_BFLOAT16;
	extent e = turned(of_scores(s));
	const descriptor transposed = reshape(g, x, inner(g, bf16, e));

	if (s->heads == s->kv_heads) {
		multiply(g, transposed, y, to, OVER_QUERIES);
		return;
	}
	e = whole(s->batch, s->heads, s->keys, s->head_dim);
	const descriptor each =
	    s->documents ? tensor(g, heads, bf16, of_key_heads(s), false) : inner(g, bf16, e);
	multiply(g, transposed, y, each, OVER_QUERIES);
	reduce(g, CUDNN_REDUCE_TENSOR_ADD, each, to);
}

static descriptor row_sums(p4d_sdpa_graph *g, const p4d_sdpa_shape *s, descriptor d_o)
{
	const cudnnDataType_t fp32 = CUDNN_DATA_FLOAT;
	const descriptor o = take(g, P4D_GRAPH_O, of_queries(s, s->o));
	const extent e = whole(s->batch, s->heads, s->queries, s->head_dim);
	const descriptor products = pair(g, CUDNN_POINTWISE_MUL, d_o, o, inner(g, fp32, e));
	const descriptor sum = reduce(g, CUDNN_REDUCE_TENSOR_ADD, products, inner(g, fp32, of_rows(s)));
	/* cuDNN's pattern has a dropout factor, which is 1 here */
	const descriptor one = scalar(g, P4D_GRAPH_ONE, fp32);

	return pair(g, CUDNN_POINTWISE_MUL, sum, one,
		    tensor(g, P4D_GRAPH_ROW_SUMS, fp32, of_row_sums(s), false));
}

static void backward(p4d_sdpa_graph *g, const p4d_sdpa_shape *s)
{
	const cudnnDataType_t fp32 = CUDNN_DATA_FLOAT;
	const extent keys = of_keys(s, s->kv);
	const descriptor q = take(g, P4D_GRAPH_Q, of_queries(s, s->q));
	const descriptor k = take(g, P4D_GRAPH_K, turned(keys)), v = take(g, P4D_GRAPH_V, turned(keys));
	const descriptor d_o = take(g, P4D_GRAPH_DO, of_queries(s, s->o));
	const descriptor lse = tensor(g, P4D_GRAPH_LSE, fp32, of_lse(s), false);
	const descriptor sums = row_sums(g, s, d_o);
	/* recomputes the probabilities */
	const descriptor scale = scalar(g, P4D_GRAPH_SCALE, fp32);
	descriptor scores = within_documents(g, s, scaled_scores(g, s, q, k, scale));
	scores = pair(g, CUDNN_POINTWISE_SUB, scores, lse, inner(g, fp32, of_scores(s)));
	scores = masked(g, s, scores);
	const descriptor share = pair(g, CUDNN_POINTWISE_EXP, scores, NULL, inner(g, fp32, of_scores(s)));
	over_queries(g, s, share, d_o, take(g, P4D_GRAPH_DV, of_keys(s, s->dkv)), P4D_GRAPH_DV_HEADS);
	/* the gradient of the scores */
	descriptor d = multiply(g, d_o, v, inner(g, fp32, of_scores(s)), SCORES);
	d = pair(g, CUDNN_POINTWISE_SUB, d, sums, inner(g, fp32, of_scores(s)));
	d = pair(g, CUDNN_POINTWISE_MUL, d, share, inner(g, fp32, of_scores(s)));
	d = pair(g, CUDNN_POINTWISE_MUL, d, scale, inner(g, CUDNN_DATA_BFLOAT16, of_scores(s)));
	over_queries(g, s, d, q, take(g, P4D_GRAPH_DK, of_keys(s, s->dkv)), P4D_GRAPH_DK_HEADS);
	const descriptor straight = reshape(
	    g, k, tensor_in(g, VIRTUAL + (int64_t)g->count, CUDNN_DATA_BFLOAT16, keys, false, P4D_UNIT_QKV));
	const descriptor dq = tensor(g, P4D_GRAPH_QUERY_GRADIENT, fp32, of_query_gradient(s), false);
	multiply(g, d, straight, dq, OVER_KEYS);
	pair(g, CUDNN_POINTWISE_IDENTITY, dq, NULL, take(g, P4D_GRAPH_DQ, of_queries(s, s->dq)));
}

int p4d_sdpa_graph_open(p4d_sdpa_graph *g, const p4d_cudnn *cudnn, cudnnHandle_t handle,
			const p4d_sdpa_shape *s, p4d_error *err)
{
	memset(g, 0, sizeof(*g));
	g->cudnn = cudnn;
	take_documents(g, s);
	(s->backward ? backward : forward)(g, s);
	g->whole = p4d_sdpa_graph_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	p4d_sdpa_graph_set(g, g->whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
			   g->operations, g->operation);
	if (handle)
		p4d_sdpa_graph_set(g, g->whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
				   &handle);
	p4d_sdpa_graph_finish(g, g->whole);
	return p4d_sdpa_graph_failed(g, err);
}

void p4d_sdpa_graph_close(p4d_sdpa_graph *g)
{
	while (g->count > 0)
		g->cudnn->BackendDestroyDescriptor(g->made[--g->count]);
}
