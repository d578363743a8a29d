/* SPDX-License-Identifier: Apache-2.0 */
/* How p4d reads p4d.conf: valid files, file owners, several threads and other locales. */
#include <locale.h>
#include <pthread.h>
#include <sys/stat.h>

#include "support/conf_file.h"

static void fractions_do_not_depend_on_the_locale(void **state)
{
	(void)state;
	/* tries locales with a decimal comma; if none is installed, this repeats the check above */
	const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C"};
	for (size_t i = 0; i < 4 && !setlocale(LC_ALL, names[i]); i++)
		;
	p4d_site *site = loaded("safe = 0.80\nlimit = 1.0\nversion = 1\n");
	setlocale(LC_ALL, "C");
	p4d_policy policy = p4d_site_policy(site, &(p4d_site_job){0});
	assert_true(policy.safe == 0.80);
	assert_true(policy.limit == 1.0);
	p4d_site_free(site);
	refused("safe = 0,80\nversion = 1\n", P4D_E_CONF_SYNTAX,
		"p4d.conf:1: found `,`, expected a key or a section");
}

static void trust(void **state)
{
	(void)state;
	p4d_error err = {0};
	char expected[256];
	write_bytes("version = 1\n", 12);
	uint32_t me = (uint32_t)geteuid();
	assert_int_equal(chmod(path, 0644), 0);
	p4d_site *site = p4d_site_load(path, test_datadir(), true, me, &err);
	assert_non_null(site);
	p4d_site_free(site);
	assert_int_equal(chmod(path, 0664), 0);
	assert_null(p4d_site_load(path, test_datadir(), true, me, &err));
	assert_int_equal(err.code, P4D_E_CONF_TRUST);
	snprintf(expected, sizeof(expected), "%s: mode 0664: group or others may write to it", path);
	assert_string_equal(err.text, expected);
	assert_int_equal(chmod(path, 0602), 0);
	assert_null(p4d_site_load(path, test_datadir(), true, me, &err));
	assert_int_equal(err.code, P4D_E_CONF_TRUST);
	site = p4d_site_load(path, test_datadir(), false, 0,
			     &err); /* the command reads this file, slurmctld would not */
	assert_non_null(site);
	p4d_site_free(site);
	assert_int_equal(chmod(path, 0644), 0);
	if (me == 0) {
		assert_int_equal(chown(path, 65534, 65534), 0);
		assert_null(p4d_site_load(path, test_datadir(), true, 1234, &err));
		snprintf(expected, sizeof(expected),
			 "%s: owned by uid 65534, but p4d trusts only files of root and uid 1234", path);
		assert_string_equal(err.text, expected);
		site = p4d_site_load(path, test_datadir(), true, 65534, &err);
		assert_non_null(site);
		p4d_site_free(site);
	} else {
		assert_null(p4d_site_load(path, test_datadir(), true, me + 1, &err));
		assert_int_equal(err.code, P4D_E_CONF_TRUST);
	}
}

static void not_a_file(void **state)
{
	(void)state;
	p4d_error err = {0};
	unlink(path);
	assert_null(p4d_site_load(path, test_datadir(), true, 0, &err));
	assert_int_equal(err.code, P4D_E_IO);
	assert_null(p4d_site_load(dir, test_datadir(), false, 0, &err));
	assert_int_equal(err.code, P4D_E_IO);
	assert_null(p4d_site_load(dir, test_datadir(), true, 0, &err));
	assert_int_equal(err.code, P4D_E_CONF_TRUST);
	assert_int_equal(mkfifo(path, 0600), 0); /* a FIFO without a writer must not block p4d */
	assert_null(p4d_site_load(path, test_datadir(), false, 0, &err));
	assert_int_equal(err.code, P4D_E_IO);
	unlink(path);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	for (int i = 0; i < 20000; i++)
		fputs("# a comment that is long enough to pass a mebibyte in twenty thousand lines\n", file);
	fputs("version = 1\n", file);
	fclose(file);
	assert_null(p4d_site_load(path, test_datadir(), false, 0, &err));
	assert_int_equal(err.code, P4D_E_IO);
	assert_non_null(strstr(err.text, "p4d reads at most 1048576"));
}

static void *load_often(void *unused)
{
	(void)unused;
	for (int i = 0; i < 50; i++) {
		p4d_error err = {0};
		p4d_site *site = p4d_site_load(path, test_datadir(), false, 0, &err);
		if (!site ||
		    p4d_site_policy(site, &(p4d_site_job){.partition = "p"}).mode != P4D_MODE_OBSERVE)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fractions_do_not_depend_on_the_locale),
	    cmocka_unit_test(trust),
	    cmocka_unit_test(not_a_file),
	    cmocka_unit_test(loads_in_threads),
	};

	return cmocka_run_group_tests_name("file", tests, make_dir, remove_dir);
}
