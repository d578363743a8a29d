/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "plan/plan_line.h"
#include "request/defaults.h"

static void complete(p4d_request *r)
{
	memset(r, 0, sizeof(*r));
	set_all(r, MODEL_13B "tp=8 gpu=h100-80gb nodes=1 gpus-per-node=8");
	p4d_request_complete(r, 2048, 8);
}

static void round_trip(void **state)
{
	p4d_request r, back;
	char line[P4D_PLAN_MAX], again[P4D_PLAN_MAX];
	p4d_error err;

	(void)state;
	complete(&r);
	set_all(&r, "override=it's_a:100%_#test@u"); /* all characters that have a meaning in the line */
	assert_int_equal(p4d_plan_write(&r, line, sizeof(line), &err), 0);
	assert_null(strpbrk(line, " \t\n'\"\\$`#"));
	if (p4d_plan_read(line, &back, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(back.override_reason, "it's_a:100%_#test@u");
	assert_false(p4d_plan_differs(&r, &back, NULL));
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (p4d_request_option_info((p4d_option)i)->where & P4D_WHERE_PLAN)
			assert_int_equal(r.origin[i], back.origin[i]);
	assert_int_equal(p4d_plan_write(&back, again, sizeof(again), &err), 0);
	assert_string_equal(line, again);
}

/* p4d still reads `on`, a word that it wrote in older plans. */
static void words_of_plans_stay(void **state)
{
	p4d_request r, back = {.model = ""};
	char line[P4D_PLAN_MAX];
	p4d_error err;

	(void)state;
	complete(&r);
	assert_int_equal(p4d_request_set(&r, P4D_OPTIMIZER_SHARDING, "states", P4D_BY_USER, &err), 0);
	assert_int_equal(p4d_plan_write(&r, line, sizeof(line), &err), 0);
	assert_non_null(strstr(line, ":optimizer-sharding=on@u:"));
	assert_int_equal(p4d_plan_read(line, &back, &err), 0);
	assert_int_equal(back.value[P4D_OPTIMIZER_SHARDING], P4D_SHARD_STATES);
	assert_int_equal(p4d_request_set(&r, P4D_OPTIMIZER_SHARDING, "parameters", P4D_BY_USER, &err), 0);
	assert_int_equal(p4d_plan_write(&r, line, sizeof(line), &err), 0);
	assert_non_null(strstr(line, ":optimizer-sharding=parameters@u:"));
	memset(&back, 0, sizeof(back));
	assert_int_equal(p4d_plan_read(line, &back, &err), 0);
}

static void differences_are_named(void **state)
{
	p4d_request a, b;
	p4d_option which;

	(void)state;
	complete(&a);
	b = a;
	b.origin[P4D_TP] = P4D_BY_P4D; /* plans do not differ if only the origin of a value differs */
	assert_false(p4d_plan_differs(&a, &b, &which));
	b.value[P4D_MICRO_BATCH] = 2;
	assert_true(p4d_plan_differs(&a, &b, &which));
	assert_int_equal(which, P4D_MICRO_BATCH);
	b = a;
	b.origin[P4D_PP] = P4D_UNSET;
	assert_true(p4d_plan_differs(&a, &b, &which));
	assert_int_equal(which, P4D_PP);
}

static void digests(void **state)
{
	p4d_request a, b;
	char first[P4D_DIGEST_TEXT], second[P4D_DIGEST_TEXT], million[1000];

	(void)state;
	complete(&a);
	b = a;
	p4d_plan_digest(&a, first);
	b.origin[P4D_TP] = P4D_BY_P4D;
	p4d_plan_digest(&b, second);
	assert_string_equal(first, second);
	b.value[P4D_MICRO_BATCH]++;
	p4d_plan_digest(&b, second);
	assert_string_not_equal(first, second);
	/* FIPS 180-4's examples */
	p4d_digest digest = p4d_digest_begin();
	p4d_digest_add(&digest, "abc", 3);
	p4d_digest_text(&digest, first);
	assert_string_equal(first, "ba7816bf8f01cfea414140de5dae2223");
	memset(million, 'a', sizeof(million));
	digest = p4d_digest_begin();
	for (int i = 0; i < 1000; i++)
		p4d_digest_add(&digest, million, sizeof(million));
	p4d_digest_text(&digest, first);
	assert_string_equal(first, "cdc76e5c9914fb9281a1c7e284d73e67");
}

static void refuse(const char *line, p4d_code code, const char *text)
{
	p4d_request r;
	p4d_error err;

	memset(&r, 0x5a, sizeof(r));
	assert_int_equal(p4d_plan_read(line, &r, &err), -1);
	assert_int_equal(err.code, code);
	if (text)
		assert_string_equal(err.text, text);
	assert_int_equal(r.value[0], 0x5a5a5a5a5a5a5a5aL);
}

static void every_cut_and_every_flipped_byte_is_noticed(void **state)
{
	p4d_request r;
	char line[P4D_PLAN_MAX], bad[P4D_PLAN_MAX];

	(void)state;
	complete(&r);
	assert_int_equal(p4d_plan_write(&r, line, sizeof(line), NULL), 0);
	size_t length = strlen(line);
	for (size_t i = 0; i < length; i++) {
		snprintf(bad, sizeof(bad), "%.*s", (int)i, line);
		assert_int_equal(p4d_plan_read(bad, &r, NULL), -1);
		snprintf(bad, sizeof(bad), "%s", line);
		bad[i] = (char)(bad[i] == '1' ? '2' : '1');
		assert_int_equal(p4d_plan_read(bad, &r, NULL), -1);
	}
}

/* Makes a line with a correct hash but wrong content. A newer p4d or a forger could write such a line. */
static void with_hash(const char *text, char *line, size_t size)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (const char *at = text; *at; at++)
		h = (h ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
	snprintf(line, size, "%s:hash=%016llx", text, (unsigned long long)h);
}

static void malformed_lines(void **state)
{
	const struct {
		const char *text, *message;
		p4d_code code;
	} bad[] = {
	    {"p4d1:tp=8@u:tp=8@u", "plan: 'tp' appears twice", P4D_E_PLAN_SYNTAX},
	    {"p4d1:tp=8", "plan: 'tp=8' is not name=value@origin", P4D_E_PLAN_SYNTAX},
	    {"p4d1:tp=8@x", "plan: malformed value of 'tp'", P4D_E_PLAN_SYNTAX},
	    {"p4d1:tp=@u", "--p4d-tp=: not a whole number from 1 to 1024", P4D_E_VALUE},
	    {"p4d1:tp=0@u", "--p4d-tp=0: not a whole number from 1 to 1024", P4D_E_VALUE},
	    {"p4d1:model=%4@u", "plan: malformed value of 'model'", P4D_E_PLAN_SYNTAX},
	    {"p4d1:model=%00@u", "plan: malformed value of 'model'", P4D_E_PLAN_SYNTAX},
	    {"p4d1:model=%0a@u", "--p4d-model: control character 0x0a at position 1", P4D_E_VALUE},
	    {"p4d1:sp=8@u", "plan: 'sp' is unknown to p4d p4d1; plan and p4d have different versions",
	     P4D_E_PLAN_SYNTAX},
	    {"p4d1:fix=on@u", "plan: 'fix' is unknown to p4d p4d1; plan and p4d have different versions",
	     P4D_E_PLAN_SYNTAX},
	    /* lines that can be decoded, but that p4d would not write */
	    {"p4d1:model=a b@u", "plan: p4d would write these values in another way", P4D_E_PLAN_SYNTAX},
	    {"p4d1:model=m\xc3\xa4@u", "plan: p4d would write these values in another way",
	     P4D_E_PLAN_SYNTAX},
	    {"p4d1:model=a%62@u", "plan: p4d would write these values in another way", P4D_E_PLAN_SYNTAX},
	    {"p4d1:tp=08@u", "plan: p4d would write these values in another way", P4D_E_PLAN_SYNTAX},
	    {"p4d1:tp=8@u:model=a@u", "plan: p4d would write these values in another way", P4D_E_PLAN_SYNTAX},
	    {"p4d1:tp=8@u:", "plan: p4d would write these values in another way", P4D_E_PLAN_SYNTAX},
	    {"p4d1::tp=8@u", "plan: '' is not name=value@origin", P4D_E_PLAN_SYNTAX},
	};
	char line[512], *longest = malloc(P4D_PLAN_MAX + 1);

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		with_hash(bad[i].text, line, sizeof(line));
		refuse(line, bad[i].code, bad[i].message);
	}
	refuse("", P4D_E_PLAN_SYNTAX, "plan: '' does not start with 'p4d1:'");
	refuse("p4d2:tp=8@u", P4D_E_PLAN_SYNTAX, "plan: 'p4d2:tp=8@u' does not start with 'p4d1:'");
	refuse("p4d1:tp=8@u", P4D_E_PLAN_SYNTAX, "plan: truncated after 11 characters, the hash is missing");
	refuse("p4d1:tp=8@u:hash=", P4D_E_PLAN_CHANGED, NULL);
	with_hash("p4d1:tp=8@u", line, sizeof(line));
	strcat(line, ":pp=2@u");
	refuse(line, P4D_E_PLAN_CHANGED, "plan: 7 characters follow its hash: it was edited");
	memset(longest, 'x', P4D_PLAN_MAX);
	longest[P4D_PLAN_MAX] = '\0';
	refuse(longest, P4D_E_PLAN_SYNTAX, "plan: longer than 4095 characters");
	free(longest);
}

static void a_line_that_does_not_fit_is_an_error(void **state)
{
	p4d_request r;
	char line[256];
	p4d_error err;

	(void)state;
	complete(&r);
	assert_int_equal(p4d_plan_write(&r, line, sizeof(line), &err), -1);
	assert_int_equal(err.code, P4D_E_PLAN_SYNTAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(round_trip),
	    cmocka_unit_test(words_of_plans_stay),
	    cmocka_unit_test(differences_are_named),
	    cmocka_unit_test(every_cut_and_every_flipped_byte_is_noticed),
	    cmocka_unit_test(digests),
	    cmocka_unit_test(malformed_lines),
	    cmocka_unit_test(a_line_that_does_not_fit_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
