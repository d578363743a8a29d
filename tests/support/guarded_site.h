/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A site with various policies, and jobs that tests submit to it. */
#include "support/site_text.h"

#include "guard/guard.h"
#include "guard/verdict.h"

#define SITE \
	"mode = enforce\n" \
	"partition h100 { gpu = \"h100-80gb\"\n default = true\n gpus_per_node = 8 }\n" \
	"partition a100 { gpu = \"a100-40gb\"\n gpus_per_node = 8 }\n" \
	"partition v100 { gpu = \"v100-32gb\"\n gpus_per_node = 8 }\n" \
	"partition mixed { gpu = {\"h100-80gb\", \"a100-40gb\"} }\n" \
	"partition watched { gpu = \"h100-80gb\"\n mode = observe }\n" \
	"partition warned { gpu = \"h100-80gb\"\n mode = warn }\n" \
	"partition free { gpu = \"h100-80gb\"\n mode = off }\n" \
	"partition strict { gpu = \"h100-80gb\"\n require_plan = true }\n" \
	"partition fixed { gpu = \"h100-80gb\"\n rewrite = off }\n" \
	"partition eager { gpu = \"h100-80gb\"\n rewrite = all }\n" \
	"partition trusting { gpu = \"h100-80gb\"\n allow_override = true }\n" \
	"partition picky { gpu = \"h100-80gb\"\n unmodelled = reject }\n" \
	"partition relaxed { gpu = \"h100-80gb\"\n require_plan = true\n unmodelled = pass }\n" \
	"partition careful { gpu = \"h100-80gb\"\n safe = 0.5\n limit = 0.6 }\n" \
	"partition unknown { mode = enforce }\n" \
	"partition wary { gpu = \"h100-80gb\"\n on_error = reject }\n" \
	"partition \"some-*\" { min_gpus = 16\n message = \"Ask help@site, or see https://site/p4d\"\n" \
	"	gpu = \"h100-80gb\"\n gpus_per_node = 8\n require_plan = true }\n" \
	"user novice { require_plan = true }\n" \
	"qos tight { limit = 0.5\n safe = 0.4 }\n" \
	"exempt_accounts = {\"admin\"}\n"

static inline p4d_site *load(const char *text)
{
	char whole[4096];

	assert_true(snprintf(whole, sizeof(whole), "%s\nversion = 1\n", text) < (int)sizeof(whole));
	return site_of(whole);
}

static inline int setup(void **state)
{
	*state = load(SITE);
	return 0;
}

static inline int teardown(void **state)
{
	p4d_site_free(*state);
	return 0;
}

typedef struct trial {
	p4d_request request;
	p4d_verdict verdict;
	p4d_job job;
	char text[4096];
} trial;

static inline trial *submit(const p4d_site *site, p4d_job job, const char *flags)
{
	static trial t;

	memset(&t, 0, sizeof(t));
	t.job = job;
	if (job.script)
		t.job.script_length = strlen(job.script);
	set_all(&t.request, flags);
	p4d_guard__complete(site, &t.job, NULL, NULL, 2048, true, &t.request, &t.verdict);
	p4d_verdict_text(&t.verdict, t.text, sizeof(t.text));
	return &t;
}

#define ON(name, count) \
	((p4d_job){.partition = name, .min_nodes = count, .max_nodes = count, .gres = "gpu:8"})

static inline void expect(const trial *t, p4d_action action, p4d_code code)
{
	if (t->verdict.action != action || (code ? !t->verdict.messages : t->verdict.messages > 0))
		fail_msg("action %d, %u messages: %s", t->verdict.action, t->verdict.messages, t->text);
	if (code)
		assert_int_equal(t->verdict.message[0].code, code);
}

/* slurmctld's plugin must also accept a job that sbatch accepted, and must not change it. */
static inline void expect_verified(const p4d_site *site, const trial *t)
{
	static p4d_verdict again;
	char text[2048];

	p4d_guard_verify(site, &t->job, NULL, NULL, t->verdict.plan, NULL, &again);
	if (again.action == P4D_REJECT)
		fail_msg("slurmctld refuses: %s", p4d_verdict_text(&again, text, sizeof(text)));
	assert_string_equal(again.plan, t->verdict.plan);
	assert_int_equal(again.estimate.peak.device_bytes, t->verdict.estimate.peak.device_bytes);
}

static inline p4d_verdict *verify(const p4d_site *site, p4d_job job, const char *plan, const char *options)
{
	static p4d_verdict v;
	p4d_request r;

	memset(&r, 0, sizeof(r));
	set_all(&r, options);
	p4d_guard_verify(site, &job, NULL, NULL, plan, &r, &v);
	return &v;
}

/* Adds the options of the fix to the user's options, submits the job, and expects it to pass. */
static inline void fix_works(const p4d_site *site, p4d_job job, const char *flags, const trial *refused)
{
	char fixed[1024], fix[480];
	p4d_error err;
	size_t used = (size_t)snprintf(fixed, sizeof(fixed), "%s", flags);

	snprintf(fix, sizeof(fix), "%s", refused->verdict.message[0].fix);
	char gres[32], *save = NULL;
	const bool leaves_out = !strncmp(fix, "leave out --p4d-", 16);
	char *without = leaves_out ? strstr(fixed, fix + 16) : NULL;
	if (without) {
		used -= strcspn(without, " ");
		memmove(without, without + strcspn(without, " "),
			strlen(without + strcspn(without, " ")) + 1);
	}
	for (char *word = leaves_out ? NULL : strtok_r(fix, " ", &save); word;
	     word = strtok_r(NULL, " ", &save)) {
		if (!strncmp(word, "--p4d-", 6)) {
			used += (size_t)snprintf(fixed + used, sizeof(fixed) - used, " %s", word + 6);
		} else if (!strncmp(word, "--nodes=", 8)) {
			assert_int_equal(
			    p4d_gres__parse_nodes(word + 8, &job.min_nodes, &job.max_nodes, &err), 0);
		} else if (!strncmp(word, "--gpus-per-node=", 16)) {
			snprintf(gres, sizeof(gres), "gpu:%s", word + 16);
			job.gres = gres;
		} else if (!strncmp(word, "--gres=", 7)) {
			snprintf(gres, sizeof(gres), "%s", word + 7);
			job.gres = gres;
		} else {
			fail_msg("fix %s", word);
		}
	}
	trial *t = submit(site, job, fixed);
	if (t->verdict.action == P4D_REJECT || !t->verdict.plan[0])
		fail_msg("%s -> %s", fixed, t->text);
	expect_verified(site, t);
}
