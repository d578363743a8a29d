/* SPDX-License-Identifier: Apache-2.0 */
/* Each key of p4d.conf is read, refused in the wrong sections, stored in its member, combined as strictly
 * as its row says if the job names several partitions, and described in the manual. */
#include "site/site_internal.h"
#include "support/conf_file.h"

/* A valid value of a key, as text. which: 0 or 1, for two different values. */
static const char *sample(p4d_conf_key key, int which, char *buf, size_t size)
{
	const p4d_conf_key_info *info = &p4d_conf__key_table[key];
	const char *last = info->choices ? strrchr(info->choices, '|') + 1 : NULL;

	switch (info->type) {
	case P4D_CONF_CHOICE:
		if (which)
			snprintf(buf, size, "%s", last);
		else
			snprintf(buf, size, "%.*s", (int)strcspn(info->choices, "|"), info->choices);
		return buf;
	case P4D_CONF_BOOLEAN:
		return which ? "true" : "false";
	case P4D_CONF_FRACTION:
		return which ? "0.90" : "0.85";
	case P4D_CONF_GIB:
		return which ? "40" : "20";
	case P4D_CONF_NUMBER:
		return which ? "2.5" : "1.5";
	case P4D_CONF_COUNT:
		return which ? "2" : "1";
	case P4D_CONF_DATE:
		return which ? "2001-01-01 mode = warn" : "2001-01-02 mode = warn";
	case P4D_CONF_NAMES:
	case P4D_CONF_STRING:
	case P4D_CONF_TEXT:
		break;
	}
	if (key == P4D_KEY_COMPUTE_CAPABILITY)
		return which ? "9.0" : "8.0";
	if (key == P4D_KEY_IS)
		return which ? "trl" : "trainer";
	if (key == P4D_KEY_METRICS)
		return "/nonexistent/p4d.prom";
	return key == P4D_KEY_GPU || key == P4D_KEY_NAME ? "h100-80gb" : "/nonexistent";
}

/* Loads a file with that key in a section of this kind. */
static p4d_site *with_key(p4d_conf_key key, p4d_conf_section_kind kind, const char *value, p4d_error *err)
{
	char text[512];
	const char *name = p4d_conf__key_table[key].name;

	if (kind == P4D_GLOBAL_SECTION)
		snprintf(text, sizeof(text), "%s = %s\nversion = 1\n", name, value);
	else
		snprintf(text, sizeof(text), "%s %s { %s = %s }\nversion = 1\n",
			 p4d_conf__section_names[kind],
			 kind == P4D_GPU_SECTION         ? "h100-80gb"
			 : kind == P4D_FRAMEWORK_SECTION ? "fsdp"
							 : "one",
			 name, value);
	return load(text, err);
}

static void every_key_stands_where_its_row_says(void **state)
{
	(void)state;
	for (int i = 0; i < P4D_KEYS; i++) {
		const p4d_conf_key key = (p4d_conf_key)i;
		/* version must be the last line, and the other two keys need files */
		if (key == P4D_KEY_VERSION || key == P4D_KEY_GPUS || key == P4D_KEY_INCLUDE)
			continue;
		for (int kind = 0; kind < P4D_DEFAULTS_SECTION; kind++) {
			char buf[64];
			bool may = false; /* true if any key with this name may be in the section: two keys
					   * may have the same name */
			for (int k = 0; k < P4D_KEYS; k++)
				may = may ||
				      (!strcmp(p4d_conf__key_table[k].name, p4d_conf__key_table[i].name) &&
				       p4d_conf__key_table[k].where & 1u << kind);
			if (may && !(p4d_conf__key_table[i].where & 1u << kind))
				continue;
			p4d_error err = {0};
			p4d_site *site = with_key(key, (p4d_conf_section_kind)kind,
						  sample(key, 1, buf, sizeof(buf)), &err);
			if (may != (site != NULL))
				fail_msg("%s in section kind %d: %s", p4d_conf__key_table[i].name, kind,
					 site ? "accepted" : err.text);
			if (!site)
				assert_int_equal(err.code, P4D_E_CONF_SYNTAX);
			p4d_site_free(site);
		}
	}
}

/* Two values of a key must give two different policies. The test finds the member by its offset, so new
 * keys need no new test. */
static void every_policy_reaches_its_member(void **state)
{
	(void)state;
	for (int i = 0; i < P4D_KEYS; i++) {
		const p4d_conf_key_info *info = &p4d_conf__key_table[i];
		char text[512], buf[2][64];
		p4d_error err = {0};
		if (info->owner != P4D_CONF_OF_POLICY || i == P4D_KEY_FROM || i == P4D_KEY_MESSAGE)
			continue; /* these two keys have their own tests */
		assert_true(info->stricter == 1 || info->stricter == -1);
		snprintf(text, sizeof(text),
			 "partition a { %s = %s }\npartition b { %s = %s }\nversion = 1\n", info->name,
			 sample((p4d_conf_key)i, 0, buf[0], sizeof(buf[0])), info->name,
			 sample((p4d_conf_key)i, 1, buf[1], sizeof(buf[1])));
		p4d_site *site = load(text, &err);
		if (!site)
			fail_msg("%s: %s", info->name, err.text);
		p4d_policy a = p4d_site_policy(site, &(p4d_site_job){.partition = "a"}),
			   b = p4d_site_policy(site, &(p4d_site_job){.partition = "b"}),
			   both = p4d_site_policy(site, &(p4d_site_job){.partition = "a,b"});
		const size_t bytes = p4d_conf__member_bytes((p4d_conf_key)i);
		const char *of_a = (const char *)&a + info->offset, *of_b = (const char *)&b + info->offset;
		if (!memcmp(of_a, of_b, bytes))
			fail_msg("%s changes nothing", info->name);
		/* the second sample value is the larger one */
		assert_memory_equal((const char *)&both + info->offset, info->stricter > 0 ? of_b : of_a,
				    bytes);
		p4d_site_free(site);
	}
}

/* Every key is in the manual, with its choices if it has some: "*mode* = off | observe | warn | enforce". */
static void every_key_is_in_the_manual(void **state)
{
	static char manual[64 << 10];
	char name[512];
	const char *source = getenv("P4D_TEST_SRCDIR");

	(void)state;
	snprintf(name, sizeof(name), "%s/man/p4d.conf.5.scd", source ? source : ".");
	FILE *file = fopen(name, "r");
	assert_non_null(file);
	assert_true(fread(manual, 1, sizeof(manual) - 1, file) > 0);
	fclose(file);
	for (int i = 0; i < P4D_KEYS; i++) {
		const p4d_conf_key_info *info = &p4d_conf__key_table[i];
		char entry[160];
		int n = snprintf(entry, sizeof(entry), "\n*%s* = ", info->name);
		for (const char *c = info->choices; c && *c; c++)
			n += snprintf(entry + n, sizeof(entry) - (size_t)n, "%s%c%s", *c == '|' ? " " : "",
				      *c, *c == '|' ? " " : "");
		if (!strstr(manual, entry))
			fail_msg("man/p4d.conf.5.scd lacks%s", entry);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_key_stands_where_its_row_says),
	    cmocka_unit_test(every_policy_reaches_its_member),
	    cmocka_unit_test(every_key_is_in_the_manual),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
