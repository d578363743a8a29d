/* SPDX-License-Identifier: Apache-2.0 */
/* The text of p4d.conf: the exact message about a wrong file, and that p4d notices every truncation. */
#include <sys/stat.h>

#include "site/conf.h"
#include "support/conf_file.h"

static void unknown_keys(void **state)
{
	(void)state;
	refused("mode = warn\nlimits = 0.9\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:2: unknown key `limits`; nearest: limit");
	refused("# two lines\n\npartition a {\n  mode = off\n  gpu_per_node = 8\n}\nversion = 1\n",
		P4D_E_CONF_SYNTAX,
		"p4d.conf:5: unknown key `gpu_per_node` in `partition a`; nearest: gpus_per_node, "
		"nics_per_node, mem_per_node_gib");
	refused("zzz = 1\nversion = 1\n", P4D_E_CONF_SYNTAX, "p4d.conf:1: unknown key `zzz`");
	refused("gpus_per_node = 8\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `gpus_per_node` belongs in a `partition` section");
	refused("usable_gib = 8\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `usable_gib` belongs in a `gpu` section");
	refused("qos a { on_error = pass }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `on_error` is not allowed in a `qos` section");
	refused("partitions a { mode = off }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unknown section `partitions`; nearest: partition");
	refused("defaults { seqlen = 4096 }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unknown plan option `seqlen` in `defaults`; nearest: seq_len, "
		"document_len, max_num_seqs");
	refused("defaults { layers = 40 }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unknown plan option `layers` in `defaults`; nearest: mtp_layers, "
		"resident_layers, recompute_layers");
	refused("defaults { model = llama7b }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unknown plan option `model` in `defaults`; nearest: model_code");
}

static void duplicates(void **state)
{
	(void)state;
	refused("safe = 0.7\nmode = off\nsafe = 0.8\nversion = 1\n", P4D_E_CONF_DUPLICATE,
		"p4d.conf:3: `safe` is set twice; the first is on line 1");
	refused("partition a { gpu = h100\n gpu = h100 }\nversion = 1\n", P4D_E_CONF_DUPLICATE,
		"p4d.conf:2: `gpu` is set twice in `partition a`; the first is on line 1");
	refused("partition a { mode = off }\npartition b { mode = off }\npartition a { }\nversion = 1\n",
		P4D_E_CONF_DUPLICATE,
		"p4d.conf:3: section `partition a` appears twice; the first is on line 1");
	refused("qos big { }\nqos BIG { }\nversion = 1\n", P4D_E_CONF_DUPLICATE,
		"p4d.conf:2: section `qos BIG` appears twice; the first is on line 1");
	refused("defaults { tp = 1 }\ndefaults { pp = 1 }\nversion = 1\n", P4D_E_CONF_DUPLICATE,
		"p4d.conf:2: section `defaults` appears twice; the first is on line 1");
	refused("defaults { tp = 1\ntp = 2 }\nversion = 1\n", P4D_E_CONF_DUPLICATE,
		"p4d.conf:2: `tp` is set twice in `defaults`; the first is on line 1");
	refused("partition a { default = true }\npartition b {\ndefault = true }\nversion = 1\n",
		P4D_E_CONF_DUPLICATE, "p4d.conf:3: partition `a` is already the default");
	refused("gpu x { name = h100-80gb usable_gib = 70 }\ngpu y { name = h100-80gb\nusable_gib = 71 "
		"}\nversion = 1\n",
		P4D_E_CONF_DUPLICATE,
		"p4d.conf:3: usable_gib of h100-80gb is set twice; the first is on line 1");
	/* partition names are case-sensitive; partitions, QOS and accounts may have the same names */
	p4d_site_free(loaded("partition a { }\npartition A { }\nqos a { }\naccount a { }\nversion = 1\n"));
}

static void wrong_types(void **state)
{
	(void)state;
	refused("safe = high\nversion = 1\n", P4D_E_CONF_SYNTAX, "p4d.conf:1: safe = high: not a number");
	refused("safe = 0.8.1\nversion = 1\n", P4D_E_CONF_SYNTAX, "p4d.conf:1: safe = 0.8.1: not a number");
	refused("limit = inf\nversion = 1\n", P4D_E_CONF_SYNTAX, "p4d.conf:1: limit = inf: not a number");
	refused("limit = 1e-1\nversion = 1\n", P4D_E_CONF_SYNTAX, "p4d.conf:1: limit = 1e-1: not a number");
	refused("limit = .\nversion = 1\n", P4D_E_CONF_SYNTAX, "p4d.conf:1: limit = .: not a number");
	refused("allow_override = 1\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: allow_override = 1: neither true nor false");
	refused("partition a { gpus_per_node = 8x }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: gpus_per_node = 8x: not a whole number");
	refused("mode = { off, warn }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `mode` takes one value, not a list");
	refused("require_plan { a }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: found `{`, expected `=`");
	refused("mode enforce\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: found `enforce`, expected `=`");
	refused("partition { mode = off }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: found `{`, expected the name of the section");
	refused("partition = a\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `partition` is a section, not a key");
	refused("mode =\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:2: found `=`, expected a key or a section");
	refused("partition a { qos b { } }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: section `qos` cannot be nested in section `partition a`");
	refused("}\nversion = 1\n", P4D_E_CONF_SYNTAX, "p4d.conf:1: found `}`, expected a key or a section");
	refused("exempt_qos = { a b }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: found `b`, expected `,` or `}`");
	refused("exempt_qos = { a, }, }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: found `,`, expected a key or a section");
}

static void out_of_range(void **state)
{
	(void)state;
	refused("mode = enforced\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: mode = enforced: not one of off|observe|warn|enforce");
	refused("rewrite = yes\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: rewrite = yes: not one of off|unset|all");
	refused("on_error = fail\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: on_error = fail: not one of pass|reject");
	refused("unmodelled = x\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: unmodelled = x: not one of pass|warn|reject");
	refused("log = some\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: log = some: not one of none|refusals|all");
	refused("limit = 1.01\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: limit = 1.01: not above 0 and at most 1");
	refused("safe = 0.0\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: safe = 0.0: not above 0 and at most 1");
	refused("safe = 0.9\nlimit = 0.85\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:2: safe = 0.9 is above limit = 0.85");
	refused("safe = 0.96\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: safe = 0.96 is above limit = 0.95 (the default)");
	refused("qos small { limit = 0.7 }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: safe = 0.8 is above limit = 0.7");
	refused("partition a { gpus_per_node = 0 }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: gpus_per_node = 0: not from 1 to 1024");
	refused("partition a { gpus_per_node = 99999999999999 }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: gpus_per_node = 99999999999999: not from 1 to 1024");
	refused("partition a { mem_per_node_gib = 2000000 }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: mem_per_node_gib = 2000000: not above 0 and at most 1048576");
	refused("partition a {\n gpu = \"h100x\"\n}\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:2: GPU `h100x` is not in gpus.json; nearest: h100-80gb, h100-96gb, h100-1g.10gb");
	refused("partition a { gpu = { h100, qq } }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: GPU `qq` is not in gpus.json");
	refused("gpu special { usable_gib = 40 }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: GPU `special` is not in gpus.json; to describe a GPU that p4d does not know, "
		"use memory_gib instead of usable_gib");
	refused("gpu special { mode = off }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: GPU `special` is not in gpus.json; to describe a GPU that p4d does not know, "
		"add memory_gib = N");
	refused("gpu \"my*\" { memory_gib = 40 }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: GPU `my*`: a new GPU needs a `name` of less than 48 characters, without blanks, "
		"commas and wildcards");
	refused("gpu special { memory_gib = 4097 }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: memory_gib = 4097: not above 0 and at most 4096");
	refused("gpu special { memory_gib = 40\ncompute_capability = 86 }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:2: compute_capability = 86: not like 8.0");
	refused("gpu special { memory_gib = 40\nusable_gib = 40 }\nversion = 1\n", P4D_E_CONF_DUPLICATE,
		"p4d.conf:2: usable_gib and memory_gib of special: one of them is enough");
	/* the number is in MiB instead of GiB, or has a digit too many */
	refused("gpu h100 { usable_gib = 81559 }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: usable_gib = 81559: h100-80gb has 80 GiB at most");
	refused("partition a { gpu = { h100,h100,h100,h100,h100,h100,h100,h100,h100 } }\nversion = 1\n",
		P4D_E_CONF_RANGE, "p4d.conf:1: gpu: a partition may have at most 8 types");
	refused("data = etc\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: data = etc: not an absolute path");
	refused("gpus = gpus.json\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: gpus = gpus.json: not an absolute path");
	refused("defaults {\n seq_len = 0\n}\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:2: --p4d-seq-len=0: not a whole number from 1 to 134217728");
	refused("defaults { precision = fp4 }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: --p4d-precision=fp4: not one of bf16|fp16|fp32|fp8");
	refused("version = 2\n", P4D_E_CONF_RANGE, "p4d.conf:1: version = 2: this p4d reads only version 1");
	refused("qos aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa { }\nversion = 1\n",
		P4D_E_CONF_RANGE,
		"p4d.conf:1: the name of a section has 64 characters: at most 63 are accepted");
	refused("mode = \"\"\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: a string of 0 characters: 1 to 1023 are accepted");
}

static void cut_off(void **state)
{
	(void)state;
	refused("", P4D_E_CONF_TRUNCATED,
		"p4d.conf:1: the file is truncated: its last line must be `version = 1`");
	refused("mode = off\n# the end\n", P4D_E_CONF_TRUNCATED,
		"p4d.conf:3: the file is truncated: its last line must be `version = 1`");
	refused("version = 1\nmode = off\n", P4D_E_CONF_TRUNCATED,
		"p4d.conf:1: `version = 1` must be the last line, but line 2 follows");
	refused("partition a {\n mode = off\n", P4D_E_CONF_TRUNCATED,
		"p4d.conf:3: the file ends inside section `partition a`, which starts in line 1");
	refused("defaults {\n tp", P4D_E_CONF_TRUNCATED, "p4d.conf:2: the file ends, expected `=`");
	refused("mode =", P4D_E_CONF_TRUNCATED, "p4d.conf:1: the file ends, expected a value");
	refused("mode", P4D_E_CONF_TRUNCATED, "p4d.conf:1: the file ends, expected `=`");
	refused("qos", P4D_E_CONF_TRUNCATED, "p4d.conf:1: the file ends, expected the name of the section");
	refused("qos a", P4D_E_CONF_TRUNCATED, "p4d.conf:1: the file ends, expected `{`");
	refused("exempt_qos = { a", P4D_E_CONF_TRUNCATED, "p4d.conf:1: the file ends, expected `,` or `}`");
	refused("exempt_qos = { a, ", P4D_E_CONF_TRUNCATED,
		"p4d.conf:1: the file ends, expected a value or `}`");
	refused("data = \"/usr", P4D_E_CONF_TRUNCATED, "p4d.conf:1: the file ends inside a string");
}

/* A file that is cut anywhere before its last line is refused. */
static void every_cut_is_noticed(void **state)
{
	(void)state;
	const char *text = "mode = warn\nexempt_qos = { \"a\", b }\ndefaults { tp = 8 }\npartition h { gpu = "
			   "h100\nsafe = 0.7 }\n"
			   "version = 1\n";
	size_t length = strlen(text);
	for (size_t cut = 0; cut < length; cut++) {
		p4d_error err = {0};
		p4d_conf conf = {0};
		char part[256];
		snprintf(part, sizeof(part), "%.*s", (int)cut, text);
		int rc = p4d_conf__parse(&conf, "x", part, cut, &err);
		if (cut == length - 1) { /* only the last newline is missing, so the file is valid */
			assert_int_equal(rc, 0);
			p4d_conf__free(&conf);
			continue;
		}
		assert_int_equal(rc, -1);
		assert_int_equal(err.code, P4D_E_CONF_TRUNCATED);
	}
}

static void text_with_a_second_meaning(void **state)
{
	(void)state;
	setenv("P4D_TEST_SECRET", "warn", 1);
	refused("mode = \"${P4D_TEST_SECRET}\"\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `$` in a string: variables and escapes are not supported");
	refused("mode = ${P4D_TEST_SECRET}\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unexpected `$`: text other than names and numbers needs quotes");
	refused("include(\"/etc/passwd\")\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unexpected `(`: text other than names and numbers needs quotes");
	refused("exempt_qos += a\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unexpected `+`: text other than names and numbers needs quotes");
	refused("data = \"/a\\n\"\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `\\` in a string: variables and escapes are not supported");
	refused("mode = \"off\nversion = 1\n", P4D_E_CONF_SYNTAX, "p4d.conf:1: unterminated string");
	refused("// no\nversion = 1\n", P4D_E_CONF_SYNTAX, "p4d.conf:1: `//`: comments start with #");
	refused("/* no */\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unexpected `*`: text other than names and numbers needs quotes");
	refused("data = /a//b\nversion = 1\n", P4D_E_CONF_SYNTAX, "p4d.conf:1: `//`: comments start with #");
	refused("mode = off\r\nversion = 1\r\n", P4D_E_CONF_SYNTAX, "p4d.conf:1: control character 0x0d");
	refused("m\xc3\xb6"
		"de = off\nversion = 1\n",
		P4D_E_CONF_SYNTAX, "p4d.conf:1: unexpected byte 0xc3: names are ASCII");
	refused("mode = \xc3\xb6\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unexpected byte 0xc3: names are ASCII");
	/* after a refused file, p4d reads the next file correctly */
	p4d_site_free(
	    loaded("# caf\xc3\xa9 \"${HOME} ( // + /* \nmode = 'off' # '\nversion = 1 # \"\n\n# end\n"));
	p4d_error err = {0};
	write_bytes("mode = off\0\nversion = 1\n", 24);
	assert_null(p4d_site_load(path, test_datadir(), false, 0, &err));
	assert_string_equal(err.text + strlen(dir) + 1, "p4d.conf:1: control character 0x00");
}

static void comments_and_lines_anywhere(void **state)
{
	(void)state;
	p4d_site *site = loaded("exempt_accounts = { # who\n\ta, # one\n\t# nobody\n\t'b', }\n"
				"partition # p\np#q\n{ mode # m\n= # is\noff }version=1");
	assert_true(p4d_site_policy(site, &(p4d_site_job){.partition = "x", .account = "b"}).exempt);
	assert_int_equal(p4d_site_policy(site, &(p4d_site_job){.partition = "p"}).mode, P4D_MODE_OFF);
	p4d_site_free(site);
	refused("exempt_accounts = {\n# } \n\"a\",\n\"b\" # {\n}\nsafe\n=\n2\nversion = 1\n",
		P4D_E_CONF_RANGE, "p4d.conf:6: safe = 2: not above 0 and at most 1");
	/* lists without values, and a section without keys */
	p4d_site_free(loaded("require_plan = { }\npartition p { }\nversion = 1\n"));
}

static void many_sections(void **state)
{
	(void)state;
	static char text[65536];
	size_t used = 0;
	for (int i = 0; i < 1023; i++)
		used +=
		    (size_t)snprintf(text + used, sizeof(text) - used, "partition p%d { safe = 0.5 }\n", i);
	size_t before = used;
	snprintf(text + used, sizeof(text) - used, "version = 1\n");
	p4d_site *site = loaded(text);
	assert_string_equal(p4d_site_partition_at(site, 1022)->name, "p1022");
	assert_true(p4d_site_policy(site, &(p4d_site_job){.partition = "p1022"}).safe == 0.5);
	p4d_site_free(site);
	snprintf(text + before, sizeof(text) - before, "qos q { }\nversion = 1\n");
	refused(text, P4D_E_CONF_RANGE, "p4d.conf:1024: more than 1023 sections");
}

/* Writes a file NAME in the test's directory. */
static void write_file(const char *name, const char *text)
{
	char other[128];

	snprintf(other, sizeof(other), "%s/%s", dir, name);
	FILE *file = fopen(other, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void remove_file(const char *name)
{
	char other[128];

	snprintf(other, sizeof(other), "%s/%s", dir, name);
	unlink(other);
}

/* The message with which a file that includes dir/more is refused. */
static void included_refused(const char *more, p4d_code code, const char *format, ...)
{
	char text[512], message[512];
	p4d_error err = {0};
	va_list args;

	write_file("more", more);
	snprintf(text, sizeof(text), "mode = warn\npartition a { }\ninclude = \"%s/more\"\nversion = 1\n",
		 dir);
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	assert_null(load(text, &err));
	assert_string_equal(err.text, message);
	assert_int_equal(err.code, code);
}

static void included_files(void **state)
{
	char text[512];

	(void)state;
	write_file("more", "limit = 0.9\npartition b { mode = off }\nversion = 1\n");
	write_file("most", "partition c { mode = enforce }\nversion = 1\n");
	snprintf(text, sizeof(text), "mode = warn\ninclude = { \"%s/more\", \"%s/most\" }\nversion = 1\n",
		 dir, dir);
	p4d_site *site = loaded(text);
	assert_int_equal(p4d_site_policy(site, &(p4d_site_job){.partition = "a"}).mode, P4D_MODE_WARN);
	assert_true(p4d_site_policy(site, &(p4d_site_job){0}).limit == 0.9);
	assert_int_equal(p4d_site_policy(site, &(p4d_site_job){.partition = "b"}).mode, P4D_MODE_OFF);
	assert_int_equal(p4d_site_policy(site, &(p4d_site_job){.partition = "c"}).mode, P4D_MODE_ENFORCE);
	/* p4d notices a change of any included file */
	assert_true(p4d_site_is_current(site));
	write_file("most", "partition d { mode = enforce }\nversion = 1\n");
	assert_false(p4d_site_is_current(site));
	p4d_site_free(site);

	included_refused("limit = 2\nversion = 1\n", P4D_E_CONF_RANGE,
			 "%s/more:1: limit = 2: not above 0 and at most 1", dir);
	included_refused("\nmode = off\nversion = 1\n", P4D_E_CONF_DUPLICATE,
			 "%s/more:2: `mode` is set twice; the first is on line 1 of %s/p4d.conf", dir, dir);
	included_refused(
	    "partition a { }\nversion = 1\n", P4D_E_CONF_DUPLICATE,
	    "%s/more:1: section `partition a` appears twice; the first is on line 2 of %s/p4d.conf", dir,
	    dir);
	included_refused("\ninclude = \"/x\"\nversion = 1\n", P4D_E_CONF_SYNTAX,
			 "%s/more:2: an included file cannot include further files", dir);
	included_refused("partition b { }\n", P4D_E_CONF_TRUNCATED,
			 "%s/more:2: the file is truncated: its last line must be `version = 1`", dir);
	refused("\ninclude = etc/more\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:2: include = etc/more: not an absolute path");

	/* an included file must be as trustworthy as the file that includes it */
	p4d_error err = {0};
	write_file("more", "version = 1\n");
	snprintf(text, sizeof(text), "include = \"%s/more\"\nversion = 1\n", dir);
	write_bytes(text, strlen(text));
	snprintf(text, sizeof(text), "%s/more", dir);
	assert_int_equal(chmod(path, 0644) | chmod(text, 0666), 0);
	assert_null(p4d_site_load(path, test_datadir(), true, (uint32_t)geteuid(), &err));
	assert_int_equal(err.code, P4D_E_CONF_TRUST);
	assert_non_null(strstr(err.text, "/more: mode 0666"));
	remove_file("more");
	remove_file("most");
}

/* The copy in a single file, which slurmctld stores, means the same as p4d.conf with its included files. */
static void text_of_a_site(void **state)
{
	char text[1024];

	(void)state;
	write_file("more", "qos q { limit = 0.9 }\nversion = 1\n");
	snprintf(text, sizeof(text),
		 "mode = warn\nexempt_accounts = { 'a \"b\"', \"it's\" }\nexempt_qos = { }\ninclude = "
		 "\"%s/more\"\n"
		 "defaults { seq_len = 4096 }\npartition 'p 1' { defaults { tp = 2 } gpu = { h100, a100 } "
		 "default = true }\n"
		 "version = 1\n",
		 dir);
	p4d_site *first = loaded(text);
	char *once = p4d_site_text(first);
	remove_file("more");
	p4d_site *second = loaded(once);
	char *twice = p4d_site_text(second);
	assert_string_equal(once, twice);
	assert_true(p4d_site_policy(second, &(p4d_site_job){.account = "a \"b\""}).exempt);
	assert_true(p4d_site_policy(second, &(p4d_site_job){.account = "it's"}).exempt);
	assert_true(p4d_site_policy(second, &(p4d_site_job){.qos = "q"}).limit == 0.9);
	assert_int_equal(p4d_site_partition_of(second, NULL)->gpus, 2);
	p4d_request request = {0};
	p4d_site_apply_defaults(second, NULL, &request);
	assert_int_equal(request.value[P4D_TP], 2);
	assert_int_equal(request.value[P4D_SEQ_LEN], 4096);
	free(once);
	free(twice);
	p4d_site_free(first);
	p4d_site_free(second);
}

/* The sample p4d.conf must be valid as it is, and also if all of its commented-out settings are switched
 * on. */
static void the_sample_is_valid(void **state)
{
	(void)state;
	static char text[65536], enabled[65536];
	char sample[512];
	p4d_error err = {0};
	snprintf(sample, sizeof(sample), "%s/p4d.conf", test_datadir());
	FILE *file = fopen(sample, "r");
	assert_non_null(file);
	size_t length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	p4d_site *site = p4d_site_load(sample, test_datadir(), false, 0, &err);
	if (!site)
		fail_msg("%s", err.text);
	p4d_policy policy = p4d_site_policy(site, &(p4d_site_job){0});
	assert_int_equal(policy.mode, P4D_MODE_OBSERVE);
	p4d_site_free(site);
	char *out = enabled;
	for (const char *at = text; *at;) { /* "#key" is a setting, "# text" is a comment */
		size_t line = strcspn(at, "\n") + 1;
		bool setting = *at == '#' && at[1] != ' ' && at[1] != '\n';
		/* these files of the site need not exist */
		if (strncmp(at, "#gpus", 5) == 0) {
			out += sprintf(out, "gpus = \"%s/gpus.json\"\n", test_datadir());
		} else if (strncmp(at, "#data", 5) != 0 && strncmp(at, "#include", 8) != 0) {
			memcpy(out, at + setting, line - setting);
			out += line - setting;
		}
		at += line;
	}
	*out = '\0';
	site = loaded(enabled);
	for (int i = 0; i < P4D_KEYS; i++) /* the sample shows every key */
		if (!strstr(text, p4d_conf__key_table[i].name))
			fail_msg("etc/p4d.conf does not show `%s`", p4d_conf__key_table[i].name);
	p4d_site_free(site);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(unknown_keys),
	    cmocka_unit_test(duplicates),
	    cmocka_unit_test(wrong_types),
	    cmocka_unit_test(out_of_range),
	    cmocka_unit_test(cut_off),
	    cmocka_unit_test(every_cut_is_noticed),
	    cmocka_unit_test(text_with_a_second_meaning),
	    cmocka_unit_test(comments_and_lines_anywhere),
	    cmocka_unit_test(many_sections),
	    cmocka_unit_test(included_files),
	    cmocka_unit_test(text_of_a_site),
	    cmocka_unit_test(the_sample_is_valid),
	};

	return cmocka_run_group_tests_name("conf", tests, make_dir, remove_dir);
}
