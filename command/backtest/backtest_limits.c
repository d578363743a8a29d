/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a copy of the site in which all limits have another value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backtest/backtest.h"
#include "base/text.h"

const double p4d_backtest__limits[P4D_BACKTEST_LIMITS] = {0.90, 0.95, 0.97, 1.00};

static bool is_key(const char *line, const char *key)
{
	line += strspn(line, " \t");
	const size_t length = strlen(key);

	return !strncmp(line, key, length) && strchr(" \t=", line[length]);
}

/* Copies p4d.conf without the keys that would override the new limit. */
static char *with_lowest_limit(const char *conf)
{
	p4d_text text = {.grows = true};

	p4d_text_add(&text, "limit = 0.90\n");
	while (*conf) {
		const size_t length = strcspn(conf, "\n") + 1;
		const size_t line = conf[length - 1] ? length : length - 1;
		if (!is_key(conf, "limit") && !is_key(conf, "safe"))
			p4d_text_add_bytes(&text, conf, line);
		conf += line;
	}
	if (!text.truncated)
		return text.at;
	free(text.at);
	return NULL;
}

p4d_site *p4d_backtest__strict_site(const p4d_site *site)
{
	char *own = *p4d_site_path(site) ? p4d_site_text(site) : strdup("mode = enforce\nversion = 1\n");
	char *text = own ? with_lowest_limit(own) : NULL;
	const int file = text ? memfd_create("p4d.conf", MFD_CLOEXEC) : -1;
	p4d_site *strict = NULL;
	p4d_error err;
	char path[64];

	if (file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
		strict = p4d_site_load(path, p4d_site_datadir(site), false, 0, &err);
	}
	if (file >= 0)
		close(file);
	free(text);
	free(own);
	return strict;
}
