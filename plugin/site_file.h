/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "site/site.h"

/*
 * The site's configuration in a client or slurmstepd: `conf=PATH` of the plugstack line, else the file
 * that p4d_site_find finds; with the same checks as in slurmctld. If the file cannot be used, this returns
 * the configuration for a missing file, and *err says why. With that configuration p4d decides nothing
 * here, and slurmctld decides everything with its own configuration. If the file can be used, the code of
 * *err is P4D_OK. NULL: no memory.
 */
p4d_site *p4d_site_file_load(int argc, char **argv, p4d_error *err);
