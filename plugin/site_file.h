/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "site/site.h"

/*
 * The site's configuration as a client or slurmstepd finds it: `conf=PATH` of the plugstack line, else
 * p4d.conf beside slurm.conf. Without such a file: the default when `fallback`, else NULL with err->code
 * P4D_OK.
 */
p4d_site *p4d_site_find(int argc, char **argv, bool fallback, p4d_error *err);
