/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "doubles/slurm/fakehost.h"

/*
 * The fake host's site (a directory with a p4d.conf) and jobs as sbatch with the SPANK plugin would send
 * them. All exit with a message when anything outside the plugin fails.
 */

/* Creates the directory; partitions h100 and a100 (40 GB), and h100s under other policies: warn, observe,
 * off, strict, lenient. */
const char *site_make(void);

/* Replaces its p4d.conf. NULL: the one of site_make. */
void site_write(const char *text);
void site_remove(void);

/* A job of one node with 8 GPUs. */
job_desc_msg_t *job_plain(const char *partition);

/* The same with "model=llama13b tp=8 ..." completed for partition h100 (whatever the verdict), as SPANK
 * leaves it. */
job_desc_msg_t *job_planned(const char *partition, const char *assignments);
/* On this many nodes of 8 GPUs. */
job_desc_msg_t *job_planned_on(const char *partition, uint32_t nodes, const char *assignments);
