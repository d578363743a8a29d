/* SPDX-License-Identifier: Apache-2.0 */
#include "site_file.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "slurm_compat.h"

/* slurm.conf as Slurm found it, by dlsym, because not every program that loads SPANK plugins has the symbol.
 */
static const char *slurm_conf_path(void)
{
	const slurm_conf_t *conf = dlsym(RTLD_DEFAULT, "slurm_conf");

	if (conf && conf->slurm_conf)
		return conf->slurm_conf;
	return getenv("SLURM_CONF");
}

p4d_site *p4d_site_find(int argc, char **argv, bool fallback, p4d_error *err)
{
	char path[4096];

	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "conf=", 5))
			return p4d_site_load(argv[i] + 5, P4D_DATADIR, false, 0, err);

	const char *conf = slurm_conf_path();
	const char *slash = conf ? strrchr(conf, '/') : NULL;
	if (slash)
		snprintf(path, sizeof(path), "%.*s/p4d.conf", (int)(slash - conf), conf);
	else
		snprintf(path, sizeof(path), "%s/p4d.conf", P4D_SYSCONFDIR);
	if (!access(path, F_OK))
		return p4d_site_load(path, P4D_DATADIR, false, 0, err);
	if (fallback)
		return p4d_site_default(P4D_DATADIR, err);
	err->code = P4D_OK;
	return NULL;
}
