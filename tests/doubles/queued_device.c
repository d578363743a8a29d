/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "doubles/queued_streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int q_attach(p4d_device *device, p4d_error *err)
{
	(void)device, (void)err;
	return 0;
}

/* ---- memory ---- */

static int q_allocate(p4d_device *device, uint64_t bytes, void **arena, p4d_error *err)
{
	return of(device)->cpu.allocate(&of(device)->cpu, bytes, arena, err);
}

/* Frees memory, like a GPU, after all queued operations. */
static void q_release(p4d_device *device, void *arena)
{
	queued *q = of(device);

	pthread_mutex_lock(&q->lock);
	for (stream *s = q->streams; s; s = s->next)
		queued_await(s, s->queued);
	pthread_mutex_unlock(&q->lock);
	q->cpu.release(&q->cpu, arena);
}

static int q_host_allocate(p4d_device *device, uint64_t bytes, void **arena, p4d_error *err)
{
	device->host_allocated_bytes += bytes;
	return of(device)->cpu.host_allocate(&of(device)->cpu, bytes, arena, err);
}

static void q_usage(p4d_device *device, uint64_t *used, uint64_t *total)
{
	of(device)->cpu.usage(&of(device)->cpu, used, total);
}

static void q_download(p4d_device *device, void *to, const void *from, uint64_t bytes)
{
	p4d_error err;

	if (queued_sync(device, &err) == 0)
		memcpy(to, from, bytes);
}

/* An upload in flight, with its own copy of the host's data. */
typedef struct upload {
	void *to, *data;
	uint64_t bytes;
} upload;

static void do_upload(void *args)
{
	const upload *own = args;

	memcpy(own->to, own->data, own->bytes);
	free(own->data);
}

static void q_upload(p4d_device *device, void *to, const void *from, uint64_t bytes)
{
	const upload own = {.to = to, .data = malloc(bytes ? bytes : 1), .bytes = bytes};

	if (!own.data)
		abort();
	memcpy(own.data, from, bytes);
	queued_put(&of(device)->compute->calls, do_upload, &own, sizeof(own));
}

typedef struct movement {
	void *to;
	const void *from;
	uint64_t bytes;
} movement;

static void do_move(void *args)
{
	const movement *own = args;

	memcpy(own->to, own->from, own->bytes);
}

static void q_move(p4d_device *device, void *where, void *to, const void *from, uint64_t bytes)
{
	const movement own = {to, from, bytes};

	queued_put(&stream_of(device, where)->calls, do_move, &own, sizeof(own));
}

/* ---- operations ---- */

/* Copies a structure of the caller. The copy lives until the queued operation has used it. */
static const void *keep(p4d_device *device, const void *from, size_t bytes)
{
	queued *q = of(device);
	char *to = q->kept[q->next_kept++ % KEPT];

	if (bytes > KEPT_BYTES)
		abort();
	return memcpy(to, from, bytes);
}

#define EACH1(m, a) m a
#define EACH2(m, a, ...) m a EACH1(m, __VA_ARGS__)
#define EACH3(m, a, ...) m a EACH2(m, __VA_ARGS__)
#define EACH4(m, a, ...) m a EACH3(m, __VA_ARGS__)
#define EACH5(m, a, ...) m a EACH4(m, __VA_ARGS__)
#define EACH6(m, a, ...) m a EACH5(m, __VA_ARGS__)
#define EACH7(m, a, ...) m a EACH6(m, __VA_ARGS__)
#define EACH8(m, a, ...) m a EACH7(m, __VA_ARGS__)
#define EACH9(m, a, ...) m a EACH8(m, __VA_ARGS__)
#define EACH10(m, a, ...) m a EACH9(m, __VA_ARGS__)
#define EACH11(m, a, ...) m a EACH10(m, __VA_ARGS__)
#define EACH12(m, a, ...) m a EACH11(m, __VA_ARGS__)
#define FIELD(type, name) type name;
#define PARAMETER(type, name) , type name
#define NAME(type, name) , name
#define MEMBER(type, name) , own->name

/* A queued operation with this many arguments. */
#define OPERATION(count, operation, ...) \
	typedef struct args_##operation { \
		queued *own_device; \
		EACH##count(FIELD, __VA_ARGS__) \
	} args_##operation; \
	static void do_##operation(void *args) \
	{ \
		args_##operation *own = args; \
		p4d_device *cpu = &own->own_device->cpu; \
		cpu->operation(cpu EACH##count(MEMBER, __VA_ARGS__)); \
	} \
	static void q_##operation(p4d_device *device EACH##count(PARAMETER, __VA_ARGS__)) \
	{ \
		args_##operation own = {of(device) EACH##count(NAME, __VA_ARGS__)}; \
		queued_put(&of(device)->compute->calls, do_##operation, &own, sizeof(own)); \
	}

#define TYPE (p4d_dtype, type)
#define IN(name) (const void *, name)
#define OUT(name) (void *, name)
#define REALS(name) (float *, name)
#define READ(name) (const float *, name)
#define NUMBERS(name) (const int32_t *, name)
#define SIZE(name) (uint64_t, name)
#define FLAG(name) (bool, name)
#define REAL(name) (float, name)

/* clang-format off */
OPERATION(2, zero, OUT(to), SIZE(bytes))
OPERATION(4, set_workspace, OUT(workspace), SIZE(workspace_bytes), OUT(sums), SIZE(sums_bytes))
OPERATION(3, copy, OUT(to), IN(from), SIZE(bytes))
OPERATION(6, copy_rows, OUT(to), SIZE(to_stride), IN(from), SIZE(from_stride), SIZE(row_bytes), SIZE(rows))
OPERATION(8, linear, TYPE, OUT(y), IN(sum), IN(x), IN(w), SIZE(n), SIZE(out), SIZE(in))
OPERATION(8, linear_input, TYPE, OUT(dx), IN(dy), IN(w), SIZE(n), SIZE(out), SIZE(in), FLAG(accumulate))
OPERATION(8, linear_weight, TYPE, REALS(dw), IN(dy), IN(x), SIZE(n), SIZE(out), SIZE(in), FLAG(accumulate))
OPERATION(10, columns, TYPE, OUT(y), SIZE(stride), IN(x), IN(w), SIZE(n), SIZE(out), SIZE(in), REAL(scale), FLAG(accumulate))
OPERATION(9, columns_input, TYPE, OUT(dx), IN(dy), SIZE(stride), IN(w), SIZE(n), SIZE(out), SIZE(in), REAL(scale))
OPERATION(10, columns_weight, TYPE, REALS(dw), IN(dy), SIZE(stride), IN(x), SIZE(n), SIZE(out), SIZE(in), REAL(scale),
	  FLAG(accumulate))
OPERATION(8, norm, TYPE, OUT(y), REALS(rstd), IN(x), IN(weight), SIZE(n), SIZE(h), REAL(epsilon))
OPERATION(9, norm_backward, TYPE, OUT(dx), REALS(dweight), IN(dy), IN(x), IN(weight), READ(rstd), SIZE(n), SIZE(h))
OPERATION(8, row_dots, TYPE, REALS(sums), IN(a), IN(b), IN(weight), SIZE(n), SIZE(h), REAL(plus))
OPERATION(10, split_norm, TYPE, OUT(y), REALS(rstd), IN(x), IN(weight), SIZE(n), SIZE(h), SIZE(width), REAL(epsilon), REAL(plus))
OPERATION(12, split_norm_backward, TYPE, OUT(dx), REALS(dweight), IN(dy), IN(x), IN(weight), READ(rstd), READ(dots), SIZE(n),
	  SIZE(h), SIZE(width), REAL(plus))
OPERATION(5, add, TYPE, OUT(y), IN(a), IN(b), SIZE(count))
OPERATION(4, heads, TYPE, OUT(qkv), REALS(rstd), (const p4d_heads *, heads))
OPERATION(8, heads_backward, TYPE, OUT(dqkv), IN(qkv), READ(rstd), (const p4d_heads *, heads), REALS(dbias),
	  REALS(dquery_weight), REALS(dkey_weight))
OPERATION(8, attention, TYPE, OUT(o), REALS(lse), IN(q), IN(k), IN(v), (const p4d_attention_shape *, shape), OUT(workspace))
OPERATION(9, attention_merge, TYPE, REALS(total), REALS(total_lse), IN(o), READ(lse), SIZE(n), SIZE(heads), SIZE(head_dim),
	  FLAG(first))
OPERATION(7, attention_row_sums, TYPE, REALS(row_sums), IN(d_o), IN(o), SIZE(n), SIZE(heads), SIZE(head_dim))
OPERATION(12, attention_backward, TYPE, REALS(dq), REALS(dk), REALS(dv), IN(d_o), READ(lse), REALS(row_sums), IN(q), IN(k),
	  IN(v), (const p4d_attention_shape *, shape), OUT(workspace))
OPERATION(9, attention_gradient, TYPE, OUT(dqkv), REALS(sums), IN(d_o), READ(lse), REALS(row_sums), IN(qkv),
	  (const p4d_attention_shape *, shape), OUT(workspace))
OPERATION(5, swiglu, TYPE, OUT(act), IN(gate_up), SIZE(n), SIZE(f))
OPERATION(6, swiglu_backward, TYPE, OUT(gate_up), OUT(act), IN(dact), SIZE(n), SIZE(f))
OPERATION(8, embed, TYPE, OUT(out), IN(table), NUMBERS(tokens), SIZE(n), SIZE(h), SIZE(first), SIZE(rows))
OPERATION(8, embed_backward, TYPE, REALS(dtable), IN(dy), NUMBERS(tokens), SIZE(n), SIZE(h), SIZE(first), SIZE(rows))
OPERATION(10, softmax_sums, TYPE, REALS(maximum), REALS(sum), REALS(target), IN(logits), SIZE(stride), NUMBERS(labels),
	  SIZE(n), SIZE(vocab), SIZE(first))
OPERATION(4, rescale, REALS(sum), READ(old_maximum), READ(new_maximum), SIZE(n))
OPERATION(11, logits_gradient, TYPE, OUT(logits), SIZE(stride), READ(maximum), READ(sum), NUMBERS(labels), SIZE(n),
	  SIZE(vocab), SIZE(first), REAL(scale), REAL(z_loss))
OPERATION(11, cross_entropy, TYPE, REALS(maximum), REALS(sum), REALS(target), OUT(logits), SIZE(stride), NUMBERS(labels),
	  SIZE(n), SIZE(vocab), REAL(scale), REAL(z_loss))
OPERATION(7, losses, (double *, loss), READ(maximum), READ(sum), READ(target), NUMBERS(labels), SIZE(n), REAL(z_loss))
OPERATION(3, sum_squares, (double *, sum), READ(x), SIZE(count))
OPERATION(3, count_nonfinite, (uint64_t *, number), READ(x), SIZE(count))
OPERATION(8, adam, TYPE, OUT(parameter), REALS(master), REALS(first), REALS(second), READ(gradient), SIZE(count),
	  (const p4d_adam *, adam))
OPERATION(5, cast, (p4d_dtype, to), OUT(y), (p4d_dtype, from), IN(x), SIZE(count))
OPERATION(4, accumulate, REALS(y), TYPE, IN(x), SIZE(count))
/* clang-format on */

static void kept_heads(p4d_device *device, p4d_dtype type, void *qkv, float *rstd, const p4d_heads *heads)
{
	q_heads(device, type, qkv, rstd, keep(device, heads, sizeof(*heads)));
}

static void kept_heads_backward(p4d_device *device, p4d_dtype type, void *dqkv, const void *qkv,
				const float *rstd, const p4d_heads *heads, float *dbias, float *dquery,
				float *dkey)
{
	q_heads_backward(device, type, dqkv, qkv, rstd, keep(device, heads, sizeof(*heads)), dbias, dquery,
			 dkey);
}

static void *workspace_of(p4d_device *device, void *planned)
{
	return planned ? planned : of(device)->workspace;
}

static void kept_attention(p4d_device *device, p4d_dtype type, void *o, float *lse, const void *q,
			   const void *k, const void *v, const p4d_attention_shape *shape, void *workspace)
{
	q_attention(device, type, o, lse, q, k, v, keep(device, shape, sizeof(*shape)),
		    workspace_of(device, workspace));
}

static void kept_attention_backward(p4d_device *device, p4d_dtype type, float *dq, float *dk, float *dv,
				    const void *d_o, const float *lse, float *row_sums, const void *q,
				    const void *k, const void *v, const p4d_attention_shape *shape,
				    void *workspace)
{
	q_attention_backward(device, type, dq, dk, dv, d_o, lse, row_sums, q, k, v,
			     keep(device, shape, sizeof(*shape)), workspace_of(device, workspace));
}

static void kept_attention_gradient(p4d_device *device, p4d_dtype type, void *dqkv, float *sums,
				    const void *d_o, const float *lse, float *row_sums, const void *qkv,
				    const p4d_attention_shape *shape, void *workspace)
{
	q_attention_gradient(device, type, dqkv, sums, d_o, lse, row_sums, qkv,
			     keep(device, shape, sizeof(*shape)), workspace_of(device, workspace));
}

static void noted_linear_weight(p4d_device *device, p4d_dtype type, float *dw, const void *dy, const void *x,
				uint64_t n, uint64_t out, uint64_t in, bool accumulate)
{
	of(device)->beside_weight = of(device)->beside;
	q_linear_weight(device, type, dw, dy, x, n, out, in, accumulate);
}

static void kept_adam(p4d_device *device, p4d_dtype type, void *parameter, float *master, float *first,
		      float *second, const float *gradient, uint64_t count, const p4d_adam *adam)
{
	q_adam(device, type, parameter, master, first, second, gradient, count,
	       keep(device, adam, sizeof(*adam)));
}

/* ---- opening ---- */

/* The computing thread opens the cpu device, because opening it sets the rounding mode of the calling
 * thread. */
static void open_cpu(void *args)
{
	queued *q = *(queued **)args;

	q->failed = p4d_device_cpu_open(&q->cpu, &q->why) < 0;
}

static void q_close(p4d_device *device)
{
	queued *q = of(device);

	queued_close_streams(q);
	if (q->cpu.close)
		q->cpu.close(&q->cpu);
	free(q);
	memset(device, 0, sizeof(*device));
}

int queued_device_open(p4d_device *device, const char *identity, unsigned side_lag, p4d_error *err)
{
	queued *q = calloc(1, sizeof(*q));

	if (!q)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a device");
	pthread_mutex_init(&q->lock, NULL);
	q->side_lag = side_lag;
	*device = (p4d_device){
	    .name = "queued",
	    .state = q,
	    .allocate = q_allocate,
	    .release = q_release,
	    .host_allocate = q_host_allocate,
	    .host_release = q_release,
	    .set_workspace = q_set_workspace,
	    .usage = q_usage,
	    .zero = q_zero,
	    .copy = q_copy,
	    .copy_rows = q_copy_rows,
	    .upload = q_upload,
	    .download = q_download,
	    .move = q_move,
	    .sync = queued_sync,
	    .close = q_close,
	    .stream_open = queued_stream_open,
	    .stream_wait = queued_stream_wait,
	    .event_open = queued_event_open,
	    .event_record = queued_event_record,
	    .event_wait = queued_event_wait,
	    .event_reached = queued_event_reached,
	    .attach = q_attach,
	    .linear = q_linear,
	    .linear_input = q_linear_input,
	    .linear_weight = noted_linear_weight,
	    .columns = q_columns,
	    .columns_input = q_columns_input,
	    .columns_weight = q_columns_weight,
	    .norm = q_norm,
	    .norm_backward = q_norm_backward,
	    .row_dots = q_row_dots,
	    .split_norm = q_split_norm,
	    .split_norm_backward = q_split_norm_backward,
	    .add = q_add,
	    .heads = kept_heads,
	    .heads_backward = kept_heads_backward,
	    .attention = kept_attention,
	    .attention_merge = q_attention_merge,
	    .attention_row_sums = q_attention_row_sums,
	    .attention_backward = kept_attention_backward,
	    .attention_gradient = kept_attention_gradient,
	    .swiglu = q_swiglu,
	    .swiglu_backward = q_swiglu_backward,
	    .embed = q_embed,
	    .embed_backward = q_embed_backward,
	    .softmax_sums = q_softmax_sums,
	    .rescale = q_rescale,
	    .logits_gradient = q_logits_gradient,
	    .cross_entropy = q_cross_entropy,
	    .losses = q_losses,
	    .sum_squares = q_sum_squares,
	    .count_nonfinite = q_count_nonfinite,
	    .adam = kept_adam,
	    .cast = q_cast,
	    .accumulate = q_accumulate,
	};
	snprintf(device->identity, sizeof(device->identity), "%s", identity);
	q->compute = queued_add_stream(q, 0);
	if (!q->compute) {
		free(q);
		return p4d_fail(err, P4D_E_NO_MEMORY, "cannot create a thread for a device");
	}
	device->stream = q->compute;
	queued_put(&q->compute->calls, open_cpu, &q, sizeof(q));
	if (queued_sync(device, err) < 0)
		return -1;
	return 0;
}

uint64_t queued_device_waits(const p4d_device *device)
{
	return ((const queued *)device->state)->waits;
}

uint64_t queued_device_beside_now(const p4d_device *device)
{
	return ((const queued *)device->state)->beside;
}

uint64_t queued_device_beside(const p4d_device *device)
{
	return ((const queued *)device->state)->beside_weight;
}
