/* SPDX-License-Identifier: Apache-2.0 */
/* Compares p4d-train's plan with a formula that shares no code with it. */
#include "support/support.h"

#include "request/framework.h"
#include "support/plan_layouts.h"

static uint64_t up(uint64_t bytes)
{
	return (bytes + 255) & ~UINT64_C(255);
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Number of micro-batches (or of their chunks or slices) that a stage stores at the same time, by the
 * papers' formulas. */
static uint64_t in_flight(const p4d_layout *l, uint64_t stage)
{
	uint64_t m = l->micro_batches * l->slices, p = l->pp, v = l->vpp;

	switch (l->schedule) {
	case P4D_GPIPE:
		return m;
	case P4D_1F1B:
		/* Seq1F1B: slices - 1 more, because the last stage begins with `slices` forward passes */
		return l->local_loss ? 1 : least(m, p - stage + l->slices - 1);
	case P4D_INTERLEAVED:
		return least(m * v, 2 * (p - stage - 1) + (v - 1) * p + 1);
	case P4D_ZB1P:
		return least(m, p);
	case P4D_ZBV:
		return least(m, 2 * p - stage - 1) + least(m, stage + 1);
	case P4D_V_HALF: /* valid if there are enough micro-batches */
		return p + (p % 2 ? 1 : 2);
	default: { /* no paper has a formula; test_schedule_slots checks this count */
		const p4d_schedule s = p4d_schedule_of(l);
		return p4d_schedule_slots(&s, (uint32_t)stage).activation;
	}
	}
}

/* The stage that has the last layer. */
static uint64_t end_of(const p4d_layout *l)
{
	return p4d_is_v_shaped(l->schedule) ? 0 : l->pp - 1;
}

/* Elements of a layer's LoRA adapters. Tensor parallelism shards one matrix of each adapter; the other
 * matrix is whole. */
static uint64_t adapters(const p4d_layout *l)
{
	const uint64_t d = l->head_dim, A = l->heads * d / l->tp, G = l->kv_heads * d / l->tp, h = l->hidden,
		       f = l->ffn / l->tp;
	const uint64_t sizes[] = {h + A, h + G, h + G, A + h, h + f, h + f, f + h};
	uint64_t sum = 0;

	for (int i = 0; i < 7; i++)
		sum += l->lora.targets >> i & 1 ? l->lora.rank * sizes[i] : 0;
	return sum;
}

/* Number of ranks that share the optimizer states and, depending on optimizer-sharding, gradients and
 * parameters. */
static uint64_t shards_of(const p4d_layout *l)
{
	return !l->optimizer_sharding ? 1 : l->shard_degree ? l->shard_degree : l->dp * l->cp;
}

static bool shares(const p4d_layout *l, int what)
{
	return l->zero_stage >= what && shards_of(l) > 1;
}

/*
 * Number of parameters of a rank. Each layer (on CPUs each chunk) is padded to whole shards of `unit`.
 * Embedding and head are padded together with a layer; if gradients are sharded, each layer and each table
 * is padded separately. trained: counts only the parameters of adapters, if there are any. Also returns
 * the elements of the largest layer and table.
 */
static uint64_t parameters(const p4d_layout *l, uint64_t stage, bool trained, uint64_t unit,
			   uint64_t *layer_most, uint64_t *table_most)
{
	const bool apart = shares(l, P4D_SHARD_GRADIENTS);
	uint64_t d = l->head_dim, A = l->heads * d, G = l->kv_heads * d, h = l->hidden / l->tp_y;
	uint64_t layer = 2 * h + (h * (A + 2 * G) + A * h + 3 * l->ffn * h) / l->tp / l->tp_z, sum = 0;
	const bool ends = !trained || l->finetune == P4D_TUNE_FULL;

	layer += l->bias == P4D_BIAS_QKV ? (A + 2 * G) / l->tp : 0;
	layer += l->qk_norm ? 2 * d : 0;
	layer = ends ? layer : adapters(l);
	*layer_most = *table_most = 0;
	if (ends && apart) {
		const uint64_t table = (l->vocab * h / l->tp + unit - 1) / unit * unit;
		const bool last = stage == end_of(l), shared = l->tied && stage == 0;
		sum += ((stage == 0) + (last && !shared)) * table;
		*table_most = stage == 0 || last ? table : 0;
	}
	for (uint64_t chunk = 0; chunk < l->vpp; chunk++) {
		const uint64_t layers = l->stage_layers[stage] / l->vpp;
		uint64_t n = 0;
		for (uint64_t i = 0; i < layers; i++) {
			n += layer;
			if (ends && !apart && stage == 0 && chunk == 0 && i == 0)
				n += l->vocab * h / l->tp;
			if (ends && stage == end_of(l) && chunk == l->vpp - 1 && i == layers - 1)
				n += h + (apart || (l->tied && end_of(l) == 0) ? 0 : l->vocab * h / l->tp);
			else if (l->local_loss && i == layers - 1)
				n += h + l->vocab * h / l->tp;
			if (l->device == P4D_CPU && !apart && i < layers - 1)
				continue;
			n = (n + unit - 1) / unit * unit;
			*layer_most = most(*layer_most, n);
			sum += n;
			n = 0;
		}
	}
	return sum;
}

static uint64_t line(uint64_t bytes)
{
	return (bytes + 127) / 128 * 128;
}

/* Number of documents in a call of attention, on sm 90: a power of two. */
static uint64_t documents_of(const p4d_layout *l, uint64_t columns)
{
	const uint64_t b = l->micro_batch / l->tp_z, n = b * l->seq_len,
		       mean = least(l->document_len, l->seq_len);
	uint64_t count = 4;

	if (!mean || l->cp > 1 || l->slices > 1 || l->precision == P4D_FP32 || l->precision == P4D_FP16 ||
	    l->device == P4D_CPU || l->head_dim % 8 || l->head_dim > 256 || l->seq_len <= 128 ||
	    n * columns * (l->heads / l->kv_heads) >= UINT64_C(1) << 31)
		return 0;
	while (count < 1024 && count < n / mean + b)
		count *= 2;
	return count;
}

/* Workspace for documents. Rows are as wide as queries, keys and values together. dK and dV of all query
 * heads are in rows that are wider by the number of query heads per key head. */
static uint64_t documents_workspace(const p4d_layout *l, uint64_t a, uint64_t g, bool backward)
{
	const uint64_t columns = (a + 2 * g) * l->head_dim, documents = documents_of(l, columns);
	const uint64_t n = l->micro_batch / l->tp_z * l->seq_len;

	if (!documents)
		return 0;
	if (!backward)
		return up(768 + 256 * most(documents, 64));
	return up(line(1152 + 448 * documents) + line(4 * n * columns) + line(4 * n * a) +
		  (g < a ? line(2 * n * columns * (a / g)) : 0));
}

/* Workspace of attention, for a rank with `a` heads and `g` KV heads, on sm 90, in bf16. */
static uint64_t attention_workspace(const p4d_layout *l, uint64_t a, uint64_t g, bool backward)
{
	const bool gathers = l->cp > 1 && l->cp_comm == P4D_CP_ALL_GATHER;
	const uint64_t length = l->seq_len / l->cp, b = l->micro_batch / l->tp_z, d = l->head_dim;
	const uint64_t queries = gathers ? length / 2 : length, keys = gathers ? l->seq_len : length;
	const uint64_t bytes = 256;

	if (!backward)
		return bytes;
	return up(bytes + (g < a ? 2 * line(2 * b * a * keys * d) : 0) + line(4 * b * a * queries * d) +
		  line(4 * b * a * queries) +
		  (l->cp > 1 ? line(2 * b * a * queries * d) + 2 * line(2 * b * g * keys * d) : 0));
}

/* Number of micro-batches whose keys a stage stores while it runs the last slice of the oldest micro-batch
 * backward. */
static uint64_t begun(const p4d_layout *l, uint64_t stage)
{
	const uint64_t flight = in_flight(l, stage), S = l->slices;

	return least(l->micro_batches, (flight + S - 1 + S - 1) / S);
}

/* Workspace of attention's backward pass with slices, for one slice of a sequence and all keys up to the
 * end of the slice. */
static uint64_t slices_workspace(const p4d_layout *l, uint64_t a, uint64_t g)
{
	const uint64_t d = l->head_dim;
	uint64_t bytes = 0;

	for (uint64_t i = 0, end = 0; i < l->slices; i++) {
		const uint64_t n = l->slice_tokens[i];
		end += n;
		bytes = most(bytes, 256 + (g < a ? 2 * line(2 * a * end * d) : 0) + line(4 * a * n * d) +
					line(4 * a * n) + line(2 * a * n * d) + 2 * line(2 * g * end * d));
	}
	return up(bytes);
}

static uint64_t longest(const p4d_layout *l)
{
	uint64_t length = l->slices > 1 ? 0 : l->seq_len;

	for (uint64_t i = 0; l->slices > 1 && i < l->slices; i++)
		length = most(length, l->slice_tokens[i]);
	return length;
}

/*
 * Bytes of an nf4 tensor with `whole` elements, of which a rank has `own`. There is an fp32 scale for each
 * 16,384 elements of the whole tensor, and one more. The rank's part has one byte for 64 elements, and
 * half a byte for each element. Each part is rounded up to 16 bytes.
 */
static uint64_t nf4(uint64_t own, uint64_t whole)
{
	return ((whole + 16383) / 16384 * 4 + 4 + 15) / 16 * 16 + ((own + 63) / 64 + 15) / 16 * 16 +
	       ((own + 1) / 2 + 15) / 16 * 16;
}

static uint64_t nf4_of_layer(const p4d_layout *l)
{
	const uint64_t d = l->head_dim, t = l->tp, h = l->hidden, query = h * l->heads * d,
		       key = h * l->kv_heads * d, ffn = h * l->ffn;

	return 2 * nf4(query / t, query) + 2 * nf4(key / t, key) + 3 * nf4(ffn / t, ffn);
}

/* Columns of an adapter's input that dropout stores: hidden, or a rank's heads or feed-forward columns.
 * Only one such input exists at a time. */
static uint64_t dropped_features(const p4d_layout *l)
{
	const uint64_t in[] = {l->hidden, l->heads * l->head_dim / l->tp, l->ffn / l->tp};
	const unsigned target[] = {P4D_TARGET_Q | P4D_TARGET_K | P4D_TARGET_V | P4D_TARGET_GATE |
				       P4D_TARGET_UP,
				   P4D_TARGET_O, P4D_TARGET_DOWN};
	uint64_t features = 0;

	for (int i = 0; l->lora.dropout > 0 && i < 3; i++)
		features = l->lora.targets & target[i] ? most(features, in[i]) : features;
	return features;
}

/*
 * Bytes of 8-bit moments. Each element has two codes. Each moment has a scale for 256 elements, and one
 * more for each tensor and for each beginning of a shard. Tensors below 4,096 elements have moments in
 * fp32.
 */
static uint64_t bytes_of_moments(const p4d_layout *l, uint64_t stage, uint64_t shard)
{
	const uint64_t d = l->head_dim, h = l->hidden, A = l->heads * d, G = l->kv_heads * d, f = l->ffn,
		       r = l->lora.rank, t = l->tp, layers = l->stage_layers[stage];
	const uint64_t in[] = {h, h, h, A, h, h, f}, out[] = {A, G, G, h, f, f, h};
	/* elements of whole tensors, and of the parts that this rank has */
	uint64_t whole[16], here[16], count = 0, large = 0, small = 0;

	for (int i = 0; i < 7; i++) {
		const bool by_rows = i != 3 && i != 6;
		if (l->finetune == P4D_TUNE_FULL) {
			whole[count] = in[i] * out[i];
			here[count++] = in[i] * out[i] / t;
		} else if (l->lora.targets >> i & 1) {
			whole[count] = r * in[i];
			here[count++] = r * in[i] / (by_rows ? 1 : t);
			whole[count] = r * out[i];
			here[count++] = r * out[i] / (by_rows ? t : 1);
		}
	}
	for (int i = 0; l->finetune == P4D_TUNE_FULL && i < 7; i++) {
		const uint64_t vector[] = {h, h, d, d, A, G, G};
		if ((i == 2 || i == 3) ? !l->qk_norm : i > 3 && l->bias != P4D_BIAS_QKV)
			continue;
		whole[count] = vector[i];
		here[count++] = vector[i] / (i > 3 ? t : 1);
	}
	for (uint64_t i = 0; i < count; i++) {
		large += whole[i] >= 4096;
		small += whole[i] >= 4096 ? 0 : here[i];
	}
	const bool ends = stage == end_of(l) || l->local_loss, apart = shares(l, P4D_SHARD_GRADIENTS);
	small = layers * small + (ends && h < 4096 && l->finetune == P4D_TUNE_FULL ? h : 0);
	small = least(small, shard);
	const uint64_t segments = 2 + (l->device == P4D_CPU && !apart ? l->vpp : layers);
	const uint64_t blocks = shard / 256 + layers * large + 6 + (shards_of(l) > 1 ? segments : 0);
	return 2 * up(shard) + up(2 * 4 * blocks) + (small ? up(2 * 4 * small) : 0);
}

/* Number of elements that AdamW updates if the optimizer is Muon, in a rank's shards: all except the
 * matrices of layers. No segment contributes more than a shard. */
static uint64_t others_of(const p4d_layout *l, uint64_t stage, uint64_t unit)
{
	const uint64_t t = l->tp, h = l->hidden, d = l->head_dim, layers = l->stage_layers[stage];
	const uint64_t table = l->vocab / t * h;
	const uint64_t A = l->heads / t * d, G = l->kv_heads / t * d, f = l->ffn / t;
	const uint64_t matrices = h * (2 * A + 2 * G + 3 * f),
		       vectors = 2 * h + (l->qk_norm ? 2 * d : 0) + (l->bias == P4D_BIAS_QKV ? A + 2 * G : 0);
	const bool apart = shares(l, P4D_SHARD_GRADIENTS), by_layer = l->device != P4D_CPU || apart;
	const uint64_t segments = by_layer && layers > l->vpp ? layers / l->vpp : 1;
	const uint64_t in_segment = layers / l->vpp / segments;
	const bool end = stage == end_of(l), tied = l->tied && stage == 0;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < l->vpp * segments; i++) {
		const bool starts = stage == 0 && i == 0, ends = end && i == l->vpp * segments - 1;
		const bool local = l->local_loss && !ends && i % segments == segments - 1;
		uint64_t others = in_segment * vectors + (starts && !apart ? table : 0) +
				  (ends ? h + (tied || apart ? 0 : table) : 0) + (local ? h + table : 0);
		const uint64_t all = (others + in_segment * matrices + unit - 1) / unit * unit;
		sum += least(others, all / shards_of(l));
	}
	const uint64_t padded = (table + unit - 1) / unit * unit / shards_of(l);
	if (apart)
		sum += (stage == 0 ? least(table, padded) : 0) + (end && !tied ? least(table, padded) : 0);
	return sum;
}

/* Bytes of the momentum of all elements, and of second moments for the elements that AdamW updates. */
static uint64_t muon_moments(const p4d_layout *l, uint64_t stage, uint64_t shard, uint64_t unit)
{
	return up(4 * shard) + up(4 * others_of(l, stage, unit));
}

/* Bytes while a matrix is orthogonalized: two matrices, two Gram matrices, and an fp32 sum of one Gram
 * matrix. */
static uint64_t muon_transient(const p4d_layout *l, uint64_t e)
{
	const uint64_t t = l->tp, h = l->hidden, A = l->heads / t * l->head_dim,
		       G = l->kv_heads / t * l->head_dim, f = l->ffn / t;
	const uint64_t largest = h * most(most(A, G), f);
	const uint64_t side = t > 1 ? h : least(h, most(most(A, G), f));

	return 2 * up(e * largest) + 2 * up(e * side * side) + (e == 4 ? 0 : up(4 * side * side));
}

static uint64_t closed_form(const p4d_layout *l, uint64_t stage)
{
	const bool fp32 = l->precision == P4D_FP32, cpu = l->device == P4D_CPU;
	const bool first = stage == 0, last = stage == end_of(l) || l->local_loss;
	const uint64_t e = fp32 ? 4 : 2, d = l->head_dim, h = l->hidden / l->tp_y;
	const uint64_t b = l->micro_batch / l->tp_z, n = b * longest(l) / l->cp,
		       ns = l->sequence_parallel ? n / l->tp : n;
	const uint64_t a = l->heads / l->tp, A = a * d, G = l->kv_heads / l->tp * d, f = l->ffn / l->tp;
	const uint64_t shards = shards_of(l);
	const bool lora = l->finetune != P4D_TUNE_FULL, four_bits = l->finetune == P4D_TUNE_QLORA;
	const uint64_t quantized = four_bits ? l->stage_layers[stage] * h * (2 * A + 2 * G + 3 * f) : 0;
	const bool gradients = shares(l, P4D_SHARD_GRADIENTS), kept = !shares(l, P4D_SHARD_PARAMETERS);
	uint64_t layer, table, frozen_layer = 0, frozen_table = 0;
	const bool bytes = l->optimizer == P4D_ADAMW_8BIT, muon = l->optimizer == P4D_MUON;
	const uint64_t unit = (bytes ? 256 : 128) * shards;
	const uint64_t P = parameters(l, stage, true, unit, &layer, &table), shard = P / shards;
	const uint64_t frozen =
	    lora ? parameters(l, stage, false, kept ? 1 : unit, &frozen_layer, &frozen_table) : 0;
	/* the window has two layers, or one if a stage has one, and a table */
	const uint64_t window = least(2, l->stage_layers[stage]);
	const uint64_t between = (lora ? up(e * n * l->lora.rank) : 0) + up(e * n * dropped_features(l)) +
				 (four_bits ? up(e * h * most(A + 2 * G, 2 * f)) : 0);
	const uint64_t flight = in_flight(l, stage), S = up(e * ns * h), N = up(e * n * h);

	/* with all-gather, the keys of all ranks, and separately the queries of this rank; with a ring,
	 * its buffers */
	const bool gathers = l->cp > 1 && l->cp_comm == P4D_CP_ALL_GATHER;
	const uint64_t seen = l->seq_len + (gathers ? l->seq_len / l->cp : 0), all = n * l->cp;

	uint64_t always =
	    up(e * (P + frozen - quantized) / (kept ? 1 : shards)) +
	    (four_bits ? up(l->stage_layers[stage] * nf4_of_layer(l)) : 0) + up(4 * (gradients ? shard : P)) +
	    (gradients ? window * up(4 * layer) + up(4 * table) : 0) +
	    (kept ? 0 : window * up(e * (layer + frozen_layer)) + up(e * (table + frozen_table))) +
	    (fp32 ? 0 : up(4 * shard)) +
	    (bytes  ? bytes_of_moments(l, stage, shard)
	     : muon ? muon_moments(l, stage, shard, unit)
		    : 2 * up((l->half_moments ? 2 : 4) * shard)) +
	    up(4 * l->seq_len / l->cp * d) + up(4 * seen) + 65536 +
	    (!cpu   ? (32 << 20) + up(4 * most(256 * h, 128 * (A + 2 * G)))
	     : fp32 ? 0
		    : 3145728) +
	    (l->pp > 1 ? (l->local_loss ? 2 : 4) * S : 0);
	/* for whole sequences: tokens, documents (with slices also for the queries), keys, and gradients
	 * of keys */
	const bool sliced = l->slices > 1;
	const uint64_t whole = b * l->seq_len, copies = (sliced ? begun(l, stage) : flight) + 1;
	always += (uint64_t)(first + last) * copies * up(4 * whole / l->cp) +
		  copies * up(4 * b * (sliced ? 2 * l->seq_len : seen));
	const uint64_t documents = documents_of(l, A + 2 * G);
	if (documents) /* four rows for each call; every token may be a document */
		always += copies * up(4 * 4 * ((n - 1) / documents + 1) * (documents + 4));
	if (sliced)
		always += l->stage_layers[stage] *
			  (begun(l, stage) * up(e * whole * 2 * G) + up(4 * whole * 2 * G));
	/* with tp_z, the gathered matrices of two layers, and their gradients for the backward pass */
	const uint64_t matrices = 2 * h * (A + 2 * G + A + 3 * f);
	const uint64_t of_matrices = l->tp_z > 1 ? up(4 * matrices) : 0;
	always += l->tp_z > 1 ? up(e * matrices) : 0;

	uint64_t input = S,
		 rest = up(4 * ns) + up(e * n * (A + 2 * G)) + up(e * n * A) + up(4 * n * a) + S + up(4 * ns);
	uint64_t gate_up = up(e * n * 2 * f);
	if (l->qk_norm)
		rest += up(4 * n * (a + l->kv_heads / l->tp));
	uint64_t saved = input, again = 0;
	if (l->recompute == P4D_RECOMPUTE_FULL)
		again = rest + gate_up;
	else
		saved += rest;
	if (l->recompute == P4D_RECOMPUTE_MLP)
		again = gate_up;
	else if (l->recompute != P4D_RECOMPUTE_FULL)
		saved += gate_up;
	/* the outputs of two norms, and SwiGLU's output */
	const bool keeps = l->recompute == P4D_RECOMPUTE_KEEP;
	saved += keeps ? 2 * S + up(e * n * f) : 0;
	uint64_t slots = flight * (l->stage_layers[stage] / l->vpp * saved + (last ? S + up(4 * ns) : 0));

	uint64_t gathered = l->sequence_parallel ? N : 0, partial = l->tp > 1 ? N : 0;
	uint64_t row_sums = up(4 * n * a);
	uint64_t accumulator = fp32 || (!cpu && l->cp == 1 && !sliced) ? 0 : up(4 * n * (A + 2 * G));
	uint64_t scores = cpu ? 4 * 64 * (64 + 4 * d) : 0, workspace = cpu ? 4 * 64 * (2 * 64 + 5 * d) : 0;
	if (!cpu && !fp32) {
		scores =
		    most(attention_workspace(l, a, G / d, false), documents_workspace(l, a, G / d, false));
		workspace = sliced ? slices_workspace(l, a, G / d)
				   : most(attention_workspace(l, a, G / d, true),
					  documents_workspace(l, a, G / d, true));
	}
	uint64_t context = gathers     ? up(e * all * 2 * G)
			   : l->cp > 1 ? up(2 * e * n * 2 * G) + up(4 * n * A) + up(4 * n * a)
				       : 0;
	uint64_t context_back = gathers     ? up(e * all * 2 * G) + up(4 * all * 2 * G)
				: l->cp > 1 ? up(2 * e * n * 2 * G) + up(3 * 4 * n * 2 * G)
					    : 0;
	/* a chunk has the logits of at most 4,096 tokens (1,024 on CPUs) and 1 GiB; all chunks have the
	 * same size */
	uint64_t V = (l->vocab / l->tp + 7) / 8 * 8, fit = (1 << 30) / (e * V) / 128 * 128;
	uint64_t chunks = (n - 1) / most(128, least(fit, cpu ? 1024 : 4096)) + 1;
	uint64_t chunk = ((n - 1) / chunks / 128 + 1) * 128;

	uint64_t hidden = 3 * S + partial + 2 * gathered + (l->tp_y > 1 ? up(4 * ns) : 0);
	uint64_t forward = (keeps ? 0 : up(e * n * f)) + scores + context + again + between + of_matrices;
	uint64_t backward_ffn = (keeps ? 1 : 2) * up(e * n * f) + again + between + of_matrices;
	uint64_t backward_attention = between + of_matrices + up(e * n * A) + up(e * n * (A + 2 * G)) +
				      accumulator + row_sums + workspace + context_back +
				      (l->recompute == P4D_RECOMPUTE_FULL ? rest : 0);
	uint64_t head = last ? up(e * (chunk < n ? chunk : n) * V) + up(12 * n) : 0;
	head += last && l->pairs ? up(8 * b * 4) + up(4 * n) : 0;
	uint64_t transient = hidden + most(most(forward, backward_ffn), most(backward_attention, head));
	/* activations are free during the update */
	return always + most(slots + transient, muon ? muon_transient(l, e) : 0);
}

/* Replaces tp by a grid with the same number of ranks, if p4d-train supports one. */
static bool in_a_grid(p4d_layout *l)
{
	const p4d_framework *p4d = p4d_framework_of(P4D_FRAMEWORK_P4D);
	const uint64_t x = PICK(1, 2, 4), y = PICK(1, 2, 4), tp = l->tp;

	if (tp % (x * y) || x == tp || l->finetune != P4D_TUNE_FULL ||
	    !p4d_layout_grid_works(l, (p4d_tp_grid){x, y, tp / x / y}))
		return false;
	p4d_layout_put_grid(l, (p4d_tp_grid){x, y, tp / x / y});
	l->sequence_parallel = l->sequence_parallel && x > 1;
	return p4d->check_layout(l, NULL) == 0;
}

static void grids_equal_the_closed_form(void **state)
{
	unsigned count = 0, split[2] = {0};
	static p4d_layout l;
	static p4d_plan plan;

	(void)state;
	while (count < 1000) {
		if (!random_layout(&l, -1) || l.vocab_parallel || l.tp == 1 ||
		    (l.schedule == P4D_V_HALF && l.micro_batches < l.pp + 2) || !in_a_grid(&l))
			continue;
		const uint32_t stage = (uint32_t)draw(l.pp);
		assert_int_equal(p4d_plan_build(&l, &h100, stage, &plan, NULL), 0);
		const uint64_t expected = closed_form(&l, stage);
		if (plan.arena_bytes != expected)
			fail_msg("stage %u of %d, schedule %d, recompute %d, grid %d,%d,%d, cp %d (%d): plan "
				 "%llu, closed form %llu",
				 stage, (int)l.pp, l.schedule, l.recompute, (int)l.tp, (int)l.tp_y,
				 (int)l.tp_z, (int)l.cp, l.cp_comm, (unsigned long long)plan.arena_bytes,
				 (unsigned long long)expected);
		split[0] += l.tp_y > 1;
		split[1] += l.tp_z > 1;
		count++;
	}
	printf("%u grids, %u with Y, %u with Z\n", count, split[0], split[1]);
	assert_true(split[0] > 200 && split[1] > 200);
}

static void equals_the_closed_form(void **state)
{
	unsigned count = 0, each[P4D_SCHEDULES] = {0}, gathered = 0, adapted = 0, sliced = 0, local = 0,
		 halved = 0;
	unsigned sharded = 0, copied = 0, coded = 0, orthogonal = 0, packed = 0;
	static p4d_layout l;
	static p4d_plan plan;

	(void)state;
	while (count < 2000 * P4D_SCHEDULES) {
		if (!random_layout(&l, -1) || l.vocab_parallel ||
		    (l.schedule == P4D_V_HALF && l.micro_batches < l.pp + 2))
			continue;
		uint32_t stage = (uint32_t)draw(l.pp);
		l.document_len = PICK(0, 30, 500, 100000);
		packed += documents_of(&l, 1) > 0;
		assert_int_equal(p4d_plan_build(&l, &h100, stage, &plan, NULL), 0);
		uint64_t expected = closed_form(&l, stage);
		if (plan.arena_bytes != expected)
			fail_msg(
			    "stage %u of %d, schedule %d, recompute %d, tp %d, cp %d (%d): plan %llu, closed "
			    "form %llu",
			    stage, (int)l.pp, l.schedule, l.recompute, (int)l.tp, (int)l.cp, l.cp_comm,
			    (unsigned long long)plan.arena_bytes, (unsigned long long)expected);
		each[l.schedule]++;
		gathered += l.cp_comm == P4D_CP_ALL_GATHER;
		adapted += l.finetune == P4D_TUNE_LORA;
		halved += l.finetune == P4D_TUNE_QLORA;
		coded += l.optimizer == P4D_ADAMW_8BIT;
		orthogonal += l.optimizer == P4D_MUON;
		sliced += l.slices > 1;
		sharded += shares(&l, P4D_SHARD_PARAMETERS);
		copied += l.shard_degree && shares(&l, P4D_SHARD_GRADIENTS);
		local += l.local_loss;
		count++;
	}
	printf("%u configurations, keys gathered in %u; per schedule:", count, gathered);
	for (int schedule = 0; schedule < P4D_SCHEDULES; schedule++) {
		printf(" %u", each[schedule]);
		assert_true(each[schedule] > 500);
	}
	printf("\n");
	assert_true(gathered > 1000 && adapted > 1000 && halved > 300 && coded > 300 && orthogonal > 300 &&
		    sliced > 300 && sharded > 1000 && copied > 100 && local > 100 && packed > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equals_the_closed_form),
	    cmocka_unit_test(grids_equal_the_closed_form),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
