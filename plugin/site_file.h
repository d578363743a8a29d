/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "site/site.h"

/*
 * The site's configuration as a client or slurmstepd finds it: `conf=PATH` of the plugstack line, else where
 * p4d_site_find finds it; trusted as slurmctld trusts it. A file that cannot be used is as good as none, and
 * *err says why (code P4D_OK otherwise): then p4d decides nothing here, and slurmctld, which has its own,
 * everything. NULL only without memory.
 */
p4d_site *p4d_site_file_load(int argc, char **argv, p4d_error *err);
