/* SPDX-License-Identifier: Apache-2.0 */
/* p4d.conf: what is accepted, what exactly is said of what is not, and which setting wins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf.h"
#include "site.h"

static char dir[64], path[96];

static const char *datadir(void)
{
	const char *set = getenv("P4D_TEST_DATADIR");

	return set ? set : "etc";
}

static int make_dir(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/p4d-site-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/p4d.conf", dir);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

static void write_bytes(const char *text, size_t length)
{
	unlink(path);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

static p4d_site *load(const char *text, p4d_error *err)
{
	write_bytes(text, strlen(text));
	return p4d_site_load(path, datadir(), false, 0, err);
}

static p4d_site *loaded(const char *text)
{
	p4d_error err = {0};
	p4d_site *site = load(text, &err);

	if (!site)
		fail_msg("refused: %s", err.text);
	return site;
}

/* The text must be refused with this code and message, "p4d.conf:LINE: ..." without the directory. */
static void refused(const char *text, p4d_code code, const char *message)
{
	p4d_error err = {0};
	p4d_site *site = load(text, &err);

	p4d_site_free(site);
	if (site)
		fail_msg("accepted, but should say: %s", message);
	assert_memory_equal(err.text, dir, strlen(dir));
	assert_string_equal(err.text + strlen(dir) + 1, message);
	assert_int_equal(err.code, code);
}

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
	p4d_policy policy = p4d_site_policy(site, "h100", NULL, NULL, "h100-80gb");
	assert_int_equal(policy.mode, P4D_MODE_ENFORCE);
	assert_true(policy.safe == 0.80);
	assert_true(policy.limit == 0.95);
	assert_true(policy.limit_is_set);
	assert_int_equal(policy.rewrite, P4D_REWRITE_UNSET);
	policy = p4d_site_policy(site, "debug", "large", NULL, NULL);
	assert_int_equal(policy.mode, P4D_MODE_OBSERVE);
	assert_true(policy.limit == 0.90);
	assert_string_equal(p4d_site_path(site), path);
	assert_string_equal(p4d_site_datadir(site), datadir());
	p4d_site_free(site);
}

static void defaults_without_a_file(void **state)
{
	(void)state;
	p4d_error err = {0};
	p4d_site *site = p4d_site_default(datadir(), &err);
	assert_non_null(site);
	p4d_policy policy = p4d_site_policy(site, NULL, NULL, NULL, NULL);
	assert_int_equal(policy.mode, P4D_MODE_ENFORCE);
	assert_int_equal(policy.rewrite, P4D_REWRITE_UNSET);
	assert_int_equal(policy.on_error, P4D_ON_ERROR_PASS);
	assert_int_equal(policy.unmodelled, P4D_UNMODELLED_WARN);
	assert_true(policy.safe == 0.80);
	assert_false(policy.limit_is_set);
	assert_false(policy.require_plan);
	assert_false(policy.allow_override);
	assert_false(policy.exempt);
	assert_true(p4d_policy_limit(&policy, P4D_FRAMEWORK_MEGATRON) == 0.95);
	assert_true(p4d_policy_limit(&policy, P4D_FRAMEWORK_P4D) == 0.97);
	assert_int_equal(p4d_site_log(site), P4D_LOG_REFUSALS);
	assert_int_equal(p4d_site_host_bytes_per_rank(site), 0);
	assert_string_equal(p4d_site_path(site), "");
	assert_true(p4d_site_gpus(site)->count > 10);
	p4d_site_free(site);
	assert_null(p4d_site_default("/nonexistent", &err));
	assert_int_equal(err.code, P4D_E_IO);
}

static void a_limit_of_the_site_holds_for_both_frameworks(void **state)
{
	(void)state;
	p4d_site *site = loaded("limit = 0.93\nversion = 1\n");
	p4d_policy policy = p4d_site_policy(site, NULL, NULL, NULL, NULL);
	assert_true(p4d_policy_limit(&policy, P4D_FRAMEWORK_MEGATRON) == 0.93);
	assert_true(p4d_policy_limit(&policy, P4D_FRAMEWORK_P4D) == 0.93);
	p4d_site_free(site);
}

static void unknown_keys(void **state)
{
	(void)state;
	refused("mode = warn\nlimits = 0.9\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:2: unknown key `limits`; nearest: limit");
	refused("# two lines\n\npartition a {\n  mode = off\n  gpu_per_node = 8\n}\nversion = 1\n",
		P4D_E_CONF_SYNTAX,
		"p4d.conf:5: unknown key `gpu_per_node` in `partition a`; nearest: gpus_per_node, "
		"mem_per_node_gib");
	refused("zzz = 1\nversion = 1\n", P4D_E_CONF_SYNTAX, "p4d.conf:1: unknown key `zzz`");
	refused("gpus_per_node = 8\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `gpus_per_node` belongs into a `partition` section");
	refused("usable_gib = 8\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `usable_gib` belongs into a `gpu` section");
	refused("qos a { on_error = pass }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `on_error` cannot stand in a `qos` section");
	refused("partitions a { mode = off }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unknown section `partitions`; nearest: partition");
	refused(
	    "defaults { seqlen = 4096 }\nversion = 1\n", P4D_E_CONF_SYNTAX,
	    "p4d.conf:1: unknown plan option `seqlen` in `defaults`; nearest: seq_len, sequence_parallel");
	refused("defaults { layers = 40 }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unknown plan option `layers` in `defaults`");
	refused("defaults { model = llama7b }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unknown plan option `model` in `defaults`");
}

static void duplicates(void **state)
{
	(void)state;
	refused("safe = 0.7\nmode = off\nsafe = 0.8\nversion = 1\n", P4D_E_CONF_DUPLICATE,
		"p4d.conf:3: `safe` is set twice; the first is in line 1");
	refused("partition a { gpu = h100\n gpu = h100 }\nversion = 1\n", P4D_E_CONF_DUPLICATE,
		"p4d.conf:2: `gpu` is set twice in `partition a`; the first is in line 1");
	refused("partition a { mode = off }\npartition b { mode = off }\npartition a { }\nversion = 1\n",
		P4D_E_CONF_DUPLICATE,
		"p4d.conf:3: section `partition a` appears twice; the first is in line 1");
	refused("qos big { }\nqos BIG { }\nversion = 1\n", P4D_E_CONF_DUPLICATE,
		"p4d.conf:2: section `qos BIG` appears twice; the first is in line 1");
	refused("defaults { tp = 1 }\ndefaults { pp = 1 }\nversion = 1\n", P4D_E_CONF_DUPLICATE,
		"p4d.conf:2: section `defaults` appears twice; the first is in line 1");
	refused("defaults { tp = 1\ntp = 2 }\nversion = 1\n", P4D_E_CONF_DUPLICATE,
		"p4d.conf:2: `tp` is set twice in `defaults`; the first is in line 1");
	refused("partition a { default = true }\npartition b {\ndefault = true }\nversion = 1\n",
		P4D_E_CONF_DUPLICATE, "p4d.conf:3: partition `a` already is the default");
	refused("gpu x { name = h100-80gb usable_gib = 70 }\ngpu y { name = h100-80gb\nusable_gib = 71 "
		"}\nversion = 1\n",
		P4D_E_CONF_DUPLICATE,
		"p4d.conf:3: usable_gib of h100-80gb is set twice; the first is in line 1");
	/* partitions differ by case, and kinds of sections do not meet */
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
		"p4d.conf:1: `{` where `=` should stand");
	refused("mode enforce\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `enforce` where `=` should stand");
	refused("partition { mode = off }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `{` where the name of the section should stand");
	refused("partition = a\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `partition` is a section, not a key");
	refused("mode =\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:2: `=` where a key or a section should stand");
	refused("partition a { qos b { } }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: section `qos` cannot stand inside section `partition a`");
	refused("}\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `}` where a key or a section should stand");
	refused("exempt_qos = { a b }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `b` where `,` or `}` should stand");
	refused("exempt_qos = { a, }, }\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `,` where a key or a section should stand");
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
		"p4d.conf:1: GPU `special` is not in gpus.json");
	refused("partition a { gpu = { h100,h100,h100,h100,h100,h100,h100,h100,h100 } }\nversion = 1\n",
		P4D_E_CONF_RANGE, "p4d.conf:1: gpu: a partition may have at most 8 types");
	refused("data = etc\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: data = etc: not an absolute path");
	refused("defaults {\n seq_len = 0\n}\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:2: --p4d-seq-len=0: not a whole number from 1 to 134217728");
	refused("defaults { precision = fp8 }\nversion = 1\n", P4D_E_CONF_RANGE,
		"p4d.conf:1: --p4d-precision=fp8: not one of bf16|fp16|fp32");
	refused("version = 2\n", P4D_E_CONF_RANGE, "p4d.conf:1: version = 2: this p4d reads version 1");
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
		"p4d.conf:1: the file is cut off: its last line must be `version = 1`");
	refused("mode = off\n# the end\n", P4D_E_CONF_TRUNCATED,
		"p4d.conf:3: the file is cut off: its last line must be `version = 1`");
	refused("version = 1\nmode = off\n", P4D_E_CONF_TRUNCATED,
		"p4d.conf:1: `version = 1` must be the last line, but line 2 follows");
	refused("partition a {\n mode = off\n", P4D_E_CONF_TRUNCATED,
		"p4d.conf:3: the file ends inside section `partition a`, which starts in line 1");
	refused("defaults {\n tp", P4D_E_CONF_TRUNCATED, "p4d.conf:2: the file ends where `=` should follow");
	refused("mode =", P4D_E_CONF_TRUNCATED, "p4d.conf:1: the file ends where a value should follow");
	refused("mode", P4D_E_CONF_TRUNCATED, "p4d.conf:1: the file ends where `=` should follow");
	refused("qos", P4D_E_CONF_TRUNCATED,
		"p4d.conf:1: the file ends where the name of the section should follow");
	refused("qos a", P4D_E_CONF_TRUNCATED, "p4d.conf:1: the file ends where `{` should follow");
	refused("exempt_qos = { a", P4D_E_CONF_TRUNCATED,
		"p4d.conf:1: the file ends where `,` or `}` should follow");
	refused("exempt_qos = { a, ", P4D_E_CONF_TRUNCATED,
		"p4d.conf:1: the file ends where a value or `}` should follow");
	refused("data = \"/usr", P4D_E_CONF_TRUNCATED, "p4d.conf:1: the file ends inside a string");
}

/* Cut anywhere before its last line, a file must never be accepted. */
static void every_cut_is_noticed(void **state)
{
	(void)state;
	const char *text = "mode = warn\nexempt_qos = { \"a\", b }\ndefaults { tp = 8 }\npartition h { gpu = "
			   "h100\nsafe = 0.7 }\n"
			   "version = 1\n";
	size_t length = strlen(text);
	for (size_t cut = 0; cut < length; cut++) {
		p4d_error err = {0};
		p4d_conf conf;
		char part[256];
		snprintf(part, sizeof(part), "%.*s", (int)cut, text);
		int rc = p4d_conf_parse(&conf, "x", part, cut, &err);
		if (cut == length - 1) { /* only the newline is missing */
			assert_int_equal(rc, 0);
			p4d_conf_free(&conf);
			continue;
		}
		assert_int_equal(rc, -1);
		assert_int_equal(err.code, P4D_E_CONF_TRUNCATED);
	}
}

static void what_libconfuse_would_do_is_refused(void **state)
{
	(void)state;
	setenv("P4D_TEST_SECRET", "warn", 1);
	refused("mode = \"${P4D_TEST_SECRET}\"\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `$` in a string: neither variables nor escapes are known here");
	refused("mode = ${P4D_TEST_SECRET}\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unexpected `$`: text other than names and numbers needs quotes");
	refused("include(\"/etc/passwd\")\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unexpected `(`: text other than names and numbers needs quotes");
	refused("exempt_qos += a\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: unexpected `+`: text other than names and numbers needs quotes");
	refused("data = \"/a\\n\"\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `\\` in a string: neither variables nor escapes are known here");
	refused("mode = \"off\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: a string is not closed on its line");
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
	/* a file that was refused must not poison the next one */
	p4d_site_free(
	    loaded("# caf\xc3\xa9 \"${HOME} ( // + /* \nmode = 'off' # '\nversion = 1 # \"\n\n# end\n"));
	p4d_error err = {0};
	write_bytes("mode = off\0\nversion = 1\n", 24);
	assert_null(p4d_site_load(path, datadir(), false, 0, &err));
	assert_string_equal(err.text + strlen(dir) + 1, "p4d.conf:1: control character 0x00");
}

static void precedence(void **state)
{
	(void)state;
	p4d_site *site =
	    loaded("mode = warn\nsafe = 0.50\nlimit = 0.60\nallow_override = true\n"
		   "account acc { mode = off limit = 0.64 }\n" /* order in the file does not matter */
		   "qos q { mode = observe limit = 0.63 rewrite = all }\n"
		   "partition p { mode = enforce limit = 0.62 allow_override = false unmodelled = reject }\n"
		   "gpu h100 { limit = 0.61 safe = 0.55 unmodelled = pass }\n"
		   "version = 1\n");
	p4d_policy policy = p4d_site_policy(site, NULL, NULL, NULL, NULL);
	assert_int_equal(policy.mode, P4D_MODE_WARN);
	assert_true(policy.limit == 0.60);
	policy = p4d_site_policy(site, NULL, NULL, NULL, "h100-80gb");
	assert_true(policy.limit == 0.61);
	assert_true(policy.safe == 0.55);
	assert_int_equal(policy.unmodelled, P4D_UNMODELLED_PASS);
	policy = p4d_site_policy(site, "p", NULL, NULL, "h100-80gb");
	assert_true(policy.limit == 0.62);
	assert_true(policy.safe == 0.55);
	assert_int_equal(policy.mode, P4D_MODE_ENFORCE);
	assert_int_equal(policy.unmodelled, P4D_UNMODELLED_REJECT);
	assert_false(policy.allow_override);
	policy = p4d_site_policy(site, "p", "Q", NULL, "h100-80gb");
	assert_true(policy.limit == 0.63);
	assert_int_equal(policy.mode, P4D_MODE_OBSERVE);
	assert_int_equal(policy.rewrite, P4D_REWRITE_ALL);
	policy = p4d_site_policy(site, "p", "q", "acc", "h100-80gb");
	assert_true(policy.limit == 0.64);
	assert_int_equal(policy.mode, P4D_MODE_OFF);
	assert_false(policy.exempt);
	assert_int_equal(policy.rewrite, P4D_REWRITE_ALL);
	/* names that have no section inherit */
	policy = p4d_site_policy(site, "other", "other", "other", "a100-40gb");
	assert_true(policy.limit == 0.60);
	assert_int_equal(policy.mode, P4D_MODE_WARN);
	p4d_site_free(site);
}

static void safe_never_exceeds_limit(void **state)
{
	(void)state;
	p4d_site *site =
	    loaded("partition p { safe = 0.6 limit = 0.7 }\nqos q { safe = 0.9 }\nversion = 1\n");
	p4d_policy policy = p4d_site_policy(site, "p", "q", NULL, NULL);
	assert_true(policy.safe == 0.7);
	assert_true(policy.limit == 0.7);
	p4d_site_free(site);
}

static void exemptions_win(void **state)
{
	(void)state;
	p4d_site *site = loaded("exempt_accounts = { admin, \"build-bot\" }\nexempt_qos = rescue\n"
				"account admin { mode = enforce }\nversion = 1\n");
	p4d_policy policy = p4d_site_policy(site, "p", "rescue", NULL, NULL);
	assert_true(policy.exempt);
	assert_int_equal(policy.mode, P4D_MODE_OFF);
	policy = p4d_site_policy(site, "p", NULL, "ADMIN", NULL);
	assert_true(policy.exempt);
	policy = p4d_site_policy(site, "p", "res", "build", NULL);
	assert_false(policy.exempt);
	policy = p4d_site_policy(site, "p", NULL, "build-bot", NULL);
	assert_true(policy.exempt);
	p4d_site_free(site);
}

static void plans_required(void **state)
{
	(void)state;
	p4d_site *site = loaded("require_plan = { a, b, d }\npartition b { require_plan = false }\n"
				"partition c { require_plan = true default = true }\nversion = 1\n");
	assert_true(p4d_site_policy(site, "a", NULL, NULL, NULL).require_plan);
	assert_false(p4d_site_policy(site, "b", NULL, NULL, NULL).require_plan);
	assert_true(p4d_site_policy(site, "c", NULL, NULL, NULL).require_plan);
	assert_true(p4d_site_policy(site, NULL, NULL, NULL, NULL).require_plan);
	assert_false(p4d_site_policy(site, "A", NULL, NULL, NULL).require_plan);
	assert_false(p4d_site_policy(site, "e", NULL, NULL, NULL).require_plan);
	assert_string_equal(p4d_site_partition_of(site, NULL)->name, "c");
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
	p4d_policy policy = p4d_site_policy(site, "b,a", NULL, NULL, NULL);
	assert_int_equal(policy.mode, P4D_MODE_ENFORCE);
	assert_int_equal(policy.rewrite, P4D_REWRITE_OFF);
	assert_int_equal(policy.on_error, P4D_ON_ERROR_REJECT);
	assert_true(policy.safe == 0.7);
	assert_true(policy.limit == 0.9);
	assert_true(policy.limit_is_set);
	assert_true(policy.require_plan);
	assert_false(policy.allow_override);
	assert_true(p4d_site_policy(site, "a,a", NULL, NULL, NULL).require_plan);
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
	/* the override is of the GPU, however it is called */
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

static void comments_and_lines_anywhere(void **state)
{
	(void)state;
	p4d_site *site = loaded("exempt_accounts = { # who\n\ta, # one\n\t# nobody\n\t'b', }\n"
				"partition # p\np#q\n{ mode # m\n= # is\noff }version=1");
	assert_true(p4d_site_policy(site, "x", NULL, "b", NULL).exempt);
	assert_int_equal(p4d_site_policy(site, "p", NULL, NULL, NULL).mode, P4D_MODE_OFF);
	p4d_site_free(site);
	refused("exempt_accounts = {\n# } \n\"a\",\n\"b\" # {\n}\nsafe\n=\n2\nversion = 1\n",
		P4D_E_CONF_RANGE, "p4d.conf:6: safe = 2: not above 0 and at most 1");
	/* no values, and the section without keys */
	p4d_site_free(loaded("require_plan = { }\npartition p { }\nversion = 1\n"));
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
	p4d_site_apply_defaults(site, &request);
	assert_int_equal(request.value[P4D_SEQ_LEN], 4096);
	assert_int_equal(request.origin[P4D_SEQ_LEN], P4D_BY_SITE);
	assert_int_equal(request.value[P4D_FRAMEWORK], P4D_FRAMEWORK_MEGATRON);
	assert_int_equal(request.value[P4D_PRECISION], P4D_FP16);
	assert_int_equal(request.value[P4D_TP], 4);
	assert_int_equal(request.origin[P4D_TP], P4D_BY_USER);
	assert_false(p4d_is_set(&request, P4D_PP));
	p4d_site_free(site);
}

static void fractions_do_not_depend_on_the_locale(void **state)
{
	(void)state;
	/* any locale with a decimal comma; where none is installed the check is the same as above */
	const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C"};
	for (size_t i = 0; i < 4 && !setlocale(LC_ALL, names[i]); i++)
		;
	p4d_site *site = loaded("safe = 0.80\nlimit = 1.0\nversion = 1\n");
	setlocale(LC_ALL, "C");
	p4d_policy policy = p4d_site_policy(site, NULL, NULL, NULL, NULL);
	assert_true(policy.safe == 0.80);
	assert_true(policy.limit == 1.0);
	p4d_site_free(site);
	refused("safe = 0,80\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: `,` where a key or a section should stand");
}

static void trust(void **state)
{
	(void)state;
	p4d_error err = {0};
	char expected[256];
	write_bytes("version = 1\n", 12);
	uint32_t me = (uint32_t)geteuid();
	assert_int_equal(chmod(path, 0644), 0);
	p4d_site *site = p4d_site_load(path, datadir(), true, me, &err);
	assert_non_null(site);
	p4d_site_free(site);
	assert_int_equal(chmod(path, 0664), 0);
	assert_null(p4d_site_load(path, datadir(), true, me, &err));
	assert_int_equal(err.code, P4D_E_CONF_TRUST);
	snprintf(expected, sizeof(expected), "%s: mode 0664: group or others may write to it", path);
	assert_string_equal(err.text, expected);
	assert_int_equal(chmod(path, 0602), 0);
	assert_null(p4d_site_load(path, datadir(), true, me, &err));
	assert_int_equal(err.code, P4D_E_CONF_TRUST);
	site = p4d_site_load(path, datadir(), false, 0, &err); /* the command reads it nevertheless */
	assert_non_null(site);
	p4d_site_free(site);
	assert_int_equal(chmod(path, 0644), 0);
	if (me == 0) {
		assert_int_equal(chown(path, 65534, 65534), 0);
		assert_null(p4d_site_load(path, datadir(), true, 1234, &err));
		snprintf(expected, sizeof(expected),
			 "%s: owned by uid 65534: only root and uid 1234 are trusted", path);
		assert_string_equal(err.text, expected);
		site = p4d_site_load(path, datadir(), true, 65534, &err);
		assert_non_null(site);
		p4d_site_free(site);
	} else {
		assert_null(p4d_site_load(path, datadir(), true, me + 1, &err));
		assert_int_equal(err.code, P4D_E_CONF_TRUST);
	}
}

static void not_a_file(void **state)
{
	(void)state;
	p4d_error err = {0};
	unlink(path);
	assert_null(p4d_site_load(path, datadir(), true, 0, &err));
	assert_int_equal(err.code, P4D_E_IO);
	assert_null(p4d_site_load(dir, datadir(), false, 0, &err));
	assert_int_equal(err.code, P4D_E_IO);
	assert_null(p4d_site_load(dir, datadir(), true, 0, &err));
	assert_int_equal(err.code, P4D_E_CONF_TRUST);
	assert_int_equal(mkfifo(path, 0600), 0); /* must not wait for a writer */
	assert_null(p4d_site_load(path, datadir(), false, 0, &err));
	assert_int_equal(err.code, P4D_E_IO);
	unlink(path);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	for (int i = 0; i < 20000; i++)
		fputs("# a comment that is long enough to pass a mebibyte in twenty thousand lines\n", file);
	fputs("version = 1\n", file);
	fclose(file);
	assert_null(p4d_site_load(path, datadir(), false, 0, &err));
	assert_int_equal(err.code, P4D_E_IO);
	assert_non_null(strstr(err.text, "at most 1048576 are read"));
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
	assert_true(p4d_site_policy(site, "p1022", NULL, NULL, NULL).safe == 0.5);
	p4d_site_free(site);
	snprintf(text + before, sizeof(text) - before, "qos q { }\nversion = 1\n");
	refused(text, P4D_E_CONF_RANGE, "p4d.conf:1024: more than 1023 sections");
}

static void *load_often(void *unused)
{
	(void)unused;
	for (int i = 0; i < 50; i++) {
		p4d_error err = {0};
		p4d_site *site = p4d_site_load(path, datadir(), false, 0, &err);
		if (!site || p4d_site_policy(site, "p", NULL, NULL, NULL).mode != P4D_MODE_OBSERVE)
			return (void *)1;
		p4d_site_free(site);
	}
	return NULL;
}

static void loads_in_threads(void **state)
{
	(void)state;
	pthread_t thread[4];
	const char *text = "partition p { mode = \"observe\" } # comment\nversion = 1\n";
	write_bytes(text, strlen(text));
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, load_often, NULL), 0);
	for (int i = 0; i < 4; i++) {
		void *result = (void *)1;
		pthread_join(thread[i], &result);
		assert_null(result);
	}
}

/* The sample must be valid as shipped, and with every setting that it shows commented out switched on. */
static void the_sample_is_valid(void **state)
{
	(void)state;
	static char text[65536], enabled[65536];
	char sample[512];
	p4d_error err = {0};
	snprintf(sample, sizeof(sample), "%s/p4d.conf", datadir());
	FILE *file = fopen(sample, "r");
	assert_non_null(file);
	size_t length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	p4d_site *site = p4d_site_load(sample, datadir(), false, 0, &err);
	if (!site)
		fail_msg("%s", err.text);
	p4d_policy policy = p4d_site_policy(site, NULL, NULL, NULL, NULL);
	assert_int_equal(policy.mode, P4D_MODE_OBSERVE);
	p4d_site_free(site);
	char *out = enabled;
	for (const char *at = text; *at;) { /* "#key" is a setting, "# text" is prose */
		size_t line = strcspn(at, "\n") + 1;
		bool setting = *at == '#' && at[1] != ' ' && at[1] != '\n';
		if (strncmp(at, "#data", 5) != 0) { /* a directory that need not be here */
			memcpy(out, at + setting, line - setting);
			out += line - setting;
		}
		at += line;
	}
	*out = '\0';
	site = loaded(enabled);
	for (int i = 0; i < P4D_KEYS; i++) /* every key is shown */
		if (!strstr(text, p4d_key_table[i].name))
			fail_msg("etc/p4d.conf does not show `%s`", p4d_key_table[i].name);
	p4d_site_free(site);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(example_of_the_manual),
	    cmocka_unit_test(defaults_without_a_file),
	    cmocka_unit_test(a_limit_of_the_site_holds_for_both_frameworks),
	    cmocka_unit_test(unknown_keys),
	    cmocka_unit_test(duplicates),
	    cmocka_unit_test(wrong_types),
	    cmocka_unit_test(out_of_range),
	    cmocka_unit_test(cut_off),
	    cmocka_unit_test(every_cut_is_noticed),
	    cmocka_unit_test(what_libconfuse_would_do_is_refused),
	    cmocka_unit_test(precedence),
	    cmocka_unit_test(safe_never_exceeds_limit),
	    cmocka_unit_test(exemptions_win),
	    cmocka_unit_test(plans_required),
	    cmocka_unit_test(a_list_of_partitions_gets_the_strictest),
	    cmocka_unit_test(gpus),
	    cmocka_unit_test(comments_and_lines_anywhere),
	    cmocka_unit_test(numbers_and_defaults),
	    cmocka_unit_test(fractions_do_not_depend_on_the_locale),
	    cmocka_unit_test(trust),
	    cmocka_unit_test(not_a_file),
	    cmocka_unit_test(many_sections),
	    cmocka_unit_test(loads_in_threads),
	    cmocka_unit_test(the_sample_is_valid),
	};

	return cmocka_run_group_tests_name("site", tests, make_dir, remove_dir);
}
