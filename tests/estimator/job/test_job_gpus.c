/* SPDX-License-Identifier: Apache-2.0 */
/* The number and type of a job's GPUs. */
#include "support/job_sites.h"

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
	assert_false(p4d_job_wants_gpus(&(p4d_job){.gpus_per_task = "cpu:4"})); /* "cpu:4" is Slurm's
										 * --cpus-per-task */
	assert_false(p4d_job_wants_gpus(&(p4d_job){.gpus = "0"}));
	assert_true(p4d_job_wants_gpus(&(p4d_job){.gres = "gpu:x:y"})); /* p4d cannot read this, but Slurm
									 * may */
	assert_false(p4d_job_wants_gpus(&(p4d_job){.exclusive = true}));
	assert_false(p4d_job_wants_gpus(&(p4d_job){0}));
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
	/* it is enough if one of the partitions gives its GPUs to every job, or if p4d cannot read the
	 * list */
	assert_true(gets((p4d_job){.partition = "mixed,whole"}));
	assert_true(gets((p4d_job){.partition = "whole,mixed"}));
	char many[4096];
	assert_true(gets((p4d_job){.partition = partitions_of(129, many, sizeof(many))}));
	assert_false(gets((p4d_job){0}));
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
	expect((p4d_job){.gres = "gpu:16"}, 1, 16,
	       0); /* a node has fewer GPUs; Slurm refuses this job, so p4d need not */
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
	/* --ntasks gives the smallest number of nodes; Slurm uses more nodes if the GPUs need them */
	expect((p4d_job){.gpus = "16", .tasks = 8, .tasks_per_node = 8}, 2, 8, 8);
	expect((p4d_job){.gpus = "16", .tasks = 8, .tasks_per_node = 4}, 2, 8, 4);
	expect((p4d_job){.gpus = "h100:8", .tasks = 8, .tasks_per_node = 4, .partition = "unknown"}, 2, 4, 4);
	expect((p4d_job){.tasks_per_gpu = 2, .gres = "gpu:4", .min_nodes = 2}, 2, 4, 8);
	expect((p4d_job){.tasks_per_gpu = 2, .gpus = "8", .cpu = true}, 1, 16, 16);
	/* sbatch derives the number of nodes from the GPUs, although a training on the CPU uses none */
	expect((p4d_job){.gpus = "8", .gres = "gpu:2", .cpu = true}, 4, 1, 0);
	expect((p4d_job){.gpus = "8", .gres = "gpu:1", .tasks = 16, .cpu = true}, 8, 2, 2);
	expect((p4d_job){.gpus = "8", .gres = "gpu:2", .min_nodes = 4, .max_nodes = 4, .cpu = true}, 4, 1, 0);
	expect((p4d_job){.gpus = "8", .gpus_per_task = "2", .cpu = true}, 1, 4, 4);
	expect((p4d_job){.gpus = "8", .cpu = true}, 1, 1, 0);
	expect((p4d_job){.tasks_per_gpu = 1, .tasks = 1, .exclusive = true}, 1, 8, 8);
	expect((p4d_job){.tasks_per_gpu = 1, .tasks = 16, .exclusive = true}, 2, 8, 8);
	/* a job without -N, as slurmctld stores it */
	p4d_geometry open = {0};
	p4d_job kept = {.gpus = "16", .min_nodes = 1, .tasks = 8, .tasks_per_node = 8};
	assert_int_equal(p4d_job_geometry(mapped, &kept, NULL, NULL, &open, NULL), 0);
	assert_int_equal(open.nodes, 2);
	/* -w requests all of these nodes */
	expect((p4d_job){.nodelist = "h1,h2", .gres = "gpu:8"}, 2, 8, 0);
	expect((p4d_job){.nodelist = "h[1-3]", .gpus = "24"}, 3, 8, 0);
	expect((p4d_job){.nodelist = "h1", .gpus = "16"}, 2, 8, 0);
	expect((p4d_job){.nodelist = "h1", .gres = "gpu:8", .min_nodes = 2}, 2, 8, 0);
	expect((p4d_job){.nodelist = "h1,h2", .gres = "gpu:8", .min_nodes = 1, .max_nodes = 2}, 2, 8, 0);
	/* the CPUs of the tasks need more nodes than the GPUs */
	expect((p4d_job){.tasks = 2, .cpus_per_task = 64, .gres = "gpu:8", .partition = "gpu"}, 2, 8, 1);
	expect((p4d_job){.tasks = 2, .cpus_per_task = 32, .gres = "gpu:8", .partition = "gpu"}, 1, 8, 2);
	/* sbatch adds --ntasks to --ntasks-per-node, so slurmctld sees both */
	expect((p4d_job){.cpus_per_task = 64, .tasks_per_node = 2, .gres = "gpu:8", .partition = "gpu"}, 1, 8,
	       2);
	expect(
	    (p4d_job){
		.tasks = 2, .cpus_per_task = 64, .tasks_per_node = 2, .gres = "gpu:8", .partition = "gpu"},
	    1, 8, 2);
	expect((p4d_job){.tasks = 65, .gres = "gpu:8", .partition = "gpu"}, 2, 8, 0);
	expect((p4d_job){.tasks = 65, .gres = "gpu:8", .partition = "gpu", .overcommit = true}, 1, 8, 65);
	expect((p4d_job){.tasks = 8, .cpus_per_task = 10, .gres = "gpu:8", .partition = "gpu"}, 2, 8, 4);
	expect((p4d_job){.tasks = 2, .cpus_per_task = 64, .gpus_per_task = "4", .partition = "gpu"}, 2, 4, 1);
	expect((p4d_job){.tasks = 4, .cpus_per_task = 32, .gpus_per_task = "2", .partition = "gpu"}, 2, 4, 2);
	expect((p4d_job){.tasks = 2, .cpus_per_task = 64, .gpus = "16", .partition = "gpu"}, 2, 8, 1);
	expect((p4d_job){.gpus = "8", .cpus_per_gpu = 16, .partition = "gpu"}, 2, 4, 0);
	/* a node has 32 cores with two threads each */
	expect((p4d_job){.tasks = 40, .gres = "gpu:8", .partition = "gpu", .threads_per_core = 1}, 2, 8, 20);
	expect((p4d_job){.tasks = 40, .gres = "gpu:8", .partition = "gpu", .threads_per_core = 2}, 1, 8, 40);
	/* with --gpus-per-task, each task has its own GPUs */
	expect((p4d_job){.gpus = "4", .gpus_per_task = "1", .tasks = 4, .tasks_per_node = 2, .min_nodes = 2},
	       2, 2, 2);
	/* a partition that gives whole nodes also gives their GPUs */
	expect((p4d_job){.partition = "whole", .min_nodes = 2}, 2, 8, 0);
	expect((p4d_job){.partition = "whole", .gres = "gpu:4"}, 1, 4, 0);
	/* if p4d.conf does not have the number of GPUs, p4d asks the cluster */
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
	refused(mapped, (p4d_job){.gpus_per_socket = "2", .sockets_per_node = 2}, P4D_E_GEOMETRY,
		"--gpus-per-socket=2 on 2 sockets: Slurm gives a job only the GPUs of sockets on which it "
		"has CPUs",
		"--nodes=1 --gpus-per-node=4");
	refused(
	    mapped, (p4d_job){.gpus = "8", .min_nodes = 2, .max_nodes = 2}, P4D_E_GEOMETRY,
	    "Slurm fills one node after the other, so with 8 GPUs on 2 nodes a node may not get exactly 4",
	    "--nodes=2 --gpus=8 --gpus-per-node=4");
	refused(
	    mapped, (p4d_job){.gpus = "8", .tasks = 8, .tasks_per_node = 4}, P4D_E_GEOMETRY,
	    "Slurm fills one node after the other, so with 8 GPUs on 2 nodes a node may not get exactly 4",
	    "--nodes=2 --gpus=8 --gpus-per-node=4");
	refused(
	    mapped, (p4d_job){.gpus_per_task = "h100:2", .tasks = 4, .min_nodes = 2}, P4D_E_GEOMETRY,
	    "Slurm fills one node after the other, so with 8 GPUs on 2 nodes a node may not get exactly 4",
	    "--nodes=2 --ntasks=4 --ntasks-per-node=2 --gpus-per-task=h100:2");
	refused(
	    mapped, (p4d_job){.gpus = "8", .nodelist = "h1,h2"}, P4D_E_GEOMETRY,
	    "Slurm fills one node after the other, so with 8 GPUs on 2 nodes a node may not get exactly 4",
	    "--nodes=2 --gpus=8 --gpus-per-node=4");
	refused(
	    mapped, (p4d_job){.gpus = "8", .tasks = 2, .cpus_per_task = 64, .partition = "gpu"},
	    P4D_E_GEOMETRY,
	    "Slurm fills one node after the other, so with 8 GPUs on 2 nodes a node may not get exactly 4",
	    "--nodes=2 --gpus=8 --gpus-per-node=4");
	refused(mapped, (p4d_job){.gpus = "8", .cpus_per_gpu = 8, .threads_per_core = 1, .partition = "gpu"},
		P4D_E_GEOMETRY,
		"Slurm does not spread 8 GPUs with 8 CPUs each evenly over the nodes (--threads-per-core=1)",
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

static void gpu_from_the_file(void **state)
{
	(void)state;
	type(mapped, (p4d_job){0}, "h100-80gb", "h", 1, 1, 0);
	type(mapped, (p4d_job){.partition = ""}, "h100-80gb", "h", 1, 1, 0);
	type(mapped, (p4d_job){.partition = "a"}, "a100-40gb", "a", 1, 2, 0);
	type(mapped, (p4d_job){.partition = "h,a"}, "a100-40gb", "a", 2, 2, 0);
	type(mapped, (p4d_job){.partition = "h,h"}, "h100-80gb", "h", 1, 1, 0);
	type(mapped, (p4d_job){.partition = "both"}, "h100-80gb", "both", 3, 1, 0);
	/* the type in --gres decides, even if it could mean several GPUs */
	type(mapped, (p4d_job){.partition = "both", .gres = "gpu:h200:4"}, "h200-141gb", "both", 1, 1, 0);
	type(mapped, (p4d_job){.partition = "both", .gres = "gpu:a100:4"}, "a100-80gb", "both", 1, 1, 0);
	type(mapped, (p4d_job){.partition = "both", .gpus = "a100:4", .gres = "lustre:1", .min_nodes = 1},
	     "a100-80gb", "both", 1, 1, 0);
	type(mapped, (p4d_job){.partition = "h,both", .gres = "gpu:h100:4"}, "h100-80gb", "h", 1, 1, 0);
	/* p4d accepts a type that no partition has */
	type(mapped, (p4d_job){.partition = "h", .gres = "gpu:l40s:4"}, "l40s-48gb", "h", 1, 1, 0);
	type(mapped, (p4d_job){.partition = "h", .gres = "gpu:weird:4"}, "l4-24gb", "h", 1, 1, 0);
	/* a constraint also chooses the GPU */
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
	     1); /* a feature of the partition's nodes names the GPU */
	type(mapped, (p4d_job){.partition = "odd"}, "l4-24gb", "odd", 1, 1, 1); /* a gpu section of
										 * p4d.conf names the GPU */
	type(mapped, (p4d_job){.partition = "h,mixed"}, "a100-40gb", "mixed", 2, 2, 1);
	type(nothing, (p4d_job){.partition = "nowhere", .gres = "gpu:h100:4"}, "h100-80gb", "nowhere", 1, 1,
	     1);
	type(nothing, (p4d_job){.partition = "nowhere,x", .gres = "gpu:a100:4"}, "a100-40gb", "nowhere", 1, 2,
	     1);
}

/* A node list (-w) or an excluded list (-x) may leave fewer GPU types. */
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
	/* the cluster knows which nodes have which GPU, even if p4d.conf names the partition's GPUs */
	type(mapped, (p4d_job){.partition = "both", .nodelist = "x1"}, "h200-141gb", "both", 1, 1, 1);
	type(mapped, (p4d_job){.partition = "both", .nodelist = "z1"}, "a100-80gb", "both", 1, 1, 1);
	type(mapped, (p4d_job){.partition = "both", .exclude = "y1,y2"}, "a100-80gb", "both", 2, 1, 1);
}

static void gpu_unknown(void **state)
{
	(void)state;
	/* p4d refuses this only if the job may use more nodes than it lists */
	refused(mapped, (p4d_job){.gpus = "8", .partition = "odd,bare", .nodelist = "o1"}, P4D_E_GEOMETRY,
		"8 GPUs do not fill nodes of 2 GPUs evenly, and the partitions of the job have different "
		"nodes",
		"--nodes=4 --gpus=8 --gpus-per-node=2");
	refused(nothing, (p4d_job){.gres = "gpu:4", .partition = "nowhere"}, P4D_E_GPU_OF_PARTITION,
		"this cluster has no partition `nowhere`",
		"--partition=NAME, with a NAME that `sinfo -o \"%P %G\"` lists");
	refused(nothing, (p4d_job){.gpus = "4", .partition = "cpu"}, P4D_E_GPU_OF_PARTITION,
		"the nodes of partition `cpu` have no GPUs",
		"--partition=NAME, with a NAME that `sinfo -o \"%P %G\"` lists with GPUs");
	refused(nothing, (p4d_job){.gres = "gpu:4", .clusters = "other"}, P4D_E_GPU_OF_PARTITION,
		"p4d does not know the GPUs of cluster `other` on this host",
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
	/* p4d.conf names the partition's GPU, so the unknown type must mean this GPU */
	type(mapped, (p4d_job){.gres = "gpu:strange:4", .partition = "h"}, "h100-80gb", "h", 1, 1, 0);
	type(mapped, (p4d_job){.gres = "gpu:strange:4"}, "h100-80gb", "h", 1, 1, 0);
	for (size_t i = 0; i < 3; i++) {
		static const char *const others[] = {"both", "m1", "h,big"};
		refused(mapped, (p4d_job){.gres = "gpu:strange:4", .partition = others[i]}, P4D_E_UNKNOWN_GPU,
			"GPU type `strange` is not in gpus.json, so its memory is unknown",
			"p4d.conf: gpu strange { name = \"NAME\" }, with a NAME that `p4d gpus` lists");
	}
	/* p4d cannot ask a cluster */
	p4d_geometry out;
	p4d_error err = {0};
	p4d_job job = {.gres = "gpu:4"};
	assert_int_equal(p4d_job_geometry(nothing, &job, NULL, NULL, &out, &err), -1);
	assert_int_equal(err.code, P4D_E_GPU_OF_PARTITION);
	assert_string_equal(
	    err.text,
	    "the job names no partition, and neither p4d.conf nor the cluster says which is the default");
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
	/* a partition counts once even if it is named several times */
	size_t used = 0;
	for (int i = 0; i < 100; i++)
		used += (size_t)snprintf(many + used, sizeof(many) - used, i % 2 ? "h," : "mixed, ");
	type(mapped, (p4d_job){.gres = "gpu:4", .partition = many}, "a100-40gb", "mixed", 2, 2, 1);
}

static uint32_t most_of(p4d_job job)
{
	unsigned asked = 0;

	return p4d_job_most(nothing, &job, ask, &asked).nodes;
}

static void most_nodes(void **state)
{
	(void)state;
	assert_int_equal(most_of((p4d_job){.gres = "gpu:8"}), 4);
	assert_int_equal(most_of((p4d_job){.partition = "mixed", .gres = "gpu:4"}), 20);
	assert_int_equal(most_of((p4d_job){.partition = "mixed", .gres = "gpu:a100:4"}), 16);
	assert_int_equal(most_of((p4d_job){.partition = "mixed", .gres = "gpu:4", .constraint = "ib"}), 4);
	assert_int_equal(most_of((p4d_job){.partition = "bare,whole,gpu", .gres = "gpu:4"}), 4);
	/* an unknown limit is no limit */
	assert_int_equal(most_of((p4d_job){.partition = "plain", .gres = "gpu:8"}), 0);
	assert_int_equal(most_of((p4d_job){.partition = "gpu", .gres = "gpu:v100:8"}), 0);
	assert_int_equal(most_of((p4d_job){.clusters = "other", .gres = "gpu:8"}), 0);
	rows[0].max_nodes = 3;
	assert_int_equal(most_of((p4d_job){.gres = "gpu:8"}), 3);
	rows[0].max_nodes = 0;
	/* a node with both types counts once */
	char h100[] = "h[1-4],m1", a100[] = "a[01-16],m1", *const nodes[] = {rows[1].nodes, rows[2].nodes};
	rows[1].nodes = h100;
	rows[2].nodes = a100;
	assert_int_equal(most_of((p4d_job){.partition = "mixed", .gres = "gpu:4"}), 21);
	assert_int_equal(most_of((p4d_job){.partition = "mixed", .gres = "gpu:a100:4"}), 17);
	rows[1].nodes = nodes[0];
	rows[2].nodes = nodes[1];
}

/* Finds a larger GPU in the job's partitions, under Slurm's name for it. */
static void larger_gpus(void **state)
{
	(void)state;
	char type[48] = "";
	unsigned asked = 0;
	const p4d_job job = {.partition = "mixed", .gres = "gpu:a100:4"};
	const p4d_gpu *gpu = understood(nothing, job, NULL).gpu;

	assert_string_equal(gpu->name, "a100-40gb");
	gpu = p4d_job_larger_gpu(nothing, &job, ask, &asked, gpu, 4, type);
	assert_non_null(gpu);
	assert_string_equal(gpu->name, "h100-80gb");
	assert_string_equal(type, "h100");
	assert_null(p4d_job_larger_gpu(nothing, &job, ask, &asked, gpu, 4, type));
	/* a node has at most eight of these GPUs */
	gpu = understood(nothing, job, NULL).gpu;
	assert_null(p4d_job_larger_gpu(nothing, &job, ask, &asked, gpu, 16, type));
	/* p4d.conf's name is used if the cluster has none */
	const p4d_job both = {.partition = "both", .gres = "gpu:4"};
	gpu = p4d_gpu_find(p4d_site_gpus(mapped), "a100-80gb", NULL);
	gpu = p4d_job_larger_gpu(mapped, &both, NULL, NULL, gpu, 4, type);
	assert_non_null(gpu);
	assert_string_equal(type, gpu->name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wanting_gpus),
	    cmocka_unit_test(getting_gpus),
	    cmocka_unit_test(counting_gpus),
	    cmocka_unit_test(geometry_that_is_open),
	    cmocka_unit_test(no_gpus),
	    cmocka_unit_test(gpu_from_the_file),
	    cmocka_unit_test(gpu_from_the_cluster),
	    cmocka_unit_test(gpu_of_the_nodes),
	    cmocka_unit_test(gpu_unknown),
	    cmocka_unit_test(most_nodes),
	    cmocka_unit_test(larger_gpus),
	    cmocka_unit_test(too_many_kinds),
	};

	return cmocka_run_group_tests_name("job gpus", tests, load_sites, free_sites);
}
