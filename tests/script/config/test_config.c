/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files, read as trees: values, line numbers and limits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config_library.h"
#include "support/support.h"

static p4d_config_read *library(p4d_config_format format)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/.libs/%s", getenv("P4D_TEST_BUILDDIR"),
		 p4d_config_libraries[format].file);
	if (access(path, R_OK) != 0)
		skip(); /* this p4d was built without that library */
	p4d_config_read *read = p4d_config_open(path, format);
	assert_non_null(read);
	return read;
}

/* The node at a path such as "a.b.0". */
static const p4d_config_node *at(const p4d_config *tree, const char *path)
{
	const p4d_config_node *n = tree->root;
	char name[64];

	while (n && *path) {
		const size_t length = strcspn(path, ".");
		snprintf(name, sizeof(name), "%.*s", (int)length, path);
		path += length + (path[length] == '.');
		long index = n->kind == P4D_CONFIG_LIST ? strtol(name, NULL, 10) : -1;
		for (n = n->first; n && (index >= 0 ? index-- != 0 : strcmp(n->key, name) != 0);)
			n = n->next;
	}
	return n;
}

static void has(const p4d_config *tree, const char *path, const char *text, uint32_t line)
{
	const p4d_config_node *n = at(tree, path);

	assert_non_null(n);
	assert_int_equal(n->kind, P4D_CONFIG_SCALAR);
	assert_string_equal(n->text, text);
	assert_int_equal(n->line, line);
}

static void refuses(p4d_config_format format, const char *text, size_t length, const char *why)
{
	p4d_config tree = {.root = NULL};

	assert_false(library(format)(&tree, text, length));
	if (!strstr(tree.why, why))
		fail_msg("%s instead of %s", tree.why, why);
	p4d_config_free(&tree);
}

static void test_yaml(void **state)
{
	static const char text[] = "# a comment\n"
				   "model: &m\n"
				   "  name: 'a: b'\n"
				   "  layers: 32\n"
				   "  none: ~\n"
				   "targets: [q_proj, v_proj]\n"
				   "again: *m\n"
				   "more:\n"
				   "- x: 1\n"
				   "---\n"
				   "second: 1\n";
	p4d_config tree = {.root = NULL};

	(void)state;
	assert_true(library(P4D_CONFIG_YAML)(&tree, text, sizeof(text) - 1));
	has(&tree, "model.name", "a: b", 3);
	has(&tree, "model.layers", "32", 4);
	has(&tree, "targets.1", "v_proj", 6);
	has(&tree, "again.layers", "32", 4);
	has(&tree, "more.0.x", "1", 9);
	assert_int_equal(at(&tree, "model.none")->kind, P4D_CONFIG_NULL);
	assert_null(at(&tree, "second"));
	p4d_config_free(&tree);
}

static void test_json(void **state)
{
	static const char text[] = "{\n\t\"zero_optimization\": {\n\t\t\"stage\":3, \"offload_param\": "
				   "{\"device\" : \"cpu\"}\n\t},\n"
				   "\t\"bf16\": {\"enabled\": true}, \"clip\": 1e-5, \"a\": []\n}\n";
	p4d_config tree = {.root = NULL};

	(void)state;
	assert_true(library(P4D_CONFIG_YAML)(&tree, text, sizeof(text) - 1));
	has(&tree, "zero_optimization.stage", "3", 3);
	has(&tree, "zero_optimization.offload_param.device", "cpu", 3);
	has(&tree, "bf16.enabled", "true", 5);
	has(&tree, "clip", "1e-5", 5);
	assert_int_equal(at(&tree, "a")->kind, P4D_CONFIG_LIST);
	p4d_config_free(&tree);
}

static void test_toml(void **state)
{
	static const char text[] = "# a comment\n"
				   "[training]\n"
				   "seq_len = 8_192\n"
				   "compile = true\n"
				   "lr = 0.5\n"
				   "[model]\n"
				   "name = \"llama3\"  # another\n"
				   "parts = ['a', 'b']\n"
				   "x.y = 0x10\n";
	p4d_config tree = {.root = NULL};

	(void)state;
	assert_true(library(P4D_CONFIG_TOML)(&tree, text, sizeof(text) - 1));
	has(&tree, "training.seq_len", "8192", 3);
	has(&tree, "training.compile", "true", 4);
	has(&tree, "training.lr", "0.5", 5);
	has(&tree, "model.name", "llama3", 7);
	has(&tree, "model.parts.1", "b", 8);
	has(&tree, "model.x.y", "16", 9);
	p4d_config_free(&tree);
}

/* An error has the number of the line, and no text takes long to read. */
static void test_refusals(void **state)
{
	static char deep[4096], wide[3 * P4D_CONFIG_NODES + 2], large[P4D_CONFIG_BYTES + 1];

	(void)state;
	memset(deep, '[', sizeof(deep));
	memset(large, 'x', sizeof(large));
	wide[0] = '[';
	for (size_t i = 0; i < P4D_CONFIG_NODES; i++)
		memcpy(wide + 1 + 3 * i, "1, ", 3);
	wide[sizeof(wide) - 1] = ']';
	refuses(P4D_CONFIG_YAML, "a: b\n c: d\n", 11, "line 2: mapping values are not allowed");
	refuses(P4D_CONFIG_YAML, "a: *b\n", 6, "line 1 names an anchor that is not there");
	refuses(P4D_CONFIG_YAML, "a: &b [*b]\n", 11, "names an anchor that is not there");
	refuses(P4D_CONFIG_YAML, "{[1]: 2}", 8, "a key that is no text");
	refuses(P4D_CONFIG_YAML, deep, sizeof(deep), "nested deeper than 32");
	refuses(P4D_CONFIG_YAML, wide, sizeof(wide), "more than 65536 values");
	refuses(P4D_CONFIG_YAML, large, sizeof(large), "more than 1048576 bytes");
	refuses(P4D_CONFIG_TOML, "a = 1\nb = \n", 11, "line 2:");
	refuses(P4D_CONFIG_TOML, large, sizeof(large), "more than 1048576 bytes");
	refuses(P4D_CONFIG_TOML, "[.a]\n", 5, "line 1:");
	refuses(P4D_CONFIG_TOML, "\xc2\xac = 1\n", 7, "line 1:");
	memcpy(deep, "a = ", 4);
	refuses(P4D_CONFIG_TOML, deep, sizeof(deep), "");
	memcpy(wide, "a=[", 3);
	refuses(P4D_CONFIG_TOML, wide, sizeof(wide), "");
}

/* Texts of the maximum size with many values or blanks. p4d reads or refuses them within the time limit. */
static void test_time(void **state)
{
	static const char *const lines[][2] = {
	    {"key", ": value"}, {"key", " = 1"}, {"[[key", "]]"}, {"# ", ""}, {"\n\n\n#", ""}};
	static char text[P4D_CONFIG_BYTES + 64];
	/* the limit is larger with sanitizers */
	const uint64_t time_ns = 14000000, end_ns = (getenv("P4D_TEST_FEW") ? 20 : 1) * (uint64_t)20000000;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		for (int format = 0; format < P4D_CONFIG_FORMATS; format++) {
			p4d_config tree = {.root = NULL};
			size_t length = 0;
			for (size_t n = 0; length < P4D_CONFIG_BYTES - 32; n++)
				length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%zu%s\n",
							   lines[i][0], n, lines[i][1]);
			uint64_t least_ns = UINT64_MAX; /* the shortest of several runs, because other
							 * programs may use the machine */
			for (int k = 0; k < 50 && least_ns > end_ns; k++) {
				const uint64_t start_ns = p4d_config_clock();
				tree = (p4d_config){.until_ns = start_ns + time_ns};
				if (!library((p4d_config_format)format)(&tree, text, length))
					assert_true(*tree.why);
				p4d_config_free(&tree);
				const uint64_t taken_ns = p4d_config_clock() - start_ns;
				least_ns = taken_ns < least_ns ? taken_ns : least_ns;
			}
			assert_within(least_ns, 0, end_ns);
			tree = (p4d_config){.until_ns = 1};
			assert_false(library((p4d_config_format)format)(&tree, text, length));
			assert_string_equal(tree.why, "the file takes too long to read");
			p4d_config_free(&tree);
		}
}

/* Aliases share their nodes. This text would have 10^20 values without aliases, but needs only 20 nodes. */
static void test_aliases(void **state)
{
	char text[2048];
	size_t length = (size_t)snprintf(text, sizeof(text), "a0: &a0 [x, x]\n");
	p4d_config tree = {.root = NULL};

	(void)state;
	for (int i = 1; i < 20; i++)
		length +=
		    (size_t)snprintf(text + length, sizeof(text) - length,
				     "a%d: &a%d [*a%d,*a%d,*a%d,*a%d]\n", i, i, i - 1, i - 1, i - 1, i - 1);
	assert_true(library(P4D_CONFIG_YAML)(&tree, text, length));
	assert_true(tree.nodes < 200);
	has(&tree, "a19.3.2.1.0.3.2.1.0.3.2.1.0.3.2.1.0.3.2.1.1", "x", 1);
	p4d_config_free(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_yaml),     cmocka_unit_test(test_json),    cmocka_unit_test(test_toml),
	    cmocka_unit_test(test_refusals), cmocka_unit_test(test_aliases), cmocka_unit_test(test_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
