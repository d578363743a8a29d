/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints restore each value, from any layout to any other layout and to Hugging Face's files. */
#include "support/support.h"

#include <math.h>
#include <xxhash.h>

#include "checkpoint/huggingface.h"
#include "model/model.h"
#include "model/rope.h"
#include "support/checkpoint_ranks.h"
#include "support/whole_checkpoint.h"

static void load_all(test_job *job, const char *path, uint64_t salt, uint64_t step)
{
	p4d_checkpoint_info info;
	uint64_t equal = 0;
	p4d_error err;

	for (uint32_t i = 0; i < job->world; i++) {
		test_rank *rank = &job->rank[i];
		if (p4d_checkpoint_load(path, &rank->storage, &info, &err) < 0)
			fail_msg("%s", err.text);
		uint64_t wrong = compare_rank(rank, salt, &equal);
		if (wrong)
			fail_msg("rank %u: %llu elements are wrong\nsaved on  %s\nloaded on %s", i,
				 (unsigned long long)wrong, info.plan, job->plan);
	}
	assert_true(equal > 0);
	assert_int_equal(info.step, step);
	assert_int_equal(info.consumed, step * 96);
	assert_true(info.seed == UINT64_MAX - step);
	assert_int_equal(info.document_mask, step & 1);
	assert_string_equal(info.data, "0.3 a/\"b\" 0.7 c");
	assert_int_equal(info.samples, info.seed ^ 1);
}

static void any_layout_to_any_other(void **state)
{
	char path[P4D_PATH];

	(void)state;
	for (uint64_t step = 1; step <= 30; step++) {
		const char *model = step % 4 ? random_model() : ADAPTERS, *dir = in_directory("any");
		test_job *from = random_job(model);
		fill_job(from, step);
		save_job(from, dir, step);
		assert_int_equal(p4d_checkpoint_path(dir, step, path, sizeof(path), NULL), 0);
		if (step % 10 == 0)
			assert_int_equal(read_whole_checkpoint(path, NULL), 0);
		for (int i = 0; i < 5; i++) {
			test_job *to = random_job(model);
			/* only the same layout also restores the padding */
			if (strcmp(from->plan, to->plan) != 0) {
				p4d_checkpoint_map map;
				assert_int_equal(p4d_checkpoint_map__open(&map, from->plan, false, NULL), 0);
				if (!p4d_checkpoint_map__same_storage(&map, &to->layout))
					load_all(to, path, step, step);
				p4d_checkpoint_map__close(&map);
			}
			close_job(to);
		}
		close_job(from);
		assert_int_equal(p4d_checkpoint__remove_old(dir, 1, NULL), 0);
	}
}

/* All bits of a value are restored, also those of NaNs and of padding. */
static void same_layout_keeps_every_bit(void **state)
{
	(void)state;
	for (uint64_t step = 1; step <= 10; step++) {
		test_job *job = random_job(step % 5 ? random_model() : ADAPTERS);
		char path[P4D_PATH];
		uint64_t random = step;
		for (uint32_t i = 0; i < job->world; i++) {
			p4d_place place = job->rank[i].storage.place;
			/* without a sharded optimizer, all ranks of a group have the same values */
			if (!job->layout.optimizer_sharding)
				random = step * 1000 + place.tp + 10 * place.pp;
			for (p4d_state s = 0; s < P4D_MOST_STATES; s++)
				for (uint64_t k = 0; k < job->rank[i].elements; k++) {
					uint32_t bits = (uint32_t)next_random(&random);
					memcpy(&job->rank[i].state[s][k], &bits, sizeof(bits));
				}
		}
		save_job(job, in_directory("same"), step);
		assert_int_equal(p4d_checkpoint_path(in_directory("same"), step, path, sizeof(path), NULL),
				 0);
		for (uint32_t i = 0; i < job->world; i++) {
			test_rank *rank = &job->rank[i];
			size_t size = rank->elements * sizeof(float);
			float *before[P4D_MOST_STATES];
			for (p4d_state s = 0; s < P4D_MOST_STATES; s++) {
				before[s] = rank->state[s];
				rank->state[s] = calloc(1, size);
				assert_non_null(rank->state[s]);
			}
			p4d_checkpoint_info info;
			assert_int_equal(p4d_checkpoint_load(path, &rank->storage, &info, NULL), 0);
			for (p4d_state s = 0; s < P4D_MOST_STATES; s++) {
				assert_memory_equal(before[s], rank->state[s], size);
				free(before[s]);
			}
		}
		close_job(job);
	}
}

/* A GPU and CPUs with the same layout have different segments: layers on a GPU, chunks on CPUs. */
static void devices_have_segments_of_their_own(void **state)
{
	static const char *const options[] = {"framework=p4d device=cpu", "framework=p4d device=cuda"};
	const char *model =
		       SMALL_MODEL "tied=off bias=none qk-norm=off precision=fp32 seq-len=64 global-batch=4",
		   *dir = in_directory("devices");
	char path[P4D_PATH];

	(void)state;
	for (uint64_t step = 1; step <= 4; step++) {
		const uint32_t ranks = step > 2 ? 2 : 1;
		test_job *from = open_job(model, options[step % 2], ranks);
		test_job *to = open_job(model, options[1 - step % 2], ranks);
		assert_true(from && to);
		fill_job(from, step);
		save_job(from, dir, step);
		assert_int_equal(p4d_checkpoint_path(dir, step, path, sizeof(path), NULL), 0);
		load_all(to, path, step, step);
		close_job(to);
		close_job(from);
	}
}

/* Removes a text from the manifest, and writes the right checksum. */
static void cut_from_manifest(const char *path, const char *text)
{
	static const char ending[] = ",\n\"checksum\": \"";
	char name[P4D_PATH], manifest[8192], more[64];

	assert_int_equal(p4d_checkpoint__join_path(name, NULL, "%s/manifest.json", path), 0);
	FILE *file = fopen(name, "rb");
	assert_non_null(file);
	size_t size = fread(manifest, 1, sizeof(manifest), file);
	fclose(file);
	char *at = memmem(manifest, size, text, strlen(text));
	char *end = memmem(manifest, size, ending, strlen(ending));
	assert_true(at && end > at);
	memmove(at, at + strlen(text), (size_t)(end - at) - strlen(text));
	size = (size_t)(end - manifest) - strlen(text);
	snprintf(more, sizeof(more), "%s%016llx\"\n}\n", ending,
		 (unsigned long long)XXH3_64bits(manifest, size));
	file = fopen(name, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(manifest, 1, size, file), size);
	assert_true(fputs(more, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* Manifests from before the options cp-comm and document-mask. */
static void earlier_ones_are_read(void **state)
{
	const char *dir = in_directory("earlier");
	char path[P4D_PATH];
	p4d_request request;

	(void)state;
	test_job *job = open_job(SMALL_MODEL "tied=off bias=none qk-norm=off", "device=cpu cp=2", 2);
	test_job *other = open_job(SMALL_MODEL "tied=off bias=none qk-norm=off", "device=cpu tp=2", 2);
	assert_true(job && other);
	assert_int_equal(p4d_plan_read(job->plan, &request, NULL), 0);
	request.origin[P4D_CP_COMM] = P4D_UNSET;
	assert_int_equal(p4d_plan_write(&request, job->plan, sizeof(job->plan), NULL), 0);
	fill_job(job, 6);
	save_job(job, dir, 6);
	assert_int_equal(p4d_checkpoint_path(dir, 6, path, sizeof(path), NULL), 0);
	cut_from_manifest(path, "\"document_mask\": \"off\",\n");
	load_all(other, path, 6, 6);
	close_job(other);
	close_job(job);
}

static void other_models_are_refused(void **state)
{
	const char *dir = in_directory("model");
	p4d_checkpoint_info info = {.step = 77};
	char path[P4D_PATH];
	p4d_error err;

	(void)state;
	test_job *job = open_job(SMALL_MODEL "tied=off bias=none qk-norm=off", "device=cpu", 1);
	test_job *other = open_job(SMALL_MODEL "tied=on bias=none qk-norm=off", "device=cpu tp=2", 2);
	assert_true(job && other);
	save_job(job, dir, 1);
	assert_int_equal(p4d_checkpoint_path(dir, 1, path, sizeof(path), NULL), 0);
	assert_int_equal(p4d_checkpoint_load(path, &other->rank[0].storage, &info, &err), -1);
	assert_int_equal(err.code, P4D_E_CHECKPOINT);
	assert_non_null(strstr(err.text, "the checkpoint is of another model: tied is 0, expected 1"));
	assert_int_equal(info.step, 77);
	close_job(other);
	close_job(job);
}

/* Compares all elements of a tensor, whatever the slices are, so that a missing, misplaced or repeated
 * element is found. */
static void check_exported(const char *path, const test_job *job, uint64_t salt)
{
	p4d_safetensors *files;
	p4d_error err;
	uint64_t elements = 0, expected;

	if (p4d_safetensors__open(&files, path, &err) < 0)
		fail_msg("%s", err.text);
	for (size_t i = 0; i < p4d_safetensors__count(files); i++) {
		const p4d_safetensors_tensor *tensor = p4d_safetensors__at(files, i);
		const uint64_t name = hash_of(tensor->name);
		assert_int_equal(tensor->type, P4D_ST_F32);
		for (uint64_t k = 0; k < tensor->bytes / sizeof(float); k++, elements++) {
			float value;
			memcpy(&value, (const uint8_t *)tensor->data + k * sizeof(value), sizeof(value));
			if (value != value_of(name, k, P4D_STATE_MASTER, salt))
				fail_msg("%s[%llu] is wrong", tensor->name, (unsigned long long)k);
		}
	}
	const p4d_layout *l = &job->layout;
	uint64_t h = l->hidden, a = l->heads * l->head_dim, g = l->kv_heads * l->head_dim;
	expected =
	    l->layers * (2 * h * a + 2 * h * g + 3 * h * l->ffn + 2 * h +
			 (l->bias == P4D_BIAS_QKV ? a + 2 * g : 0) + (l->qk_norm ? 2 * l->head_dim : 0));
	expected += h + (l->tied ? 1 : 2) * job->vocab * h;
	assert_int_equal(elements, expected);
	assert_non_null(p4d_safetensors__find(files, "model.embed_tokens.weight"));
	assert_non_null(p4d_safetensors__find(files, "model.norm.weight"));
	const p4d_safetensors_tensor *query =
	    p4d_safetensors__find(files, "model.layers.11.self_attn.q_proj.weight");
	assert_true(query && query->dims == 2 && query->shape[0] == a && query->shape[1] == h);
	const p4d_safetensors_tensor *down =
	    p4d_safetensors__find(files, "model.layers.0.mlp.down_proj.weight");
	assert_true(down && down->shape[0] == h && down->shape[1] == l->ffn);
	assert_true(!p4d_safetensors__find(files, "lm_head.weight") == l->tied);
	p4d_safetensors__close(files);
}

/* config.json describes the model that was exported. */
static void check_config(const char *path, const char *plan)
{
	static const p4d_option same[] = {P4D_LAYERS,   P4D_HIDDEN,   P4D_FFN,          P4D_HEADS,
					  P4D_KV_HEADS, P4D_HEAD_DIM, P4D_VOCAB,        P4D_TIED,
					  P4D_BIAS,     P4D_QK_NORM,  P4D_NORM_EPSILON, P4D_ROPE_THETA};
	p4d_request stored, read = {.gpu = ""};
	char file[P4D_PATH];
	p4d_error err;

	assert_int_equal(p4d_plan_read(plan, &stored, NULL), 0);
	p4d_rope_default(&stored);
	assert_int_equal(p4d_checkpoint__join_path(file, NULL, "%s/config.json", path), 0);
	/* the transformers library has no class for this model */
	if (stored.value[P4D_BIAS] == P4D_BIAS_QKV && stored.value[P4D_QK_NORM]) {
		assert_int_equal(access(file, F_OK), -1);
		return;
	}
	assert_int_equal(p4d_request_set(&read, P4D_MODEL, path, P4D_BY_USER, NULL), 0);
	if (p4d_model_resolve(&read, "/nonexistent", NULL, &err) < 0)
		fail_msg("%s", err.text);
	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++)
		assert_int_equal(read.value[same[i]], stored.value[same[i]]);
	assert_string_equal(read.rope_scaling, stored.rope_scaling);
}

static void exported_models_say_what_they_are(void **state)
{
	static const char *const models[] = {
	    SMALL_MODEL "tied=off bias=none qk-norm=off",
	    SMALL_MODEL "tied=on bias=none qk-norm=off rope-theta=500000 rope-scaling=llama3,8,1,4,8192",
	    SMALL_MODEL "tied=on bias=qkv qk-norm=off rope-theta=1e6 norm-epsilon=1e-6",
	    SMALL_MODEL "tied=off bias=none qk-norm=on rope-scaling=linear,2.5 norm-epsilon=0.003",
	    SMALL_MODEL "tied=off bias=qkv qk-norm=on",
	};
	char checkpoint[P4D_PATH], path[P4D_PATH];
	p4d_error err;

	(void)state;
	for (uint64_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
		const char *dir = in_directory("models");
		test_job *job = open_or_fail(models[i], "device=cpu", 1);
		save_job(job, dir, i + 1);
		assert_int_equal(p4d_checkpoint_path(dir, i + 1, checkpoint, sizeof(checkpoint), NULL), 0);
		assert_int_equal(p4d_checkpoint__join_path(path, NULL, "%s/model-%d", test_directory, (int)i),
				 0);
		if (p4d_huggingface_export(checkpoint, path, P4D_ST_BF16, 0, &err) < 0)
			fail_msg("%s", err.text);
		check_config(path, job->plan);
		close_job(job);
	}
}

/* Expected values of imported weights. */
typedef struct imported {
	float (*round)(float);
	uint64_t salt, wrong;
} imported;

static void compare_imported(void *context, float *element, uint64_t name, uint64_t index, int state)
{
	imported *in = context;
	float expected = state == P4D_STATE_MASTER ? in->round(value_of(name, index, state, in->salt)) : 0;

	in->wrong += *element != expected;
}

static float as_it_is(float value)
{
	return value;
}

/* Rounds to 8 bits of mantissa, ties to even, by arithmetic alone. */
static float rounded(float value)
{
	int exponent;
	float mantissa = frexpf(value, &exponent);

	return ldexpf(rintf(mantissa * 256), exponent - 8);
}

static void import_all(test_job *job, const char *path, uint64_t salt, float (*round)(float))
{
	imported in = {.round = round, .salt = salt};
	p4d_error err;

	for (uint32_t i = 0; i < job->world; i++) {
		if (p4d_huggingface_import(path, &job->rank[i].storage, &err) < 0)
			fail_msg("%s", err.text);
		visit_rank(&job->rank[i], compare_imported, &in);
	}
	assert_int_equal(in.wrong, 0);
}

static void hugging_face_there_and_back(void **state)
{
	char checkpoint[P4D_PATH], whole[P4D_PATH], cut[P4D_PATH], index[P4D_PATH];
	p4d_error err;

	(void)state;
	for (uint64_t step = 1; step <= 6; step++) {
		const char *model = random_model(), *dir = in_directory("export");
		test_job *from = random_job(model), *to = random_job(model);
		fill_job(from, step);
		save_job(from, dir, step);
		assert_int_equal(p4d_checkpoint_path(dir, step, checkpoint, sizeof(checkpoint), NULL), 0);
		assert_int_equal(
		    p4d_checkpoint__join_path(whole, NULL, "%s/f32-%d", test_directory, (int)step), 0);
		assert_int_equal(
		    p4d_checkpoint__join_path(cut, NULL, "%s/bf16-%d", test_directory, (int)step), 0);
		assert_int_equal(
		    p4d_checkpoint__join_path(index, NULL, "%s/model.safetensors.index.json", cut), 0);
		if (p4d_huggingface_export(checkpoint, whole, P4D_ST_F32, 0, &err) < 0)
			fail_msg("%s", err.text);
		check_exported(whole, from, step);
		import_all(to, whole, step, as_it_is);
		if (p4d_huggingface_export(checkpoint, cut, P4D_ST_BF16, 10000, &err) < 0)
			fail_msg("%s", err.text);
		assert_int_equal(access(index, F_OK), 0);
		import_all(to, cut, step, rounded);
		assert_int_equal(p4d_huggingface_export(checkpoint, cut, P4D_ST_BF16, 0, &err), -1);
		assert_non_null(strstr(err.text, "already exists"));
		assert_int_equal(p4d_huggingface_export(checkpoint, cut, P4D_ST_F16, 0, &err), -1);
		assert_int_equal(err.code, P4D_E_VALUE);
		close_job(from);
		close_job(to);
	}
}

/* A tensor of one element for each type, and tensors that p4d refuses. */
static void half_precision_and_wrong_shapes(void **state)
{
	static const struct {
		uint16_t half;
		float value;
	} numbers[] = {{0x0000, 0},        {0x3c00, 1},          {0xc000, -2},
		       {0x7bff, 65504},    {0x0001, 0x1p-24f},   {0x83ff, -0x1.ff8p-15f},
		       {0x0400, 0x1p-14f}, {0x3555, 0x1.554p-2f}};
	const char *path = in_directory("half.safetensors");
	p4d_safetensors_writer *writer;
	p4d_error err;

	(void)state;
	test_job *job = open_job(SMALL_MODEL "tied=on bias=none qk-norm=off", "device=cpu", 1);
	test_rank *rank = &job->rank[0];
	p4d_checkpoint_map map;
	p4d_safetensors_tensor tensors[200];
	size_t count = 0;
	assert_non_null(job);
	assert_int_equal(p4d_checkpoint_map__open(&map, job->plan, false, NULL), 0);
	for (size_t i = 0; i < map.count; i++) {
		const p4d_weight_slice *slice = &map.slice[i].slice;
		tensors[count] = (p4d_safetensors_tensor){.name = slice->name, .type = P4D_ST_F16};
		tensors[count].dims = slice->tensor_columns ? 2 : 1;
		tensors[count].shape[0] = slice->tensor_rows;
		tensors[count++].shape[1] = slice->tensor_columns;
	}
	for (int wrong = 0; wrong < 4; wrong++) {
		p4d_safetensors_tensor *embedding = &tensors[0];
		assert_string_equal(embedding->name, "model.embed_tokens.weight");
		embedding->type = wrong == 1 ? P4D_ST_I16 : P4D_ST_F16;
		embedding->shape[0] = wrong == 2 ? job->vocab + 1 : job->vocab;
		assert_int_equal(p4d_safetensors__create(&writer, path, tensors + (wrong == 3),
							 count - (wrong == 3), NULL, NULL),
				 0);
		for (size_t i = wrong == 3; i < count; i++) {
			uint64_t size;
			assert_int_equal(p4d_safetensors__tensor_bytes(&tensors[i], &size, NULL), 0);
			for (uint64_t k = 0; k < size / 2; k++)
				assert_int_equal(
				    p4d_safetensors__write(writer, &numbers[k % 8].half, 2, NULL), 0);
		}
		assert_int_equal(p4d_safetensors__finish(writer, NULL, NULL), 0);
		int rc = p4d_huggingface_import(path, &rank->storage, &err);
		assert_int_equal(rc, wrong ? -1 : 0);
		if (wrong) {
			static const char *const text[] = {"", "is I16, expected F32, BF16 or F16",
							   "differs from the model's",
							   "no tensor model.embed_tokens.weight"};
			assert_int_equal(err.code, P4D_E_CHECKPOINT);
			assert_non_null(strstr(err.text, text[wrong]));
			continue;
		}
		const p4d_weight *weight = p4d_weights__find(&rank->weights, P4D_W_DOWN, 3);
		assert_non_null(weight);
		for (unsigned k = 0; k < 64; k++)
			assert_true(rank->state[P4D_STATE_MASTER][weight->offset + k] ==
				    numbers[k % 8].value);
	}
	p4d_checkpoint_map__close(&map);
	close_job(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(any_layout_to_any_other),
	    cmocka_unit_test(same_layout_keeps_every_bit),
	    cmocka_unit_test(devices_have_segments_of_their_own),
	    cmocka_unit_test(other_models_are_refused),
	    cmocka_unit_test(hugging_face_there_and_back),
	    cmocka_unit_test(half_precision_and_wrong_shapes),
	    cmocka_unit_test(exported_models_say_what_they_are),
	    cmocka_unit_test(earlier_ones_are_read),
	};

	return cmocka_run_group_tests(tests, make_quick_directory, remove_directory);
}
