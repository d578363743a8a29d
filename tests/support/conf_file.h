/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A p4d.conf in its own directory, for the tests of the site's configuration. */
#include "support/support.h"

#include <unistd.h>

#include "site/site.h"

static char dir[64], path[96];

static inline int make_dir(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/p4d-site-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/p4d.conf", dir);
	return 0;
}

static inline int remove_dir(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

static inline void write_bytes(const char *text, size_t length)
{
	unlink(path);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

static inline p4d_site *load(const char *text, p4d_error *err)
{
	write_bytes(text, strlen(text));
	return p4d_site_load(path, test_datadir(), false, 0, err);
}

static inline p4d_site *loaded(const char *text)
{
	p4d_error err = {0};
	p4d_site *site = load(text, &err);

	if (!site)
		fail_msg("refused: %s", err.text);
	return site;
}

/*
 * The text must be refused with this code and with this message: "p4d.conf:LINE: ...", without the directory.
 */
static inline void refused(const char *text, p4d_code code, const char *message)
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
