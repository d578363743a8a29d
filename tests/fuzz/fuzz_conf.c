/* SPDX-License-Identifier: Apache-2.0 */
/* p4d.conf. For any bytes, the result is either an error CONF_ with a line number, or keys with line
 * numbers and values. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "site/conf.h"
#include "site/site.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

static void same_keys(const p4d_conf *conf)
{
	for (size_t i = 0; i < conf->sections; i++) {
		const p4d_conf_section *section = &conf->section[i];
		for (int key = 0; key < P4D_CONF_KEYS; key++) {
			if (!section->lines[key])
				continue;
			check(section->lines[key] >= section->line);
			const char *value = p4d_conf__value(conf, section, key, 0);
			bool list = section->kind != P4D_DEFAULTS_SECTION &&
				    p4d_conf__key_table[key].type == P4D_CONF_NAMES;
			check(list || (value && *value && !p4d_conf__value(conf, section, key, 1)));
		}
	}
	check(!strcmp(p4d_conf__value(conf, &conf->section[0], P4D_KEY_VERSION, 0), "1"));
}

/* Loads the bytes as p4d.conf and queries everything that callers query. */
static void load(const uint8_t *data, size_t size)
{
	const char *datadir = getenv("P4D_TEST_DATADIR");
	char path[32];
	p4d_error err = {0};
	p4d_request request = {0};
	int fd = memfd_create("p4d.conf", 0);

	check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	p4d_site *site = p4d_site_load(path, datadir ? datadir : "etc", false, 0, &err);
	close(fd);
	if (!site) {
		check(err.code != P4D_OK && *err.text);
		return;
	}
	const p4d_site_partition *partition;
	for (unsigned i = 0; (partition = p4d_site_partition_at(site, i)); i++) {
		p4d_policy policy = p4d_site_policy(site, &(p4d_site_job){.user = "alice",
									  .reservation = "week",
									  .partition = partition->name,
									  .qos = "large",
									  .account = "physics",
									  .gpu = "h100-80gb"});
		check(policy.safe > 0 && policy.safe <= policy.limit && policy.limit <= 1);
		check(p4d_site_partition_of(site, partition->name) == partition);
	}
	p4d_site_policy(site, &(p4d_site_job){0});
	p4d_site_gpu(site, "a100", NULL);
	p4d_site_apply_defaults(site, "gpu-1", &request);
	p4d_site_free(site);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	p4d_conf conf = {0};
	p4d_error err = {0};

	check(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	if (p4d_conf__parse(&conf, "p4d.conf", text, size, &err) < 0) {
		check(err.code >= P4D_E_CONF_SYNTAX && err.code <= P4D_E_CONF_TRUNCATED);
		check(!strncmp(err.text, "p4d.conf:", 9) && err.text[9] >= '1' && err.text[9] <= '9');
		check(!conf.section && !conf.values);
	} else {
		same_keys(&conf);
		p4d_conf__free(&conf);
		load(data, size);
	}
	free(text);
	return 0;
}
