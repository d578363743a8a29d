/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/data/models.jsonl (tests/parity/make_models.py): configs of published models with their parameters
 * as the transformers library counts them, or as their repository shows. p4d must count as many parameters
 * in each config, and the preset of that name must be the same model.
 */
#include "support/support.h"

#include <inttypes.h>
#include <json-c/json.h>

#include "model/model.h"

enum { LINE = 4096, FEWEST = 120 };

/* Number of parameters by which p4d's count may differ from the published count. 0 for all other models. */
static uint64_t tolerance(const char *name)
{
	/* p4d leaves out a gate of the shared experts: 2048 elements a layer */
	if (!strcmp(name, "qwen1.5-moe"))
		return 24 * 2048;
	/* ModernBERT's first layer has no norm before attention */
	return !strncmp(name, "modernbert", 10) ? 1024 : 0;
}

static const char *text_of(struct json_object *object, const char *key)
{
	const char *text = json_object_get_string(json_object_object_get(object, key));

	assert_non_null(text);
	return text;
}

static p4d_request read_config(struct json_object *model)
{
	const char *config =
	    json_object_to_json_string_ext(json_object_object_get(model, "config"), JSON_C_TO_STRING_PLAIN);
	p4d_request request = {0};
	p4d_error err = {0};

	if (p4d_model__parse(config, strlen(config), text_of(model, "name"), &request, NULL, &err) < 0)
		fail_msg("%s", err.text);
	if (*request.unmodelled)
		fail_msg("%s: %s", text_of(model, "name"), request.unmodelled);
	return request;
}

static void check_count(struct json_object *model, const p4d_request *request)
{
	const uint64_t counted = p4d_model_parameters(request),
		       published =
			   (uint64_t)json_object_get_int64(json_object_object_get(model, "parameters"));
	const char *name = text_of(model, "name");
	const uint64_t off = counted > published ? counted - published : published - counted;

	if (off > tolerance(name))
		fail_msg("%s: published %" PRIu64 ", counted %" PRIu64, name, published, counted);
}

/* Checks that a preset has the values of its model's config. */
static bool check_preset(const char *name, const p4d_request *config)
{
	p4d_request preset = {0};
	p4d_error err = {0};

	assert_int_equal(p4d_request_set(&preset, P4D_MODEL, name, P4D_BY_USER, &err), 0);
	if (p4d_model_resolve(&preset, NULL, NULL, &err) < 0)
		return false;
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		if (!(info->where & P4D_WHERE_MODEL) || info->kind == P4D_DECIMAL_KIND ||
		    info->kind == P4D_TEXT_KIND || i == P4D_MAX_SEQ_LEN || i == P4D_STORED)
			continue;
		if (preset.value[i] != config->value[i])
			fail_msg("%s: %s is %lld, its config says %lld", name, info->name,
				 (long long)preset.value[i], (long long)config->value[i]);
	}
	assert_string_equal(preset.layer_pattern, config->layer_pattern);
	return true;
}

static void models_have_published_parameters(void **state)
{
	const char *folder = getenv("P4D_TEST_DATADIR");
	char path[512], line[LINE];
	int models = 0, presets = 0;

	(void)state;
	snprintf(path, sizeof(path), "%s/../tests/data/models.jsonl", folder ? folder : "etc");
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		struct json_object *model = json_tokener_parse(line);
		assert_non_null(model);
		const p4d_request request = read_config(model);
		check_count(model, &request);
		presets += check_preset(text_of(model, "name"), &request);
		models++;
		json_object_put(model);
	}
	fclose(file);
	assert_true(models >= FEWEST);
	assert_true(presets >= FEWEST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(models_have_published_parameters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
