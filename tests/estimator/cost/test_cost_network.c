/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a partition, as described in p4d.conf: its effect on step times, compared with
 * calculations by hand. */
#include "support/cost_steps.h"

#include "support/conf_file.h"

/* Eight nodes of eight GPUs: tp within a node, dp over all nodes. */
#define MODEL \
	"model=custom layers=4 hidden=4096 ffn=16384 heads=32 kv-heads=32 head-dim=128 vocab=32768 " \
	"norm=rmsnorm glu=on tied=off positions=rope bias=none qk-norm=off seq-len=2048 micro-batch=1 " \
	"framework=megatron grad-dtype=fp32 overlap-dp=off "
#define EIGHT_NODES MODEL "tp=8 global-batch=8"
enum { NODES = 8, GPUS = 8 };

static p4d_layout with_network(const char *options, uint64_t nodes, const p4d_network *network)
{
	p4d_request r = {.gpu = ""};
	p4d_layout l;
	p4d_error err;

	set_all(&r, options);
	r.network = *network;
	p4d_request_complete(&r, 0, nodes * GPUS);
	if (p4d_layout_build(&r, nodes, GPUS, &l, &err) < 0)
		fail_msg("layout: %s", err.text);
	return l;
}

static double step_with(const char *options, uint64_t nodes, p4d_network network, const p4d_gpu *gpu)
{
	const p4d_layout l = with_network(options, nodes, &network);

	return step_of(&l, gpu).seconds;
}

/* Seconds in which a rank reduces its gradients in fp32 and gathers its parameters in bf16. The ring has
 * eight ranks, one on each node. */
static double sum_by_hand(const p4d_gpu *gpu)
{
	const double h = 4096, ffn = 16384, vocab = 32768;
	const double elements = (4 * (4 * h * h + 3 * h * ffn) + 2 * vocab * h) / 8;

	return elements * (4 + 2) * 7 / 8 / (gpu->net_bytes_per_s * 0.9);
}

static void leaf_switches_share_their_uplinks(void **state)
{
	(void)state;
	const p4d_gpu gpu = gpu_named("h100");
	const double flat = step_with(EIGHT_NODES, NODES, (p4d_network){0}, &gpu);
	const p4d_network four = {.oversubscription = 2, .leaf_nodes = 4},
			  all = {.oversubscription = 2, .leaf_nodes = 8}, own = {.oversubscription = 3};

	/* with oversubscription 2, every byte between two leaf switches takes twice as long */
	assert_true(fabs((step_with(EIGHT_NODES, NODES, four, &gpu) - flat) / sum_by_hand(&gpu) - 1) < 1e-6);
	/* without leaf_nodes, each node has a leaf switch of its own */
	assert_true(fabs((step_with(EIGHT_NODES, NODES, own, &gpu) - flat) / sum_by_hand(&gpu) - 2) < 1e-6);
	/* all eight nodes share one leaf switch, so nothing is oversubscribed */
	assert_true(step_with(EIGHT_NODES, NODES, all, &gpu) == flat);
	/* settings of the network change nothing for a job of one node */
	const double one = step_with(MODEL "tp=4 global-batch=8", 1, (p4d_network){0}, &gpu);
	assert_true(step_with(MODEL "tp=4 global-batch=8", 1, own, &gpu) == one);
	assert_true(step_with(MODEL "tp=4 global-batch=8", 1, (p4d_network){.nics = 1, .step_seconds = 1},
			      &gpu) == one);
}

static void interfaces_are_shared(void **state)
{
	(void)state;
	const p4d_gpu gpu = gpu_named("h100");
	const double sum = sum_by_hand(&gpu), flat = step_with(EIGHT_NODES, NODES, (p4d_network){0}, &gpu);
	const struct {
		p4d_network network;
		double times; /* time relative to the network of gpus.json */
	} cases[] = {{{.nics = 8}, 1},
		     {{.nics = 4}, 2},
		     {{.nics = 2, .nic_bytes_per_s = 100e9}, 2},
		     {{.nic_bytes_per_s = 25e9}, 2},
		     /* the job has 8 of the 16 GPUs of each node, so it gets half of the interfaces */
		     {{.nics = 8, .gpus = 16}, 2}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const double more = step_with(EIGHT_NODES, NODES, cases[i].network, &gpu) - flat;
		assert_true(fabs(more - (cases[i].times - 1) * sum) < 1e-6 * sum);
	}
	/* if gpus.json has no network rate for the GPU, p4d.conf's rate is used */
	p4d_gpu bare = gpu;
	bare.net_bytes_per_s = 0;
	const p4d_layout unknown = with_network(EIGHT_NODES, NODES, &(p4d_network){0}),
			 known = with_network(EIGHT_NODES, NODES,
					      &(p4d_network){.nic_bytes_per_s = gpu.net_bytes_per_s});
	assert_string_equal(p4d_cost_missing(&unknown, &bare), "net_gb_per_s");
	assert_true(step_of(&known, &bare).seconds == flat);
}

/* A ring of eight ranks has eight steps, once to reduce and once to gather. Each step has the latency. */
static void latency_counts_for_each_step(void **state)
{
	(void)state;
	const p4d_gpu gpu = gpu_named("h100");
	const double flat = step_with(EIGHT_NODES, NODES, (p4d_network){0}, &gpu),
		     slow = step_with(EIGHT_NODES, NODES, (p4d_network){.step_seconds = 114e-6}, &gpu);

	assert_true(fabs(slow - flat - 2 * 8 * 100e-6) < 1e-9);
}

/* Each node sends tokens to seven others. Four nodes share a leaf switch, so four of the seven are behind
 * another switch. */
static void exchanges_share_their_uplinks(void **state)
{
	(void)state;
	const p4d_gpu gpu = gpu_named("h100");
	const double bytes = 64e6, net = 1 / (gpu.net_bytes_per_s * 0.9);
	double seconds[3];

	for (int i = 0; i < 3; i++) {
		const p4d_network network = {.oversubscription = i ? 2 * i : 1, .leaf_nodes = 4};
		const p4d_layout l = with_network(EIGHT_NODES, NODES, &network);
		const p4d_cost_rates r = p4d_cost__rates_of(&l, &gpu);
		seconds[i] = p4d_cost__exchange_seconds(&r, p4d_cost__ring_of(&l, 64, 1), bytes);
	}
	const double all = bytes * 56 / 64 * net, beyond = bytes * 32 / 64 * net;
	assert_true(fabs(seconds[1] - seconds[0] - (2 * beyond - all)) < 1e-9);
	assert_true(fabs(seconds[2] - seconds[0] - (4 * beyond - all)) < 1e-9);
}

static void p4d_conf_describes_it(void **state)
{
	(void)state;
	static const char text[] = "partition a { gpu = \"h100-80gb\" gpus_per_node = 8 nics_per_node = 4 "
				   "nic_gb_per_s = 25 leaf_ports = 32\n"
				   "  oversubscription = 2.5 net_latency_us = 20 default = true }\n"
				   "partition b { nics_per_node = 4 leaf_ports = 32 rails = true }\n"
				   "partition c { gpus_per_node = 8 }\nversion = 1\n";
	p4d_error err;
	p4d_site *site = load(text, &err);

	assert_non_null(site);
	const p4d_gpu *h100 = p4d_site_gpu(site, "h100", NULL), *a100 = p4d_site_gpu(site, "a100", NULL);
	p4d_request r = {.gpu = ""}, other = {.gpu = ""};
	p4d_site_apply_network(site, NULL, h100, &r);
	assert_true(r.network.nic_bytes_per_s == 25e9 && r.network.oversubscription == 2.5);
	assert_true(fabs(r.network.step_seconds - 20e-6) < 1e-12);
	assert_true(r.network.nics == 4 && r.network.gpus == 8 && r.network.leaf_nodes == 8);
	/* the section is for another GPU */
	p4d_site_apply_network(site, NULL, a100, &other);
	assert_int_equal(other.network.nics, 0);
	/* a section without a GPU is for any GPU; with rails, every node has one port on each switch */
	p4d_site_apply_network(site, "b,a", a100, &other);
	assert_true(other.network.nics == 4 && other.network.leaf_nodes == 32);
	p4d_site_apply_network(site, "c", a100, &other);
	assert_true(other.network.nics == 0 && other.network.leaf_nodes == 0);
	p4d_site_free(site);
}

static void bad_values(void **state)
{
	(void)state;
	static const struct {
		const char *keys, *message, *fix;
	} cases[] = {
	    {"oversubscription = 0.5", "oversubscription = 0.5: not from 1 to 1000", "oversubscription = 1"},
	    {"oversubscription = 2000", "oversubscription = 2000: not from 1 to 1000",
	     "oversubscription = 1000"},
	    {"oversubscription = 2:1", "oversubscription = 2:1: not a number", ""},
	    {"nic_gb_per_s = 0.001", "nic_gb_per_s = 0.001: not from 0.01 to 10000", "nic_gb_per_s = 0.01"},
	    {"net_latency_us = 99999", "net_latency_us = 99999: not from 0.1 to 10000",
	     "net_latency_us = 10000"},
	    {"nics_per_node = 0", "nics_per_node = 0: not from 1 to 256", ""},
	    {"leaf_ports = 4 nics_per_node = 8",
	     "leaf_ports = 4: too few for one node, which has nics_per_node = 8",
	     "rails = true, if each interface of a node has a leaf switch of its own"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[256];
		p4d_error err = {.code = P4D_OK};
		snprintf(text, sizeof(text), "partition a { %s }\nversion = 1\n", cases[i].keys);
		assert_null(load(text, &err));
		assert_non_null(strstr(err.text, cases[i].message));
		assert_non_null(strstr(err.text, ":1: "));
		assert_string_equal(err.fix, cases[i].fix);
	}
}

static int prepare(void **state)
{
	return load_gpus(state) < 0 ? -1 : make_dir(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(leaf_switches_share_their_uplinks),
	    cmocka_unit_test(interfaces_are_shared),
	    cmocka_unit_test(latency_counts_for_each_step),
	    cmocka_unit_test(exchanges_share_their_uplinks),
	    cmocka_unit_test(p4d_conf_describes_it),
	    cmocka_unit_test(bad_values),
	};
	return cmocka_run_group_tests(tests, prepare, remove_dir);
}
