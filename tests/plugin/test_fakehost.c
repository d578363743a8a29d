/* SPDX-License-Identifier: Apache-2.0 */
/* job_submit_p4d.so in a stand-in for slurmctld: every hook and every malformed input, without leaks. */
#include "support/support.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "doubles/slurm/fakehost.h"
#include "doubles/slurm/plans.h"
#include "plan/plan_line.h"

#define GOOD "model=llama13b tp=8"
/* fits 80 GB GPUs but not 40 GB ones */
#define MEDIUM "model=llama13b tp=8 cp=1 pp=1 vpp=1 micro-batch=16 recompute=none framework=p4d seq-len=2048"
#define LARGE "model=llama2-70b tp=8 cp=1 pp=1 vpp=1 micro-batch=1 recompute=none framework=p4d seq-len=4096"

static fakehost host;
static const char *said;

/* Submits, frees the job; the code in `said` must be this one ("" for silence). */
static void expect(job_desc_msg_t *desc, bool accepted, const char *code)
{
	int rc = fakehost_submit(&host, desc, &said);

	if ((rc == SLURM_SUCCESS) != accepted || (*code ? !strstr(said, code) : *said != '\0'))
		fail_msg("code %d, said: %s", rc, said);
	fakehost_free(desc);
}

static char **variable(char **list, uint32_t count, const char *name)
{
	size_t length = strlen(name);

	for (uint32_t i = 0; i < count; i++)
		if (!strncmp(list[i], name, length) && list[i][length] == '=')
			return &list[i];
	fail_msg("the job has no %s", name);
	return NULL;
}

/* Sets a variable of the job's environment; NULL removes it. */
static void edit(job_desc_msg_t *desc, const char *name, const char *value)
{
	char **at = variable(desc->environment, desc->env_size, name);
	char text[8192];

	snprintf(text, sizeof(text), "%s=%s", value ? name : "REMOVED", value ? value : "");
	fakehost_set(at, text);
}

/* The same for all three places. */
static void edit_everywhere(job_desc_msg_t *desc, const char *name, const char *value)
{
	char copy[128], text[8192];

	edit(desc, name, value);
	snprintf(copy, sizeof(copy), "SLURM_SPANK_%s", name);
	edit(desc, copy, value);
	snprintf(text, sizeof(text), "%s=%s", value ? name : "REMOVED", value ? value : "");
	fakehost_set(variable(desc->spank_job_env, desc->spank_job_env_size, name), text);
}

static const char *plan_of(job_desc_msg_t *desc)
{
	return *variable(desc->environment, desc->env_size, "P4D_PLAN") + strlen("P4D_PLAN=");
}

static void plain_jobs_are_left_alone(void **state)
{
	(void)state;
	job_desc_msg_t *desc = job_plain("h100");
	assert_int_equal(fakehost_submit(&host, desc, &said), SLURM_SUCCESS);
	assert_string_equal(said, "");
	assert_null(desc->admin_comment);
	fakehost_free(desc);
}

/* Waits for the plugin's thread, which checks once a second. */
static bool logged(const char *text)
{
	for (int i = 0; i < 400; i++) {
		if (strstr(fakehost_log(), text))
			return true;
		usleep(10000);
	}
	return false;
}

/* Sets p4d.conf with this way to approve plans, and waits for the plugin. */
static void approve_as(const char *kind)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "data = \"%s\"\nadmin_comment = %s\nmode = enforce\n"
		 "partition h100 { gpu = { \"h100-80gb\" } }\nversion = 1\n",
		 test_datadir(), kind);
	fakehost_forget();
	site_write(*kind ? text : NULL);
	assert_true(logged("reloaded"));
}

static void a_plan_passes_and_is_approved(void **state)
{
	char digest[64];

	(void)state;
	expect(job_planned("h100", GOOD), true, "");

	job_desc_msg_t *desc = job_planned("h100", GOOD);
	fakehost_submit(&host, desc, &said);
	assert_int_equal(sscanf(desc->admin_comment, "p4d:%32[0-9a-f]:47.6of79.1GiB,nodes=1,", digest), 1);
	assert_int_equal(strlen(digest), 32);
	assert_true(strlen(desc->admin_comment) <= 200);
	assert_null(strchr(desc->admin_comment, ' '));
	fakehost_free(desc);

	approve_as("plan");
	desc = job_planned("h100", GOOD);
	fakehost_submit(&host, desc, &said);
	assert_string_equal(desc->admin_comment, plan_of(desc));
	fakehost_free(desc);
	approve_as("none");
	desc = job_planned("h100", GOOD);
	fakehost_set(&desc->admin_comment, "p4d:forged");
	fakehost_submit(&host, desc, &said);
	assert_null(desc->admin_comment);
	fakehost_free(desc);
	approve_as("");
}

/* slurmctld knows the presets: a plan with other numbers says so. */
static void numbers_that_are_not_the_models_are_named(void **state)
{
	(void)state;
	job_desc_msg_t *desc = job_planned("h100", GOOD " layers=4");
	fakehost_submit(&host, desc, &said);
	assert_non_null(strstr(desc->admin_comment, "model=llama13b,layers%3d4"));
	fakehost_free(desc);
}

static void judging_again_changes_nothing(void **state)
{
	(void)state;
	job_desc_msg_t *desc = job_planned("h100", GOOD), *before = job_planned("h100", GOOD);
	fakehost_submit(&host, desc, &said);
	assert_int_equal(fakehost_submit(&host, desc, &said), SLURM_SUCCESS);
	assert_string_equal(said, "");
	char first[256];
	snprintf(first, sizeof(first), "%s", desc->admin_comment);
	assert_int_equal(fakehost_submit(&host, desc, &said), SLURM_SUCCESS);
	assert_string_equal(desc->admin_comment, first);
	assert_int_equal(desc->env_size, before->env_size);
	for (uint32_t i = 0; i < desc->env_size; i++)
		assert_string_equal(desc->environment[i], before->environment[i]);
	assert_int_equal(desc->spank_job_env_size, before->spank_job_env_size);
	for (uint32_t i = 0; i < desc->spank_job_env_size; i++)
		assert_string_equal(desc->spank_job_env[i], before->spank_job_env[i]);
	assert_int_equal(desc->min_nodes, 1);
	assert_string_equal(desc->tres_per_node, "gres:gpu:8");
	fakehost_free(desc);
	fakehost_free(before);
}

static void comments_of_others_are_kept(void **state)
{
	static const char text[] = "ticket  7 p4d1:old {\"a\": 1} p4d:older p4d: and more";

	(void)state;
	job_desc_msg_t *desc = job_planned("h100", GOOD);
	fakehost_set(&desc->admin_comment, text);
	fakehost_submit(&host, desc, &said);
	assert_memory_equal(desc->admin_comment, "ticket  7 {\"a\": 1} and more p4d:", 32);
	fakehost_free(desc);
	/* where nothing is approved, nothing may look like it */
	desc = job_plain("h100");
	fakehost_set(&desc->admin_comment, text);
	fakehost_submit(&host, desc, &said);
	assert_string_equal(desc->admin_comment, "ticket  7 {\"a\": 1} and more");
	fakehost_free(desc);
}

static void what_does_not_fit_is_refused(void **state)
{
	(void)state;
	expect(job_planned("h100", LARGE), false, "[P4D012]");
	expect(job_planned("a100", MEDIUM), false, "[P4D012]");
	/* for other nodes than it runs on */
	job_desc_msg_t *desc = job_planned("h100", GOOD);
	desc->min_nodes = desc->max_nodes = 2;
	expect(desc, false, "p4d: fix: --nodes=1 --gres=gpu:8");
	desc = job_planned("h100", GOOD);
	desc->min_nodes = desc->max_nodes = 2;
	fakehost_env(desc, "SLURM_GPUS_PER_NODE", "8");
	expect(desc, false, "p4d: fix: --nodes=1 --gpus-per-node=8");
	desc = job_planned("h100", GOOD);
	fakehost_set(&desc->tres_per_node, NULL);
	expect(desc, false, "[P4D030]");
	desc = job_planned("h100", GOOD);
	desc->pn_min_memory = 1024;
	expect(desc, false, "[P4D033]");
}

static void modes_are_honoured(void **state)
{
	(void)state;
	/* slurmctld does not repeat what sbatch reported about the same plan, but logs it */
	fakehost_forget();
	expect(job_planned("warn", LARGE), true, "");
	assert_non_null(strstr(fakehost_log(), "verdict=\"would-refuse\" code=\"P4D012\""));
	fakehost_forget();
	expect(job_planned("observe", LARGE), true, "");
	assert_non_null(strstr(fakehost_log(), "verdict=\"would-refuse\" code=\"P4D012\""));
	fakehost_forget();
	expect(job_planned("off", LARGE), true, "");
	assert_string_equal(fakehost_log(), "");
	/* what sbatch cannot have reported is reported */
	job_desc_msg_t *desc = job_plain("warn");
	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_tp", "8");
	expect(desc, true, "[P4D040]");
	expect(job_planned("lenient", LARGE " override=deadline"), true, "");
	assert_non_null(strstr(fakehost_log(), "deadline"));
	expect(job_planned("h100", LARGE " override=deadline"), false, "[P4D048]");
}

/* The end of a quoted value, which begins behind `at`; NULL: it is none. */
static const char *end_of_value(const char *at)
{
	for (at += *at == '"'; *at != '"'; at++) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			return NULL;
		at += *at == '\\';
	}
	return at + 1;
}

/* Every line of the log that is a verdict, as p4d.conf(5) describes it. Returns their number. */
static int verdicts_logged(void)
{
	static const char *const keys[] = {"event",    "verdict", "code",      "job",      "job_id",
					   "uid",      "account", "partition", "qos",      "model",
					   "gpu",      "nodes",   "phase",     "need_gib", "capacity_gib",
					   "fraction", "limit",   "mode",      "source",   "text"};
	int lines = 0;

	for (const char *at = fakehost_log(); *at; at += *at == '\n') {
		if (strncmp(at, "p4d: event=", 11) != 0)
			fail_msg("a line of its own: %.200s", at);
		at += strlen("p4d:");
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
			char wanted[32];
			int length = snprintf(wanted, sizeof(wanted), " %s=\"", keys[i]);
			const char *end =
			    strncmp(at, wanted, (size_t)length) ? NULL : end_of_value(at + length - 1);
			if (!end)
				fail_msg("no %s here: %.200s", keys[i], at);
			at = end;
		}
		assert_int_equal(*at, '\n');
		lines++;
	}
	return lines;
}

static void nobody_writes_lines_of_the_log(void **state)
{
	static const char evil[] = "x\" verdict=\"pass\"\n[2026-11-22T00:00:00] forged\r\x1b[2J\\";

	(void)state;
	fakehost_forget();
	for (int field = 0; field < 6; field++) {
		job_desc_msg_t *desc = job_planned("h100", field ? LARGE : GOOD);
		char **fields[] = {&desc->name, &desc->name,          &desc->account,
				   &desc->qos,  &desc->tres_per_node, &desc->partition};
		fakehost_set(fields[field], field == 4 ? "gres:gpu:\n8" : evil);
		fakehost_submit(&host, desc, &said);
		assert_null(strpbrk(said, "\r\x1b"));
		fakehost_free(desc);
	}
	job_desc_msg_t *desc = job_planned("h100", GOOD);
	edit(desc, "P4D_TP", evil);
	fakehost_submit(&host, desc, &said);
	assert_null(strstr(said, "\n["));
	fakehost_free(desc);
	desc = job_plain("h100");
	fakehost_spank_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_model", evil);
	fakehost_submit(&host, desc, &said);
	assert_null(strstr(said, "\n["));
	fakehost_free(desc);
	assert_int_equal(verdicts_logged(), 8);
	assert_non_null(strstr(fakehost_log(), " verdict=\"pass\" code=\"\" job=\"x\\\" verdict"));
	assert_non_null(strstr(fakehost_log(), " phase=\"train\" need_gib=\""));
}

static void what_other_plugins_said_stays(void **state)
{
	job_desc_msg_t *desc = job_planned("h100", LARGE);
	char *text = NULL;

	(void)state;
	fakehost_set(&text, "lua: see the wiki");
	assert_int_not_equal(host.job_submit(desc, FAKEHOST_UID, &text), SLURM_SUCCESS);
	assert_memory_equal(text, "lua: see the wiki\np4d: [P4D012] ", 32);
	fakehost_set(&text, NULL);
	fakehost_free(desc);
}

static void a_plan_can_be_required(void **state)
{
	(void)state;
	expect(job_plain("strict"), false, "[P4D043]");
	expect(job_planned("strict", GOOD), true, "");
	job_desc_msg_t *desc = job_plain("strict");
	fakehost_set(&desc->tres_per_node, NULL);
	expect(desc, true, "");
}

static void options_without_a_plan_are_refused(void **state)
{
	static const char *const names[] = {"_SLURM_SPANK_OPTION_p4d_p4d_micro_batch",
					    "SLURM_SPANK__SLURM_SPANK_OPTION_p4d_p4d_micro_batch",
					    "P4D_MICRO_BATCH", "SLURM_SPANK_P4D_MICRO_BATCH"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		job_desc_msg_t *desc = job_plain("h100");
		fakehost_env(desc, names[i], "4");
		if (strstr(names[i], "P4D_MICRO")) {
			/* what p4d would have said, alone, is no job of p4d's */
			expect(desc, true, "");
			continue;
		}
		expect(desc, false, "[P4D040]");
		assert_non_null(strstr(said, "p4d plan"));
		assert_non_null(strstr(said, "--micro-batch=4"));
	}
	job_desc_msg_t *desc = job_plain("h100");
	fakehost_spank_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_model", "llama13b");
	expect(desc, false, "[P4D040]");
	desc = job_plain("h100");
	fakehost_env(desc, "P4D_MEGATRON_ARGS", "--tensor-model-parallel-size 8");
	expect(desc, true, "");
	/* similar names */
	desc = job_plain("h100");
	fakehost_env(desc, "P4D_MY_OWN", "4");
	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_nodes", "4");
	fakehost_env(desc, "_SLURM_SPANK_OPTION_other_p4d_tp", "4");
	fakehost_env(desc, "P4D_", "4");
	expect(desc, true, "");
}

/* Options without a plan, and what sbatch noted about them. */
static job_desc_msg_t *job_noted(const char *partition, const char *note)
{
	job_desc_msg_t *desc = job_plain(partition);

	fakehost_spank_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_model", "lama13b");
	fakehost_spank_env(desc, "P4D_VERDICT", note);
	return desc;
}

static void what_sbatch_decided_is_logged(void **state)
{
	static const char unknown[] = "would-refuse\tP4D007\tunknown model \"lama13b\"\t--p4d-model=llama13b";
	static const char site[] = "not-judged\tP4D060,P4D115\tp4d.conf:1: syntax\t";
	static const char *const forged[] = {
	    "pass\tP4D007\tx\t",
	    "would-refuse\tP4D007x\tx\t",
	    "would-refuse\tP4D999\tx\t",
	    "would-refuse\t\t\t",
	    "would-refuse\tP4D007,P4D007,P4D007,P4D007,P4D007\tx\t",
	    "refuse",
	    "",
	    "\t\t\t\t",
	};

	(void)state;
	/* why there is no plan, not that p4d did not run */
	fakehost_forget();
	expect(job_noted("observe", unknown), true, "");
	expect(job_noted("warn", unknown), true, "");
	assert_int_equal(verdicts_logged(), 2);
	assert_null(strstr(fakehost_log(), "P4D040"));
	assert_non_null(strstr(fakehost_log(), "verdict=\"would-refuse\" code=\"P4D007\""));
	assert_non_null(strstr(fakehost_log(), "source=\"client\" text=\"unknown model \\\"lama13b\\\"\""));
	expect(job_noted("h100", unknown), false,
	       "[P4D007] unknown model \"lama13b\"\np4d: fix: --p4d-model=llama13b");
	/* the fault was the site's: passes where the site lets such jobs pass and no plan is required */
	fakehost_forget();
	expect(job_noted("h100", site), true, "");
	assert_non_null(strstr(fakehost_log(), "verdict=\"not-judged\" code=\"P4D060,P4D115\""));
	expect(job_noted("strict", site), false, "[P4D060]");
	/* other notes are none */
	for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++)
		expect(job_noted("h100", forged[i]), false, "[P4D040]");
	/* and no note lets an unfit plan pass, or hides what slurmctld found */
	job_desc_msg_t *desc = job_planned("h100", LARGE);
	fakehost_spank_env(desc, "P4D_VERDICT", site);
	expect(desc, false, "[P4D012]");
	desc = job_planned("observe", LARGE);
	fakehost_spank_env(desc, "P4D_VERDICT", "warn\tP4D112\tx\t");
	fakehost_forget();
	expect(desc, true, "");
	assert_non_null(strstr(fakehost_log(), "verdict=\"would-refuse\" code=\"P4D012\""));
	/* the fix that took a search goes with the same refusal */
	desc = job_planned("h100", LARGE);
	fakehost_spank_env(desc, "P4D_VERDICT", "would-refuse\tP4D012\tx\t--p4d-pp=2\x1b");
	expect(desc, false, "p4d: fix: --p4d-pp=2\\x1b");
	desc = job_planned("h100", GOOD);
	fakehost_spank_env(desc, "P4D_VERDICT", "rewrite\tP4D111\tchanged to pp=1\t");
	fakehost_forget();
	expect(desc, true, "");
	assert_non_null(strstr(fakehost_log(), "verdict=\"rewrite\" code=\"P4D111\""));
}

static void malformed_values_are_named(void **state)
{
	(void)state;
	static const char *const values[] = {"8x", "", "-1", "0", "99999999999999999999", "8 "};
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		job_desc_msg_t *desc = job_planned("h100", GOOD);
		edit_everywhere(desc, "_SLURM_SPANK_OPTION_p4d_p4d_tp", values[i]);
		expect(desc, false, "[P4D005]");
		assert_non_null(strstr(said, "--p4d-tp="));
	}
	job_desc_msg_t *desc = job_plain("h100");
	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_schedule", "sideways");
	expect(desc, false, "[P4D005]");
	desc = job_planned("h100", GOOD);
	fakehost_set(&desc->tres_per_node, "gres:gpu:h100:8x");
	expect(desc, false, "[P4D005]");
}

static void edited_plans_are_refused(void **state)
{
	(void)state;
	char text[8192];
	job_desc_msg_t *desc = job_planned("h100", GOOD);
	size_t length = strlen(plan_of(desc));

	snprintf(text, sizeof(text), "%s", plan_of(desc));
	for (size_t cut = 0; cut < length; cut += cut < 32 ? 1 : 97) {
		desc = desc ? desc : job_planned("h100", GOOD);
		char kept = text[cut];
		text[cut] = '\0';
		edit_everywhere(desc, "P4D_PLAN", text);
		expect(desc, false, "[P4D04");
		text[cut] = kept;
		desc = job_planned("h100", GOOD);
		text[cut] ^= 1;
		edit_everywhere(desc, "P4D_PLAN", text);
		expect(desc, false, "[P4D0");
		text[cut] ^= 1;
		desc = NULL;
	}
	desc = job_planned("h100", GOOD);
	memset(text, 'a', sizeof(text) - 20);
	text[sizeof(text) - 20] = '\0';
	memcpy(text, "p4d1:", 5);
	edit_everywhere(desc, "P4D_PLAN", text);
	expect(desc, false, "[P4D04");
	/* removed: what is left are options without a plan */
	desc = job_planned("h100", GOOD);
	edit_everywhere(desc, "P4D_PLAN", NULL);
	expect(desc, false, "[P4D040]");
}

static void contradictions_are_refused(void **state)
{
	static const char *const names[] = {"_SLURM_SPANK_OPTION_p4d_p4d_tp",
					    "SLURM_SPANK__SLURM_SPANK_OPTION_p4d_p4d_tp", "P4D_TP",
					    "SLURM_SPANK_P4D_TP"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		job_desc_msg_t *desc = job_planned("h100", GOOD);
		edit(desc, names[i], "4");
		expect(desc, false, "[P4D041]");
	}
	/* the same everywhere, but contradicting the plan */
	job_desc_msg_t *desc = job_planned("h100", GOOD);
	edit_everywhere(desc, "_SLURM_SPANK_OPTION_p4d_p4d_tp", "4");
	expect(desc, false, "[P4D041]");
	desc = job_planned("h100", GOOD);
	edit_everywhere(desc, "P4D_TP", "4");
	expect(desc, false, "[P4D041]");
	desc = job_planned("h100", GOOD);
	edit_everywhere(desc, "P4D_MEGATRON_ARGS", "--tensor-model-parallel-size 4");
	expect(desc, false, "[P4D041]");
	/* the plan of another job beside the job's own */
	desc = job_planned("h100", GOOD);
	job_desc_msg_t *other = job_planned("h100", "model=llama13b tp=4");
	edit(desc, "P4D_PLAN", plan_of(other));
	fakehost_free(other);
	expect(desc, false, "[P4D041]");
}

static void a_switch_has_no_value_to_differ(void **state)
{
	(void)state;
	job_desc_msg_t *desc = job_planned("h100", GOOD);
	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_fix", "");
	fakehost_spank_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_fix", "(null)");
	expect(desc, true, "");
}

static void null_everywhere(void **state)
{
	(void)state;
	job_desc_msg_t *desc = fakehost_desc();
	memset(desc, 0, sizeof(*desc));
	expect(desc, true, "");
	expect(fakehost_desc(), true, "");
	/* counts without lists, lists with holes */
	desc = fakehost_desc();
	desc->env_size = 7;
	desc->spank_job_env_size = 7;
	assert_int_equal(fakehost_submit(&host, desc, &said), SLURM_SUCCESS);
	desc->env_size = desc->spank_job_env_size = 0;
	fakehost_free(desc);
	desc = job_planned("h100", GOOD);
	for (int i = 0; i < 2; i++)
		fakehost_set(&desc->environment[i], NULL);
	expect(desc, true, "");
	desc = fakehost_desc();
	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_model", "llama13b");
	expect(desc, false, "[P4D040]");
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Fills an environment with variables that look like p4d's but are not. */
static job_desc_msg_t *job_with_lookalikes(int count, size_t bytes)
{
	job_desc_msg_t *desc = job_planned("h100", GOOD);
	char name[32], *value = malloc(bytes + 1);

	memset(value, 'x', bytes);
	value[bytes] = '\0';
	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%s_%d", i % 3 ? "P4D_X" : "SLURM_SPANK_P4D", i);
		fakehost_env(desc, name, value);
	}
	free(value);
	return desc;
}

static void an_environment_of_a_megabyte(void **state)
{
	(void)state;
	job_desc_msg_t *desc = job_with_lookalikes(450, 2200), *many = job_with_lookalikes(60000, 1),
		       *huge = job_planned("h100", GOOD);
	char *value = malloc(1 << 20);
	double seconds[3];

	memset(value, 'x', (1 << 20) - 1);
	value[(1 << 20) - 1] = '\0';
	fakehost_env(huge, "P4D_ONE", value);
	fakehost_env(huge, value, "");
	free(value);
	job_desc_msg_t *jobs[] = {desc, huge, many};
	for (int i = 0; i < 3; i++) {
		double start = now();
		int rc = fakehost_submit(&host, jobs[i], &said);
		seconds[i] = now() - start;
		assert_int_equal(rc, SLURM_SUCCESS);
	}
	print_message("1 MB of environment: %.0f us in 450 variables, %.0f us in two, %.0f us in 60000\n",
		      1e6 * seconds[0], 1e6 * seconds[1], 1e6 * seconds[2]);
	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_tp", "4");
	expect(desc, false, "[P4D041]");
	fakehost_free(huge);
	fakehost_free(many);
}

static int update(job_desc_msg_t *change, job_desc_msg_t *current)
{
	int rc = fakehost_modify(&host, change, current, &said);

	fakehost_free(change);
	return rc;
}

static void updates_are_judged_again(void **state)
{
	(void)state;
	job_desc_msg_t *job = job_planned("h100", MEDIUM);

	job_desc_msg_t *change = fakehost_desc();
	fakehost_set(&change->partition, "a100");
	fakehost_forget();
	assert_int_not_equal(update(change, job), SLURM_SUCCESS);
	assert_non_null(strstr(fakehost_log(), "event=\"update\" verdict=\"refuse\" code=\"P4D047\""));
	assert_non_null(strstr(fakehost_log(), "text=\"after this update: llama13b needs"));

	change = fakehost_desc();
	fakehost_set(&change->name, "another");
	assert_int_equal(update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	fakehost_set(&change->partition, "warn");
	assert_int_equal(update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	fakehost_set(&change->tres_per_node, "gres:gpu:4");
	assert_int_not_equal(update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	change->min_nodes = change->max_nodes = 2;
	assert_int_not_equal(update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	change->pn_min_memory = 100;
	assert_int_not_equal(update(change, job), SLURM_SUCCESS);
	/* what is emptied is gone */
	change = fakehost_desc();
	fakehost_set(&change->tres_per_node, "");
	assert_int_not_equal(update(change, job), SLURM_SUCCESS);
	fakehost_free(job);

	/* a job that would be refused as it is may be changed where that is not the reason */
	job = job_planned("h100", LARGE);
	change = fakehost_desc();
	fakehost_set(&change->features, "rack1");
	assert_int_equal(update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	fakehost_set(&change->partition, "a100");
	assert_int_not_equal(update(change, job), SLURM_SUCCESS);
	fakehost_free(job);

	/* a plain job may move anywhere, except where a plan is required */
	job = job_plain("h100");
	change = fakehost_desc();
	fakehost_set(&change->partition, "a100");
	assert_int_equal(update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	fakehost_set(&change->partition, "strict");
	assert_int_not_equal(update(change, job), SLURM_SUCCESS);
	fakehost_free(job);

	/* an override stays in force */
	job = job_planned("lenient", LARGE " override=deadline");
	change = fakehost_desc();
	change->pn_min_memory = 1000000;
	assert_int_equal(update(change, job), SLURM_SUCCESS);
	fakehost_free(job);
}

/* A job whose plan says what p4d found in its script. */
static job_desc_msg_t *job_of_script(const char *program)
{
	static const char option[] = "_SLURM_SPANK_OPTION_p4d_p4d_unmodelled";
	char assignments[80], line[P4D_PLAN_MAX];
	p4d_request plan = {0};

	snprintf(assignments, sizeof(assignments), "model=llama13b unmodelled=%s", program);
	job_desc_msg_t *desc = job_planned("h100", assignments);
	fakehost_set(&desc->script, "#!/bin/sh\ndeepspeed train.py\n");
	edit_everywhere(desc, option, NULL);
	assert_int_equal(p4d_plan_read(plan_of(desc), &plan, NULL), 0);
	p4d_request_put(&plan, P4D_UNMODELLED, 1, P4D_BY_P4D);
	assert_int_equal(p4d_plan_write(&plan, line, sizeof(line), NULL), 0);
	edit_everywhere(desc, "P4D_PLAN", line);
	return desc;
}

/* slurmctld's copy of a job in the queue has no script. */
static void an_update_is_no_way_around_the_script(void **state)
{
	(void)state;
	job_desc_msg_t *job = job_of_script("DeepSpeed");
	assert_int_equal(fakehost_submit(&host, job, &said), SLURM_SUCCESS);
	fakehost_set(&job->script, NULL);

	job_desc_msg_t *change = fakehost_desc();
	change->num_tasks = 4;
	assert_int_equal(update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	fakehost_set(&change->partition, "strict");
	assert_int_not_equal(update(change, job), SLURM_SUCCESS);
	assert_non_null(
	    strstr(fakehost_log(), "text=\"after this update: what the job runs is not modelled"));
	fakehost_free(job);

	/* submitted under other rules: it stays as it is, and goes nowhere else */
	job = job_plain("strict");
	change = fakehost_desc();
	change->num_tasks = 4;
	assert_int_equal(update(change, job), SLURM_SUCCESS);
	change = fakehost_desc();
	change->min_nodes = change->max_nodes = 2;
	assert_int_not_equal(update(change, job), SLURM_SUCCESS);
	fakehost_free(job);
}

/* Every field that the geometry reads makes an update one to judge; others do not. */
static void updates_of_any_resource_are_judged(void **state)
{
	(void)state;
	job_desc_msg_t *job = job_planned("h100", GOOD);

	for (int field = 0; field < 5; field++) {
		job_desc_msg_t *change = fakehost_desc();
		if (field == 1)
			change->overcommit = 1;
		if (field == 2)
			change->ntasks_per_tres = 1;
		if (field == 3)
			change->sockets_per_node = 1;
		if (field == 4)
			fakehost_set(&change->cpus_per_tres, "gres:gpu:1");
		fakehost_forget();
		assert_int_equal(update(change, job), SLURM_SUCCESS);
		assert_int_equal(strstr(fakehost_log(), "event=\"update\"") != NULL, field > 0);
	}
	fakehost_free(job);
}

static void a_bad_edit_changes_nothing(void **state)
{
	(void)state;
	job_desc_msg_t *good = job_planned("h100", GOOD), *large = job_planned("h100", LARGE);

	fakehost_forget();
	site_write("mode = off\nversion = 1\nmode =");
	assert_true(logged("the previous configuration stays in force"));
	expect(good, true, "");
	expect(large, false, "[P4D012]");
}

static void a_good_edit_takes_effect(void **state)
{
	(void)state;
	char text[512];

	fakehost_forget();
	snprintf(text, sizeof(text),
		 "mode = off\ndata = \"%s\"\npartition h100 { gpu = { \"h100-80gb\" } }\nversion = 1\n",
		 test_datadir());
	site_write(text);
	assert_true(logged("reloaded"));
	expect(job_plain("strict"), true, "");
	fakehost_forget();
	site_write(NULL);
	assert_true(logged("reloaded"));
	expect(job_plain("strict"), false, "[P4D043]");
}

static void a_file_others_can_write_is_not_trusted(void **state)
{
	(void)state;
	char path[300];

	snprintf(path, sizeof(path), "%s/p4d.conf", (const char *)*state);
	fakehost_forget();
	chmod(path, 0666);
	assert_true(logged("[P4D064]"));
	expect(job_plain("strict"), false, "[P4D043]");
	fakehost_forget();
	chmod(path, 0644);
	assert_true(logged("reloaded"));
}

static void unmapped_partitions_are_asked_of_the_cluster(void **state)
{
	(void)state;
	bool known = false;

	/* two GPU types: the smaller counts, unless the job chooses */
	for (int i = 0; i < 400 && !known; i++) {
		job_desc_msg_t *desc = job_planned("live", MEDIUM);
		known = fakehost_submit(&host, desc, &said) != SLURM_SUCCESS && strstr(said, "[P4D012]");
		fakehost_free(desc);
		usleep(10000);
	}
	assert_true(known);
	job_desc_msg_t *desc = job_planned("live", MEDIUM);
	fakehost_set(&desc->tres_per_node, "gres:gpu:h100:8");
	expect(desc, true, "");
}

/* Restarts slurmctld, as far as the plugin sees it. */
static void restart(void)
{
	host.fini();
	fakehost_forget();
	assert_int_equal(host.init(), SLURM_SUCCESS);
}

static void the_last_good_file_outlives_a_restart(void **state)
{
	char path[300], kept[320];
	struct stat st;

	snprintf(path, sizeof(path), "%s/p4d.conf", (const char *)*state);
	snprintf(kept, sizeof(kept), "%s.good", path);
	assert_int_equal(stat(kept, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	site_write("partition {");
	restart();
	assert_non_null(strstr(fakehost_log(), "the last good configuration is in force"));
	expect(job_plain("strict"), false, "[P4D043]");
	site_write(NULL);
	assert_true(logged("reloaded"));
	chmod(path, 0666);
	restart();
	expect(job_plain("strict"), false, "[P4D043]");
	unlink(path);
	restart();
	expect(job_plain("strict"), false, "[P4D043]");
	/* it must be as trustworthy as the file itself */
	chmod(kept, 0666);
	restart();
	expect(job_plain("strict"), true, "");
	site_write(NULL);
	assert_true(logged("reloaded"));
	expect(job_plain("strict"), false, "[P4D043]");
}

/* Nobody wrote a configuration: nobody is refused, and jobs that would be are logged. */
static void it_observes_where_nobody_wrote_a_configuration(void **state)
{
	char path[300], kept[320];
	job_desc_msg_t *large = job_planned("h100", LARGE);

	snprintf(path, sizeof(path), "%s/p4d.conf", (const char *)*state);
	snprintf(kept, sizeof(kept), "%s.good", path);
	unlink(path);
	unlink(kept);
	restart();
	fakehost_set(&large->tres_per_node, "gres:gpu:h100:8");
	expect(large, true, "");
	assert_non_null(strstr(fakehost_log(), "P4D012"));
	site_write("mode = enforced\nversion = 1\n");
	restart();
	assert_non_null(strstr(fakehost_log(), "p4d.conf:1: mode = enforced"));
	expect(job_plain("h100"), true, "");
	/* logged once, not every second */
	fakehost_forget();
	sleep(2);
	assert_null(strstr(fakehost_log(), "enforced"));
	site_write(NULL);
	assert_true(logged("reloaded"));
}

static void a_fix_in_an_included_file_is_seen(void **state)
{
	char text[512], more[300];
	FILE *file;

	snprintf(more, sizeof(more), "%s/more.conf", (const char *)*state);
	file = fopen(more, "w");
	fputs("mode = enforced\nversion = 1\n", file);
	fclose(file);
	chmod(more, 0644);
	fakehost_forget();
	snprintf(text, sizeof(text), "include = \"%s\"\ndata = \"%s\"\nversion = 1\n", more, test_datadir());
	site_write(text);
	assert_true(logged("more.conf:1: mode = enforced"));
	file = fopen(more, "w");
	fputs("mode = off\nversion = 1\n", file);
	fclose(file);
	assert_true(logged("reloaded"));
	expect(job_plain("strict"), true, "");
	/* and so is a later change of it */
	fakehost_forget();
	file = fopen(more, "w");
	fputs("require_plan = strict\nmode = enforce\nversion = 1\n", file);
	fclose(file);
	assert_true(logged("reloaded"));
	expect(job_plain("strict"), false, "[P4D043]");
	unlink(more);
	site_write(NULL);
	assert_true(logged("reloaded"));
}

/* Waits until plain GPU jobs of this kind are refused for want of a plan, or not. */
static bool becomes(const char *partition, const char *account, const char *qos, bool refused)
{
	for (int i = 0; i < 400; i++) {
		job_desc_msg_t *desc = job_plain(partition);
		fakehost_set(&desc->account, account);
		fakehost_set(&desc->qos, qos);
		const bool now = fakehost_submit(&host, desc, &said) != SLURM_SUCCESS;
		fakehost_free(desc);
		if (now == refused)
			return true;
		usleep(10000);
	}
	return false;
}

/* A site whose policy depends on accounts: `more` after that. */
static void write_accounts(const char *more)
{
	char text[1024];

	fakehost_forget();
	snprintf(text, sizeof(text), "mode = enforce\ndata = \"%s\"\n%s\nversion = 1\n", test_datadir(),
		 more);
	site_write(text);
	assert_true(logged("reloaded"));
}

static void accounts_and_qos_that_nobody_typed_count(void **state)
{
	(void)state;
	/* without accounting, what is typed is believed */
	write_accounts("account staff { require_plan = true }\nexempt_accounts = { trusted }");
	assert_true(becomes("bare", "staff", NULL, true));
	assert_true(becomes("bare", NULL, NULL, false));

	fakehost_account(NULL, 0, "root", NULL, 0, false);
	fakehost_account(NULL, 0, "staff", "root", 0, false);
	fakehost_account(NULL, 0, "Physics", "staff", 0, false);
	fakehost_account(NULL, 0, "guests", "root", 0, false);
	fakehost_account(NULL, 0, "trusted", "root", 0, false);
	fakehost_account("alice", FAKEHOST_UID, "physics", NULL, 2, true);
	fakehost_account("alice", FAKEHOST_UID, "guests", NULL, 0, false);
	fakehost_account("bob", FAKEHOST_UID + 1, "trusted", NULL, 0, true);
	write_accounts("account staff { require_plan = true }\nexempt_accounts = { trusted }");
	assert_true(becomes("h100", NULL, NULL, true)); /* the section of a parent of the default account */
	assert_true(becomes("h100", "physics", NULL, true));
	assert_true(becomes("h100", "guests", NULL, false));
	/* not the account of this user: it neither exempts nor frees */
	assert_true(becomes("h100", "trusted", NULL, true));
	write_accounts("account staff { require_plan = true }\naccount physics { mode = off }");
	assert_true(becomes("h100", NULL, NULL, false)); /* a nearer one */
	write_accounts("qos large { require_plan = true }");
	assert_true(becomes("h100", NULL, NULL, true)); /* the default QOS of the association */
	assert_true(becomes("h100", NULL, "normal", false));
	assert_true(becomes("h100", "guests", NULL, false));
	assert_true(becomes("bare", "guests", NULL, true)); /* the QOS of the partition */
	write_accounts("user alice { require_plan = true }");
	assert_true(becomes("h100", NULL, NULL, true));
	write_accounts("user \"al*\" { require_plan = true }\nexempt_accounts = { staff }");
	assert_true(becomes("h100", "guests", NULL, true));
	assert_true(becomes("h100", NULL, NULL, false)); /* exempt with its parent */
	/* the job before an update is one of the same user */
	write_accounts("user alice { require_plan = true }\npartition h100 { gpu = \"h100-80gb\" }");
	assert_true(becomes("h100", NULL, NULL, true));
	job_desc_msg_t *job = job_plain("h100"), *change = fakehost_desc();
	job->user_id = FAKEHOST_UID;
	change->num_tasks = 4;
	assert_int_equal(update(change, job), SLURM_SUCCESS);
	fakehost_free(job);
	fakehost_account(NULL, 0, NULL, NULL, 0, false);
	fakehost_forget();
	site_write(NULL);
	assert_true(logged("reloaded"));
}

static void reservations_have_their_own_policy(void **state)
{
	(void)state;
	write_accounts("reservation exam { require_plan = true }");
	job_desc_msg_t *job = job_plain("bare");
	fakehost_set(&job->reservation, "exam");
	expect(job, false, "[P4D043]");
	expect(job_plain("bare"), true, "");

	job = job_plain("bare");
	job_desc_msg_t *change = fakehost_desc();
	fakehost_set(&change->reservation, "exam");
	assert_int_not_equal(update(change, job), SLURM_SUCCESS);
	fakehost_free(job);
	fakehost_forget();
	site_write(NULL);
	assert_true(logged("reloaded"));
}

/* sbatch could not make a plan where the site does not say which GPU it has, and that is not the user's
 * fault. */
static void options_pass_where_no_plan_can_be_made(void **state)
{
	job_desc_msg_t *desc = job_plain("nowhere");

	(void)state;
	fakehost_env(desc, "_SLURM_SPANK_OPTION_p4d_p4d_tp", "8");
	expect(desc, true, "[P4D115]");
}

static const char *plugin(void)
{
	static char path[4096];
	const char *build = getenv("P4D_TEST_BUILDDIR");

	snprintf(path, sizeof(path), "%s/.libs/job_submit_p4d.so", build ? build : ".");
	return path;
}

static int start(void **state)
{
	*state = (void *)site_make();
	fakehost_open(&host, plugin(), *state);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	fakehost_close(&host);
	site_remove();
	return 0;
}

static size_t alive;

static int count(void **state)
{
	(void)state;
	alive = fakehost_alive();
	return 0;
}

static int leaks(void **state)
{
	(void)state;
	/* the thread of the plugin may be in the middle of a request */
	for (int waited = 0; fakehost_alive() != alive && waited < 300; waited++)
		usleep(10000);
	if (fakehost_alive() != alive)
		print_error("%zd of Slurm's allocations were not freed\n",
			    (ssize_t)(fakehost_alive() - alive));
	return fakehost_alive() != alive;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, count, leaks)
	const struct CMUnitTest tests[] = {
	    TEST(plain_jobs_are_left_alone),
	    TEST(a_plan_passes_and_is_approved),
	    TEST(numbers_that_are_not_the_models_are_named),
	    TEST(judging_again_changes_nothing),
	    TEST(comments_of_others_are_kept),
	    TEST(what_does_not_fit_is_refused),
	    TEST(modes_are_honoured),
	    TEST(nobody_writes_lines_of_the_log),
	    TEST(what_other_plugins_said_stays),
	    TEST(a_plan_can_be_required),
	    TEST(options_without_a_plan_are_refused),
	    TEST(what_sbatch_decided_is_logged),
	    TEST(malformed_values_are_named),
	    TEST(edited_plans_are_refused),
	    TEST(contradictions_are_refused),
	    TEST(a_switch_has_no_value_to_differ),
	    TEST(null_everywhere),
	    TEST(an_environment_of_a_megabyte),
	    TEST(updates_are_judged_again),
	    TEST(an_update_is_no_way_around_the_script),
	    TEST(updates_of_any_resource_are_judged),
	    TEST(a_bad_edit_changes_nothing),
	    TEST(a_good_edit_takes_effect),
	    TEST(a_file_others_can_write_is_not_trusted),
	    TEST(unmapped_partitions_are_asked_of_the_cluster),
	    TEST(options_pass_where_no_plan_can_be_made),
	    TEST(accounts_and_qos_that_nobody_typed_count),
	    TEST(reservations_have_their_own_policy),
	    TEST(a_fix_in_an_included_file_is_seen),
	    TEST(the_last_good_file_outlives_a_restart),
	    TEST(it_observes_where_nobody_wrote_a_configuration),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
