/* SPDX-License-Identifier: Apache-2.0 */
/* How p4d reads a job's resources: GRES, memory and node lists, geometry, GPU type. */
#include "support/job_sites.h"

#include "job/cluster.h"

static void gres_text(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int rc;
		const char *type;
		uint32_t count;
	} cases[] = {
	    {"gpu", 1, "", 1},
	    {"gpu:4", 1, "", 4},
	    {"gpu:h100", 1, "h100", 1},
	    {"gpu:h100:4", 1, "h100", 4},
	    {"GPU:h100:4", 1, "h100", 4},
	    {"gres:gpu:h100:4", 1, "h100", 4},
	    {"gres/gpu:h100:4", 1, "h100", 4},
	    {"gres/gpu=4", 1, "", 4},
	    {"gres/gpu:h100=4", 1, "h100", 4},
	    {"gres/gpu:a100:2(S:0)", 1, "a100", 2},
	    {"gpu:8(IDX:0-1,4),lustre:1", 1, "", 8},
	    {"lustre:1,gpu:2", 1, "", 2},
	    {"gres/lustre:1,gres/gpu:2", 1, "", 2},
	    {"gpu:h100:2,gpu:a100:3", 1, "", 5},
	    {"gres:gpu:4,gres:gpu:2", 1, "", 2}, /* the last count of a type is valid */
	    {"gpu:h100:2,lustre:1,gpu:H100:3", 1, "H100", 3},
	    {"gpu:+1", 1, "", 1},
	    {"gpu: 1", 1, "", 1},
	    {"gpu:h100:+2", 1, "h100", 2},
	    {"gpu:h100: \t2", 1, "h100", 2},
	    {"gpu:h100:00000001", 1, "h100", 1},
	    {"gpu:2k", 1, "", 2048},
	    {"gpu:h100:1M", 1, "h100", 1048576},
	    {"gpu:010", 1, "", 10},
	    {"gpu:1g.10gb:7", 1, "1g.10gb", 7},
	    {"gpu:nvidia_a100-sxm4-40gb:1", 1, "nvidia_a100-sxm4-40gb", 1},
	    {"gpu:0", 0, "", 0},
	    {"gpu:h100:0,gpu:a100:2", 1, "a100", 2},
	    {"lustre:1", 0, "", 0},
	    {"gpus:1", 0, "", 0},
	    {"gpu_mem:20G", 0, "", 0},
	    {"none", 0, "", 0},
	    {"", 0, "", 0},
	    {",", 0, "", 0},
	    {"gpu:4,", 1, "", 4},
	    {"gres:", 0, "", 0}, /* `--gres=` */
	    {"gpu:", -1, "", 0},
	    {"gpu::4", -1, "", 0},
	    {"gpu:h100:", -1, "", 0},
	    {"gpu:h100:x", -1, "", 0},
	    {"gpu:h100:4:5", -1, "", 0},
	    {"gpu:-1", -1, "", 0},
	    {"gpu:h100:-1", -1, "", 0},
	    {"gpu:h 100:1", -1, "", 0},
	    {"gpu:99999999", -1, "", 0},
	    {"gpu:99k:1", 1, "99k", 1},
	    {"gpu:16m", -1, "", 0},
	    {"gpu:99999999999999999999", -1, "", 0},
	    {"gpu:+", -1, "", 0},
	    {"gpu:h100:+", -1, "", 0},
	    {"gpu:a:1,gpu:b:1,gpu:c:1,gpu:d:1,gpu:e:1,gpu:f:1,gpu:g:1,gpu:h:1", 1, "", 8},
	    {"gpu:a:1,gpu:b:1,gpu:c:1,gpu:d:1,gpu:e:1,gpu:f:1,gpu:g:1,gpu:h:1,gpu:i:1", -1, "", 0},
	    {"gpu:h100:99999999", -1, "", 0},
	    {"gpu:2(S:0", -1, "", 0},
	    {"gpu:2)S:0(", -1, "", 0},
	    {"gpu:2(S:0)x", -1, "", 0},
	    {":4", -1, "", 0},
	    {"gpu:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:1", -1, "", 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char type[48] = "untouched";
		uint32_t count = 99;
		p4d_error err = {0};
		int rc = p4d_gres_parse(cases[i].text, type, sizeof(type), &count, &err);
		if (rc != cases[i].rc)
			fail_msg("%s: %d", cases[i].text, rc);
		if (rc > 0) {
			assert_string_equal(type, cases[i].type);
			assert_int_equal(count, cases[i].count);
		} else {
			assert_string_equal(type, "untouched");
			assert_int_equal(count, 99);
		}
		assert_int_equal(err.code, rc < 0 ? P4D_E_VALUE : P4D_OK);
	}
	char *long_text = malloc(5000), type[48];
	uint32_t count;
	p4d_error err = {0};
	for (size_t i = 0; i < 4998; i += 6)
		memcpy(long_text + i, "gpu:1,", 6);
	long_text[4997] = '\0';
	assert_int_equal(p4d_gres_parse(long_text, type, sizeof(type), &count, &err), -1);
	free(long_text);
	assert_string_equal(err.fix, "--gres=gpu:4");
}

static void memory_text(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		p4d_code code;
		uint64_t bytes;
	} cases[] = {
	    {"512000", P4D_OK, UINT64_C(512000) << 20},
	    {"16G", P4D_OK, GIB(16)},
	    {"16g", P4D_OK, GIB(16)},
	    {"2T", P4D_OK, GIB(2048)},
	    {"64M", P4D_OK, UINT64_C(64) << 20},
	    {"1024K", P4D_OK, 1 << 20},
	    {"0", P4D_OK, 0},
	    {"", P4D_E_VALUE, 0},
	    {"G", P4D_E_VALUE, 0},
	    {"-1", P4D_E_VALUE, 0},
	    {"1.5G", P4D_E_VALUE, 0},
	    {"16GB", P4D_OK, GIB(16)},
	    {" +16G", P4D_OK, GIB(16)},
	    {"5000K", P4D_OK, 5 << 20},
	    {"16GiB", P4D_E_VALUE, 0},
	    {"16B", P4D_E_VALUE, 0},
	    {"16X", P4D_E_VALUE, 0},
	    {"+ 16G", P4D_E_VALUE, 0},
	    {"99999999999999999999", P4D_E_OVERFLOW, 0},
	    {"18446744073709551615T", P4D_E_OVERFLOW, 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bytes = 7;
		p4d_error err = {0};
		int rc = p4d_gres_parse_mem(cases[i].text, &bytes, &err);
		if (err.code != cases[i].code || rc != (err.code ? -1 : 0))
			fail_msg("%s: %d", cases[i].text, err.code);
		assert_int_equal(bytes, rc ? 7 : cases[i].bytes);
	}
}

static void node_text(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int rc;
		uint32_t min, max;
	} cases[] = {
	    {"4", 0, 4, 4},
	    {"2-4", 0, 2, 4},
	    {"1k", 0, 1024, 1024},
	    {"1-1k", 0, 1, 1024},
	    {"2m", 0, 2097152, 2097152},
	    {"+2", 0, 2, 2},
	    {" 4", 0, 4, 4},
	    {"0", 0, 0, 0},
	    {"0-4", -1, 0, 0},
	    {"", -1, 0, 0},
	    {"-4", -1, 0, 0},
	    {"4-", -1, 0, 0},
	    {"4-2", -1, 0, 0},
	    {"x", -1, 0, 0},
	    {"4x", -1, 0, 0},
	    {"1-2-3", -1, 0, 0},
	    {"k", -1, 0, 0},
	    {"2,4", -1, 0, 0},
	    {"9999999m", -1, 0, 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t min = 7, max = 8;
		p4d_error err = {0};
		int rc = p4d_gres__parse_nodes(cases[i].text, &min, &max, &err);
		if (rc != cases[i].rc)
			fail_msg("%s: %d", cases[i].text, rc);
		assert_int_equal(min, rc ? 7 : cases[i].min);
		assert_int_equal(max, rc ? 8 : cases[i].max);
		assert_int_equal(err.code, rc ? P4D_E_VALUE : P4D_OK);
	}
}

/* If p4d suggests other nodes or GPUs, the flags have the form of the job's own options. */
static void flags_in_the_words_of_the_job(void **state)
{
	(void)state;
	static const struct {
		p4d_job job;
		const char *flags; /* expected flags for three nodes with four GPUs each */
	} cases[] = {
	    {{0}, "--nodes=3 --gpus-per-node=4"},
	    {{.gres = "gpu:8"}, "--nodes=3 --gres=gpu:4"},
	    {{.gres = "gres:lustre:1,gres:gpu:h100:8,gres:nvme"},
	     "--nodes=3 --gres=lustre:1,nvme,gpu:h100:4"},
	    {{.gres = "gres/gpu:1g.10gb:1"}, "--nodes=3 --gres=gpu:1g.10gb:4"},
	    {{.gres = "gpu:h100:8", .per_node_option = true}, "--nodes=3 --gpus-per-node=h100:4"},
	    {{.gres = "gpu:h100:8,gpu:a100:2", .both_options = true},
	     "--nodes=3 --gres=gpu:4 --gpus-per-node=4"},
	    {{.gpus = "h100:16"}, "--nodes=3 --gpus=h100:12 --gpus-per-node=4"},
	    {{.gpus = "16", .gres = "gpu:8"}, "--nodes=3 --gpus=12 --gres=gpu:4"},
	    {{.gpus_per_task = "gpu:2", .tasks = 8},
	     "--nodes=3 --ntasks=6 --ntasks-per-node=2 --gpus-per-task=2"},
	    {{.gpus_per_task = "3"}, "--nodes=3 --ntasks=12 --ntasks-per-node=4 --gpus-per-task=1"},
	    {{.gpus_per_task = "cpu:4", .gres = "gpu:8"}, "--nodes=3 --gres=gpu:4"},
	    {{.gpus_per_task = "2", .gres = "gpu:8"},
	     "--nodes=3 --ntasks=6 --ntasks-per-node=2 --gpus-per-task=2 --gres=gpu:4"},
	    {{.gpus_per_socket = "4"}, "--nodes=3 --gpus-per-node=4"},
	    {{.gpus = "8", .tasks = 8, .tasks_per_gpu = 1},
	     "--nodes=3 --ntasks=12 --gpus=12 --gpus-per-node=4"},
	    {{.cpu = true}, "--nodes=3 --ntasks-per-node=4"},
	    {{.cpu = true, .tasks = 7}, "--nodes=3 --ntasks=12 --ntasks-per-node=4"},
	};
	char flags[400];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(p4d_job_flags(&cases[i].job, 3, 4, flags, sizeof(flags)), cases[i].flags);
}

/* Suggested flags for a job with one task per GPU, on three nodes with four GPUs each. */
static void flags_for_a_task_per_gpu(void **state)
{
	(void)state;
	static const struct {
		p4d_job job;
		const char *flags;
	} cases[] = {
	    {{.gres = "gpu:4"}, "--nodes=3 --ntasks-per-node=4"},
	    {{.gres = "gpu:4", .tasks = 3}, "--nodes=3 --ntasks=12 --ntasks-per-node=4"},
	    {{.gres = "gpu:4", .tasks_per_gpu = 2}, "--nodes=3 --ntasks-per-gpu=1"},
	    {{.gpus = "12", .tasks_per_gpu = 2, .tasks = 24}, "--nodes=3 --ntasks=12 --ntasks-per-gpu=1"},
	    {{.gpus_per_task = "h100:2", .tasks = 6},
	     "--nodes=3 --ntasks=12 --ntasks-per-node=4 --gpus-per-task=h100:1"},
	};
	char flags[400];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(p4d_job_task_flags(&cases[i].job, 3, 4, flags, sizeof(flags)),
				    cases[i].flags);
}

static uint64_t host(const p4d_site *site, p4d_job job)
{
	if (!job.gres)
		job.gres = "gpu:4";
	return understood(site, job, NULL).host_bytes;
}

static void host_memory(void **state)
{
	(void)state;
	assert_int_equal(host(mapped, (p4d_job){.mem_per_node_bytes = GIB(64)}), GIB(64));
	assert_int_equal(host(mapped, (p4d_job){.mem_per_gpu_bytes = GIB(64)}), GIB(256));
	assert_int_equal(
	    host(nothing, (p4d_job){.mem_per_cpu_bytes = GIB(2), .cpus_per_task = 8, .tasks_per_node = 4}),
	    GIB(64));
	assert_int_equal(host(nothing, (p4d_job){.mem_per_cpu_bytes = GIB(2), .tasks = 8, .min_nodes = 2}),
			 GIB(16));
	assert_int_equal(host(nothing, (p4d_job){.mem_per_cpu_bytes = GIB(2)}), 0);
	assert_int_equal(host(mapped, (p4d_job){.mem_per_cpu_bytes = GIB(2)}), 0);
	assert_int_equal(host(mapped, (p4d_job){0}), GIB(1900));
	assert_int_equal(host(mapped, (p4d_job){.mem_is_all = true}), GIB(1900));
	assert_int_equal(host(mapped, (p4d_job){.partition = "a"}), 0);
	assert_int_equal(host(nothing, (p4d_job){.partition = "mixed", .mem_is_all = true}), GIB(1000));
	assert_int_equal(host(nothing, (p4d_job){.partition = "mixed"}), 0);
	/* the nodes of the partition that the job may get decide, even if p4d asked the cluster for
	 * nothing else */
	assert_int_equal(
	    host(nothing, (p4d_job){.partition = "mixed", .mem_is_all = true, .gres = "gpu:h100:4"}),
	    GIB(2000));
	assert_int_equal(host(mapped, (p4d_job){.partition = "both", .mem_is_all = true}), GIB(2000));
	assert_int_equal(host(mapped, (p4d_job){.partition = "both", .mem_is_all = true, .nodelist = "x1"}),
			 GIB(2000));
	refused(mapped, (p4d_job){.gres = "gpu:4", .mem_per_gpu_bytes = UINT64_MAX}, P4D_E_OVERFLOW,
		"the memory that the job asks for per node does not fit 64 bits", "--mem=0");
}

/* p4d does not read a text that is longer than Slurm accepts, even if its beginning would be enough. */
static void longer_than_slurm_takes(void **state)
{
	enum { LONG = 1024 };
	static char text[LONG + 2];
	p4d_job job = {.gres = "gpu:4", .partition = "h"};
	const struct {
		const char **field;
		const char *begin;
		char more;
	} cases[] = {
	    {&job.partition, "h", ','},  {&job.qos, "", 'q'},         {&job.account, "", 'a'},
	    {&job.reservation, "", 'r'}, {&job.constraint, "x", ' '}, {&job.gres, "gpu:4", ','},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *before = *cases[i].field;
		p4d_error err = {0};
		memset(text, cases[i].more, sizeof(text));
		memcpy(text, cases[i].begin, strlen(cases[i].begin));
		*cases[i].field = text;
		text[LONG] = '\0';
		if (p4d_job_check_limits(&job, &err) < 0 && !strstr(err.text, "names"))
			fail_msg("%zu: %s", i, err.text);
		text[LONG] = cases[i].more;
		text[LONG + 1] = '\0';
		assert_int_equal(p4d_job_check_limits(&job, &err), -1);
		assert_int_equal(err.code, P4D_E_VALUE);
		assert_non_null(strstr(err.text, "more than 1024 characters"));
		assert_int_equal(p4d_job_geometry(mapped, &job, NULL, NULL, &(p4d_geometry){0}, NULL), -1);
		assert_true(p4d_job_gets_gpus(mapped, &job, NULL, NULL));
		*cases[i].field = before;
	}
	understood(mapped, job, NULL);
	refused(mapped, (p4d_job){.gres = "gpu:4", .partition = partitions_of(129, text, sizeof(text))},
		P4D_E_VALUE, "--partition lists 129 names, but p4d compares at most 128", "--partition=NAME");
}

/* A node list of any length refuses no job. p4d compares it, or it excludes no node. */
static void node_lists_of_any_length(void **state)
{
	enum { LONG = 20 * 1024, TOO_LONG = 300 * 1024 };
	static char text[TOO_LONG];

	(void)state;
	memset(text, ',', sizeof(text) - 1);
	memcpy(text, "y1,y2", 5);
	for (int i = 0; i < 2; i++) {
		text[i ? TOO_LONG - 1 : LONG] = '\0';
		type(mapped, (p4d_job){.partition = "both", .exclude = text}, i ? "h100-80gb" : "a100-80gb",
		     "both", i ? 3 : 2, 1, 1);
		type(mapped, (p4d_job){.partition = "both", .nodelist = text}, "h100-80gb", "both", i ? 3 : 1,
		     1, 1);
		text[LONG] = ',';
	}
}

/* A constraint with too many names to compare excludes no node, so the smallest GPU counts. */
static void a_constraint_too_long_to_compare(void **state)
{
	char text[400] = "h100";

	(void)state;
	p4d_job job = {.gres = "gpu:4", .partition = "mixed", .constraint = text};
	type(mapped, job, "h100-80gb", "mixed", 1, 1, 1);
	for (int i = 0; i < 64; i++)
		strcat(text, "&x");
	type(mapped, job, "a100-40gb", "mixed", 2, 2, 1);
}

static void the_allocator_in_the_environment(void **state)
{
	static const struct {
		const char *entry;
		bool expandable;
	} cases[] = {
	    {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", true},
	    {"PYTORCH_ALLOC_CONF=garbage_collection_threshold:0.8,expandable_segments:True", true},
	    {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False", false},
	    {"MY_PYTORCH_ALLOC_CONF=expandable_segments:True", false},
	    {"PATH=/bin", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *const environment[] = {(char *)(uintptr_t) "HOME=/", (char *)(uintptr_t)cases[i].entry,
					     NULL};
		assert_int_equal(p4d_job_is_expandable(environment), cases[i].expandable);
	}
}

/* Host memory of a job that requests none: the default per GPU or, without one, per node or per CPU. */
static void default_memory(void **state)
{
	(void)state;
	p4d_job job = {.gres = "gpu:4"};
	p4d_geometry g = understood(nothing, job, NULL);
	assert_int_equal(g.host_bytes, 0);
	assert_false(g.host_by_default);
	rows[0].memory.per_node = GIB(100);
	g = understood(nothing, job, NULL);
	assert_int_equal(g.host_bytes, GIB(100));
	assert_true(g.host_by_default);
	rows[0].memory.per_gpu = GIB(20);
	assert_int_equal(understood(nothing, job, NULL).host_bytes, GIB(80));
	rows[0].memory = (p4d_default_memory){.per_cpu = GIB(2)};
	/* a task gets whole cores, and a core has two CPUs here */
	assert_int_equal(understood(nothing, job, NULL).host_bytes, GIB(4));
	job.tasks_per_node = 4;
	job.cpus_per_task = 3;
	assert_int_equal(understood(nothing, job, NULL).host_bytes, GIB(32));
	/* DefCpuPerGPU of the partition counts if the job does not set its CPUs */
	rows[0].memory.cpus_per_gpu = 12;
	assert_int_equal(understood(nothing, job, NULL).host_bytes, GIB(32));
	job.cpus_per_task = 0;
	assert_int_equal(understood(nothing, job, NULL).host_bytes, GIB(96));
	job.cpus_per_gpu = 1;
	assert_int_equal(understood(nothing, job, NULL).host_bytes, GIB(16));
	job.cpus_per_gpu = 0;
	rows[0].memory.cpus_per_gpu = 0;
	rows[0].memory.cpus_unknown = true;
	assert_int_equal(understood(nothing, job, NULL).host_bytes, 0);
	job.cpus_per_task = 3;
	assert_int_equal(understood(nothing, job, NULL).host_bytes, GIB(32));
	rows[0].memory.cpus_unknown = false;
	/* --mincpus counts only without tasks; with tasks it may only choose the nodes */
	job.min_cpus = 16;
	assert_int_equal(understood(nothing, job, NULL).host_bytes, GIB(32));
	job.min_cpus = 17;
	assert_int_equal(understood(nothing, job, NULL).host_bytes, 0);
	job.tasks_per_node = job.min_cpus = 0;
	assert_int_equal(understood(nothing, (p4d_job){.gres = "gpu:4", .min_cpus = 17}, NULL).host_bytes,
			 GIB(36));
	job.tasks_per_node = 4;
	/* p4d does not know how Slurm distributes five tasks over two nodes */
	p4d_job uneven = {.gres = "gpu:4", .min_nodes = 2, .max_nodes = 2, .tasks = 5};
	assert_int_equal(understood(nothing, uneven, NULL).host_bytes, 0);
	job.exclusive = true;
	assert_int_equal(understood(nothing, job, NULL).host_bytes, GIB(128));
	/* the job's own option overrides the default, and so does p4d.conf */
	job.mem_per_node_bytes = GIB(7);
	g = understood(nothing, job, NULL);
	assert_int_equal(g.host_bytes, GIB(7));
	assert_false(g.host_by_default);
	assert_int_equal(understood(mapped, (p4d_job){.gres = "gpu:4"}, NULL).host_bytes, GIB(1900));
	rows[0].memory = (p4d_default_memory){0};
}

/*
 * --mem-per-cpu counts all CPUs that the job gets on a node. If p4d.conf has the GPUs, p4d does not ask
 * the cluster. It then does not know the threads of a core, DefCpuPerGPU, and whether jobs get whole
 * nodes.
 */
static void memory_per_cpu(void **state)
{
	p4d_job job = {.gres = "gpu:4", .tasks_per_node = 4, .mem_per_cpu_bytes = GIB(2)};

	(void)state;
	assert_int_equal(understood(mapped, job, NULL).host_bytes, 0);
	/* a core has two CPUs here */
	assert_int_equal(understood(nothing, job, NULL).host_bytes, GIB(16));
	rows[0].memory.cpus_per_gpu = 12;
	assert_int_equal(understood(nothing, job, NULL).host_bytes, GIB(96));
	rows[0].memory = (p4d_default_memory){0};
	job.cpus_per_gpu = 6;
	assert_int_equal(understood(nothing, job, NULL).host_bytes, GIB(48));
	assert_int_equal(understood(mapped, job, NULL).host_bytes, 0);
	rows[0].whole_nodes = true;
	assert_int_equal(understood(nothing, job, NULL).host_bytes, GIB(128));
	rows[0].whole_nodes = false;
	job.min_cpus = 40;
	assert_int_equal(understood(nothing, job, NULL).host_bytes, 0);
	job.exclusive = true;
	assert_int_equal(understood(nothing, job, NULL).host_bytes, GIB(128));
	assert_int_equal(understood(mapped, job, NULL).host_bytes, 0);
}

/* DefMemPerGPU and DefCpuPerGPU come from the partition or, if it has none, from slurm.conf. */
static void defaults_of_the_cluster(void **state)
{
	const p4d_memory_defaults usual = {.mebibytes = 1000, .everywhere = {.mebibytes = 500, .cpus = 4}};
	p4d_memory_defaults d = usual;
	p4d_default_memory m = p4d_cluster_default_memory(&d);

	(void)state;
	assert_int_equal(m.per_gpu, UINT64_C(500) << 20);
	assert_int_equal(m.per_node, UINT64_C(1000) << 20);
	assert_int_equal(m.cpus_per_gpu, 4);
	d.partition = (p4d_gpu_defaults){.mebibytes = 700, .cpus = 6};
	m = p4d_cluster_default_memory(&d);
	assert_int_equal(m.per_gpu, UINT64_C(700) << 20);
	assert_int_equal(m.cpus_per_gpu, 6);
	/* Slurm's releases differ here, so the default is unknown */
	d = usual;
	d.of_partition = d.per_cpu = true;
	m = p4d_cluster_default_memory(&d);
	assert_int_equal(m.per_gpu + m.per_node + m.per_cpu, 0);
	assert_int_equal(m.cpus_per_gpu, 4);
	d.everywhere = (p4d_gpu_defaults){.cpus = 4};
	m = p4d_cluster_default_memory(&d);
	assert_int_equal(m.per_cpu, UINT64_C(1000) << 20);
	/* slurm.conf has defaults that p4d does not know */
	d = (p4d_memory_defaults){.mebibytes = 1000, .everywhere_unknown = true};
	m = p4d_cluster_default_memory(&d);
	assert_int_equal(m.per_gpu + m.per_node + m.per_cpu, 0);
	assert_true(m.cpus_unknown);
	d.partition = (p4d_gpu_defaults){.mebibytes = 700, .cpus = 6};
	m = p4d_cluster_default_memory(&d);
	assert_int_equal(m.per_gpu, UINT64_C(700) << 20);
	assert_false(m.cpus_unknown);
	/* this Slurm allocates CPUs, but no memory */
	d = usual;
	d.no_memory = true;
	m = p4d_cluster_default_memory(&d);
	assert_int_equal(m.per_gpu + m.per_node + m.per_cpu, 0);
	assert_int_equal(m.cpus_per_gpu, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_allocator_in_the_environment),
	    cmocka_unit_test(gres_text),
	    cmocka_unit_test(memory_text),
	    cmocka_unit_test(node_text),
	    cmocka_unit_test(flags_in_the_words_of_the_job),
	    cmocka_unit_test(flags_for_a_task_per_gpu),
	    cmocka_unit_test(host_memory),
	    cmocka_unit_test(longer_than_slurm_takes),
	    cmocka_unit_test(node_lists_of_any_length),
	    cmocka_unit_test(a_constraint_too_long_to_compare),
	    cmocka_unit_test(default_memory),
	    cmocka_unit_test(memory_per_cpu),
	    cmocka_unit_test(defaults_of_the_cluster),
	};

	return cmocka_run_group_tests_name("job", tests, load_sites, free_sites);
}
