/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of a job: the lines of the input are gres, gpus, partition, constraint, memory and nodes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

static p4d_partition_facts rows[] = {
    {.partition = "gpu",
     .gpu_type = "h100",
     .features = "h100,ib",
     .gpus_per_node = 8,
     .mem_bytes = 1 << 30,
     .is_default = true,
     .cpus = 64,
     .cores = 32,
     .nodes = "h[1-4]"},
    {.partition = "mixed",
     .gpu_type = "a100",
     .features = "a100",
     .gpus_per_node = 4,
     .mem_bytes = 1 << 30,
     .is_default = false,
     .cpus = 64,
     .cores = 32,
     .nodes = "a1"},
    {.partition = "mixed",
     .gpu_type = "",
     .features = "h200,rack1",
     .gpus_per_node = 8,
     .mem_bytes = 1 << 30,
     .is_default = false,
     .cpus = 64,
     .cores = 32,
     .nodes = "a1"},
};
static const p4d_cluster cluster = {sizeof(rows) / sizeof(rows[0]), rows};

static const p4d_cluster *ask(void *context)
{
	(void)context;
	return &cluster;
}

static void parse_alone(const char *gres, const char *memory, const char *nodes)
{
	char type[48] = "";
	uint32_t count = 0, min = 0, max = 0;
	uint64_t bytes = 0;
	p4d_error err = {0};

	int rc = p4d_gres_parse(gres, type, sizeof(type), &count, &err);
	check(rc > 0 ? count > 0 : !count && !*type);
	check((rc < 0) == (err.code == P4D_E_VALUE));
	if (p4d_gres_parse_mem(memory, &bytes, &err) < 0)
		check(!bytes);
	if (p4d_gres__parse_nodes(nodes, &min, &max, &err) == 0)
		check(min && min <= max);
	else
		check(!min && !max);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static p4d_site *site;
	static const char empty[] = "";
	const char *line[7];
	const char *datadir = getenv("P4D_TEST_DATADIR");
	p4d_error err = {0};
	p4d_geometry geometry;
	char *text = malloc(size + 1);

	if (!site)
		site = p4d_site_default(datadir ? datadir : "etc", P4D_MODE_OBSERVE, &err);
	check(text && site);
	memcpy(text, data, size);
	text[size] = '\0';
	char *at = text;
	for (int i = 0; i < 7; i++) {
		line[i] = at ? at : empty;
		at = at ? strchr(at, '\n') : NULL;
		if (at)
			*at++ = '\0';
	}
	parse_alone(line[0], line[4], line[5]);
	p4d_job job = {.gres = line[0],
		       .gpus = line[1],
		       .partition = line[2],
		       .constraint = line[3],
		       .gpus_per_task = line[6]};
	p4d_gres_parse_mem(line[4], &job.mem_per_gpu_bytes, &err);
	p4d_gres__parse_nodes(line[5], &job.min_nodes, &job.max_nodes, &err);
	job.tasks_per_node = size % 3;
	job.tasks = size % 5;
	job.exclusive = size % 2;
	err = (p4d_error){0};
	if (p4d_job_geometry(site, &job, ask, NULL, &geometry, &err) < 0)
		check(err.code != P4D_OK && *err.text);
	else
		check(geometry.nodes && geometry.gpus_per_node && geometry.gpu && geometry.gpu_types &&
		      geometry.ambiguous);
	p4d_job_wants_gpus(&job);
	free(text);
	return 0;
}
