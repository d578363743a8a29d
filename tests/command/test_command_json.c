/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of the command, as documented in p4d-json(5): names, types, and sums. */
#include "support/support.h"

#include <math.h>
#include <sys/wait.h>
#include <json-c/json.h>

#include "site/site.h"

enum { OUTPUT_BYTES = 1 << 20 };

/* Runs the p4d that was built with these arguments and parses its stdout. */
static struct json_object *run(int status, const char *arguments)
{
	const char *directory = getenv("P4D_TEST_BUILDDIR");
	char command[1024], *text = calloc(1, OUTPUT_BYTES);

	assert_non_null(text);
	snprintf(command, sizeof(command),
		 "P4D_DATADIR='%s' SLURM_CONF=/nonexistent/slurm.conf PATH=/nonexistent '%s/p4d' %s",
		 test_datadir(), directory ? directory : ".", arguments);
	FILE *from = popen(command, "r");
	assert_non_null(from);
	size_t length = fread(text, 1, OUTPUT_BYTES - 1, from);
	int ended = pclose(from);
	if (!WIFEXITED(ended) || WEXITSTATUS(ended) != status)
		fail_msg("%s: exit status %d instead of %d: %s", arguments, WEXITSTATUS(ended), status, text);
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *object = json_tokener_parse_ex(tokener, text, (int)length);
	if (!object || strspn(text + json_tokener_get_parse_end(tokener), "\n") !=
			   length - json_tokener_get_parse_end(tokener))
		fail_msg("%s: not one JSON value: %s", arguments, text);
	json_tokener_free(tokener);
	free(text);
	return object;
}

/* The member at a path such as "peak.stage" or "stages.0.parts", which must exist. NULL for null. */
static struct json_object *at(struct json_object *object, const char *path)
{
	char copy[128], *rest = copy;

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *key; (key = strsep(&rest, "."));) {
		if (json_object_is_type(object, json_type_array))
			object = json_object_array_get_idx(object, strtoul(key, NULL, 10));
		else if (!json_object_object_get_ex(object, key, &object))
			fail_msg("no %s in %s", key, path);
	}
	return object;
}

static uint64_t number(struct json_object *object, const char *path)
{
	struct json_object *member = at(object, path);

	if (!json_object_is_type(member, json_type_int))
		fail_msg("%s is no integer", path);
	return json_object_get_uint64(member);
}

static void assert_text(struct json_object *object, const char *path, const char *wanted)
{
	struct json_object *member = at(object, path);

	if (!json_object_is_type(member, json_type_string) ||
	    strcmp(json_object_get_string(member), wanted) != 0)
		fail_msg("%s is %s instead of \"%s\"", path, json_object_to_json_string(member), wanted);
}

static void assert_null_at(struct json_object *object, const char *path)
{
	if (at(object, path))
		fail_msg("%s is not null", path);
}

/* The object has exactly these keys, in this order. */
static void assert_keys(struct json_object *object, const char *keys)
{
	char text[1024] = "";

	json_object_object_foreach(object, key, value)
	{
		size_t used = strlen(text);
		(void)value;
		snprintf(text + used, sizeof(text) - used, "%s%s", used ? " " : "", key);
	}
	assert_string_equal(text, keys);
}

static uint64_t sum_of_parts(struct json_object *stage, uint64_t *allocated)
{
	uint64_t sum = 0;

	*allocated = 0;
	json_object_object_foreach(at(stage, "parts"), name, bytes)
	{
		sum += json_object_get_uint64(bytes);
		if (strcmp(name, "fragmentation") != 0 && strcmp(name, "context") != 0 &&
		    strcmp(name, "comm") != 0)
			*allocated += json_object_get_uint64(bytes);
	}
	return sum;
}

static void check_stages(struct json_object *object, uint64_t layers)
{
	struct json_object *stages = at(object, "stages");
	uint64_t most = 0, fullest = 0, all_layers = 0, allocated;

	for (size_t i = 0; i < json_object_array_length(stages); i++) {
		struct json_object *stage = json_object_array_get_idx(stages, i);
		assert_keys(stage, "stage layers phase allocated_bytes device_bytes parts phases");
		assert_keys(
		    at(stage, "parts"),
		    "params grads optimizer activations logits working_set graphs weight_grad_buffers "
		    "attention staging libraries fragmentation context comm");
		assert_keys(at(stage, "phases"), "init train step evaluation save resume");
		assert_int_equal(number(stage, "stage"), i);
		assert_true(sum_of_parts(stage, &allocated) == number(stage, "device_bytes"));
		assert_true(allocated == number(stage, "allocated_bytes"));
		if (number(stage, "device_bytes") > most) {
			most = number(stage, "device_bytes");
			fullest = i;
		}
		all_layers += number(stage, "layers");
	}
	assert_int_equal(all_layers, layers);
	assert_int_equal(number(object, "peak.stage"), fullest);
	assert_true(number(object, "peak.device_bytes") == most);
}

static double real(struct json_object *object, const char *path)
{
	struct json_object *member = at(object, path);

	if (!json_object_is_type(member, json_type_double))
		fail_msg("%s is no decimal", path);
	return json_object_get_double(member);
}

/* The members of a step agree with each other. */
static void assert_step(struct json_object *object)
{
	assert_keys(at(object, "step"), "seconds tokens_per_second_per_gpu tflops_per_gpu "
					"hardware_tflops_per_gpu mfu hfu bubble_fraction");
	const double tokens =
	    (double)number(object, "layout.global_batch") * (double)number(object, "layout.seq_len");
	const double each = tokens / (double)number(object, "layout.world") / real(object, "step.seconds");
	assert_true(fabs(real(object, "step.tokens_per_second_per_gpu") / each - 1) < 1e-3);
	assert_true(real(object, "step.mfu") > 0 && real(object, "step.mfu") <= real(object, "step.hfu"));
	assert_true(real(object, "step.hfu") < 1);
	/* TFLOP/s over MFU and hardware TFLOP/s over HFU give the same peak */
	const double peak = real(object, "step.tflops_per_gpu") / real(object, "step.mfu");
	const double again = real(object, "step.hardware_tflops_per_gpu") / real(object, "step.hfu");
	assert_true(fabs(peak / again - 1) < 1e-3);
}

/* The MFU and the lost fractions of the step add up to 1. */
static void assert_losses(struct json_object *object)
{
	double sum = real(object, "step.mfu");

	json_object_object_foreach(at(object, "losses"), name, loss)
	{
		(void)name;
		assert_true(json_object_get_double(loss) > -1e-3);
		sum += json_object_get_double(loss);
	}
	assert_keys(at(object, "losses"), "bubble gemm attention memory_bound tensor_comm context_comm host "
					  "pipeline_comm data_comm recompute optimizer");
	if (fabs(sum - 1) > 2e-3)
		fail_msg("losses and MFU add up to %.4f", sum);
}

static void estimate_has_the_documented_schema(void **state)
{
	struct json_object *object = run(0, "estimate --json --model llama2-13b --gpu h100 --tp 4 --pp 2 "
					    "--framework megatron --recompute full");

	(void)state;
	assert_keys(
	    object,
	    "model framework method gpu layout peak unvalidated stages step most_imbalance host defaults "
	    "verdict messages schema");
	assert_keys(at(object, "gpu"), "name usable_bytes");
	assert_step(object);
	assert_keys(at(object, "peak"), "stage phase allocated_bytes device_bytes capacity_bytes fraction");
	assert_keys(at(object, "layout"),
		    "tp cp pp dp ep etp vpp micro_batch eval_micro_batch global_batch "
		    "micro_batches seq_len "
		    "world nodes gpus_per_node recompute_layers cp_comm schedule "
		    "vocab_parallel local_loss recompute recompute_method sequence_parallel "
		    "optimizer_sharding precision device "
		    "cross_entropy swiglu attention dropout "
		    "te_wgrad grad_dtype optimizer_dtype master_dtype tp_comm_overlap overlap_p2p "
		    "overlap_dp allocator "
		    "account_for_embedding account_for_loss pipeline_split");
	assert_keys(at(object, "host"),
		    "needed_bytes granted_bytes rounding_bytes loading_bytes saving_bytes");
	assert_text(object, "model", "llama2-13b");
	assert_text(object, "framework", "megatron");
	assert_text(object, "method", "closed");
	assert_text(object, "gpu.name", "h100-80gb");
	assert_text(object, "layout.recompute", "full");
	assert_text(object, "layout.sequence_parallel", "on");
	assert_text(object, "verdict", "pass");
	assert_int_equal(number(object, "layout.tp"), 4);
	assert_int_equal(number(object, "layout.pp"), 2);
	assert_int_equal(number(object, "layout.world"), 8);
	assert_int_equal(number(object, "layout.pipeline_split.1"), 20);
	assert_int_equal(json_object_array_length(at(object, "stages")), 2);
	assert_int_equal(json_object_array_length(at(object, "messages")), 0);
	check_stages(object, 40);
	assert_true(number(object, "stages.0.parts.weight_grad_buffers") > 0);
	/* p4d does not model megatron's checkpoints: null, not 0 */
	assert_null_at(object, "host.needed_bytes");
	assert_null_at(object, "stages.0.phases.save");
	double fraction = json_object_get_double(at(object, "peak.fraction"));
	double exact =
	    (double)number(object, "peak.device_bytes") / (double)number(object, "gpu.usable_bytes");
	assert_true(fraction > exact - 0.0001 && fraction < exact + 0.0001);
	json_object_put(object);
}

static void estimate_names_who_decided(void **state)
{
	struct json_object *object = run(0, "estimate --json --model llama2-13b --gpu h100 --tp 8");

	(void)state;
	assert_text(object, "defaults.layers", "model");
	assert_text(object, "defaults.micro-batch", "p4d");
	assert_false(json_object_object_get_ex(at(object, "defaults"), "tp", NULL));
	assert_false(json_object_object_get_ex(at(object, "defaults"), "model", NULL));
	json_object_put(object);
}

static void estimate_without_gpu_has_no_verdict(void **state)
{
	struct json_object *object = run(0, "estimate --json --model llama2-13b --tp 8");

	(void)state;
	assert_null_at(object, "gpu");
	assert_null_at(object, "verdict");
	assert_null_at(object, "peak.fraction");
	check_stages(object, 40);
	json_object_put(object);
}

static void refused_estimate_has_a_message(void **state)
{
	struct json_object *object = run(12, "estimate --json --model llama2-70b --gpu h100 --tp 8");

	(void)state;
	assert_text(object, "verdict", "reject");
	assert_keys(at(object, "messages.0"), "code text fix");
	assert_text(object, "messages.0.code", "P4D012");
	assert_non_null(
	    strstr(json_object_get_string(at(object, "messages.0.fix")), "p4d estimate --model=llama2-70b"));
	assert_true(json_object_get_double(at(object, "peak.fraction")) > 1);
	json_object_put(object);
}

static void paper_describes_one_stage(void **state)
{
	struct json_object *object =
	    run(0, "estimate --json --model llama2-13b --gpu h100 --tp 4 --pp 2 --method paper");

	(void)state;
	assert_text(object, "method", "paper");
	assert_int_equal(json_object_array_length(at(object, "stages")), 1);
	/* with the paper's method, the capacity is the nominal memory */
	assert_true(number(object, "peak.capacity_bytes") == UINT64_C(80000000000));
	json_object_put(object);
}

static void errors_are_json_too(void **state)
{
	static const struct {
		int status;
		const char *arguments, *code;
	} cases[] = {
	    {1, "estimate --json --bogus", "P4D001"},
	    {1, "nosuch --json", "P4D001"},
	    {5, "estimate --model llama7b --tp 0 --json", "P4D005"},
	    {7, "plan --json --model nosuch --gpu h100", "P4D007"},
	    {13, "plan --json --model llama3.1-405b --gpu h100", "P4D013"},
	    {3, "check --json nosuch.sh", "P4D003"},
	    {3, "conf --json nosuch.conf", "P4D003"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json_object *object = run(cases[i].status, cases[i].arguments);
		assert_keys(object, "verdict messages schema");
		assert_text(object, "verdict", "error");
		assert_text(object, "messages.0.code", cases[i].code);
		json_object_put(object);
	}
}

static void plan_has_the_documented_schema(void **state)
{
	struct json_object *object = run(0, "plan --json --model llama2-70b --gpu h100 --nodes 8 --top 3");
	struct json_object *plans = at(object, "plans");

	(void)state;
	assert_keys(object, "model gpu global_batch plans considered seconds messages advice schema");
	assert_int_equal(json_object_array_length(plans), 3);
	assert_true(number(object, "considered") >= 3);
	assert_int_equal(number(object, "global_batch.sequences"), 1024);
	assert_int_equal(number(object, "global_batch.tokens"), 1024 * 4096);
	assert_text(object, "global_batch.by", "model");
	for (size_t i = 0; i < 3; i++) {
		struct json_object *plan = json_object_array_get_idx(plans, i);
		assert_keys(plan, "layout peak unvalidated stages step losses group flags plan");
		assert_step(plan);
		assert_true(number(plan, "group") >= 1 && number(plan, "group") <= i + 1);
		assert_true(number(plan, "stages.max_device_bytes") == number(plan, "peak.device_bytes"));
		assert_true(number(plan, "stages.min_device_bytes") <= number(plan, "peak.device_bytes"));
		assert_losses(plan);
		assert_int_equal(number(plan, "layout.world"), 64);
		assert_true(json_object_get_double(at(plan, "peak.fraction")) <= 0.97);
		assert_non_null(
		    strstr(json_object_get_string(at(plan, "flags")), "--p4d-model=llama2-70b --p4d-tp="));
	}
	json_object_put(object);
}

static void simulate_has_the_documented_schema(void **state)
{
	struct json_object *object = run(0, "simulate --json --model llama2-70b --gpu h100 --nodes 8 --tp 4 "
					    "--pp 4 --vpp 2 --global-batch 64");
	struct json_object *estimate = run(0, "estimate --json --model llama2-70b --gpu h100 --nodes 8 --tp "
					      "4 --pp 4 --vpp 2 --global-batch 64");
	double busy = 0;

	(void)state;
	assert_keys(object,
		    "model framework gpu layout unit step_time bubble_fraction step losses peak stages "
		    "messages schema");
	assert_text(object, "unit", "seconds");
	assert_step(object);
	assert_losses(object);
	assert_true(fabs(real(object, "step_time") / real(object, "step.seconds") - 1) < 1.1e-3);
	for (uint64_t i = 0; i < 4; i++) {
		struct json_object *stage = json_object_array_get_idx(at(object, "stages"), i);
		struct json_object *same = json_object_array_get_idx(at(estimate, "stages"), i);
		assert_keys(stage, "stage layers passes in_flight busy_fraction device_bytes fraction");
		assert_keys(at(stage, "in_flight"), "activation vocabulary");
		assert_true(number(stage, "device_bytes") == number(same, "device_bytes"));
		assert_int_equal(number(stage, "passes"), 2 * 2 * 16);
		/* the interleaved schedule has 2(p-r-1) + (v-1)p + 1 chunks in flight */
		assert_int_equal(number(stage, "in_flight.activation"), 2 * (4 - i - 1) + 4 + 1);
		busy += real(stage, "busy_fraction") / 4;
	}
	assert_true(fabs(busy + real(object, "bubble_fraction") - 1) < 1e-3);
	json_object_put(object);
	json_object_put(estimate);

	object = run(0, "simulate --json --model llama2-70b --pp 4 --global-batch 8");
	assert_text(object, "unit", "passes");
	assert_null_at(object, "step");
	assert_null_at(object, "losses");
	assert_null_at(object, "gpu");
	assert_true(fabs(real(object, "bubble_fraction") - 3.0 / 11) < 1e-4);
	assert_true(fabs(real(object, "step_time") - 33) < 1e-6);
	json_object_put(object);
}

static void check_has_the_documented_schema(void **state)
{
	static const char *const keys = "verdict would_reject judged changed mode partition model gpu layout "
					"peak unvalidated host not_known not_counted serving "
					"colocated plan read by_script messages advice";
	struct json_object *object =
	    run(0, "check --json -p x -N1 --gpus-per-node=h100:8 --p4d-model=llama13b --wrap=true");

	char with_schema[512];

	(void)state;
	snprintf(with_schema, sizeof(with_schema), "%s schema", keys);
	assert_keys(object, with_schema);
	assert_text(object, "verdict", "pass");
	assert_text(object, "model", "llama13b");
	assert_text(object, "gpu.name", "h100-80gb");
	assert_text(object, "messages.0.code", "P4D110");
	assert_true(json_object_get_boolean(at(object, "judged")));
	assert_int_equal(strncmp(json_object_get_string(at(object, "plan")), "p4d1:", 5), 0);
	json_object_put(object);

	object = run(13, "check --json -p x -N1 --gpus-per-node=h100:8 --p4d-model=llama13b : -p x -N1 "
			 "--gpus-per-node=h100:8 --p4d-model=llama2-70b --wrap=true");
	assert_keys(object, "verdict components schema");
	assert_text(object, "verdict", "reject");
	assert_keys(at(object, "components.1"), keys);
	assert_text(object, "components.0.verdict", "pass");
	assert_text(object, "components.1.messages.0.code", "P4D013");
	json_object_put(object);
}

static void lists_have_the_documented_schema(void **state)
{
	struct json_object *models = run(0, "models --json"), *gpus = run(0, "gpus --json");
	struct json_object *conf = run(0, "conf --json");
	bool found = false;

	(void)state;
	for (size_t i = 0; i < json_object_array_length(models); i++) {
		struct json_object *model = json_object_array_get_idx(models, i);
		assert_keys(
		    model,
		    "name aliases published_parameters parameters layers hidden ffn heads kv-heads head-dim "
		    "vocab max-seq-len global-batch source");
		if (!strcmp(json_object_get_string(at(model, "name")), "llama13b")) {
			found = true;
			assert_true(number(model, "parameters") == UINT64_C(13015864320));
		}
	}
	assert_true(found);
	assert_true(json_object_array_length(gpus) > 10);
	assert_keys(
	    json_object_array_get_idx(gpus, 0),
	    "name label aliases usable_bytes reported_bytes nominal_bytes "
	    "peak_bf16_flops peak_fp16_flops peak_fp8_flops peak_fp4_flops peak_fp32_flops "
	    "hbm_bytes_per_s link_bytes_per_s "
	    "net_bytes_per_s host_link_bytes_per_s gemm_efficiency gemm_fp8_efficiency gemm_fp4_efficiency "
	    "attention_forward_efficiency "
	    "attention_backward_efficiency hbm_efficiency link_efficiency board_watts multiprocessors "
	    "nvlink_domain gpus_per_node sm status "
	    "source");
	assert_keys(conf, "file partitions programs margins cluster notes schema");
	char keys[1024] = "partition default gpus gpus_per_node";
	p4d_site_value value;
	for (unsigned i = 0; p4d_site_policy_next(&(p4d_policy){0}, &i, &value);)
		if (strcmp(value.name, "limit") != 0)
			snprintf(keys + strlen(keys), sizeof(keys) - strlen(keys), " %s", value.name);
	snprintf(keys + strlen(keys), sizeof(keys) - strlen(keys),
		 " later exempt limit_ddp limit_deepspeed limit_fsdp limit_megatron limit_p4d network");
	assert_keys(at(conf, "partitions.0"), keys);
	json_object_put(models);
	json_object_put(gpus);
	json_object_put(conf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(estimate_has_the_documented_schema),
	    cmocka_unit_test(estimate_names_who_decided),
	    cmocka_unit_test(estimate_without_gpu_has_no_verdict),
	    cmocka_unit_test(refused_estimate_has_a_message),
	    cmocka_unit_test(paper_describes_one_stage),
	    cmocka_unit_test(errors_are_json_too),
	    cmocka_unit_test(plan_has_the_documented_schema),
	    cmocka_unit_test(simulate_has_the_documented_schema),
	    cmocka_unit_test(check_has_the_documented_schema),
	    cmocka_unit_test(lists_have_the_documented_schema),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
