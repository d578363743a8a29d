/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict as one word in slurmctld's record of the job. p4d must read back what it wrote, also between
 * other tools' words. */
#include "support/guarded_site.h"

#include "guard/verdict_log.h"
#include "guard/verdict_record.h"
#include "plan/plan_line.h"

static void a_plan_is_read_again(void **state)
{
	char word[P4D_VERDICT_RECORD], comment[2048], digest[P4D_DIGEST_TEXT];
	static p4d_verdict v;
	p4d_verdict_record written, read;
	p4d_job job = ON("h100", 1);
	trial *t = submit(*state, job, MODEL_13B "tp=8");

	p4d_guard_verify(*state, &job, NULL, NULL, t->verdict.plan, NULL, &v);
	written = p4d_verdict_record_of(&v);
	snprintf(written.id, sizeof(written.id), "%s", "6b0c1e2f-3");
	p4d_plan_digest(&t->request, digest);
	p4d_verdict_record_write(&written, word);
	assert_true(!strncmp(word, "p4d:", 4) && !strncmp(word + 4, digest, 32) && word[36] == ':');
	assert_non_null(strstr(word, ":47.6of79.1GiB,nodes=1,gpus-per-node=8,tp=8,"));
	assert_null(strpbrk(word, " \t\n"));

	snprintf(comment, sizeof(comment), "JS1:abc=  ticket p4d1:x@u %s {\"other\":1}", word);
	assert_true(p4d_verdict_record_read(comment, &read));
	assert_true(read.approved);
	assert_string_equal(read.digest, digest);
	assert_string_equal(read.verdict, "pass");
	assert_int_equal(p4d_verdict_record_outcome(&read), P4D_OUTCOME_PASS);
	assert_string_equal(read.framework, "p4d");
	assert_string_equal(read.phase, p4d_memory_phase_name(v.estimate.peak.phase));
	assert_string_equal(read.gpu, "h100-80gb");
	assert_string_equal(read.mode, "enforce");
	assert_string_equal(read.id, "6b0c1e2f-3");
	assert_int_equal(read.tp, 8);
	assert_int_equal(read.micro_batch, written.micro_batch);
	assert_true(read.need_gib > 47.5 && read.need_gib < 47.7 && read.capacity_gib > 79);
	assert_string_equal(p4d_verdict_record_write(&read, comment), word);
}

static void a_refusal_has_its_codes(void **state)
{
	char word[P4D_VERDICT_RECORD];
	p4d_verdict_record r = p4d_verdict_record_of(
	    &submit(*state, ON("warned", 1), MODEL_70B "tp=8 pp=1 micro-batch=8")->verdict);
	p4d_verdict_record read;

	r.approved = false;
	assert_string_equal(r.verdict, "would-refuse");
	assert_string_equal(r.mode, "warn");
	p4d_verdict_record_write(&r, word);
	assert_true(!strncmp(word, "p4d-verdict:", 12));
	assert_true(p4d_verdict_record_read(word, &read));
	assert_false(read.approved);
	assert_true(!strncmp(read.code, "P4D01", 5));
	assert_true(read.need_gib > read.capacity_gib);
}

/* Only trainings have an estimate. For an engine, the log line has the fields of the record. */
static void an_engine_is_logged_as_recorded(void **state)
{
	char line[P4D_VERDICT_LINE];
	static p4d_verdict v;
	const p4d_job job = {.partition = "h100"};

	(void)state;
	v.serving.max_model_len = 8192;
	p4d_verdict_record r = p4d_verdict_record_of(&v);
	const p4d_verdict_subject subject = {
	    .event = "submit", .source = "controller", .name = "x", .record = &r, .job = &job};
	assert_non_null(strstr(p4d_verdict_line(&subject, &v, line, sizeof(line)), " verdict=\"pass\" "));
	assert_true(p4d_verdict_is_logged(&r, P4D_LOG_ALL) && !p4d_verdict_is_logged(&r, P4D_LOG_REFUSALS));
	v.action = P4D_WARN;
	r = p4d_verdict_record_of(&v);
	assert_non_null(strstr(p4d_verdict_line(&subject, &v, line, sizeof(line)), " verdict=\"warn\" "));
	/* the verdict has nothing to record */
	memset(&v, 0, sizeof(v));
	r = p4d_verdict_record_of(&v);
	assert_false(p4d_verdict_is_logged(&r, P4D_LOG_ALL));
}

static void names_of_users_are_one_word(void **state)
{
	char word[P4D_VERDICT_RECORD];
	p4d_verdict_record read, r = {.model = "my model,code=P4D001 p4d:x\n\"%", .verdict = "not-judged"};

	(void)state;
	p4d_verdict_record_write(&r, word);
	assert_null(strpbrk(word, " \t\n\""));
	assert_true(p4d_verdict_record_read(word, &read));
	assert_string_equal(read.model, r.model);
	assert_string_equal(read.code, "");
	/* all fields have their greatest length */
	memset(&r, 0, sizeof(r));
	memset(r.model, ' ', sizeof(r.model) - 1);
	memset(r.gpu, ' ', sizeof(r.gpu) - 1);
	memset(r.id, ' ', sizeof(r.id) - 1);
	memset(r.code, ' ', sizeof(r.code) - 1);
	memset(r.framework, ' ', sizeof(r.framework) - 1);
	r.nodes = r.gpus_per_node = r.tp = r.cp = r.pp = r.micro_batch = UINT32_MAX;
	assert_true(strlen(p4d_verdict_record_write(&r, word)) < P4D_VERDICT_RECORD - 1);
	assert_true(p4d_verdict_record_read(word, &read));
	assert_string_equal(read.id, r.id);
	assert_int_equal(read.pp, UINT32_MAX);
}

static void words_of_earlier_and_later_releases(void **state)
{
	p4d_verdict_record r;

	(void)state;
	assert_true(p4d_verdict_record_read(
	    "p4d:0123456789abcdef0123456789abcdef:47.6of79.1GiB,nodes=1,tp=8,model=llama13b", &r));
	assert_string_equal(r.model, "llama13b");
	assert_int_equal(p4d_verdict_record_outcome(&r), P4D_OUTCOMES);
	assert_true(p4d_verdict_record_read("p4d-verdict:12.5GiB,new=1,verdict=warn", &r));
	assert_true(r.need_gib > 12.4 && r.capacity_gib == 0);
	assert_int_equal(p4d_verdict_record_outcome(&r), P4D_OUTCOME_WARN);
	/* words of other tools, and damaged records */
	static const char *const others[] = {"",
					     "p4d1:model=x@u",
					     "p4d",
					     "JS1:p4d-verdict:verdict=warn",
					     "p4d:0123",
					     "p4d:0123456789abcdef0123456789abcdef0:tp=8",
					     "p4d-verdict:tp=8x",
					     "p4d-verdict:tp=",
					     "p4d-verdict:tp=99999999999",
					     "p4d-verdict:model=%",
					     "p4d-verdict:model=%4",
					     "p4d-verdict:model=%00",
					     "p4d-verdict:model=%zz",
					     "p4d-verdict:47of79",
					     "p4d-verdict:tp"};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (p4d_verdict_record_read(others[i], &r))
			fail_msg("'%s' was read", others[i]);
	assert_false(p4d_verdict_record_read(NULL, &r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_plan_is_read_again),
	    cmocka_unit_test(a_refusal_has_its_codes),
	    cmocka_unit_test(an_engine_is_logged_as_recorded),
	    cmocka_unit_test(names_of_users_are_one_word),
	    cmocka_unit_test(words_of_earlier_and_later_releases),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
