/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of p4d.conf: their precedence, GPUs and numbers. */
#include "support/conf_file.h"

static void example_of_the_manual(void **state)
{
	(void)state;
	p4d_site *site = loaded("mode = enforce\n"
				"safe = 0.80\n"
				"limit = 0.95\n"
				"rewrite = unset\n"
				"partition h100 { gpu = \"h100-80gb\" }\n"
				"partition debug { mode = observe }\n"
				"qos large { limit = 0.90 }\n"
				"version = 1            # last line: a cut-off file is noticed\n");
	const p4d_site_partition *h100 = p4d_site_partition_of(site, "h100");
	assert_non_null(h100);
	assert_int_equal(h100->gpus, 1);
	assert_string_equal(h100->gpu[0]->name, "h100-80gb");
	assert_int_equal(h100->ambiguous[0], 1);
	assert_null(p4d_site_partition_of(site, "H100"));
	assert_null(p4d_site_partition_of(site, NULL));
	assert_string_equal(p4d_site_partition_at(site, 0)->name, "h100");
	assert_string_equal(p4d_site_partition_at(site, 1)->name, "debug");
	assert_null(p4d_site_partition_at(site, 2));
	p4d_policy policy = p4d_site_policy(site, &(p4d_site_job){.partition = "h100", .gpu = "h100-80gb"});
	assert_int_equal(policy.mode, P4D_MODE_ENFORCE);
	assert_true(policy.safe == 0.80);
	assert_true(policy.limit == 0.95);
	assert_true(policy.limit_is_set);
	assert_int_equal(policy.rewrite, P4D_REWRITE_UNSET);
	policy = p4d_site_policy(site, &(p4d_site_job){.partition = "debug", .qos = "large"});
	assert_int_equal(policy.mode, P4D_MODE_OBSERVE);
	assert_true(policy.limit == 0.90);
	assert_string_equal(p4d_site_path(site), path);
	assert_string_equal(p4d_site_datadir(site), test_datadir());
	p4d_site_free(site);
}

static void defaults_without_a_file(void **state)
{
	(void)state;
	p4d_error err = {0};
	p4d_site *site = p4d_site_default(test_datadir(), P4D_MODE_OBSERVE, &err);
	assert_non_null(site);
	p4d_policy policy = p4d_site_policy(site, &(p4d_site_job){0});
	assert_int_equal(policy.mode, P4D_MODE_OBSERVE);
	assert_int_equal(policy.rewrite, P4D_REWRITE_UNSET);
	assert_int_equal(policy.on_error, P4D_ON_ERROR_PASS);
	assert_int_equal(policy.unmodelled, P4D_UNMODELLED_WARN);
	assert_true(policy.safe == 0.80);
	assert_false(policy.limit_is_set);
	assert_false(policy.require_plan);
	assert_false(policy.allow_override);
	assert_false(policy.exempt);
	assert_true(p4d_site_policy_limit(&policy, P4D_FRAMEWORK_MEGATRON) == 0.95);
	assert_true(p4d_site_policy_limit(&policy, P4D_FRAMEWORK_P4D) == 0.97);
	assert_int_equal(p4d_site_log(site), P4D_LOG_REFUSALS);
	assert_int_equal(p4d_site_host_bytes_per_rank(site), 0);
	assert_string_equal(p4d_site_path(site), "");
	assert_true(p4d_site_gpus(site)->count > 10);
	p4d_site_free(site);
	site = p4d_site_default("/nonexistent", P4D_MODE_OBSERVE,
				&err); /* without a directory, p4d uses the built-in GPU table */
	assert_non_null(site);
	assert_true(p4d_site_gpus(site)->count > 10);
	p4d_site_free(site);
}

static void a_limit_of_the_site_holds_for_both_frameworks(void **state)
{
	(void)state;
	p4d_site *site = loaded("limit = 0.93\nversion = 1\n");
	p4d_policy policy = p4d_site_policy(site, &(p4d_site_job){0});
	assert_true(p4d_site_policy_limit(&policy, P4D_FRAMEWORK_MEGATRON) == 0.93);
	assert_true(p4d_site_policy_limit(&policy, P4D_FRAMEWORK_P4D) == 0.93);
	p4d_site_free(site);
}

/* A site's own table replaces the built-in one. */
static void own_table(void **state)
{
	static const char table[] = "{\"gpus\":[{\"name\":\"mine\",\"usable_gib\":2,\"nominal_gb\":2}]}";
	char file[] = "/tmp/p4d-gpus-XXXXXX", text[128];
	int fd = mkstemp(file);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, table, sizeof(table) - 1), sizeof(table) - 1);
	close(fd);
	snprintf(text, sizeof(text), "gpus = \"%s\"\npartition p { gpu = \"mine\" }\nversion = 1\n", file);
	p4d_site *site = loaded(text);
	unlink(file);
	assert_int_equal(p4d_site_gpus(site)->count, 1);
	assert_int_equal(p4d_site_partition_of(site, "p")->gpu[0]->usable_bytes, UINT64_C(2) << 30);
	p4d_site_free(site);
}

static void precedence(void **state)
{
	(void)state;
	p4d_site *site =
	    loaded("mode = warn\nsafe = 0.50\nlimit = 0.60\nallow_override = true\n"
		   "account acc { mode = off limit = 0.64 }\n" /* sections may be in any order */
		   "qos q { mode = observe limit = 0.63 rewrite = all }\n"
		   "partition p { mode = enforce limit = 0.62 allow_override = false unmodelled = reject }\n"
		   "gpu h100 { limit = 0.61 safe = 0.55 unmodelled = pass }\n"
		   "version = 1\n");
	p4d_policy policy = p4d_site_policy(site, &(p4d_site_job){0});
	assert_int_equal(policy.mode, P4D_MODE_WARN);
	assert_true(policy.limit == 0.60);
	policy = p4d_site_policy(site, &(p4d_site_job){.gpu = "h100-80gb"});
	assert_true(policy.limit == 0.61);
	assert_true(policy.safe == 0.55);
	assert_int_equal(policy.unmodelled, P4D_UNMODELLED_PASS);
	policy = p4d_site_policy(site, &(p4d_site_job){.partition = "p", .gpu = "h100-80gb"});
	assert_true(policy.limit == 0.62);
	assert_true(policy.safe == 0.55);
	assert_int_equal(policy.mode, P4D_MODE_ENFORCE);
	assert_int_equal(policy.unmodelled, P4D_UNMODELLED_REJECT);
	assert_false(policy.allow_override);
	policy = p4d_site_policy(site, &(p4d_site_job){.partition = "p", .qos = "Q", .gpu = "h100-80gb"});
	assert_true(policy.limit == 0.63);
	assert_int_equal(policy.mode, P4D_MODE_OBSERVE);
	assert_int_equal(policy.rewrite, P4D_REWRITE_ALL);
	policy = p4d_site_policy(
	    site, &(p4d_site_job){.partition = "p", .qos = "q", .account = "acc", .gpu = "h100-80gb"});
	assert_true(policy.limit == 0.64);
	assert_int_equal(policy.mode, P4D_MODE_OFF);
	assert_false(policy.exempt);
	assert_int_equal(policy.rewrite, P4D_REWRITE_ALL);
	/* a name without a section inherits the outer policy */
	policy = p4d_site_policy(
	    site,
	    &(p4d_site_job){.partition = "other", .qos = "other", .account = "other", .gpu = "a100-40gb"});
	assert_true(policy.limit == 0.60);
	assert_int_equal(policy.mode, P4D_MODE_WARN);
	p4d_site_free(site);
}

static void safe_never_exceeds_limit(void **state)
{
	(void)state;
	p4d_site *site =
	    loaded("partition p { safe = 0.6 limit = 0.7 }\nqos q { safe = 0.9 }\nversion = 1\n");
	p4d_policy policy = p4d_site_policy(site, &(p4d_site_job){.partition = "p", .qos = "q"});
	assert_true(policy.safe == 0.7);
	assert_true(policy.limit == 0.7);
	p4d_site_free(site);
}

static void exemptions_win(void **state)
{
	(void)state;
	p4d_site *site = loaded("exempt_accounts = { admin, \"build-bot\" }\nexempt_qos = rescue\n"
				"account admin { mode = enforce }\nversion = 1\n");
	p4d_policy policy = p4d_site_policy(site, &(p4d_site_job){.partition = "p", .qos = "rescue"});
	assert_true(policy.exempt);
	assert_int_equal(policy.mode, P4D_MODE_OFF);
	policy = p4d_site_policy(site, &(p4d_site_job){.partition = "p", .account = "ADMIN"});
	assert_true(policy.exempt);
	policy = p4d_site_policy(site, &(p4d_site_job){.partition = "p", .qos = "res", .account = "build"});
	assert_false(policy.exempt);
	policy = p4d_site_policy(site, &(p4d_site_job){.partition = "p", .account = "build-bot"});
	assert_true(policy.exempt);
	p4d_site_free(site);
}

static void plans_required(void **state)
{
	(void)state;
	p4d_site *site = loaded("require_plan = { a, b, d }\npartition b { require_plan = false }\n"
				"partition c { require_plan = true default = true }\nversion = 1\n");
	assert_true(p4d_site_policy(site, &(p4d_site_job){.partition = "a"}).require_plan);
	assert_false(p4d_site_policy(site, &(p4d_site_job){.partition = "b"}).require_plan);
	assert_true(p4d_site_policy(site, &(p4d_site_job){.partition = "c"}).require_plan);
	assert_true(p4d_site_policy(site, &(p4d_site_job){0}).require_plan);
	assert_false(p4d_site_policy(site, &(p4d_site_job){.partition = "A"}).require_plan);
	assert_false(p4d_site_policy(site, &(p4d_site_job){.partition = "e"}).require_plan);
	assert_string_equal(p4d_site_partition_of(site, NULL)->name, "c");
	p4d_site_free(site);
	/* outside of sections, require_plan lists partitions; true means all of them */
	site = loaded("require_plan = true\npartition b { require_plan = false }\nversion = 1\n");
	assert_true(p4d_site_policy(site, &(p4d_site_job){.partition = "a"}).require_plan);
	assert_false(p4d_site_policy(site, &(p4d_site_job){.partition = "b"}).require_plan);
	p4d_site_free(site);
	site = loaded("require_plan = false\nversion = 1\n");
	assert_false(p4d_site_policy(site, &(p4d_site_job){.partition = "false"}).require_plan);
	p4d_site_free(site);
}

static void a_list_of_partitions_gets_the_strictest(void **state)
{
	(void)state;
	p4d_site *site =
	    loaded("require_plan = a\nallow_override = true\n"
		   "partition a { mode = warn limit = 0.9 rewrite = off }\n"
		   "partition b { mode = enforce safe = 0.7 on_error = reject allow_override = false }\n"
		   "version = 1\n");
	p4d_policy policy = p4d_site_policy(site, &(p4d_site_job){.partition = "b,a"});
	assert_int_equal(policy.mode, P4D_MODE_ENFORCE);
	assert_int_equal(policy.rewrite, P4D_REWRITE_OFF);
	assert_int_equal(policy.on_error, P4D_ON_ERROR_REJECT);
	assert_true(policy.safe == 0.7);
	assert_true(policy.limit == 0.9);
	assert_true(policy.limit_is_set);
	assert_true(policy.require_plan);
	assert_false(policy.allow_override);
	assert_true(p4d_site_policy(site, &(p4d_site_job){.partition = "a,a"}).require_plan);
	p4d_site_free(site);
}

static void gpus(void **state)
{
	(void)state;
	unsigned ambiguous = 0;
	p4d_site *site =
	    loaded("partition late { gpu = { ours, \"a100\" } }\npartition mi { gpu = \"H100_80GB\" }\n"
		   "gpu ours { name = \"a100-80gb\" usable_gib = 78.5 }\nversion = 1\n");
	const p4d_gpu *gpu = p4d_site_gpu(site, "OURS", &ambiguous);
	assert_non_null(gpu);
	assert_string_equal(gpu->name, "a100-80gb");
	assert_int_equal(ambiguous, 1);
	assert_int_equal(gpu->usable_bytes, (uint64_t)(78.5 * 1073741824));
	/* a gpu section applies under each name of the GPU */
	assert_ptr_equal(p4d_site_gpu(site, "a100-80gb", NULL), gpu);
	gpu = p4d_site_gpu(site, "a100", &ambiguous);
	assert_string_equal(gpu->name, "a100-40gb");
	assert_int_equal(ambiguous, 2);
	assert_null(p4d_site_gpu(site, "nothing", NULL));
	const p4d_site_partition *late = p4d_site_partition_of(site, "late");
	assert_int_equal(late->gpus, 2);
	assert_string_equal(late->gpu[0]->name, "a100-80gb");
	assert_int_equal(late->ambiguous[0], 1);
	assert_int_equal(late->ambiguous[1], 2);
	assert_string_equal(p4d_site_partition_of(site, "mi")->gpu[0]->name, "h100-80gb");
	p4d_site_free(site);

	site = loaded("gpu a100 { name = \"a100-80gb\" }\npartition p { gpu = \"a100\" }\nversion = 1\n");
	assert_string_equal(p4d_site_partition_of(site, "p")->gpu[0]->name, "a100-80gb");
	assert_int_equal(p4d_site_partition_of(site, "p")->ambiguous[0], 1);
	p4d_site_free(site);
}

/* A gpu section describes a GPU that gpus.json does not have. For a GPU of gpus.json, it changes the size,
 * and other values stay. */
static void described_gpus(void **state)
{
	(void)state;
	p4d_site *site =
	    loaded("partition p { gpu = { ours, other } }\n"
		   "gpu ours { name = mygpu }\ngpu mygpu { memory_gib = 14.5 compute_capability = 7.5 }\n"
		   "gpu other { memory_gib = 9 }\ngpu t4 { memory_gib = 14 }\nversion = 1\n");
	const p4d_gpu *gpu = p4d_site_gpu(site, "ours", NULL), *t4 = p4d_site_gpu(site, "t4", NULL);
	assert_string_equal(gpu->name, "mygpu");
	assert_ptr_equal(p4d_site_gpu(site, "MyGPU", NULL), gpu);
	assert_int_equal(gpu->usable_bytes, (uint64_t)(14.5 * 1073741824));
	assert_int_equal(gpu->sm, 75);
	assert_string_equal(p4d_site_partition_of(site, "p")->gpu[0]->name, "mygpu");
	assert_string_equal(p4d_site_least_gpu(p4d_site_partition_of(site, "p"))->name, "other");
	assert_int_equal(p4d_site_gpu(site, "other", NULL)->sm, 0);
	assert_string_equal(t4->name, "t4-16gb");
	assert_int_equal(t4->usable_bytes, (uint64_t)14 << 30);
	assert_true(t4->hbm_bytes_per_s > 0);
	/* a GPU without a section stays as it is in gpus.json */
	assert_string_equal(p4d_site_gpu(site, "h100", NULL)->name, "h100-80gb");
	char *text = p4d_site_text(site);
	p4d_site *again = loaded(text);
	assert_int_equal(p4d_site_gpu(again, "ours", NULL)->usable_bytes, gpu->usable_bytes);
	free(text);
	p4d_site_free(again);
	p4d_site_free(site);
}

static void numbers_and_defaults(void **state)
{
	(void)state;
	p4d_site *site =
	    loaded("host_gib_per_rank = 12.5\nlog = all\n"
		   "partition p { gpus_per_node = 8 mem_per_node_gib = 2015 }\n"
		   "defaults { seq_len = 4096 framework = megatron precision = fp16 tp = 2 }\nversion = 1");
	assert_int_equal(p4d_site_host_bytes_per_rank(site), UINT64_C(25) << 29);
	assert_int_equal(p4d_site_log(site), P4D_LOG_ALL);
	const p4d_site_partition *p = p4d_site_partition_of(site, "p");
	assert_int_equal(p->gpus_per_node, 8);
	assert_int_equal(p->mem_per_node_bytes, UINT64_C(2015) << 30);
	p4d_request request = {0};
	p4d_error err;
	assert_int_equal(p4d_request_set(&request, P4D_TP, "4", P4D_BY_USER, &err), 0);
	p4d_site_apply_defaults(site, NULL, &request);
	assert_int_equal(request.value[P4D_SEQ_LEN], 4096);
	assert_int_equal(request.origin[P4D_SEQ_LEN], P4D_BY_SITE);
	assert_int_equal(request.value[P4D_FRAMEWORK], P4D_FRAMEWORK_MEGATRON);
	assert_int_equal(request.value[P4D_PRECISION], P4D_FP16);
	assert_int_equal(request.value[P4D_TP], 4);
	assert_int_equal(request.origin[P4D_TP], P4D_BY_USER);
	assert_false(p4d_is_set(&request, P4D_PP));
	p4d_site_free(site);
}

static p4d_mode mode_of(const p4d_site *site, p4d_site_job job)
{
	return p4d_site_policy(site, &job).mode;
}

static void users_and_reservations(void **state)
{
	(void)state;
	p4d_site *site = loaded("mode = enforce\n"
				"account physics { mode = warn }\n"
				"user alice { mode = observe }\n"
				"reservation week { mode = off }\n"
				"exempt_users = { root, \"svc-*\" }\n"
				"version = 1\n");
	assert_int_equal(mode_of(site, (p4d_site_job){.user = "bob"}), P4D_MODE_ENFORCE);
	assert_int_equal(mode_of(site, (p4d_site_job){.user = "Alice"}), P4D_MODE_ENFORCE);
	assert_int_equal(mode_of(site, (p4d_site_job){.user = "alice", .account = "physics"}),
			 P4D_MODE_OBSERVE);
	assert_int_equal(mode_of(site, (p4d_site_job){.user = "alice", .reservation = "week"}), P4D_MODE_OFF);
	assert_false(p4d_site_policy(site, &(p4d_site_job){.user = "alice"}).exempt);
	assert_true(p4d_site_policy(site, &(p4d_site_job){.user = "root"}).exempt);
	assert_true(p4d_site_policy(site, &(p4d_site_job){.user = "svc-ci"}).exempt);
	assert_false(p4d_site_policy(site, &(p4d_site_job){.user = "svc"}).exempt);
	p4d_site_free(site);
}

static void names_with_wildcards(void **state)
{
	static const struct {
		const char *name;
		p4d_mode mode;
	} cases[] = {
	    {"gpu-a", P4D_MODE_WARN},  /* the first matching pattern applies, even if a later one is longer */
	    {"gpu-big", P4D_MODE_OFF}, /* an exact name applies before all patterns */
	    {"gpu", P4D_MODE_ENFORCE},      {"GPU-a", P4D_MODE_ENFORCE}, {"xgpu-a", P4D_MODE_ENFORCE},
	    {"a12c", P4D_MODE_OBSERVE},     {"a1c", P4D_MODE_ENFORCE},   {"a123c", P4D_MODE_ENFORCE},
	    {"0mid0end", P4D_MODE_OBSERVE}, {"0mid0", P4D_MODE_ENFORCE}, {"midend", P4D_MODE_OBSERVE},
	};
	char text[2048], name[2048];

	(void)state;
	p4d_site *site =
	    loaded("mode = enforce\npartition \"gpu-*\" { mode = warn gpu = h100-80gb }\n"
		   "partition \"gpu-a*\" { mode = off }\npartition gpu-big { mode = off }\n"
		   "partition 'a??c' { mode = observe }\npartition '*mid*end' { mode = observe }\n"
		   "account 'Phys*' { mode = off }\nversion = 1\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (mode_of(site, (p4d_site_job){.partition = cases[i].name}) != cases[i].mode)
			fail_msg("%s", cases[i].name);
	assert_int_equal(mode_of(site, (p4d_site_job){.account = "physics"}), P4D_MODE_OFF);
	assert_string_equal(p4d_site_partition_of(site, "gpu-x")->gpu[0]->name, "h100-80gb");
	assert_int_equal(mode_of(site, (p4d_site_job){.partition = "gpu-a,gpu-big"}), P4D_MODE_WARN);
	p4d_site_free(site);
	refused("partition \"gpu-*\" { default = true }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: default: `gpu-*` is not one partition");
	/* matching this pattern takes no exponential time */
	snprintf(text, sizeof(text),
		 "partition '*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b' { mode = off }\nversion = 1\n");
	site = loaded(text);
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(mode_of(site, (p4d_site_job){.partition = name}), P4D_MODE_OBSERVE);
	p4d_site_free(site);
}

static void a_mode_may_have_a_date(void **state)
{
	(void)state;
	p4d_site *site = loaded("mode = enforce from = 2999-01-01\n"
				"partition past { mode = enforce from = 2001-01-01 }\n"
				"partition later { mode = off from = 2999-01-02 limit = 0.9 }\n"
				"partition now { mode = warn }\n"
				"qos q { mode = enforce from = 2999-01-03 }\n"
				"version = 1\n");
	p4d_policy policy = p4d_site_policy(site, &(p4d_site_job){0});
	assert_int_equal(policy.mode, P4D_MODE_OBSERVE);
	assert_int_equal(policy.later, P4D_MODE_ENFORCE);
	assert_true(policy.from > 32000000000);
	policy = p4d_site_policy(site, &(p4d_site_job){.partition = "past"});
	assert_int_equal(policy.mode, P4D_MODE_ENFORCE);
	assert_true(policy.from == 0);
	policy = p4d_site_policy(site, &(p4d_site_job){.partition = "later"});
	assert_int_equal(policy.mode, P4D_MODE_OBSERVE);
	assert_int_equal(policy.later, P4D_MODE_OFF);
	assert_true(policy.limit == 0.9);
	/* before the date in `from`, the outer mode applies */
	policy = p4d_site_policy(site, &(p4d_site_job){.partition = "now", .qos = "q"});
	assert_int_equal(policy.mode, P4D_MODE_WARN);
	assert_int_equal(policy.later, P4D_MODE_ENFORCE);
	policy = p4d_site_policy(site, &(p4d_site_job){.partition = "now"});
	assert_true(policy.from == 0);
	p4d_site_free(site);
	refused("safe = 0.7\nfrom = 2026-12-01\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:2: `from` needs a `mode` in the same section");
	static const char *const wrong[] = {"2026-13-01", "2026-02-30", "26-01-01",     "2026-1-1",
					    "tomorrow",   "1969-01-01", "2026-01-01T1", "20260101"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char text[128], message[160];
		snprintf(text, sizeof(text), "mode = warn\nfrom = %s\nversion = 1\n", wrong[i]);
		snprintf(message, sizeof(message), "p4d.conf:2: from = %s: not a date YYYY-MM-DD after 1970",
			 wrong[i]);
		refused(text, P4D_E_CONF_RANGE, message);
	}
}

static void defaults_of_a_partition(void **state)
{
	(void)state;
	p4d_site *site = loaded(
	    "defaults { seq_len = 4096 recompute = none }\n"
	    "partition a { default = true defaults { framework = megatron seq_len = 8192 } limit = 0.9 }\n"
	    "partition A { defaults { framework = p4d } }\n"
	    "partition \"b*\" { }\nversion = 1\n");
	static const struct {
		const char *partition;
		int64_t seq_len;
		int framework; /* -1: not set */
	} cases[] = {{"a", 8192, P4D_FRAMEWORK_MEGATRON},
		     {NULL, 8192, P4D_FRAMEWORK_MEGATRON},
		     {"A", 4096, P4D_FRAMEWORK_P4D},
		     {"a,A", 8192, P4D_FRAMEWORK_MEGATRON},
		     {"b1", 4096, -1},
		     {"c", 4096, -1}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_request request = {0};
		p4d_site_apply_defaults(site, cases[i].partition, &request);
		assert_int_equal(request.value[P4D_SEQ_LEN], cases[i].seq_len);
		assert_int_equal(request.origin[P4D_RECOMPUTE], P4D_BY_SITE);
		assert_int_equal(p4d_is_set(&request, P4D_FRAMEWORK), cases[i].framework >= 0);
		if (cases[i].framework >= 0)
			assert_int_equal(request.value[P4D_FRAMEWORK], cases[i].framework);
	}
	assert_true(p4d_site_policy(site, &(p4d_site_job){.partition = "a"}).limit == 0.9);
	p4d_site_free(site);
	refused("partition a { defaults { seqlen = 1 } }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unknown plan option `seqlen` in `defaults`; nearest: seq_len, "
		"document_len, max_num_seqs");
	refused("partition a {\n defaults {\n tp = 0 } }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:3: --p4d-tp=0: not a whole number from 1 to 1024");
	refused("partition a { defaults { tp = 1 }\n defaults { pp = 1 } }\nversion = 1\n",
		P4D_E_CONF_DUPLICATE,
		"p4d.conf:2: section `defaults a` appears twice; the first is on line 1");
	refused("qos a { defaults { tp = 1 } }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: section `defaults` cannot be nested in section `qos a`");
	refused("partition a { defaults { tp = 1 }\n", P4D_E_CONF_TRUNCATED,
		"p4d.conf:2: the file ends inside section `partition a`, which starts in line 1");
}

static void messages_of_the_site(void **state)
{
	(void)state;
	p4d_site *site = loaded("message = \"Ask help@site.\"\npartition a { message = 'Ask a.' }\n"
				"partition b { mode = warn }\nversion = 1\n");
	assert_string_equal(p4d_site_policy(site, &(p4d_site_job){.partition = "a"}).message, "Ask a.");
	assert_string_equal(p4d_site_policy(site, &(p4d_site_job){.partition = "b"}).message,
			    "Ask help@site.");
	assert_string_equal(p4d_site_policy(site, &(p4d_site_job){.partition = "b,a"}).message,
			    "Ask help@site.");
	p4d_site_free(site);
}

static void frameworks(void **state)
{
	(void)state;
	p4d_site *site =
	    loaded("framework fsdp { reserve_gib = 1.5 }\n"
		   "framework \"fsdp/transformers/*/a100-80gb\" { fragmentation = 0.1234 }\nversion = 1\n");
	const p4d_gpu *a100 = p4d_site_gpu(site, "a100-80gb", NULL),
		      *h100 = p4d_site_gpu(site, "h100-80gb", NULL);
	const p4d_gpu_margin *m = p4d_gpu_margin_of(a100, P4D_FRAMEWORK_FSDP, P4D_MODEL_CODE_TRANSFORMERS, 0);
	assert_int_equal(m->fragmentation, 123);
	assert_int_equal(m->reserve_bytes, 0);
	m = p4d_gpu_margin_of(h100, P4D_FRAMEWORK_FSDP, P4D_MODEL_CODE_TRANSFORMERS, 0);
	assert_true(m->reserve_bytes == 3ull << 29);
	assert_null(p4d_gpu_margin_of(h100, P4D_FRAMEWORK_DDP, P4D_MODEL_CODE_TRANSFORMERS, 0));
	assert_null(p4d_gpu_margin_of(NULL, P4D_FRAMEWORK_FSDP, 0, 0));
	p4d_site_free(site);
	refused("framework torch { reserve_gib = 1 }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: framework `torch`: framework=torch: not one of p4d|megatron|fsdp|deepspeed|ddp");
	refused("framework \"fsdp/a/b/c/d\" { reserve_gib = 1 }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: framework `fsdp/a/b/c/d`: not FRAMEWORK or FRAMEWORK/MODEL-CODE/PRECISION/GPU");
	refused("framework fsdp { reserve_gib = 65 }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: reserve_gib = 65: not above 0 and at most 64");
	refused("framework fsdp { fragmentation = 1.5 }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: fragmentation = 1.5: not above 0 and at most 1");
	refused("framework fsdp { mode = off }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `mode` is not allowed in a `framework` section");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(example_of_the_manual),
	    cmocka_unit_test(defaults_without_a_file),
	    cmocka_unit_test(a_limit_of_the_site_holds_for_both_frameworks),
	    cmocka_unit_test(own_table),
	    cmocka_unit_test(precedence),
	    cmocka_unit_test(safe_never_exceeds_limit),
	    cmocka_unit_test(exemptions_win),
	    cmocka_unit_test(plans_required),
	    cmocka_unit_test(a_list_of_partitions_gets_the_strictest),
	    cmocka_unit_test(gpus),
	    cmocka_unit_test(described_gpus),
	    cmocka_unit_test(numbers_and_defaults),
	    cmocka_unit_test(users_and_reservations),
	    cmocka_unit_test(names_with_wildcards),
	    cmocka_unit_test(a_mode_may_have_a_date),
	    cmocka_unit_test(defaults_of_a_partition),
	    cmocka_unit_test(messages_of_the_site),
	    cmocka_unit_test(frameworks),
	};

	return cmocka_run_group_tests_name("site", tests, make_dir, remove_dir);
}
