/* SPDX-License-Identifier: Apache-2.0 */
/* Token slices: their lengths, and which ones p4d refuses, with the option's name and a valid fix. */
#include "support/support.h"

#include "request/defaults.h"
#include "request/layout.h"

static int built(p4d_request *r, p4d_layout *l, p4d_error *err)
{
	p4d_request complete = *r;

	p4d_request_complete(&complete, 0, 32);
	return p4d_layout_build(&complete, 4, 8, l, err);
}

static p4d_request asked(const char *options)
{
	p4d_request r = {.gpu = ""};

	set_all(&r, MODEL_70B "framework=p4d seq-len=8192 global-batch=16 pp=4 ");
	set_all(&r, options);
	return r;
}

static void assert_lengths(const char *options, const char *lengths)
{
	const p4d_request of = asked(options);
	p4d_request r = of;
	p4d_layout l;
	p4d_error err;
	char text[512];

	if (built(&r, &l, &err) < 0)
		fail_msg("%s: %s", options, err.text);
	assert_string_equal(p4d_layout_slices_text(l.slice_tokens, l.slices, text, sizeof(text)), lengths);
	uint64_t sum = 0, most = 0;
	for (uint64_t i = 0; i < l.slices; i++) {
		sum += l.slice_tokens[i];
		most = l.slice_tokens[i] > most ? l.slice_tokens[i] : most;
	}
	assert_int_equal(sum, l.seq_len);
	assert_int_equal(l.slice_len, most);
	assert_int_equal(p4d_pass_tokens(&l), most);
}

/* Lengths are as equal as possible. They are multiples of 128 tokens or, if that is impossible, of one
 * token. The first slices are the longer ones. */
static void lengths(void **state)
{
	(void)state;
	assert_lengths("token-slices=4", "2048,2048,2048,2048");
	assert_lengths("token-slices=3", "2816,2688,2688");
	assert_lengths("token-slices=4 seq-len=8000", "2048,1984,1984,1984");
	assert_lengths("token-slices=3 seq-len=1001", "334,334,333");
	assert_lengths("token-slices=3 seq-len=1002 tp=2", "334,334,334");
	assert_lengths("token-slices=2 slice-lengths=8000,192", "8000,192");
	assert_lengths("token-slices=2 slice-lengths=8190,2 tp=2", "8190,2");
	assert_lengths("token-slices=2 tp=8 tp-comm-overlap=on seq-len=8224", "4128,4096");
	assert_lengths("token-slices=64 seq-len=4096 pp=2 schedule=gpipe",
		       "64,64,64,64,64,64,64,64,64,64,64,64,"
		       "64,64,64,64,64,64,64,64,64,64,64,64,"
		       "64,64,64,64,64,64,64,64,64,64,64,64,"
		       "64,64,64,64,64,64,64,64,64,64,64,64,"
		       "64,64,64,64,64,64,64,64,64,64,64,64,"
		       "64,64,64,64");
}

/* token-slices=1 gives the same layout as no option. */
static void one_is_whole(void **state)
{
	p4d_request none = asked(""), one = asked("token-slices=1");
	p4d_layout l[2];
	p4d_error err;

	(void)state;
	assert_int_equal(built(&none, &l[0], &err), 0);
	assert_int_equal(built(&one, &l[1], &err), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(l[i].slices, 1);
		assert_int_equal(p4d_pass_tokens(&l[i]), 8192);
	}
	assert_true(p4d_layout_is_default(&none, P4D_TOKEN_SLICES));
	assert_true(p4d_layout_is_default(&one, P4D_TOKEN_SLICES));
}

/* Applies a fix such as "--p4d-NAME=VALUE ..." or "leave out --p4d-NAME". */
static void apply(p4d_request *r, const char *fix)
{
	char flags[600];

	snprintf(flags, sizeof(flags), "%s", fix);
	if (!strncmp(flags, "leave out --p4d-", 16)) {
		r->origin[p4d_request_option_find(flags + 16)] = P4D_UNSET;
		return;
	}
	for (char *flag = strtok(flags, " "); flag; flag = strtok(NULL, " ")) {
		char *value = strchr(flag, '=');
		assert_non_null(value);
		*value++ = '\0';
		assert_int_equal(strncmp(flag, "--p4d-", 6), 0);
		assert_int_equal(p4d_request_set(r, (p4d_option)p4d_request_option_find(flag + 6), value,
						 P4D_BY_USER, NULL),
				 0);
	}
}

static void refusals(void **state)
{
	static const struct {
		const char *options, *text, *fix;
		p4d_code code;
	} cases[] = {
	    {"token-slices=4 schedule=zb1p", "token-slices=4 needs schedule=1f1b or gpipe, not schedule=zb1p",
	     "--p4d-schedule=1f1b --p4d-vpp=1", P4D_E_SCHEDULE},
	    {"token-slices=4 schedule=interleaved vpp=2 global-batch=32",
	     "token-slices=4 needs schedule=1f1b or gpipe, not schedule=interleaved",
	     "--p4d-schedule=1f1b --p4d-vpp=1", P4D_E_SCHEDULE},
	    {"token-slices=4 schedule=v-half",
	     "token-slices=4 needs schedule=1f1b or gpipe, not schedule=v-half",
	     "--p4d-schedule=1f1b --p4d-vpp=1", P4D_E_SCHEDULE},
	    {"token-slices=2 vocab-parallel=vocab-2",
	     "token-slices=2 cannot be combined with vocab-parallel=vocab-2, whose passes take whole "
	     "micro-batches",
	     "--p4d-vocab-parallel=off", P4D_E_VALUE},
	    {"token-slices=2 cp=2", "token-slices=2 cannot be combined with cp=2: both split the sequence",
	     "--p4d-cp=1", P4D_E_VALUE},
	    {"token-slices=64 seq-len=32",
	     "token-slices=64: a sequence of 32 tokens has at most 32 slices of 1", "--p4d-token-slices=32",
	     P4D_E_SEQUENCE},
	    {"token-slices=8 tp=8 seq-len=40",
	     "token-slices=8: a sequence of 40 tokens has at most 5 slices of 8", "--p4d-token-slices=5",
	     P4D_E_SEQUENCE},
	    {"token-slices=2 tp=8 tp-comm-overlap=on seq-len=8200",
	     "token-slices=2: a slice has a multiple of 16 tokens here, which seq-len=8200 is not",
	     "--p4d-seq-len=8192", P4D_E_SEQUENCE},
	    {"token-slices=2 slice-lengths=4096,4000",
	     "slice-lengths=4096,4000 must be token-slices=2 numbers that add up to seq-len=8192, each a "
	     "multiple "
	     "of 1",
	     "--p4d-slice-lengths=4096,4096", P4D_E_SEQUENCE},
	    {"token-slices=3 slice-lengths=4096,4096",
	     "slice-lengths=4096,4096 must be token-slices=3 numbers that add up to seq-len=8192, each a "
	     "multiple "
	     "of 1",
	     "--p4d-slice-lengths=2816,2688,2688", P4D_E_SEQUENCE},
	    {"token-slices=2 tp=2 slice-lengths=4097,4095",
	     "slice-lengths=4097,4095 must be token-slices=2 numbers that add up to seq-len=8192, each a "
	     "multiple "
	     "of 2",
	     "--p4d-slice-lengths=4096,4096", P4D_E_SEQUENCE},
	    {"token-slices=2 slice-lengths=8192,",
	     "slice-lengths=8192, must be token-slices=2 numbers that add up to seq-len=8192, each a "
	     "multiple of 1",
	     "--p4d-slice-lengths=4096,4096", P4D_E_SEQUENCE},
	    {"slice-lengths=4096,4096", "slice-lengths=4096,4096 has no effect with token-slices=1",
	     "--p4d-token-slices=2", P4D_E_SEQUENCE},
	    {"slice-lengths=77", "slice-lengths=77 has no effect with token-slices=1",
	     "--p4d-slice-lengths=8192", P4D_E_SEQUENCE},
	    {"slice-lengths=77 framework=megatron", "slice-lengths=77 has no effect with token-slices=1",
	     "leave out --p4d-slice-lengths", P4D_E_SEQUENCE},
	    {"token-slices=2 framework=megatron", "token-slices=2: only p4d-train slices sequences",
	     "leave out --p4d-token-slices", P4D_E_VALUE},
	    {"token-slices=2 framework=fsdp", "token-slices=2: only p4d-train slices sequences",
	     "leave out --p4d-token-slices", P4D_E_VALUE},
	    {"slice-lengths=4096,4096 framework=megatron",
	     "slice-lengths=4096,4096 has no effect with token-slices=1", "leave out --p4d-slice-lengths",
	     P4D_E_SEQUENCE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		p4d_request r = asked(cases[i].options);
		p4d_layout l;
		p4d_error err = {.code = P4D_OK};
		assert_int_equal(built(&r, &l, &err), -1);
		assert_string_equal(err.text, cases[i].text);
		assert_string_equal(err.fix, cases[i].fix);
		assert_int_equal(err.code, cases[i].code);
		apply(&r, err.fix);
		if (built(&r, &l, &err) < 0)
			fail_msg("%s, with %s: %s", cases[i].options, cases[i].fix, err.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lengths),
	    cmocka_unit_test(one_is_whole),
	    cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
