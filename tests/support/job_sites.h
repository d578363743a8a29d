/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A site and a cluster, in the form in which plugins describe them, for tests that place jobs there. */
#include "support/site_text.h"

#include "job/job.h"
#include "job/job_limits.h"

#define GIB(n) ((uint64_t)(n) << 30)

/* A live cluster in the form in which the plugins describe it. */
static p4d_partition_facts rows[] = {
    {"gpu", "h100", "h100,ib", 8, GIB(2000), true, false, 64, 32, 0, "h[1-4]", {0}},
    {"mixed", "h100", "h100,ib", 8, GIB(2000), false, false, 64, 32, 0, "h[1-4]", {0}},
    {"mixed", "a100", "a100", 4, GIB(1000), false, false, 32, 16, 0, "a[01-16]", {0}},
    {"plain", "", "rack1,h200", 8, GIB(1500), false, false, 0, 0, 0, NULL, {0}},
    {"odd", "weird", "", 2, GIB(64), false, false, 8, 4, 0, "o1", {0}},
    {"cpu", "", "", 0, GIB(256), false, true, 64, 32, 0, "c[1-9]", {0}},
    {"bare", "", "rack2", 4, GIB(256), false, false, 8, 4, 0, "b1", {0}},
    {"whole", "h100", "", 8, GIB(2000), false, true, 64, 32, 0, "h[5-6]", {0}},
    {"both", "h200", "", 8, GIB(2000), false, false, 64, 32, 0, "x[1-2]", {0}},
    {"both", "h100", "", 8, GIB(2000), false, false, 64, 32, 0, "y[1-2]", {0}},
    {"both", "a100", "", 8, GIB(2000), false, false, 64, 32, 0, "z1", {0}},
};
static const p4d_cluster cluster = {sizeof(rows) / sizeof(rows[0]), rows};

static inline const p4d_cluster *ask(void *context)
{
	++*(unsigned *)context;
	return &cluster;
}

static p4d_site *nothing, *mapped;

static inline int load_sites(void **state)
{
	(void)state;
	nothing = site_of("version = 1\n");
	mapped = site_of(
	    "partition h { gpu = \"h100-80gb\" gpus_per_node = 8 mem_per_node_gib = 1900 default = true }\n"
	    "partition a { gpu = \"a100\" gpus_per_node = 4 }\n"
	    "partition big { gpu = \"a100-80gb\" gpus_per_node = 8 }\n"
	    "partition both { gpu = { \"h200\", \"h100\", \"a100-80gb\" } }\n"
	    "partition \"m?\" { gpu = \"h100-80gb\" gpus_per_node = 8 }\n"
	    "partition \"m??\" { gpu = \"h100-80gb\" gpus_per_node = 8 }\n"
	    "partition \"m???\" { gpu = \"h100-80gb\" gpus_per_node = 8 }\n"
	    "gpu weird { name = \"l4-24gb\" }\n"
	    "version = 1\n");
	return 0;
}

static inline int free_sites(void **state)
{
	(void)state;
	p4d_site_free(nothing);
	p4d_site_free(mapped);
	return 0;
}

/* The geometry of a job, which p4d must accept. *asked: how often p4d queried the cluster. */
static inline p4d_geometry understood(const p4d_site *site, p4d_job job, unsigned *asked)
{
	unsigned local = 0;
	p4d_geometry out = {0};
	p4d_error err = {0};

	job.max_nodes = job.max_nodes ? job.max_nodes : job.min_nodes;
	if (p4d_job_geometry(site, &job, ask, asked ? asked : &local, &out, &err) < 0)
		fail_msg("%d: %s", err.code, err.text);
	return out;
}

static inline void refused(const p4d_site *site, p4d_job job, p4d_code code, const char *text,
			   const char *fix)
{
	unsigned asked = 0;
	p4d_geometry out = {.nodes = 77};
	p4d_error err = {0};

	job.max_nodes = job.max_nodes ? job.max_nodes : job.min_nodes;
	assert_int_equal(p4d_job_geometry(site, &job, ask, &asked, &out, &err), -1);
	assert_string_equal(err.text, text);
	assert_string_equal(err.fix, fix);
	assert_int_equal(err.code, code);
	assert_int_equal(out.nodes, 0);
}

/* Writes "m0,m1,...": names of partitions that match one section with a wildcard. */
static inline char *partitions_of(int count, char *buf, size_t size)
{
	size_t used = 0;

	for (int i = 0; i < count; i++)
		used += (size_t)snprintf(buf + used, size - used, "m%d,", i);
	return buf;
}

static inline void type(const p4d_site *site, p4d_job job, const char *gpu, const char *partition,
			unsigned types, unsigned ambiguous, unsigned questions)
{
	unsigned asked = 0;

	if (!job.gres)
		job.gres = "gpu:4";
	p4d_geometry g = understood(site, job, &asked);
	assert_string_equal(g.gpu->name, gpu);
	assert_string_equal(g.partition, partition);
	assert_int_equal(g.gpu_types, types);
	assert_int_equal(g.ambiguous, ambiguous);
	assert_int_equal(asked, questions);
}
