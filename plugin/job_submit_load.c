/* SPDX-License-Identifier: Apache-2.0 */
/* How slurmctld loads the plugin: names, version, init and fini. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "job_submit.h"
#include "job_submit_watch.h"

extern slurm_conf_t slurm_conf;

const char plugin_name[] = "p4d guard against GPU out-of-memory";
const char plugin_type[] = "job_submit/p4d";
unsigned int plugin_version = SLURM_VERSION_NUMBER;

/*
 * slurmctld accepts only a plugin of exactly its own version, including the micro release, although the
 * interface that p4d uses changes at most with the minor release. An update of Slurm to a newer micro release
 * should not keep slurmctld from starting. So before slurmctld checks it, the version is copied from one of
 * Slurm's own plugins, provided that major and minor release are those p4d was built for.
 */
__attribute__((constructor)) static void follow_micro_release(void)
{
	const char *directory = slurm_conf.plugindir;
	char path[4096];

	while (directory && *directory) {
		int length = (int)strcspn(directory, ":");
		snprintf(path, sizeof(path), "%.*s/job_submit_logging.so", length, directory);
		void *sibling = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
		const unsigned int *version = sibling ? dlsym(sibling, "plugin_version") : NULL;
		if (version && *version >> 8 == SLURM_VERSION_NUMBER >> 8)
			plugin_version = *version;
		if (sibling) {
			dlclose(sibling);
			return;
		}
		directory += length;
		directory += *directory == ':';
	}
}

int init(void)
{
	char path[4096];

	p4d_site_find(slurm_conf.slurm_conf, path, sizeof(path));
	p4d_watch_start(path, slurm_conf.slurm_user_id, slurm_conf.state_save_location);
	return SLURM_SUCCESS;
}

int fini(void)
{
	p4d_watch_stop();
	return SLURM_SUCCESS;
}
