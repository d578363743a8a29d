/* SPDX-License-Identifier: Apache-2.0 */
#include "site_file.h"

#include <stdlib.h>
#include <string.h>

#include "client_option.h"
#include "slurm_compat.h"

p4d_site *p4d_site_file_load(int argc, char **argv, p4d_error *err)
{
	const slurm_conf_t *conf = p4d_client_slurm_conf();
	const char *slurm_conf = conf && conf->slurm_conf ? conf->slurm_conf : getenv("SLURM_CONF");
	const char *given = NULL;
	char path[4096];
	p4d_site *site = NULL;

	err->code = P4D_OK;
	for (int i = 0; i < argc && !given; i++)
		given = strncmp(argv[i], "conf=", 5) ? NULL : argv[i] + 5;
	if (given || p4d_site_find(slurm_conf, path, sizeof(path)))
		site = p4d_site_load(given ? given : path, NULL, true, conf ? conf->slurm_user_id : 0, err);
	return site ? site : p4d_site_default(NULL, P4D_MODE_OBSERVE, &(p4d_error){.code = P4D_OK});
}
