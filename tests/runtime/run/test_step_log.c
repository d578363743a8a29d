/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a run: JSON lines, and the line on a terminal. */
#include "support/support.h"

#include <json-c/json.h>
#include <math.h>
#include <unistd.h>

#include "cost/cost.h"
#include "request/architecture.h"
#include "run/step_log.h"

static const p4d_flops on_gpu = {.model = 4e14, .full_attention = 5e14, .peak = 1e15};
static const p4d_flops on_cpu = {.model = 4e9, .full_attention = 5e9};

static p4d_step_record a_step(void)
{
	return (p4d_step_record){.step = 5,
				 .steps = 20,
				 .loss = 2.5,
				 .gradient_norm = 0.75,
				 .learning_rate = 3e-4,
				 .seconds = 2,
				 .left = 3661,
				 .tokens = 4096,
				 .memory_bytes = UINT64_C(3) << 29,
				 .kind = P4D_LOSS_FINE,
				 .applied = true};
}

static double number(struct json_object *object, const char *name)
{
	struct json_object *member;

	if (!json_object_object_get_ex(object, name, &member))
		fail_msg("no %s", name);
	return member ? json_object_get_double(member) : NAN;
}

static void test_json(void **state)
{
	p4d_step_record r = a_step();
	char line[P4D_LINE_MOST];

	(void)state;
	struct json_object *object = json_tokener_parse(p4d_step_json(&r, &on_gpu, line, sizeof(line)));
	assert_non_null(object);
	assert_int_equal(line[strlen(line) - 1], '\n');
	assert_true(number(object, "loss") == 2.5 && number(object, "step") == 5);
	assert_true(number(object, "tokens_per_second") == 2048);
	assert_true(fabs(number(object, "mfu") - 0.2) < 1e-12);
	assert_true(fabs(number(object, "mfu_full_attention") - 0.25) < 1e-12);
	assert_true(fabs(number(object, "model_tflops") - 200) < 1e-9);
	json_object_put(object);

	/* values that are unknown or not finite */
	r.loss = NAN;
	r.gradient_norm = INFINITY;
	r.left = -1;
	r.kind = P4D_LOSS_NOT_FINITE;
	r.applied = false;
	object = json_tokener_parse(p4d_step_json(&r, &on_cpu, line, sizeof(line)));
	assert_non_null(object);
	assert_true(isnan(number(object, "loss")) && isnan(number(object, "gradient_norm")));
	assert_true(isnan(number(object, "mfu")) && isnan(number(object, "seconds_left")));
	json_object_put(object);
}

static void test_longest_json_fits(void **state)
{
	p4d_step_record r = {
	    .step = UINT64_MAX,
	    .steps = UINT64_MAX,
	    .loss = -1.23456789012345e-300,
	    .gradient_norm = -1.23456789012345e-300,
	    .learning_rate = -1.23456789012345e-300,
	    .seconds = 1.23456789012345e-300,
	    .left = 1.23456789012345e-300,
	    .tokens = UINT64_MAX,
	    .nonfinite = UINT64_MAX,
	    .memory_bytes = UINT64_MAX,
	    .kind = P4D_LOSS_NOT_FINITE,
	};
	char line[P4D_LINE_MOST];

	(void)state;
	p4d_step_json(&r, &on_gpu, line, sizeof(line));
	assert_string_equal(line + strlen(line) - 2, "}\n");
}

static void test_text(void **state)
{
	p4d_step_record r = a_step();
	char line[P4D_LINE_MOST];

	(void)state;
	assert_string_equal(p4d_step_text(&r, &on_cpu, 200, line, sizeof(line)),
			    "step 5/20  loss 2.5000  2048 tokens/s  1.50 GiB  1:01:01 left");
	assert_string_equal(p4d_step_text(&r, &on_gpu, 200, line, sizeof(line)),
			    "step 5/20  loss 2.5000  2048 tokens/s  MFU 20.0 % (25.0 % full attention)  "
			    "1.50 GiB  1:01:01 left");
	r.kind = P4D_LOSS_SPIKE;
	r.left = 62;
	assert_non_null(strstr(p4d_step_text(&r, &on_cpu, 200, line, sizeof(line)), "2.5000 (spike)"));
	assert_non_null(strstr(line, "1:02 left"));
	r.applied = false;
	assert_non_null(strstr(p4d_step_text(&r, &on_cpu, 200, line, sizeof(line)), "(skipped)"));
	assert_int_equal(strlen(p4d_step_text(&r, &on_cpu, 30, line, sizeof(line))), 29);
}

static void test_flops(void **state)
{
	p4d_layout l = {.architecture = &p4d_architectures[P4D_ARCHITECTURE_LLAMA],
			.layers = 2,
			.hidden = 64,
			.ffn = 128,
			.heads = 4,
			.kv_heads = 4,
			.head_dim = 16,
			.vocab = 256,
			.glu = true,
			.world = 8,
			.seq_len = 100,
			.global_batch = 3,
			.device = P4D_CUDA,
			.precision = P4D_BF16};
	p4d_gpu gpu = {.peak_bf16_flops = 1e15};

	(void)state;
	p4d_flops flops = p4d_step_log_flops(&l, &gpu);
	/* calculated by hand: q, k, v, o; gate, up, down; the head */
	double matrices = 2 * (4 * 64 * 64 + 3 * 64 * 128) + 256 * 64, causal = 6.0 * 2 * 64 * 100;
	assert_true(fabs(flops.model / (300 * (6 * matrices + causal)) - 1) < 1e-12);
	assert_true(fabs(flops.full_attention / (300 * (6 * matrices + 2 * causal)) - 1) < 1e-12);
	assert_true(flops.peak == 8e15);
	assert_true(p4d_step_log_flops(&l, NULL).peak == 0);
}

static void test_file(void **state)
{
	char path[] = "/tmp/p4d-log-XXXXXX", text[4096];
	p4d_step_record r = a_step();
	p4d_step_event event;
	p4d_step_log log;
	p4d_error err;

	(void)state;
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	for (int i = 0; i < 2; i++) { /* the second run appends */
		assert_int_equal(p4d_step_log_open(&log, path, &on_cpu, &err), 0);
		p4d_step_log_step(&log, &r);
		assert_true(r.left == 2 * 15);
		p4d_text *json = p4d_step_event_begin(&event, "validation");
		p4d_json_text_string(json, "device_text", "a \"GPU\" of\\ours");
		p4d_json_text_real(json, "loss", 3);
		p4d_step_log_event(&log, &event, NULL);
		/* an event that is too long must give no line at all, not half a line */
		json = p4d_step_event_begin(&event, "long");
		for (int j = 0; j < P4D_LINE_MOST; j++)
			p4d_json_text_whole(json, "j", 1);
		p4d_step_log_event(&log, &event, NULL);
		p4d_step_log_close(&log);
	}
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	for (int i = 0; i < 4; i++) {
		assert_non_null(fgets(text, sizeof(text), file));
		struct json_object *object = json_tokener_parse(text);
		assert_non_null(object);
		assert_true(number(object, "loss") == (i % 2 ? 3 : 2.5));
		json_object_put(object);
	}
	assert_null(fgets(text, sizeof(text), file));
	fclose(file);
	unlink(path);
	assert_int_equal(p4d_step_log_open(&log, "/nonexistent/log", &on_cpu, &err), -1);
	assert_int_equal(err.code, P4D_E_IO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_json), cmocka_unit_test(test_longest_json_fits),
	    cmocka_unit_test(test_text), cmocka_unit_test(test_flops),
	    cmocka_unit_test(test_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
