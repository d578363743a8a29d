/* SPDX-License-Identifier: Apache-2.0 */
/* The table of weights has all parameters of the plan. Each element of the model is on the ranks that
 * should have it, and on no other. */
#include "support/support.h"

#include "plan/parameters.h"
#include "support/training.h"

#define MODEL \
	"model=custom layers=8 hidden=16 ffn=24 heads=4 kv-heads=2 head-dim=4 vocab=37 seq-len=32 " \
	"global-batch=8 precision=fp32 micro-batch=1 "

enum { VOCAB = 37, TENSORS = 256, ELEMENTS = 37 * 16 };

/* How often the test saw each element of a named tensor. */
typedef struct seen {
	char name[96];
	uint64_t count;
	unsigned times[ELEMENTS];
} seen;

static seen tensors[TENSORS];
static unsigned tensor_count;

static seen *seen_of(const p4d_weight_slice *p)
{
	const uint64_t count = p->tensor_rows * (p->tensor_columns ? p->tensor_columns : 1);

	for (unsigned i = 0; i < tensor_count; i++)
		if (!strcmp(tensors[i].name, p->name)) {
			assert_int_equal(tensors[i].count, count);
			return &tensors[i];
		}
	assert_true(tensor_count < TENSORS && count <= ELEMENTS);
	seen *s = &tensors[tensor_count++];
	memset(s, 0, sizeof(*s));
	snprintf(s->name, sizeof(s->name), "%.95s", p->name);
	s->count = count;
	return s;
}

static void see(const p4d_weight_slice *p)
{
	seen *s = seen_of(p);
	const uint64_t width = p->tensor_columns ? p->tensor_columns : 1;

	for (uint64_t r = p->first_row; r < p->first_row + p->rows; r++)
		for (uint64_t c = p->first_column; c < p->first_column + p->columns; c++) {
			assert_true(r < p->tensor_rows && c < width);
			s->times[r * width + c]++;
		}
}

/* Checks that the pieces of a weight follow each other, from `at` on. Returns the end of the last one. */
static uint64_t look_at_weight(const p4d_layout *l, p4d_place place, const p4d_weights *w,
			       const p4d_weight *weight, uint64_t at)
{
	p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT];
	const unsigned count = p4d_weight_slices_of(l, place, VOCAB, weight, slices);
	const uint64_t end = at + weight->rows * weight->columns;

	assert_int_equal(weight->offset, at);
	assert_ptr_equal(p4d_weights__find(w, weight->kind, weight->layer), weight);
	for (unsigned p = 0; p < count; p++) {
		assert_int_equal(slices[p].offset, at);
		at += slices[p].rows * slices[p].columns;
		see(&slices[p]);
	}
	assert_true(at <= end);
	return end;
}

/* Checks that segments follow each other. */
static void look_at(const p4d_layout *l, p4d_place place)
{
	const p4d_schedule schedule = p4d_schedule_of(l);
	p4d_weights w;
	uint64_t at = 0;

	assert_int_equal(p4d_weights_open(&w, l, place.pp, NULL), 0);
	assert_int_equal(w.elements, p4d_parameters_padded(l, &schedule, place.pp));
	assert_int_equal(w.segments, (l->device == P4D_CPU ? l->vpp : l->stage_layers[place.pp]) +
					 (l->vocab_parallel ? 1 : 0));
	for (uint32_t i = 0; i < w.segments; i++) {
		const p4d_segment *s = &w.segment[i];
		assert_int_equal(s->offset, at);
		for (uint32_t k = s->first_weight; k < s->first_weight + s->weights; k++) {
			assert_true(k < w.trained && !w.weight[k].frozen);
			at = look_at_weight(l, place, &w, &w.weight[k], at);
		}
		assert_int_equal(s->elements, at - s->offset);
		at = s->offset + s->padded;
	}
	assert_int_equal(at, w.elements);
	assert_int_equal(w.frozen, p4d_parameters_frozen(l, &schedule, place.pp));
	assert_true(w.trained == w.count || l->finetune == P4D_TUNE_LORA);
	for (uint32_t k = w.trained; k < w.count; k++) { /* frozen weights come after the trained ones */
		assert_true(w.weight[k].frozen);
		at = look_at_weight(l, place, &w, &w.weight[k], at);
	}
	assert_int_equal(at, w.elements + w.frozen);
	p4d_weights_close(&w);
}

static void every_element_has_its_place(void **state)
{
	static const struct {
		const char *options;
		unsigned of_layer, others; /* number of tensors of a layer, and outside of layers */
	} models[] = {
	    {"tied=off bias=none qk-norm=off", 9, 3},
	    {"tied=on bias=qkv qk-norm=on", 9 + 3 + 2, 2},
	    {"tied=off bias=none qk-norm=off finetune=lora lora-rank=1", 9 + 2 * 7, 3},
	    {"tied=on bias=none qk-norm=on finetune=lora lora-rank=5 lora-targets=q_proj,v_proj,down_proj",
	     9 + 2 + 2 * 3, 2}};
	enum { MODELS = sizeof(models) / sizeof(*models) };
	static const struct {
		uint32_t ranks;
		const char *options;
	} layouts[] = {
	    {1, "tp=1 cp=1 pp=1 vpp=1"},
	    {4, "tp=2 cp=1 pp=1 vpp=1"},
	    {4, "tp=1 cp=1 pp=4 vpp=1 pipeline-split=1,2,3,2"},
	    {4, "tp=2 cp=1 pp=2 vpp=2 schedule=interleaved"},
	    {4, "tp=1 cp=1 pp=4 vpp=2 schedule=zbv"},
	    {8, "tp=2 cp=1 pp=4 vpp=1 schedule=1f1b vocab-parallel=vocab-1"},
	    {8, "tp=2 cp=2 pp=2 vpp=2 schedule=v-half vocab-parallel=vocab-2"},
	    {4, "tp=4 tp-grid=2,2,1 cp=1 pp=1 vpp=1"},
	    {4, "tp=4 tp-grid=1,1,4 cp=1 pp=1 vpp=1 micro-batch=4"},
	    {8, "tp=8 tp-grid=2,2,2 cp=1 pp=1 vpp=1 micro-batch=2"},
	    {8, "tp=4 tp-grid=1,2,2 cp=1 pp=2 vpp=2 schedule=interleaved micro-batch=2"},
	};
	static p4d_layout l;
	char options[1024];
	p4d_error err;

	(void)state;
	for (size_t m = 0; m < MODELS * sizeof(layouts) / sizeof(*layouts); m++) {
		const size_t i = m / MODELS;
		if (strstr(layouts[i].options, "tp-grid") && strstr(models[m % MODELS].options, "lora"))
			continue; /* p4d refuses this layout */
		snprintf(options, sizeof(options), MODEL "%s %s", models[m % MODELS].options,
			 layouts[i].options);
		if (training_layout(options, layouts[i].ranks, &l, &err) < 0)
			fail_msg("%s: %s", options, err.text);
		tensor_count = 0;
		for (uint32_t rank = 0; rank < l.world; rank++) {
			const p4d_place place = p4d_place_of(&l, rank);
			assert_int_equal(p4d_place_rank(&l, place), rank);
			if (!place.cp && !place.dp)
				look_at(&l, place);
		}
		assert_int_equal(tensor_count, 8 * models[m % MODELS].of_layer + models[m % MODELS].others);
		for (unsigned t = 0; t < tensor_count; t++) {
			const char *name = tensors[t].name;
			const bool cuts_in = strstr(name, "o_proj") || strstr(name, "down_proj");
			const bool whole =
			    strstr(name, "norm") || strstr(name, cuts_in ? "lora_B" : "lora_A");
			const bool table = strstr(tensors[t].name, "embed_tokens");
			const bool both_ends =
			    l.tied && !l.vocab_parallel && l.pp > 1 && !p4d_is_v_shaped(l.schedule);
			const bool of_heads = strstr(name, "q_norm") || strstr(name, "k_norm"),
				   bias = strstr(name, ".bias");
			/* number of ranks with a copy: of vectors of one head; of hidden vectors; of
			 * columns; of parts that Z shards; of all other parts */
			const uint64_t copies = of_heads ? l.tp * l.tp_y * l.tp_z
						: whole  ? l.tp * l.tp_z
						: bias   ? l.tp_y * l.tp_z
						: table || strstr(name, "lm_head")
						    ? l.tp_z * (table && both_ends ? 2 : 1)
						    : 1;
			const unsigned times = (unsigned)copies;
			for (uint64_t k = 0; k < tensors[t].count; k++)
				if (tensors[t].times[k] != times)
					fail_msg("%s: %s[%d] %u times, not %u", options, tensors[t].name,
						 (int)k, tensors[t].times[k], times);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_element_has_its_place)};

	return cmocka_run_group_tests_name("weights", tests, NULL, NULL);
}
