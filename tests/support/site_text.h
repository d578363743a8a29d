/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "support/support.h"

#include <unistd.h>

#include "site/site.h"

/* Loads a p4d.conf with this text. The caller frees the site. */
static inline p4d_site *site_of(const char *text)
{
	char path[] = "/tmp/p4d-site-XXXXXX";
	p4d_error err = {0};
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	p4d_site *site = p4d_site_load(path, test_datadir(), false, 0, &err);
	unlink(path);
	if (!site)
		fail_msg("%s", err.text);
	return site;
}
