/* SPDX-License-Identifier: Apache-2.0 */
#include "spank_client.h"

static const p4d_client_calls *client;
static bool tried;

static const p4d_client_calls *open_library(void)
{
	char path[4096];
	const char *why;
	const p4d_client_calls *calls =
	    p4d_module_open("libp4d-client.so", "p4d_client", path, sizeof(path), &why);

	if (calls)
		return calls;
	slurm_spank_log(
	    "p4d: cannot use %s, so p4d did not check this job here: reinstall p4d (-v shows why)", path);
	slurm_verbose("p4d: %s", why);
	return NULL;
}

const p4d_client_calls *p4d_spank_client_open(void)
{
	if (!tried)
		client = open_library();
	tried = true;
	return client;
}

const p4d_client_calls *p4d_spank_client_opened(void)
{
	return client;
}
