/* SPDX-License-Identifier: Apache-2.0 */
/* What p4d makes of a job's resources: GRES, memory and node texts, geometry, GPU type. */
#include "support/support.h"

#include <unistd.h>

#include "job/job.h"
#include "job/job_limits.h"

#define GIB(n) ((uint64_t)(n) << 30)

static p4d_site *site_of(const char *text)
{
	char path[] = "/tmp/p4d-job-XXXXXX";
	p4d_error err = {0};
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	p4d_site *site = p4d_site_load(path, test_datadir(), false, 0, &err);
	unlink(path);
	if (!site)
		fail_msg("%s", err.text);
	return site;
}

/* A live cluster as the plugins would describe it. */
static p4d_partition_facts rows[] = {
    {"gpu", "h100", "h100,ib", 8, GIB(2000), true, false, 64, 32, "h[1-4]"},
    {"mixed", "h100", "h100,ib", 8, GIB(2000), false, false, 64, 32, "h[1-4]"},
    {"mixed", "a100", "a100", 4, GIB(1000), false, false, 32, 16, "a[01-16]"},
    {"plain", "", "rack1,h200", 8, GIB(1500), false, false, 0, 0, NULL},
    {"odd", "weird", "", 2, GIB(64), false, false, 8, 4, "o1"},
    {"cpu", "", "", 0, GIB(256), false, true, 64, 32, "c[1-9]"},
    {"bare", "", "rack2", 4, GIB(256), false, false, 8, 4, "b1"},
    {"whole", "h100", "", 8, GIB(2000), false, true, 64, 32, "h[5-6]"},
    {"both", "h200", "", 8, GIB(2000), false, false, 64, 32, "x[1-2]"},
    {"both", "h100", "", 8, GIB(2000), false, false, 64, 32, "y[1-2]"},
    {"both", "a100", "", 8, GIB(2000), false, false, 64, 32, "z1"},
};
static const p4d_cluster cluster = {sizeof(rows) / sizeof(rows[0]), rows};

static const p4d_cluster *ask(void *context)
{
	++*(unsigned *)context;
	return &cluster;
}

static p4d_site *nothing, *mapped;

static int load_sites(void **state)
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

static int free_sites(void **state)
{
	(void)state;
	p4d_site_free(nothing);
	p4d_site_free(mapped);
	return 0;
}

/* The geometry of a job that must be understood; asked counts the questions to the cluster. */
static p4d_geometry understood(const p4d_site *site, p4d_job job, unsigned *asked)
{
	unsigned local = 0;
	p4d_geometry out = {0};
	p4d_error err = {0};

	job.max_nodes = job.max_nodes ? job.max_nodes : job.min_nodes;
	if (p4d_job_geometry(site, &job, ask, asked ? asked : &local, &out, &err) < 0)
		fail_msg("%d: %s", err.code, err.text);
	return out;
}

static void refused(const p4d_site *site, p4d_job job, p4d_code code, const char *text, const char *fix)
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
	    {"gres:gpu:4,gres:gpu:2", 1, "", 2}, /* of one type the last counts */
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
	    {"0", -1, 0, 0},
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

static void wanting_gpus(void **state)
{
	(void)state;
	assert_true(p4d_job_wants_gpus(&(p4d_job){.gres = "gpu:1"}));
	assert_true(p4d_job_wants_gpus(&(p4d_job){.gpus = "4"}));
	assert_true(p4d_job_wants_gpus(&(p4d_job){.gpus = "h100:4"}));
	assert_true(p4d_job_wants_gpus(&(p4d_job){.gpus = "gres:gpu:4"}));
	assert_true(p4d_job_wants_gpus(&(p4d_job){.gpus_per_task = "cpu:4,gres/gpu:1"}));
	assert_true(p4d_job_wants_gpus(&(p4d_job){.gpus_per_socket = "1"}));
	assert_false(p4d_job_wants_gpus(&(p4d_job){.gres = "lustre:1"}));
	assert_false(p4d_job_wants_gpus(&(p4d_job){.gpus_per_task = "cpu:4"})); /* Slurm's --cpus-per-task */
	assert_false(p4d_job_wants_gpus(&(p4d_job){.gpus = "0"}));
	assert_true(
	    p4d_job_wants_gpus(&(p4d_job){.gres = "gpu:x:y"})); /* malformed here, maybe not for Slurm */
	assert_false(p4d_job_wants_gpus(&(p4d_job){.exclusive = true}));
	assert_false(p4d_job_wants_gpus(&(p4d_job){0}));
}

/* "m0,m1,...": partitions that a wildcard section covers. */
static char *partitions_of(int count, char *buf, size_t size)
{
	size_t used = 0;

	for (int i = 0; i < count; i++)
		used += (size_t)snprintf(buf + used, size - used, "m%d,", i);
	return buf;
}

static bool gets(p4d_job job)
{
	unsigned asked = 0;

	return p4d_job_gets_gpus(mapped, &job, ask, &asked);
}

static void getting_gpus(void **state)
{
	(void)state;
	assert_true(gets((p4d_job){.gres = "gpu:1", .partition = "cpu"}));
	assert_true(gets((p4d_job){.exclusive = true}));
	assert_true(gets((p4d_job){.exclusive = true, .partition = "mixed"}));
	assert_true(gets((p4d_job){.partition = "whole"}));
	assert_false(gets((p4d_job){.exclusive = true, .partition = "cpu"}));
	assert_false(gets((p4d_job){.partition = "cpu"}));
	assert_false(gets((p4d_job){.partition = "mixed"}));
	/* one of several partitions is enough, and so is a list that p4d does not understand */
	assert_true(gets((p4d_job){.partition = "mixed,whole"}));
	assert_true(gets((p4d_job){.partition = "whole,mixed"}));
	char many[4096];
	assert_true(gets((p4d_job){.partition = partitions_of(129, many, sizeof(many))}));
	assert_false(gets((p4d_job){0}));
}

/* Options that ask for other nodes and GPUs in the form of the job's own request. */
static void flags_in_the_words_of_the_job(void **state)
{
	(void)state;
	static const struct {
		p4d_job job;
		const char *flags; /* for three nodes of four */
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

/* One task per GPU: three nodes of four. */
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

static void expect(p4d_job job, uint32_t nodes, uint32_t gpus, uint32_t tasks)
{
	p4d_geometry g = understood(mapped, job, NULL);

	if (g.nodes != nodes || g.gpus_per_node != gpus || g.tasks_per_node != tasks)
		fail_msg("%u nodes of %u GPUs and %u tasks, not %u of %u and %u", g.nodes, g.gpus_per_node,
			 g.tasks_per_node, nodes, gpus, tasks);
}

static void counting_gpus(void **state)
{
	(void)state;
	expect((p4d_job){.gres = "gpu:8"}, 1, 8, 0);
	expect((p4d_job){.gres = "gpu:8", .min_nodes = 2, .max_nodes = 2}, 2, 8, 0);
	expect((p4d_job){.gres = "gpu:8", .min_nodes = 2, .tasks = 16}, 2, 8, 8);
	expect((p4d_job){.gres = "gpu:8", .min_nodes = 2, .tasks = 15}, 2, 8, 0);
	expect((p4d_job){.gres = "gpu:8", .tasks = 16, .tasks_per_node = 8}, 2, 8, 8);
	expect((p4d_job){.gres = "gpu:4", .gpus = "8"}, 2, 4, 0);
	expect((p4d_job){.gres = "gpu:16"}, 1, 16, 0); /* more than a node has: Slurm's business */
	expect((p4d_job){.gpus = "16", .gres = "gpu:4", .min_nodes = 4, .max_nodes = 4}, 4, 4, 0);
	expect((p4d_job){.gpus = "4", .min_nodes = 4, .max_nodes = 4}, 4, 1, 0);
	expect((p4d_job){.gpus = "16", .min_nodes = 2, .max_nodes = 2}, 2, 8, 0);
	expect((p4d_job){.gpus = "8", .min_nodes = 2, .exclusive = true}, 2, 4, 0);
	expect((p4d_job){.gpus = "4"}, 1, 4, 0);
	expect((p4d_job){.gpus = "16"}, 2, 8, 0);
	expect((p4d_job){.gpus = "8", .partition = "a"}, 2, 4, 0);
	expect((p4d_job){.gpus = "h100:16", .partition = "h"}, 2, 8, 0);
	expect((p4d_job){.gpus = "8", .partition = "h,big"}, 1, 8, 0);
	expect((p4d_job){.gpus_per_task = "1", .tasks = 16}, 2, 8, 8);
	expect((p4d_job){.gpus_per_task = "1", .tasks_per_node = 4, .min_nodes = 2}, 2, 4, 4);
	expect((p4d_job){.gpus_per_task = "2", .tasks_per_node = 4, .tasks = 8}, 2, 8, 4);
	expect((p4d_job){.gpus_per_task = "2", .min_nodes = 3}, 3, 2, 0);
	expect((p4d_job){.gpus_per_task = "gres/gpu:2", .tasks_per_node = 4}, 1, 8, 4);
	expect((p4d_job){.exclusive = true, .min_nodes = 2}, 2, 8, 0);
	expect((p4d_job){.gpus_per_socket = "4", .sockets_per_node = 1, .min_nodes = 2}, 2, 4, 0);
	expect((p4d_job){.gpus_per_socket = "4"}, 1, 4, 0);
	expect((p4d_job){.gpus_per_socket = "4", .sockets_per_node = 2, .exclusive = true}, 1, 8, 0);
	expect((p4d_job){.tasks_per_gpu = 1, .tasks = 16}, 2, 8, 8);
	/* tasks say how many nodes at least: Slurm starts more of them where the GPUs need more */
	expect((p4d_job){.gpus = "16", .tasks = 8, .tasks_per_node = 8}, 2, 8, 8);
	expect((p4d_job){.gpus = "16", .tasks = 8, .tasks_per_node = 4}, 2, 8, 4);
	expect((p4d_job){.gpus = "h100:8", .tasks = 8, .tasks_per_node = 4, .partition = "unknown"}, 2, 4, 4);
	expect((p4d_job){.tasks_per_gpu = 2, .gres = "gpu:4", .min_nodes = 2}, 2, 4, 8);
	expect((p4d_job){.tasks_per_gpu = 2, .gpus = "8", .cpu = true}, 1, 16, 16);
	expect((p4d_job){.tasks_per_gpu = 1, .tasks = 1, .exclusive = true}, 1, 8, 8);
	expect((p4d_job){.tasks_per_gpu = 1, .tasks = 16, .exclusive = true}, 2, 8, 8);
	/* as slurmctld keeps a job without -N */
	p4d_geometry open = {0};
	p4d_job kept = {.gpus = "16", .min_nodes = 1, .tasks = 8, .tasks_per_node = 8};
	assert_int_equal(p4d_job_geometry(mapped, &kept, NULL, NULL, &open, NULL), 0);
	assert_int_equal(open.nodes, 2);
	/* -w: all of these nodes */
	expect((p4d_job){.nodelist = "h1,h2", .gres = "gpu:8"}, 2, 8, 0);
	expect((p4d_job){.nodelist = "h[1-3]", .gpus = "24"}, 3, 8, 0);
	expect((p4d_job){.nodelist = "h1", .gpus = "16"}, 2, 8, 0);
	expect((p4d_job){.nodelist = "h1", .gres = "gpu:8", .min_nodes = 2}, 2, 8, 0);
	/* the CPUs of the tasks need more nodes than their GPUs */
	expect((p4d_job){.tasks = 2, .cpus_per_task = 64, .gres = "gpu:8", .partition = "gpu"}, 2, 8, 1);
	expect((p4d_job){.tasks = 2, .cpus_per_task = 32, .gres = "gpu:8", .partition = "gpu"}, 1, 8, 2);
	expect((p4d_job){.tasks = 65, .gres = "gpu:8", .partition = "gpu"}, 2, 8, 0);
	expect((p4d_job){.tasks = 65, .gres = "gpu:8", .partition = "gpu", .overcommit = true}, 1, 8, 65);
	expect((p4d_job){.tasks = 8, .cpus_per_task = 10, .gres = "gpu:8", .partition = "gpu"}, 2, 8, 4);
	expect((p4d_job){.tasks = 2, .cpus_per_task = 64, .gpus_per_task = "4", .partition = "gpu"}, 2, 4, 1);
	expect((p4d_job){.tasks = 4, .cpus_per_task = 32, .gpus_per_task = "2", .partition = "gpu"}, 2, 4, 2);
	expect((p4d_job){.tasks = 2, .cpus_per_task = 64, .gpus = "16", .partition = "gpu"}, 2, 8, 1);
	expect((p4d_job){.gpus = "8", .cpus_per_gpu = 16, .partition = "gpu"}, 2, 4, 0);
	/* 32 cores with two threads each */
	expect((p4d_job){.tasks = 40, .gres = "gpu:8", .partition = "gpu", .threads_per_core = 1}, 2, 8, 20);
	expect((p4d_job){.tasks = 40, .gres = "gpu:8", .partition = "gpu", .threads_per_core = 2}, 1, 8, 40);
	/* tasks of which each has its GPUs */
	expect((p4d_job){.gpus = "4", .gpus_per_task = "1", .tasks = 4, .tasks_per_node = 2, .min_nodes = 2},
	       2, 2, 2);
	/* whole nodes come with their GPUs */
	expect((p4d_job){.partition = "whole", .min_nodes = 2}, 2, 8, 0);
	expect((p4d_job){.partition = "whole", .gres = "gpu:4"}, 1, 4, 0);
	/* from the cluster, when p4d.conf does not say */
	p4d_geometry g = understood(nothing, (p4d_job){.gpus = "16", .partition = "gpu"}, NULL);
	assert_int_equal(g.nodes, 2);
	g = understood(nothing, (p4d_job){.exclusive = true}, NULL);
	assert_int_equal(g.gpus_per_node, 8);
}

static void geometry_that_is_open(void **state)
{
	(void)state;
	refused(mapped, (p4d_job){.gres = "gpu:8", .min_nodes = 2, .max_nodes = 4}, P4D_E_GEOMETRY,
		"-N 2-4 leaves the number of nodes open, and a plan needs a fixed number", "--nodes=2");
	refused(mapped, (p4d_job){.gpus = "12", .min_nodes = 5, .max_nodes = 5}, P4D_E_GEOMETRY,
		"12 GPUs cannot be spread evenly over 5 nodes", "--nodes=4 --gpus=12 --gpus-per-node=3");
	refused(mapped, (p4d_job){.gpus = "12"}, P4D_E_GEOMETRY, "12 GPUs do not fill nodes of 8 GPUs evenly",
		"--nodes=2 --gpus=12 --gpus-per-node=6");
	refused(
	    mapped, (p4d_job){.gpus = "8", .partition = "h,a"}, P4D_E_GEOMETRY,
	    "8 GPUs do not fill nodes of 4 GPUs evenly, and the partitions of the job have different nodes",
	    "--nodes=2 --gpus=8 --gpus-per-node=4");
	refused(mapped, (p4d_job){.gres = "gpu:8", .gpus = "12"}, P4D_E_GEOMETRY,
		"12 GPUs do not fill nodes of 8 GPUs evenly", "--nodes=2 --gpus=12 --gres=gpu:6");
	refused(mapped, (p4d_job){.gpus = "h100:4", .partition = "unknown"}, P4D_E_GEOMETRY,
		"4 GPUs on an open number of nodes: the GPUs per node of the partition are unknown",
		"--nodes=1 --gpus=h100:4");
	refused(
	    mapped, (p4d_job){.gpus_per_socket = "2", .sockets_per_node = 2}, P4D_E_GEOMETRY,
	    "--gpus-per-socket=2 on 2 sockets: Slurm gives only the GPUs of sockets whose CPUs the job has",
	    "--nodes=1 --gpus-per-node=4");
	refused(mapped, (p4d_job){.gpus = "8", .min_nodes = 2, .max_nodes = 2}, P4D_E_GEOMETRY,
		"Slurm fills one node after the other: 8 GPUs on 2 nodes are not 4 on each",
		"--nodes=2 --gpus=8 --gpus-per-node=4");
	refused(mapped, (p4d_job){.gpus = "8", .tasks = 8, .tasks_per_node = 4}, P4D_E_GEOMETRY,
		"Slurm fills one node after the other: 8 GPUs on 2 nodes are not 4 on each",
		"--nodes=2 --gpus=8 --gpus-per-node=4");
	refused(mapped, (p4d_job){.gpus_per_task = "h100:2", .tasks = 4, .min_nodes = 2}, P4D_E_GEOMETRY,
		"Slurm fills one node after the other: 8 GPUs on 2 nodes are not 4 on each",
		"--nodes=2 --ntasks=4 --ntasks-per-node=2 --gpus-per-task=h100:2");
	refused(mapped, (p4d_job){.gpus = "8", .nodelist = "h1,h2"}, P4D_E_GEOMETRY,
		"Slurm fills one node after the other: 8 GPUs on 2 nodes are not 4 on each",
		"--nodes=2 --gpus=8 --gpus-per-node=4");
	refused(mapped, (p4d_job){.gpus = "8", .tasks = 2, .cpus_per_task = 64, .partition = "gpu"},
		P4D_E_GEOMETRY, "Slurm fills one node after the other: 8 GPUs on 2 nodes are not 4 on each",
		"--nodes=2 --gpus=8 --gpus-per-node=4");
	refused(mapped, (p4d_job){.gpus = "8", .cpus_per_gpu = 8, .threads_per_core = 1, .partition = "gpu"},
		P4D_E_GEOMETRY,
		"8 GPUs with 8 CPUs each, --threads-per-core=1: Slurm does not spread them evenly",
		"--nodes=2 --gpus=8 --gpus-per-node=4");
	assert_int_equal(
	    understood(mapped, (p4d_job){.gres = "gpu:8", .tasks = 4, .tasks_per_node = 8}, NULL).nodes, 1);
	refused(mapped, (p4d_job){.gres = "gpu:8", .tasks = 12, .tasks_per_node = 8}, P4D_E_GEOMETRY,
		"12 tasks do not fill nodes of 8 tasks evenly", "--nodes=2 --ntasks-per-node=8");
	refused(mapped, (p4d_job){.gpus_per_task = "9999999", .tasks_per_node = 9999999}, P4D_E_OVERFLOW,
		"--gpus-per-task times the number of tasks does not fit 32 bits",
		"--nodes=1 --ntasks=1 --ntasks-per-node=1 --gpus-per-task=1");
}

static void no_gpus(void **state)
{
	(void)state;
	refused(mapped, (p4d_job){0}, P4D_E_NO_GPU, "the job requests no GPU from Slurm",
		"--nodes=1 --gpus-per-node=8");
	refused(mapped, (p4d_job){.partition = "a", .min_nodes = 3}, P4D_E_NO_GPU,
		"the job requests no GPU from Slurm", "--nodes=3 --gpus-per-node=4");
	refused(nothing, (p4d_job){.partition = "cpu", .exclusive = true}, P4D_E_NO_GPU,
		"the job requests no GPU from Slurm", "--nodes=1 --gpus-per-node=1");
	refused(mapped, (p4d_job){.gres = "gpu:h100:x"}, P4D_E_VALUE, "GPU request `gpu:h100:x` is malformed",
		"--gres=gpu:4");
}

static void type(const p4d_site *site, p4d_job job, const char *gpu, const char *partition, unsigned types,
		 unsigned ambiguous, unsigned questions)
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

static void gpu_from_the_file(void **state)
{
	(void)state;
	type(mapped, (p4d_job){0}, "h100-80gb", "h", 1, 1, 0);
	type(mapped, (p4d_job){.partition = ""}, "h100-80gb", "h", 1, 1, 0);
	type(mapped, (p4d_job){.partition = "a"}, "a100-40gb", "a", 1, 2, 0);
	type(mapped, (p4d_job){.partition = "h,a"}, "a100-40gb", "a", 2, 2, 0);
	type(mapped, (p4d_job){.partition = "h,h"}, "h100-80gb", "h", 1, 1, 0);
	type(mapped, (p4d_job){.partition = "both"}, "h100-80gb", "both", 3, 1, 0);
	/* a typed GRES decides, also by an alias that fits several GPUs */
	type(mapped, (p4d_job){.partition = "both", .gres = "gpu:h200:4"}, "h200-141gb", "both", 1, 1, 0);
	type(mapped, (p4d_job){.partition = "both", .gres = "gpu:a100:4"}, "a100-80gb", "both", 1, 1, 0);
	type(mapped, (p4d_job){.partition = "both", .gpus = "a100:4", .gres = "lustre:1", .min_nodes = 1},
	     "a100-80gb", "both", 1, 1, 0);
	type(mapped, (p4d_job){.partition = "h,both", .gres = "gpu:h100:4"}, "h100-80gb", "h", 1, 1, 0);
	/* one that no partition has is believed */
	type(mapped, (p4d_job){.partition = "h", .gres = "gpu:l40s:4"}, "l40s-48gb", "h", 1, 1, 0);
	type(mapped, (p4d_job){.partition = "h", .gres = "gpu:weird:4"}, "l4-24gb", "h", 1, 1, 0);
	/* so does a constraint */
	type(mapped, (p4d_job){.partition = "both", .constraint = "h200"}, "h200-141gb", "both", 1, 1, 0);
	type(mapped, (p4d_job){.partition = "both", .constraint = "ib&h200"}, "h200-141gb", "both", 1, 1, 0);
	type(mapped, (p4d_job){.partition = "both", .constraint = "[h200*2|a100*4]&ib"}, "a100-80gb", "both",
	     2, 1, 0);
	type(mapped, (p4d_job){.partition = "both", .constraint = "h200|ib"}, "h100-80gb", "both", 3, 1, 0);
	type(mapped, (p4d_job){.partition = "both", .constraint = "ib"}, "h100-80gb", "both", 3, 1, 0);
	type(mapped, (p4d_job){.partition = "both", .constraint = "h200&h100"}, "h100-80gb", "both", 3, 1, 0);
	type(mapped, (p4d_job){.partition = "both", .constraint = "&|[*("}, "h100-80gb", "both", 3, 1, 0);
}

static void gpu_from_the_cluster(void **state)
{
	(void)state;
	type(nothing, (p4d_job){0}, "h100-80gb", "gpu", 1, 1, 1);
	type(nothing, (p4d_job){.partition = "mixed"}, "a100-40gb", "mixed", 2, 2, 1);
	type(nothing, (p4d_job){.partition = "mixed", .gres = "gpu:h100:4"}, "h100-80gb", "mixed", 1, 1, 1);
	type(nothing, (p4d_job){.partition = "mixed", .constraint = "ib"}, "h100-80gb", "mixed", 1, 1, 1);
	type(nothing, (p4d_job){.partition = "mixed", .constraint = "a100|ib"}, "a100-40gb", "mixed", 2, 2,
	     1);
	type(nothing, (p4d_job){.partition = "plain"}, "h200-141gb", "plain", 1, 1,
	     1); /* by the features of its nodes */
	type(mapped, (p4d_job){.partition = "odd"}, "l4-24gb", "odd", 1, 1, 1); /* by a gpu section */
	type(mapped, (p4d_job){.partition = "h,mixed"}, "a100-40gb", "mixed", 2, 2, 1);
	type(nothing, (p4d_job){.partition = "nowhere", .gres = "gpu:h100:4"}, "h100-80gb", "nowhere", 1, 1,
	     1);
	type(nothing, (p4d_job){.partition = "nowhere,x", .gres = "gpu:a100:4"}, "a100-40gb", "nowhere", 1, 2,
	     1);
}

/* -w and -x may leave fewer kinds of GPUs. */
static void gpu_of_the_nodes(void **state)
{
	(void)state;
	type(nothing, (p4d_job){.partition = "mixed", .nodelist = "h1"}, "h100-80gb", "mixed", 1, 1, 1);
	type(nothing, (p4d_job){.partition = "mixed", .nodelist = "h1,a05"}, "a100-40gb", "mixed", 2, 2, 1);
	type(nothing, (p4d_job){.partition = "mixed", .nodelist = "h1", .min_nodes = 2}, "a100-40gb", "mixed",
	     2, 2, 1);
	type(nothing, (p4d_job){.partition = "mixed", .nodelist = "h1", .tasks = 65}, "a100-40gb", "mixed", 2,
	     2, 1);
	type(nothing, (p4d_job){.partition = "mixed", .nodelist = "nobody"}, "a100-40gb", "mixed", 2, 2, 1);
	type(nothing, (p4d_job){.partition = "mixed", .nodelist = "h["}, "a100-40gb", "mixed", 2, 2, 1);
	type(nothing, (p4d_job){.partition = "mixed", .exclude = "a[01-16]"}, "h100-80gb", "mixed", 1, 1, 1);
	type(nothing, (p4d_job){.partition = "mixed", .exclude = "a[01-15],a01"}, "a100-40gb", "mixed", 2, 2,
	     1);
	type(nothing, (p4d_job){.partition = "mixed", .exclude = "h[1-2],h3,h4"}, "a100-40gb", "mixed", 1, 2,
	     1);
	type(nothing, (p4d_job){.partition = "mixed", .exclude = "h[1-9],a[01-99]"}, "a100-40gb", "mixed", 2,
	     2, 1);
	/* also where p4d.conf names the GPUs: the cluster knows on which nodes they are */
	type(mapped, (p4d_job){.partition = "both", .nodelist = "x1"}, "h200-141gb", "both", 1, 1, 1);
	type(mapped, (p4d_job){.partition = "both", .nodelist = "z1"}, "a100-80gb", "both", 1, 1, 1);
	type(mapped, (p4d_job){.partition = "both", .exclude = "y1,y2"}, "a100-80gb", "both", 2, 1, 1);
}

static void gpu_unknown(void **state)
{
	(void)state;
	/* only where more nodes than are listed may be any */
	refused(mapped, (p4d_job){.gpus = "8", .partition = "odd,bare", .nodelist = "o1"}, P4D_E_GEOMETRY,
		"8 GPUs do not fill nodes of 2 GPUs evenly, and the partitions of the job have different "
		"nodes",
		"--nodes=4 --gpus=8 --gpus-per-node=2");
	refused(nothing, (p4d_job){.gres = "gpu:4", .partition = "nowhere"}, P4D_E_GPU_OF_PARTITION,
		"no partition `nowhere` is known in this cluster",
		"--partition=NAME, with a NAME that `sinfo -o \"%P %G\"` lists");
	refused(nothing, (p4d_job){.gpus = "4", .partition = "cpu"}, P4D_E_GPU_OF_PARTITION,
		"the nodes of partition `cpu` have no GPUs",
		"--partition=NAME, with a NAME that `sinfo -o \"%P %G\"` lists with GPUs");
	refused(nothing, (p4d_job){.gres = "gpu:4", .clusters = "other"}, P4D_E_GPU_OF_PARTITION,
		"the GPUs of cluster `other` are not known here",
		"submit on that cluster, or name the GPU: --gres=gpu:TYPE:COUNT");
	type(mapped, (p4d_job){.gres = "gpu:h200:4", .clusters = "other"}, "h200-141gb", "", 1, 1, 0);
	refused(nothing, (p4d_job){.gres = "gpu:4", .partition = "bare"}, P4D_E_GPU_OF_PARTITION,
		"neither p4d.conf nor the cluster says which GPU partition `bare` has",
		"p4d.conf: partition bare { gpu = \"GPU\" }, with a GPU that `p4d gpus` lists");
	refused(nothing, (p4d_job){.gres = "gpu:4", .partition = "odd"}, P4D_E_UNKNOWN_GPU,
		"GPU type `weird` is not in gpus.json, so its memory is unknown",
		"p4d.conf: gpu weird { name = \"NAME\" }, with a NAME that `p4d gpus` lists");
	refused(nothing, (p4d_job){.gres = "gpu:strange:4", .partition = "gpu"}, P4D_E_UNKNOWN_GPU,
		"GPU type `strange` is not in gpus.json, so its memory is unknown",
		"p4d.conf: gpu strange { name = \"NAME\" }, with a NAME that `p4d gpus` lists");
	/* without a cluster to ask */
	p4d_geometry out;
	p4d_error err = {0};
	p4d_job job = {.gres = "gpu:4"};
	assert_int_equal(p4d_job_geometry(nothing, &job, NULL, NULL, &out, &err), -1);
	assert_int_equal(err.code, P4D_E_GPU_OF_PARTITION);
	assert_string_equal(
	    err.text,
	    "the job names no partition, and neither p4d.conf nor the cluster says which is the default");
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
	    host(mapped, (p4d_job){.mem_per_cpu_bytes = GIB(2), .cpus_per_task = 8, .tasks_per_node = 4}),
	    GIB(64));
	assert_int_equal(host(mapped, (p4d_job){.mem_per_cpu_bytes = GIB(2), .tasks = 8, .min_nodes = 2}),
			 GIB(8));
	assert_int_equal(host(mapped, (p4d_job){.mem_per_cpu_bytes = GIB(2)}), 0);
	assert_int_equal(host(mapped, (p4d_job){0}), GIB(1900));
	assert_int_equal(host(mapped, (p4d_job){.mem_is_all = true}), GIB(1900));
	assert_int_equal(host(mapped, (p4d_job){.partition = "a"}), 0);
	assert_int_equal(host(nothing, (p4d_job){.partition = "mixed", .mem_is_all = true}), GIB(1000));
	assert_int_equal(host(nothing, (p4d_job){.partition = "mixed"}), 0);
	/* the nodes that the job may get, whether or not the cluster was asked for anything else */
	assert_int_equal(
	    host(nothing, (p4d_job){.partition = "mixed", .mem_is_all = true, .gres = "gpu:h100:4"}),
	    GIB(2000));
	assert_int_equal(host(mapped, (p4d_job){.partition = "both", .mem_is_all = true}), GIB(2000));
	assert_int_equal(host(mapped, (p4d_job){.partition = "both", .mem_is_all = true, .nodelist = "x1"}),
			 GIB(2000));
	refused(mapped, (p4d_job){.gres = "gpu:4", .mem_per_gpu_bytes = UINT64_MAX}, P4D_E_OVERFLOW,
		"the memory that the job asks for per node does not fit 64 bits", "--mem=0");
}

static void too_many_kinds(void **state)
{
	(void)state;
	char many[4096];

	strcat(partitions_of(127, many, sizeof(many)), "mixed");
	refused(mapped, (p4d_job){.gres = "gpu:4", .partition = many}, P4D_E_GEOMETRY,
		"more than 128 kinds of nodes are possible for this job", "--partition=NAME");
	understood(mapped, (p4d_job){.gres = "gpu:4", .partition = partitions_of(128, many, sizeof(many))},
		   NULL);
	/* a partition counts once, however often it is named */
	size_t used = 0;
	for (int i = 0; i < 100; i++)
		used += (size_t)snprintf(many + used, sizeof(many) - used, i % 2 ? "h," : "mixed, ");
	type(mapped, (p4d_job){.gres = "gpu:4", .partition = many}, "a100-40gb", "mixed", 2, 2, 1);
}

/* Of a text longer than Slurm takes nothing is read, not even where a part of it would do. */
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
		P4D_E_VALUE, "--partition lists 129 names, and p4d compares at most 128", "--partition=NAME");
}

/* Nor does a list of nodes, however long, refuse a job: it is compared, or excludes nothing. */
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

/* A constraint of so many names excludes nothing: the smallest GPU counts. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_allocator_in_the_environment),
	    cmocka_unit_test(gres_text),
	    cmocka_unit_test(memory_text),
	    cmocka_unit_test(node_text),
	    cmocka_unit_test(wanting_gpus),
	    cmocka_unit_test(getting_gpus),
	    cmocka_unit_test(flags_in_the_words_of_the_job),
	    cmocka_unit_test(flags_for_a_task_per_gpu),
	    cmocka_unit_test(counting_gpus),
	    cmocka_unit_test(geometry_that_is_open),
	    cmocka_unit_test(no_gpus),
	    cmocka_unit_test(gpu_from_the_file),
	    cmocka_unit_test(gpu_from_the_cluster),
	    cmocka_unit_test(gpu_of_the_nodes),
	    cmocka_unit_test(gpu_unknown),
	    cmocka_unit_test(host_memory),
	    cmocka_unit_test(too_many_kinds),
	    cmocka_unit_test(longer_than_slurm_takes),
	    cmocka_unit_test(node_lists_of_any_length),
	    cmocka_unit_test(a_constraint_too_long_to_compare),
	};

	return cmocka_run_group_tests_name("job", tests, load_sites, free_sites);
}
