/* SPDX-License-Identifier: Apache-2.0 */
#include "support/llama.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const float EPSILON = 1e-5f;

/* The tensors of a layer; the embedding comes before the first layer. */
enum { INPUT_NORM, QKV, OUTPUT, MIDDLE_NORM, GATE_UP, DOWN };

uint32_t llama_mixed(uint32_t tensor, uint32_t i)
{
	static const uint32_t multipliers[] = {0x7feb352d, 0x846ca68b};
	uint32_t x = tensor * 0x9e3779b9u + i * 0x85ebca6bu + 1;

	for (int k = 0; k < 2; k++) {
		x ^= x >> 16;
		x *= multipliers[k];
	}
	return x ^ x >> 16;
}

float llama_weight(uint32_t tensor, uint32_t i, bool norm)
{
	const float value = (float)((int32_t)(llama_mixed(tensor, i) >> 16) - 32768) / 65536;

	return norm ? 1 + value / 4 : value;
}

static void name_tensor(llama *m, uint64_t layer, const char *name, uint64_t rows, uint64_t columns)
{
	llama_tensor *t = &m->tensor[m->tensors++];

	if (layer < m->shape.layers)
		snprintf(t->name, sizeof(t->name), "%u.%s", (unsigned)layer, name);
	else
		snprintf(t->name, sizeof(t->name), "%s", name);
	t->norm = rows == 1;
	t->offset = m->parameters;
	t->count = rows * columns;
	m->parameters += t->count;
}

static void name_tensors(llama *m)
{
	const llama_shape *s = &m->shape;
	const uint64_t h = s->hidden;

	name_tensor(m, s->layers, "embedding", s->vocab, h);
	for (uint64_t l = 0; l < s->layers; l++) {
		name_tensor(m, l, "input_norm", 1, h);
		name_tensor(m, l, "qkv", m->columns, h);
		name_tensor(m, l, "output", h, s->heads * s->head_dim);
		name_tensor(m, l, "middle_norm", 1, h);
		name_tensor(m, l, "gate_up", 2 * s->ffn, h);
		name_tensor(m, l, "down", h, s->ffn);
	}
	name_tensor(m, s->layers, "norm", 1, h);
	name_tensor(m, s->layers, "head", s->vocab, h);
}

/* Returns the address of the next buffer in the arena. Without an arena, it only adds the buffer's size. */
static void *take(llama *m, uint64_t count, uint64_t size)
{
	const uint64_t at = m->used;

	m->used += (count * size + P4D_ARENA_ALIGNMENT - 1) / P4D_ARENA_ALIGNMENT * P4D_ARENA_ALIGNMENT;
	return m->arena ? m->arena + at : NULL;
}

/* The same bytes as in framework/p4d.c. */
static uint64_t sums_bytes(const llama *m)
{
	const uint64_t columns = P4D_NORM_SUMS * m->shape.hidden, heads = P4D_HEAD_SUMS * 2 * m->columns;

	return 4 * (columns > heads ? columns : heads);
}

static void place(llama *m)
{
	const llama_shape *s = &m->shape;
	const uint64_t e = m->type == P4D_DT_BF16 ? 2 : 4, n = m->n, h = s->hidden;
	const uint64_t q = s->heads * s->head_dim, tile = P4D_ATTENTION_TILE;

	m->used = 0;
	m->weights = take(m, m->parameters, e);
	m->gradients = take(m, m->parameters, 4);
	m->first = take(m, m->parameters, 4);
	m->second = take(m, m->parameters, 4);
	m->master = m->type == P4D_DT_FP32 ? NULL : take(m, m->parameters, 4);
	for (uint64_t l = 0; l < s->layers; l++)
		m->layer[l] = (llama_layer){
		    .input = take(m, n * h, e),
		    .qkv = take(m, n * m->columns, e),
		    .attention = take(m, n * q, e),
		    .middle = take(m, n * h, e),
		    .gate_up = take(m, n * 2 * s->ffn, e),
		    .input_rstd = take(m, n, 4),
		    .lse = take(m, n * s->heads, 4),
		    .middle_rstd = take(m, n, 4),
		};
	m->hidden = take(m, n * h, e);
	m->normed = take(m, n * h, e);
	m->gradient = take(m, n * h, e);
	m->normed_gradient = take(m, n * h, e);
	m->product = take(m, n * s->ffn, e);
	m->product_gradient = take(m, n * s->ffn, e);
	m->attention_gradient = take(m, n * q, e);
	m->qkv_gradient = take(m, n * m->columns, e);
	m->qkv_sums = m->type == P4D_DT_FP32 ? m->qkv_gradient : take(m, n * m->columns, 4);
	m->row_sums = take(m, n * s->heads, 4);
	m->logits = take(m, n * s->vocab, e);
	m->statistics = take(m, 3 * n, 4);
	m->rstd = take(m, n, 4);
	m->rope = take(m, s->length * s->head_dim, 4);
	m->workspace = take(m, tile * (2 * tile + 5 * s->head_dim), 4);
	m->tokens = take(m, n, 4);
	m->labels = take(m, n, 4);
	m->positions = take(m, s->length, 4);
	m->loss = take(m, 1, sizeof(*m->loss));
	m->library = take(m, P4D_CPU_PRODUCT_BYTES, 1);
	m->sums = take(m, sums_bytes(m), 1);
}

static void fill(llama *m, float scale)
{
	const llama_shape *s = &m->shape;
	const uint64_t half = s->head_dim / 2;
	const uint64_t most =
	    m->parameters > s->length * s->head_dim ? m->parameters : s->length * s->head_dim;
	float *host = calloc(most, sizeof(*host));
	int32_t *positions = calloc(s->length, sizeof(*positions));

	if (!host || !positions)
		abort();
	for (uint64_t t = 0; t < m->tensors; t++)
		for (uint64_t i = 0; i < m->tensor[t].count; i++)
			host[m->tensor[t].offset + i] =
			    llama_weight((uint32_t)t, (uint32_t)i, m->tensor[t].norm) *
			    (m->tensor[t].norm ? 1 : scale);
	m->device->zero(m->device, m->first, m->parameters * 4);
	m->device->zero(m->device, m->second, m->parameters * 4);
	m->device->upload(m->device, m->gradients, host, m->parameters * 4);
	m->device->cast(m->device, m->type, m->weights, P4D_DT_FP32, m->gradients, m->parameters);
	if (m->master)
		m->device->copy(m->device, m->master, m->gradients, m->parameters * 4);
	for (uint64_t i = 0; i < s->length; i++) {
		positions[i] = (int32_t)i;
		for (uint64_t j = 0; j < half; j++) {
			const double angle = (double)i * pow(10000, -(double)j / (double)half);
			host[i * s->head_dim + j] = (float)cos(angle);
			host[i * s->head_dim + half + j] = (float)sin(angle);
		}
	}
	m->device->upload(m->device, m->rope, host, s->length * s->head_dim * 4);
	m->device->upload(m->device, m->positions, positions, s->length * 4);
	free(positions);
	free(host);
}

void llama_open(llama *m, p4d_device *device, p4d_dtype type, const llama_shape *shape, float scale)
{
	void *arena;

	*m = (llama){.device = device, .type = type, .shape = *shape};
	m->n = shape->batch * shape->length;
	m->columns = (shape->heads + 2 * shape->kv_heads) * shape->head_dim;
	m->layer = calloc(shape->layers, sizeof(*m->layer));
	m->tensor = calloc(3 + LLAMA_PER_LAYER * shape->layers, sizeof(*m->tensor));
	if (!m->layer || !m->tensor)
		abort();
	name_tensors(m);
	place(m);
	m->bytes = m->used;
	if (device->allocate(device, m->bytes, &arena, NULL) < 0)
		abort();
	m->arena = arena;
	place(m);
	device->set_workspace(device, m->library, P4D_CPU_PRODUCT_BYTES, m->sums, sums_bytes(m));
	fill(m, scale);
}

void llama_close(llama *m)
{
	m->device->release(m->device, m->arena);
	free(m->layer);
	free(m->tensor);
}

static uint64_t number_of(uint64_t layer, int which)
{
	return 1 + layer * LLAMA_PER_LAYER + (uint64_t)which;
}

static void *weight(llama *m, uint64_t tensor)
{
	return m->weights + m->tensor[tensor].offset * (m->type == P4D_DT_BF16 ? 2 : 4);
}

static float *gradient(llama *m, uint64_t tensor)
{
	return m->gradients + m->tensor[tensor].offset;
}

/* The address of a column in a matrix whose elements have `size` bytes. */
static void *column(void *matrix, uint64_t at, uint64_t size)
{
	return (char *)matrix + at * size;
}

static p4d_attention_shape attention_shape(const llama *m)
{
	const llama_shape *s = &m->shape;

	return (p4d_attention_shape){
	    .batch = s->batch,
	    .queries = s->length,
	    .keys = s->length,
	    .heads = s->heads,
	    .kv_heads = s->kv_heads,
	    .head_dim = s->head_dim,
	    .query_position = m->positions,
	    .key_position = m->positions,
	    .query_stride = m->columns,
	    .key_stride = m->columns,
	    .scale = (float)(1 / sqrt((double)s->head_dim)),
	};
}

static p4d_heads heads_shape(const llama *m)
{
	const llama_shape *s = &m->shape;

	return (p4d_heads){.n = m->n,
			   .length = s->length,
			   .heads = s->heads,
			   .kv_heads = s->kv_heads,
			   .head_dim = s->head_dim,
			   .rope = m->rope};
}

/* Computes layer l. m->hidden has the layer's input, which is copied to layer[l].input, and at the end the
 * layer's output. */
static void forward(llama *m, uint64_t l)
{
	p4d_device *d = m->device;
	const llama_shape *s = &m->shape;
	llama_layer *y = &m->layer[l];
	const uint64_t n = m->n, h = s->hidden, q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
	const uint64_t e = m->type == P4D_DT_BF16 ? 2 : 4;
	const p4d_attention_shape shape = attention_shape(m);
	const p4d_heads heads = heads_shape(m);

	d->copy(d, y->input, m->hidden, n * h * e);
	d->norm(d, m->type, m->normed, y->input_rstd, y->input, weight(m, number_of(l, INPUT_NORM)), n, h,
		EPSILON);
	d->linear(d, m->type, y->qkv, NULL, m->normed, weight(m, number_of(l, QKV)), n, m->columns, h);
	d->heads(d, m->type, y->qkv, NULL, &heads);
	d->attention(d, m->type, y->attention, y->lse, y->qkv, column(y->qkv, q, e),
		     column(y->qkv, q + kv, e), &shape, m->workspace);
	d->linear(d, m->type, m->hidden, m->hidden, y->attention, weight(m, number_of(l, OUTPUT)), n, h, q);
	d->copy(d, y->middle, m->hidden, n * h * e);
	d->norm(d, m->type, m->normed, y->middle_rstd, y->middle, weight(m, number_of(l, MIDDLE_NORM)), n, h,
		EPSILON);
	d->linear(d, m->type, y->gate_up, NULL, m->normed, weight(m, number_of(l, GATE_UP)), n, 2 * s->ffn,
		  h);
	d->swiglu(d, m->type, m->product, y->gate_up, n, s->ffn);
	d->linear(d, m->type, m->hidden, m->hidden, m->product, weight(m, number_of(l, DOWN)), n, h, s->ffn);
}

/* Computes the gradients of a linear layer: dw += dy^T x, dx = dy w. */
static void backward_linear(llama *m, uint64_t tensor, void *dx, const void *dy, const void *x, uint64_t out,
			    uint64_t in)
{
	p4d_device *d = m->device;

	d->linear_weight(d, m->type, gradient(m, tensor), dy, x, m->n, out, in, true);
	d->linear_input(d, m->type, dx, dy, weight(m, tensor), m->n, out, in, false);
}

static void backward_attention(llama *m, uint64_t l)
{
	p4d_device *d = m->device;
	const llama_shape *s = &m->shape;
	llama_layer *y = &m->layer[l];
	const p4d_attention_shape shape = attention_shape(m);
	const p4d_heads heads = heads_shape(m);

	d->attention_row_sums(d, m->type, m->row_sums, m->attention_gradient, y->attention, m->n, s->heads,
			      s->head_dim);
	d->attention_gradient(d, m->type, m->qkv_gradient, m->qkv_sums, m->attention_gradient, y->lse,
			      m->row_sums, y->qkv, &shape, m->workspace);
	d->heads_backward(d, m->type, m->qkv_gradient, y->qkv, NULL, &heads, NULL, NULL, NULL);
}

/* m->gradient has the gradient of the layer's output, and at the end that of its input. */
static void backward(llama *m, uint64_t l)
{
	p4d_device *d = m->device;
	const llama_shape *s = &m->shape;
	llama_layer *y = &m->layer[l];
	const uint64_t n = m->n, h = s->hidden, q = s->heads * s->head_dim;
	const uint64_t input_norm = number_of(l, INPUT_NORM), middle_norm = number_of(l, MIDDLE_NORM);

	d->swiglu(d, m->type, m->product, y->gate_up, n, s->ffn);
	backward_linear(m, number_of(l, DOWN), m->product_gradient, m->gradient, m->product, h, s->ffn);
	d->swiglu_backward(d, m->type, y->gate_up, NULL, m->product_gradient, n, s->ffn);
	d->norm(d, m->type, m->normed, y->middle_rstd, y->middle, weight(m, middle_norm), n, h, EPSILON);
	backward_linear(m, number_of(l, GATE_UP), m->normed_gradient, y->gate_up, m->normed, 2 * s->ffn, h);
	d->norm_backward(d, m->type, m->gradient, gradient(m, middle_norm), m->normed_gradient, y->middle,
			 weight(m, middle_norm), y->middle_rstd, n, h);
	backward_linear(m, number_of(l, OUTPUT), m->attention_gradient, m->gradient, y->attention, h, q);
	backward_attention(m, l);
	d->norm(d, m->type, m->normed, y->input_rstd, y->input, weight(m, input_norm), n, h, EPSILON);
	backward_linear(m, number_of(l, QKV), m->normed_gradient, m->qkv_gradient, m->normed, m->columns, h);
	d->norm_backward(d, m->type, m->gradient, gradient(m, input_norm), m->normed_gradient, y->input,
			 weight(m, input_norm), y->input_rstd, n, h);
}

/* Returns the loss of m->hidden. m->gradient gets its gradient. */
static double head(llama *m, float scale)
{
	p4d_device *d = m->device;
	const uint64_t n = m->n, h = m->shape.hidden, V = m->shape.vocab;
	const uint64_t norm = m->tensors - 2, table = m->tensors - 1;
	float *maximum = m->statistics, *sum = maximum + n, *target = sum + n;
	double loss;

	d->zero(d, m->loss, sizeof(loss));
	d->norm(d, m->type, m->normed, m->rstd, m->hidden, weight(m, norm), n, h, EPSILON);
	d->linear(d, m->type, m->logits, NULL, m->normed, weight(m, table), n, V, h);
	d->cross_entropy(d, m->type, maximum, sum, target, m->logits, V, m->labels, n, V, scale, 0);
	d->losses(d, m->loss, maximum, sum, target, m->labels, n, 0);
	backward_linear(m, table, m->normed_gradient, m->logits, m->normed, V, h);
	d->zero(d, m->gradient, n * h * (m->type == P4D_DT_BF16 ? 2 : 4));
	d->norm_backward(d, m->type, m->gradient, gradient(m, norm), m->normed_gradient, m->hidden,
			 weight(m, norm), m->rstd, n, h);
	d->download(d, &loss, m->loss, sizeof(loss));
	return loss;
}

double llama_gradients(llama *m, const int32_t *tokens, const int32_t *labels)
{
	p4d_device *d = m->device;
	const llama_shape *s = &m->shape;
	uint64_t trained = 0;
	double loss;

	for (uint64_t i = 0; i < m->n; i++)
		trained += labels[i] >= 0;
	d->upload(d, m->tokens, tokens, m->n * 4);
	d->upload(d, m->labels, labels, m->n * 4);
	d->zero(d, m->gradients, m->parameters * 4);
	d->embed(d, m->type, m->hidden, m->weights, m->tokens, m->n, s->hidden, 0, s->vocab);
	for (uint64_t l = 0; l < s->layers; l++)
		forward(m, l);
	loss = head(m, 1 / (float)trained);
	for (uint64_t l = s->layers; l-- > 0;)
		backward(m, l);
	d->embed_backward(d, m->type, m->gradients, m->gradient, m->tokens, m->n, s->hidden, 0, s->vocab);
	d->sync(d, NULL);
	return loss / (double)trained;
}

void llama_adam(llama *m, const p4d_adam *adam)
{
	m->device->adam(m->device, m->type, m->weights, m->master, m->first, m->second, m->gradients,
			m->parameters, adam);
}

double llama_flop(const llama_shape *s)
{
	const double n = (double)(s->batch * s->length), q = (double)(s->heads * s->head_dim);
	const double h = (double)s->hidden, columns = (double)((s->heads + 2 * s->kv_heads) * s->head_dim);
	const double layer = h * columns + h * q + 3 * h * (double)s->ffn;

	return n * (6 * ((double)s->layers * layer + h * (double)s->vocab) +
		    6 * (double)s->layers * q * (double)s->length);
}
