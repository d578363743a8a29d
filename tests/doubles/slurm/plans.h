/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "doubles/slurm/fakehost.h"

/* The fake host's site (a directory with a p4d.conf) and jobs as sbatch with the SPANK plugin would send
 * them. All functions exit with a message if something outside the plugin fails. */

/* Creates the directory; partitions h100 and a100 (40 GB), and h100s under other policies: warn, observe,
 * off, strict, lenient. */
const char *site_make(void);

/* Replaces the site's p4d.conf. NULL writes the file of site_make again. */
void site_write(const char *text);
void site_remove(void);

/* A job of one node with 8 GPUs. */
job_desc_msg_t *job_plain(const char *partition);

/* Like job_plain, with options such as "model=llama13b tp=8 ...". Missing options are completed for
 * partition h100, as p4d's SPANK plugin does. The verdict is ignored. */
job_desc_msg_t *job_planned(const char *partition, const char *assignments);
/* Like job_planned, on this many nodes with 8 GPUs each. */
job_desc_msg_t *job_planned_on(const char *partition, uint32_t nodes, const char *assignments);
