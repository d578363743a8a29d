/* SPDX-License-Identifier: Apache-2.0 */
/* Invalid model files: texts and files with all kinds of damage. */
#include "support/model_files.h"

#include <json-c/json_c_version.h>

static int remove_file(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static void write_file(const char *text, size_t length)
{
	FILE *out = fopen(path, "w");

	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, length, out), length);
	fclose(out);
}

/* The file must be refused with this message, and the model must not change. */
static void refuse_file(const char *name, p4d_code code, const char *text)
{
	p4d_request request = named(name), before = request;
	p4d_error err = {0};

	assert_int_equal(p4d_model_resolve(&request, datadir(), NULL, &err), -1);
	assert_string_equal(err.text, text);
	assert_int_equal(err.code, code);
	assert_memory_equal(&request, &before, sizeof(request));
}

/* message: NULL if test_model.c checks the message's text */
static void refuse_text(const char *text, size_t length, p4d_code code, const char *message)
{
	p4d_request request = {0}, before = request;
	p4d_error err = {0};

	assert_int_equal(p4d_model__parse(text, length, "f", &request, NULL, &err), -1);
	if (message)
		assert_string_equal(err.text, message);
	assert_int_equal(err.code, code);
	assert_memory_equal(&request, &before, sizeof(request));
	assert_int_equal(p4d_model__parse(text, length, "f", &request, NULL, NULL), -1);
}

static void bad_texts(void **state)
{
	static const struct {
		const char *text;
		p4d_code code;
		const char *message;
	} cases[] =
	{ {"", P4D_E_JSON, "f: empty file"},
	  {" \n\t", P4D_E_JSON, "f: empty file"},
	  {"[{}]", P4D_E_JSON, "f: contains a JSON array, not an object"},
	  {"\"x\"", P4D_E_JSON, "f: not a JSON object (begins with byte 0x22)"},
	  {"\xef\xbb\xbf{}", P4D_E_JSON, "f: not a JSON object (begins with byte 0xef)"},
	  {"{}", P4D_E_JSON,
	   "f: neither a Hugging Face config.json (no \"architectures\" or \"model_type\") nor a preset "
	   "(no \"name\")"},
	  {LLAMA "\"hidden_size\":64,\"intermedi", P4D_E_JSON,
	   "f: truncated: the JSON text ends after 104 bytes, inside a value"},
	  {"{\"name\":\"x\"} {}", P4D_E_JSON, "f: malformed JSON at byte 14: unexpected character"},
	  {"{\"name\":\"x\",}", P4D_E_JSON, "f: malformed JSON at byte 13: unexpected character"},
	  {"{'name':\"x\"}", P4D_E_JSON, "f: malformed JSON at byte 2: single quote"},
	  {"{\"name\":\"\xff\"}", P4D_E_JSON, "f: malformed JSON at byte 10: invalid utf-8 string"},
	  {LLAMA "\"hidden_size\":\"4096\"}", P4D_E_JSON,
	   "f: \"hidden_size\" is \"4096\", not a whole number"},
	  {LLAMA "\"hidden_size\":[4096]}", P4D_E_JSON, "f: \"hidden_size\" is [4096], not a whole number"},
	  {LLAMA "\"hidden_size\":true}", P4D_E_JSON, "f: \"hidden_size\" is true, not a whole number"},
	  {LLAMA "\"hidden_size\":4096.5}", P4D_E_JSON, "f: \"hidden_size\" is 4096.5, not a whole number"},
	  {LLAMA "\"hidden_size\":1e300}", P4D_E_JSON, "f: \"hidden_size\" is 1e300, not a whole number"},
	  {LLAMA "\"hidden_size\":NaN}", P4D_E_JSON, "f: \"hidden_size\" is NaN, not a whole number"},
	  {LLAMA "\"hidden_size\":-4096}", P4D_E_VALUE, "f: \"hidden_size\" is -4096: not from 1 to 1048576"},
	  {LLAMA "\"hidden_size\":0}", P4D_E_VALUE, "f: \"hidden_size\" is 0: not from 1 to 1048576"},
	  {LLAMA "\"hidden_size\":9223372036854775808}", P4D_E_VALUE,
	   "f: \"hidden_size\" is 9223372036854775808: not from 1 to 1048576"},
#if JSON_C_VERSION_NUM >= 18 << 8 /* older releases of json-c take the nearest number */
	  {LLAMA "\"hidden_size\":-9223372036854775809}", P4D_E_JSON,
	   "f: malformed JSON at byte 112: not a number, or a number above 64 bits"},
#else
	  {LLAMA "\"hidden_size\":-9223372036854775809}", P4D_E_VALUE,
	   "f: \"hidden_size\" is -9223372036854775808: not from 1 to 1048576"},
#endif
	  {LLAMA "\"hidden_size\":--1}", P4D_E_JSON,
	   "f: malformed JSON at byte 93: not a number, or a number above 64 bits"},
	  {LLAMA "\"hidden_size\":1048577}", P4D_E_VALUE,
	   "f: \"hidden_size\" is 1048577: not from 1 to 1048576"},
	  {LLAMA "\"hidden_size\":1,\"hidden_size\":2}", P4D_E_JSON,
	   "f: field \"hidden_size\" is given twice"},
	  {LLAMA "\"rope_scaling\":{\"type\":1,\"type\":2}}", P4D_E_JSON, "f: a field is given twice"},
	  {LLAMA "\"tie_word_embeddings\":\"yes\"," REST "}", P4D_E_JSON,
	   "f: \"tie_word_embeddings\" is \"yes\", not true or false"},
	  {"{\"architectures\":\"LlamaForCausalLM\"}", P4D_E_JSON,
	   "f: \"architectures\" is \"LlamaForCausalLM\", not a list of strings"},
	  {"{\"architectures\":[7]}", P4D_E_JSON, "f: \"architectures\" is 7, not a list of strings"},
	  {"{\"architectures\":[\"\\u001b[31m\"]}", P4D_E_JSON,
	   "f: \"architectures\" contains the control character 0x1b"},
	  {"{\"architectures\":[\"a\\u0000b\"]}", P4D_E_JSON,
	   "f: \"architectures\" contains the control character 0x00"},
	  {LLAMA "\"hidden_size\":65,\"intermediate_size\":8,\"num_attention_heads\":4}", P4D_E_VALUE, NULL},
	  {LLAMA REST ",\"num_key_value_heads\":8}", P4D_E_VALUE, NULL},
	  {LLAMA REST ",\"num_key_value_heads\":3}", P4D_E_VALUE,
	   "f: heads are not a multiple of key/value heads: kv-heads 3, heads 4"},
	  {LLAMA "\"hidden_size\":64}", P4D_E_INCOMPLETE_MODEL, NULL},
	  {"{\"architectures\":[\"GPT2LMHeadModel\"],\"n_layer\":2,\"n_embd\":64,\"n_head\":4,\"vocab_"
	   "size\":9}",
	   P4D_E_INCOMPLETE_MODEL, NULL},
	  {"{\"name\":\"x\",\"layer\":2}", P4D_E_JSON, "f: unknown field \"layer\""},
	  {"{\"name\":\"x\",\"\\u001b\":2}", P4D_E_JSON, "f: unknown field \"\\u001b\""},
	  {"{\"name\":\"x\",\"kv-heads\":2}", P4D_E_JSON, "f: unknown field \"kv-heads\""},
	  {"{\"name\":\"x\",\"tp\":2}", P4D_E_JSON, "f: unknown field \"tp\""},
	  {"{\"name\":\"x\",\"norm\":\"batchnorm\"}", P4D_E_VALUE,
	   "f: --p4d-norm=batchnorm: not one of rmsnorm|layernorm|layernorm-scale|layernorm-plain"},
	  {"{\"name\":\"x\",\"glu\":true}", P4D_E_JSON, "f: \"glu\" is true, not a string"},
	  {"{\"name\":\"x\",\"parameters\":\"13.0\"}", P4D_E_VALUE,
	   "f: \"parameters\" is \"13.0\": neither a number nor like \"13.0B\""},
	  {"{\"name\":\"x\",\"parameters\":\"1.2.3B\"}", P4D_E_VALUE,
	   "f: \"parameters\" is \"1.2.3B\": neither a number nor like \"13.0B\""},
	  {"{\"name\":\"x\",\"parameters\":\"1234567B\"}", P4D_E_VALUE,
	   "f: \"parameters\" is \"1234567B\": neither a number nor like \"13.0B\""},
	  {"{\"name\":\"x\",\"parameters\":\"1.2345K\"}", P4D_E_VALUE,
	   "f: \"parameters\" is \"1.2345K\": neither a number nor like \"13.0B\""},
	  {"{\"name\":\"x\",\"parameters\":-1}", P4D_E_VALUE,
	   "f: \"parameters\" is -1: not from 1 to 9223372036854775807"},
	  {"{\"name\":\"x\",\"aliases\":[\"a,b\"]}", P4D_E_JSON,
	   "f: \"aliases\" has the entry \"a,b\", which is empty or contains a comma"},
	  {"{\"name\":\"x\",\"global_batch\":0}", P4D_E_VALUE,
	   "f: \"global_batch\" is 0: not from 1 to 16777216"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refuse_text(cases[i].text, strlen(cases[i].text), cases[i].code, cases[i].message);
	refuse_text("{\"name\":\0\"x\"}", 13, P4D_E_JSON, "f: NUL byte at byte 9");
}

/* Writes {"name":"x","layers":[[[1]]]} with `levels` levels, which include the object. */
static void nested(char *text, size_t levels)
{
	static const char start[] = "{\"name\":\"x\",\"layers\":";
	char *at = text + sizeof(start) - 1;

	memcpy(text, start, sizeof(start));
	memset(at, '[', levels - 1);
	at[levels - 1] = '1';
	memset(at + levels, ']', levels - 1);
	memcpy(at + 2 * levels - 1, "}", 2);
}

static void deep_nesting(void **state)
{
	char text[256];
	(void)state;

	nested(text, 100);
	refuse_text(text, strlen(text), P4D_E_JSON, "f: nested more than 32 levels deep");
	nested(text, 33);
	refuse_text(text, strlen(text), P4D_E_JSON, "f: nested more than 32 levels deep");
	nested(text, 32);
	refuse_text(text, strlen(text), P4D_E_JSON,
		    "f: \"layers\" is [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]], not a whole number");
}

static void long_text(char *expected, size_t size, const char *rest)
{
	snprintf(expected, size, "%s: %s", path, rest);
}

static void bad_files(void **state)
{
	char expected[256], name[128];
	(void)state;

	long_text(expected, sizeof(expected), "cannot be read: No such file or directory");
	refuse_file(path, P4D_E_IO, expected); /* missing */
	refuse_file(dir, P4D_E_IO, expected);  /* a directory without config.json */

	assert_int_equal(mkfifo(path, 0644), 0);
	long_text(expected, sizeof(expected), "not a regular file");
	refuse_file(path, P4D_E_IO, expected);
	unlink(path);
	refuse_file("/dev/zero", P4D_E_IO, "/dev/zero: not a regular file");

	write_file("", 0);
	long_text(expected, sizeof(expected), "empty file");
	refuse_file(path, P4D_E_JSON, expected);
	refuse_file(dir, P4D_E_JSON, expected);

	char *big = malloc(10 * 1024 * 1024);
	assert_non_null(big);
	memset(big, ' ', 10 * 1024 * 1024);
	big[0] = '{';
	big[1024 * 1024 - 1] = '}';
	write_file(big, 10 * 1024 * 1024);
	long_text(expected, sizeof(expected), "larger than 1048576 bytes");
	refuse_file(path, P4D_E_IO, expected);
	write_file(big, 1024 * 1024); /* the largest file that p4d reads */
	free(big);
	long_text(expected, sizeof(expected),
		  "neither a Hugging Face config.json (no \"architectures\" or \"model_type\") nor a preset "
		  "(no \"name\")");
	refuse_file(path, P4D_E_JSON, expected);

	/* a missing file below a path that is not a directory */
	snprintf(name, sizeof(name), "%s/x.json", path);
	snprintf(expected, sizeof(expected), "%s: cannot be read: Not a directory", name);
	refuse_file(name, P4D_E_IO, expected);
}

static void unreadable_file(void **state)
{
	char expected[256];
	int root = geteuid() == 0;
	(void)state;

	write_file("{}", 2);
	assert_int_equal(chmod(path, 0), 0);
	if (root) /* root can read every file */
		assert_int_equal(seteuid(65534), 0);
	long_text(expected, sizeof(expected), "cannot be read: Permission denied");
	refuse_file(path, P4D_E_IO, expected);
	refuse_file(dir, P4D_E_IO, expected);
	if (root)
		assert_int_equal(seteuid(0), 0);
}

/* org/name is first looked up as an alias of a preset, and then as a file relative to the user's
 * directory. */
static void relative_directory(void **state)
{
	static const char text[] =
	    "{\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":2,\"vocab_size\":100,"
	    "\"hidden_size\":64,\"intermediate_size\":128,\"num_attention_heads\":4}";
	char here[1024], absolute[1100], name[64];
	p4d_error err = {0};
	(void)state;

	assert_non_null(getcwd(here, sizeof(here)));
	snprintf(absolute, sizeof(absolute), "%s%s%s", *datadir() == '/' ? "" : here,
		 *datadir() == '/' ? "" : "/", datadir());
	write_file(text, strlen(text));
	snprintf(name, sizeof(name), "%s", dir + 1);
	assert_int_equal(chdir("/"), 0);
	p4d_request request = named(name), bare = named("tmp");
	int rc = p4d_model_resolve(&request, absolute, NULL, &err);
	int bare_rc = p4d_model_resolve(&bare, absolute, NULL, &err);
	assert_int_equal(chdir(here), 0);
	assert_int_equal(rc, 0);
	assert_int_equal(request.value[P4D_HIDDEN], 64);
	/* without a slash the text is a preset's name, even where such a directory exists */
	assert_int_equal(bare_rc, -1);
	assert_int_equal(err.code, P4D_E_UNKNOWN_MODEL);
}

static void own_preset_file(void **state)
{
	static const char text[] =
	    "{\"name\":\"mine\",\"parameters\":\"1.5K\",\"global_batch\":48,\"layers\":2,\"hidden\":60,"
	    "\"ffn\":128,\"heads\":4,\"vocab\":100,\"norm\":\"layernorm\",\"glu\":\"off\"}";
	p4d_preset preset;
	p4d_error err = {0};
	(void)state;

	write_file(text, strlen(text));
	p4d_request request = named(path);
	assert_int_equal(p4d_request_set(&request, P4D_HEADS, "8", P4D_BY_USER, &err), 0);
	assert_int_equal(p4d_model_resolve(&request, datadir(), &preset, &err), 0);
	assert_string_equal(preset.name, "mine");
	assert_int_equal(preset.parameters, 1500);
	assert_int_equal(preset.rounding, 50);
	assert_int_equal(preset.exact, 0);
	assert_int_equal(preset.global_batch, 48);
	assert_int_equal(request.value[P4D_HEADS], 8);
	/* the file has neither KV heads nor head size: KV heads follow the user's heads, the head size
	 * follows the file's */
	assert_int_equal(request.value[P4D_KV_HEADS], 8);
	assert_int_equal(request.value[P4D_HEAD_DIM], 15);
	assert_int_equal(request.value[P4D_NORM], P4D_LAYERNORM);
	assert_int_equal(request.value[P4D_GLU], 0);
}

/* A request that named an unmodelled architecture can be resolved again with a modelled one. */
static void unmodelled_is_cleared(void **state)
{
	p4d_request request = named("llama7b");
	p4d_error err = {0};
	(void)state;

	snprintf(request.unmodelled, sizeof(request.unmodelled), "stale");
	assert_int_equal(p4d_model_resolve(&request, datadir(), NULL, &err), 0);
	assert_string_equal(request.unmodelled, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bad_texts),
	    cmocka_unit_test(deep_nesting),
	    cmocka_unit_test_teardown(bad_files, remove_file),
	    cmocka_unit_test_teardown(unreadable_file, remove_file),
	    cmocka_unit_test_teardown(relative_directory, remove_file),
	    cmocka_unit_test_teardown(own_preset_file, remove_file),
	    cmocka_unit_test(unmodelled_is_cleared),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
