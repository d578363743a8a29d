/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gpu/gpu.h"

static p4d_gpus gpus;

static const char *datadir(void)
{
	const char *from_make = getenv("P4D_TEST_DATADIR");

	return from_make ? from_make : "etc";
}

static int load(void **state)
{
	p4d_error err = {0};
	(void)state;

	char path[1024];

	snprintf(path, sizeof(path), "%s/gpus.json", datadir());
	int rc = p4d_gpus_load(&gpus, path, &err);
	if (rc < 0)
		fprintf(stderr, "%s\n", err.text);
	return gpus.count ? 0 : -1;
}

static int unload(void **state)
{
	(void)state;
	p4d_gpus_free(&gpus);
	p4d_gpus_free(&gpus); /* accepts an empty table */
	return gpus.gpu != NULL;
}

/* The usable GiB and the reported MiB of every unpartitioned GPU, from measurements (out-of-memory
 * messages, nvidia-smi). */
static void every_gpu_is_there(void **state)
{
	static const struct {
		const char *name;
		double usable_gib;
		uint64_t reported_mib;
		double tflops;
	} rows[] = {
	    {"v100-16gb", 15.75, 16160, 0},
	    {"v100-32gb", 31.74, 32510, 0},
	    {"a100-40gb", 39.39, 40960, 312},
	    {"a100-pcie-40gb", 39.39, 40960, 312},
	    {"a100-80gb", 79.15, 81920, 312},
	    {"a100-pcie-80gb", 79.1, 81920, 312},
	    {"h100-80gb", 79.1, 81559, 989},
	    {"h100-pcie-80gb", 79.1, 81559, 756},
	    {"h100-nvl-94gb", 93.0, 95830, 835},
	    {"h100-96gb", 94.0, 0, 989},
	    {"h20-96gb", 94.9, 97871, 148},
	    {"h200-141gb", 139.8, 143771, 989},
	    {"h200-nvl-141gb", 139.8, 143771, 835},
	    {"gh200-96gb", 94.5, 97871, 989},
	    {"gh200-144gb", 141.5, 146831, 989},
	    {"b200-180gb", 178.35, 183359, 2250},
	    {"gb200-186gb", 184.0, 189471, 2500},
	    {"l40s-48gb", 44.4, 46068, 362},
	    {"l4-24gb", 22.0, 23034, 121},
	    {"a10-24gb", 22.2, 23028, 125},
	    {"a40-48gb", 44.3, 46068, 150},
	    {"rtx4090-24gb", 23.64, 24564, 165},
	    {"mi250x-64gb", 63.98, 65520, 191.5},
	    {"mi300x-192gb", 191.98, 196592, 1307},
	    {"h800-80gb", 79.1, 81559, 989},
	    {"b300-288gb", 267.69, 275040, 2250},
	    {"gb300-288gb", 276.5, 284208, 2500},
	    {"rtx-pro-6000-96gb", 94.97, 97887, 503.8},
	    {"rtxa6000-48gb", 47.54, 49140, 154.8},
	    {"rtx5090-32gb", 31.36, 32607, 209.5},
	    {"mi325x-256gb", 255.98, 0, 1307},
	    {"mi355x-288gb", 287.98, 0, 2500},
	    {"a16-16gb", 14.5, 15356, 17.9},
	    {"a30-24gb", 23.5, 24576, 165},
	    {"a800-80gb", 79.15, 81920, 312},
	    {"gb10-128gb", 119.6, 0, 125},
	    {"gtx1080ti-11gb", 10.91, 11178, 0},
	    {"k80-12gb", 11.17, 11441, 0},
	    {"l40-48gb", 44.4, 46068, 181},
	    {"p100-16gb", 15.89, 16276, 0},
	    {"p40-24gb", 22.38, 22919, 0},
	    {"quadro-rtx6000-24gb", 22.17, 0, 0},
	    {"quadro-rtx8000-48gb", 47.46, 49152, 0},
	    {"rtx2080ti-11gb", 10.75, 11264, 0},
	    {"rtx3060-12gb", 11.63, 12288, 25.5},
	    {"rtx3080-10gb", 9.65, 10240, 59.5},
	    {"rtx3090-24gb", 23.57, 24576, 71},
	    {"rtx4080-16gb", 15.6, 16376, 97.5},
	    {"rtx5070ti-16gb", 15.46, 16303, 87.9},
	    {"rtx5080-16gb", 15.46, 16303, 112.6},
	    {"rtx6000ada-48gb", 47.5, 49140, 364},
	    {"rtxa4000-16gb", 15.6, 16376, 76.7},
	    {"rtxa5000-24gb", 23.57, 24564, 111.1},
	    {"t4-16gb", 14.56, 15360, 0},
	    {"titan-rtx-24gb", 23.65, 24220, 0},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned ambiguous = 0;
		const p4d_gpu *gpu = p4d_gpu_find(&gpus, rows[i].name, &ambiguous);
		if (!gpu)
			fail_msg("%s is missing", rows[i].name);
		assert_string_equal(gpu->name, rows[i].name);
		assert_int_equal(ambiguous, 1);
		assert_int_equal(gpu->usable_bytes, (uint64_t)(rows[i].usable_gib * (1 << 30)));
		assert_int_equal(gpu->reported_bytes, rows[i].reported_mib << 20);
		assert_true(gpu->peak_bf16_flops == rows[i].tflops * 1e12);
		assert_true(gpu->hbm_bytes_per_s > 0);
		assert_true(*gpu->label && *gpu->source && *gpu->status);
	}
	/* all other GPUs of the table resemble one of these; none of them may disappear */
	assert_true(gpus.count >= sizeof(rows) / sizeof(rows[0]) + 24);
}

static void table_is_sound(void **state)
{
	(void)state;
	for (size_t i = 0; i < gpus.count; i++) {
		const p4d_gpu *gpu = &gpus.gpu[i];
		char alias[64];
		/* sorted by name, ignoring separators */
		assert_true(i == 0 || strncmp(gpus.gpu[i - 1].name, gpu->name, 2) <= 0);
		/* a process never gets more than the device reports or its advertised size, in binary
		 * units */
		assert_true(gpu->reported_bytes == 0 || gpu->usable_bytes <= gpu->reported_bytes);
		assert_true((double)gpu->usable_bytes <= (double)gpu->nominal_bytes * 1.0738);
		assert_true((double)gpu->usable_bytes >= (double)gpu->nominal_bytes * 0.93);
		for (const char *at = gpu->aliases; *at;
		     at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
			snprintf(alias, sizeof(alias), "%.*s", (int)strcspn(at, ","), at);
			const p4d_gpu *found = p4d_gpu_find(&gpus, alias, NULL);
			assert_non_null(found);
			/* an ambiguous alias means the GPU with the least usable memory */
			assert_true(found->usable_bytes <= gpu->usable_bytes);
		}
	}
}

static void names_of_slurm(void **state)
{
	static const struct {
		const char *asked, *name;
		unsigned ambiguous;
	} cases[] = {
	    {"h100", "h100-80gb", 1},
	    {"H100", "h100-80gb", 1},
	    {"h100_80gb", "h100-80gb", 1},
	    {"nvidia_h100_80gb_hbm3", "h100-80gb", 1},
	    {"NVIDIA H100 80GB HBM3", "h100-80gb", 1},
	    {"nvidia_h100_pcie", "h100-pcie-80gb", 1},
	    {"nvidia_h100_nvl", "h100-nvl-94gb", 1},
	    {"a100", "a100-40gb", 2},
	    {"nvidia_a100", "a100-40gb", 2},
	    {"a100_80g", "a100-80gb", 1},
	    {"a100-sxm4-80gb", "a100-80gb", 1},
	    {"nvidia_a100-sxm4-80gb", "a100-80gb", 1},
	    {"nvidia_a100-sxm4-40gb", "a100-40gb", 1},
	    {"nvidia_a100_80gb_pcie", "a100-pcie-80gb", 1},
	    {"nvidia_a100-pcie-40gb", "a100-pcie-40gb", 1},
	    {"h200", "h200-141gb", 1},
	    {"nvidia_h200", "h200-141gb", 1},
	    {"nvidia_h200_nvl", "h200-nvl-141gb", 1},
	    {"gh200", "gh200-96gb", 2},
	    {"nvidia_gh200_480gb", "gh200-96gb", 1},
	    {"b200", "b200-180gb", 1},
	    {"gb200", "gb200-186gb", 1},
	    {"b300", "b300-288gb", 1},
	    {"NVIDIA B300 SXM6 AC", "b300-288gb", 1},
	    {"nvidia_gb300", "gb300-288gb", 1},
	    {"rtx pro 6000", "rtx-pro-6000-96gb", 1},
	    {"nvidia_rtx_pro_6000_blackwell_server_edition", "rtx-pro-6000-96gb", 1},
	    {"a6000", "rtxa6000-48gb", 1},
	    {"nvidia_rtx_a6000", "rtxa6000-48gb", 1},
	    {"nvidia_geforce_rtx_5090", "rtx5090-32gb", 1},
	    {"amd_instinct_mi325x", "mi325x-256gb", 1},
	    {"mi355x", "mi355x-288gb", 1},
	    {"v100", "v100-16gb", 2},
	    {"tesla_v100", "v100-16gb", 2},
	    {"Tesla V100-SXM2-32GB", "v100-32gb", 1},
	    {"nvidia_l40s", "l40s-48gb", 1},
	    {"nvidia_geforce_rtx_4090", "rtx4090-24gb", 1},
	    {"amd_instinct_mi300x_oam", "mi300x-192gb", 1},
	    {"t4", "t4-16gb", 1},
	    {"Tesla T4", "t4-16gb", 1},
	    {"a800", "a800-80gb", 1},
	    {"NVIDIA A800-SXM4-80GB", "a800-80gb", 1},
	    {"3090", "rtx3090-24gb", 1},
	    {"RTX 3090", "rtx3090-24gb", 1},
	    {"nvidia_geforce_rtx_3090", "rtx3090-24gb", 1},
	    {"nvidia_geforce_rtx_2080_ti", "rtx2080ti-11gb", 1},
	    {"nvidia_geforce_rtx_5070_ti", "rtx5070ti-16gb", 1},
	    {"nvidia_geforce_rtx_5080", "rtx5080-16gb", 1},
	    {"nvidia_rtx_6000_ada_generation", "rtx6000ada-48gb", 1},
	    {"quadro_rtx_8000", "quadro-rtx8000-48gb", 1},
	    {"rtx6000", "quadro-rtx6000-24gb", 2}, /* this name could also mean the RTX 6000 Ada */
	    {"a40", "a40-48gb", 1},                /* this name and the next ones are also the beginning of
						    * other names */
	    {"a4000", "rtxa4000-16gb", 1},
	    {"l40", "l40-48gb", 1},
	    {"a10", "a10-24gb", 1},
	    {"a16", "a16-16gb", 1},
	    {"tesla_p100-pcie-16gb", "p100-16gb", 1},
	    {"nvidia_gb10", "gb10-128gb", 1},
	    {"tesla_k80", "k80-12gb", 1},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned ambiguous = 0;
		const p4d_gpu *gpu = p4d_gpu_find(&gpus, cases[i].asked, &ambiguous);
		if (!gpu || strcmp(gpu->name, cases[i].name) || ambiguous != cases[i].ambiguous)
			fail_msg("%s: %s, %u candidates", cases[i].asked, gpu ? gpu->name : "unknown",
				 ambiguous);
	}
}

/* Types that the matrix units of NVIDIA GPUs support; those of other GPUs are unknown. */
static void precisions(void **state)
{
	static const struct {
		const char *gpu, *precision;
		int from; /* compute capability from which GPUs have it; 0: this GPU has it */
	} cases[] = {
	    {"v100-32gb", "bf16", 80},   {"v100-32gb", "fp16", 0},       {"a100-80gb", "bf16", 0},
	    {"a100-80gb", "fp8", 89},    {"l40s-48gb", "fp8", 0},        {"h100-80gb", "fp8", 0},
	    {"b300-288gb", "fp8", 0},    {"l40s-48gb", "blockwise", 90}, {"h100-80gb", "mxfp8", 100},
	    {"b200-180gb", "mxfp8", 0},  {"v100-16gb", "fp32", 0},       {"h100-80gb", "nvfp4", 100},
	    {"b200-180gb", "nvfp4", 0},  {"mi300x-192gb", "bf16", 0},    {"p100-16gb", "bf16", 80},
	    {"t4-16gb", "bf16", 80},     {"rtx2080ti-11gb", "bf16", 80}, {"rtx2080ti-11gb", "fp16", 0},
	    {"rtx3090-24gb", "bf16", 0}, {"rtx3090-24gb", "fp8", 89},    {"l40-48gb", "fp8", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(p4d_gpu_lacks(p4d_gpu_find(&gpus, cases[i].gpu, NULL), cases[i].precision),
				 cases[i].from);
}

static void slices(void **state)
{
	static const struct {
		const char *asked, *name, *whole;
		unsigned ambiguous, eighths;
	} cases[] = {
	    {"h100-1g.10gb", "h100-1g.10gb", "h100-80gb", 1, 1},
	    {"nvidia_h100_80gb_hbm3_1g.10gb", "h100-1g.10gb", "h100-80gb", 1, 1},
	    {"h100_3g.40gb", "h100-3g.40gb", "h100-80gb", 1, 4},
	    {"7g.80gb", "a100-80gb-7g.80gb", "a100-80gb", 2, 8},
	    {"1g.10gb", "a100-80gb-1g.10gb", "a100-80gb", 3, 1},
	    {"a100_1g.10gb", "a100-80gb-1g.10gb", "a100-80gb", 2, 1},
	    {"a100-40gb-1g.10gb", "a100-40gb-1g.10gb", "a100-40gb", 1, 2},
	    {"nvidia_a100_80gb_pcie_1g.10gb", "a100-80gb-1g.10gb", "a100-80gb", 1, 1},
	    {"nvidia_a100-sxm4-40gb_3g.20gb", "a100-40gb-3g.20gb", "a100-40gb", 1, 4},
	    {"a100-1g.5gb", "a100-40gb-1g.5gb", "a100-40gb", 1, 1},
	    {"h200-1g.18gb", "h200-1g.18gb", "h200-141gb", 1, 1},
	    {"nvidia_h200_1g.35gb", "h200-1g.35gb", "h200-141gb", 1, 2},
	    {"h200-4g.71gb", "h200-4g.71gb", "h200-141gb", 1, 4},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned ambiguous = 0;
		const p4d_gpu *gpu = p4d_gpu_find(&gpus, cases[i].asked, &ambiguous);
		const p4d_gpu *whole = p4d_gpu_find(&gpus, cases[i].whole, NULL);
		if (!gpu || strcmp(gpu->name, cases[i].name) || ambiguous != cases[i].ambiguous)
			fail_msg("%s: %s, %u candidates", cases[i].asked, gpu ? gpu->name : "unknown",
				 ambiguous);
		assert_string_equal(gpu->status, "derived");
		/* a partition has at most its share of the usable memory, and not much less */
		double share = (double)whole->usable_bytes * cases[i].eighths / 8;
		assert_true((double)gpu->usable_bytes <= share);
		assert_true((double)gpu->usable_bytes > 0.9 * share);
	}
}

static void unknown_names(void **state)
{
	static const char *const names[] = {"",           "-",  "gpu",  "h10",      "h1000",
					    "a100-80gbx", "1g", "80gb", "h100,h200"};
	unsigned ambiguous = 77;
	(void)state;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_null(p4d_gpu_find(&gpus, names[i], &ambiguous));
	assert_int_equal(ambiguous, 77);
}

static void bad_tables(void **state)
{
	static const struct {
		const char *text;
		p4d_code code;
		const char *message;
	} cases[] = {
	    {"", P4D_E_JSON, "gpus.json: empty file"},
	    {"{}", P4D_E_JSON, "gpus.json: lacks the list \"gpus\""},
	    {"{\"gpus\":{}}", P4D_E_JSON, "gpus.json: lacks the list \"gpus\""},
	    {"{\"gpus\":[]}", P4D_E_VALUE, "gpus.json: lists 0 GPUs: not from 1 to 1024"},
	    {"{\"gpus\":[1]}", P4D_E_JSON, "gpus.json: GPU 1 (\"\"): not an object"},
	    {"{\"gpus\":[{}]}", P4D_E_JSON,
	     "gpus.json: GPU 1 (\"\"): lacks a \"name\" that begins with a letter or digit"},
	    {"{\"gpus\":[{\"name\":\"-\"}]}", P4D_E_JSON,
	     "gpus.json: GPU 1 (\"-\"): lacks a \"name\" that begins with a letter or digit"},
	    {"{\"gpus\":[{\"name\":\"x\"}]}", P4D_E_JSON, "gpus.json: GPU 1 (\"x\"): lacks \"usable_gib\""},
	    {"{\"gpus\":[{\"name\":\"x\",\"usable_gib\":1}]}", P4D_E_JSON,
	     "gpus.json: GPU 1 (\"x\"): lacks \"nominal_gb\""},
	    {"{\"gpus\":[{\"name\":\"x\",\"usable_gib\":-1}]}", P4D_E_VALUE,
	     "gpus.json: GPU 1 (\"x\"): \"usable_gib\" is -1: not from 0.001 to 65536"},
	    {"{\"gpus\":[{\"name\":\"x\",\"usable_gib\":NaN}]}", P4D_E_VALUE,
	     "gpus.json: GPU 1 (\"x\"): \"usable_gib\" is NaN: not from 0.001 to 65536"},
	    {"{\"gpus\":[{\"name\":\"x\",\"usable_gib\":1e400}]}", P4D_E_VALUE,
	     "gpus.json: GPU 1 (\"x\"): \"usable_gib\" is 1e400: not from 0.001 to 65536"},
	    {"{\"gpus\":[{\"name\":\"x\",\"usable_gib\":\"80\"}]}", P4D_E_JSON,
	     "gpus.json: GPU 1 (\"x\"): \"usable_gib\" is \"80\", not a number"},
	    {"{\"gpus\":[{\"name\":\"x\",\"usable_gib\":2,\"nominal_gb\":2,\"reported_mib\":1024}]}",
	     P4D_E_VALUE,
	     "gpus.json: GPU 1 (\"x\"): usable_gib 2 is more than reported_mib 1024, which is 1 GiB"},
	    {"{\"gpus\":[{\"name\":\"x\",\"gemm_efficiency\":1.5}]}", P4D_E_VALUE,
	     "gpus.json: GPU 1 (\"x\"): \"gemm_efficiency\" is 1.5: not from 0 to 1"},
	    {"{\"gpus\":[{\"name\":\"x\",\"sm\":\"90\"}]}", P4D_E_JSON,
	     "gpus.json: GPU 1 (\"x\"): \"sm\" is \"90\", not a number"},
	    {"{\"gpus\":[{\"name\":\"x\",\"usable\":2}]}", P4D_E_JSON,
	     "gpus.json: GPU 1 (\"x\"): unknown field \"usable\""},
	    {"{\"gpus\":[{\"name\":\"x\",\"name\":\"y\"}]}", P4D_E_JSON, "gpus.json: a field is given twice"},
	    {"{\"gpus\":[{\"name\":\"a-b\",\"usable_gib\":1,\"nominal_gb\":1},"
	     "{\"name\":\"A_b\",\"usable_gib\":1,\"nominal_gb\":1}]}",
	     P4D_E_VALUE, "gpus.json: GPU \"a-b\" is listed twice"},
	    {"{\"gpus\":[{\"name\":\"0123456789012345678901234567890123456789012345678\"}]}", P4D_E_JSON,
	     "gpus.json: GPU 1 (\"\"): \"name\" is longer than 47 characters"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_gpus table = {.count = 7};
		p4d_error err = {0};
		assert_int_equal(
		    p4d_gpus_parse(&table, cases[i].text, strlen(cases[i].text), "gpus.json", &err), -1);
		assert_string_equal(err.text, cases[i].message);
		assert_int_equal(err.code, cases[i].code);
		assert_int_equal(table.count, 7);
		assert_null(table.gpu);
		assert_int_equal(
		    p4d_gpus_parse(&table, cases[i].text, strlen(cases[i].text), "gpus.json", NULL), -1);
	}
}

/* The built-in table equals gpus.json. */
static void built_in_table(void **state)
{
	p4d_gpus table = {0};
	p4d_error err = {0};
	(void)state;

	assert_int_equal(p4d_gpus_load(&table, NULL, &err), 0);
	assert_int_equal(table.count, gpus.count);
	for (size_t i = 0; i < table.count; i++)
		assert_memory_equal(&table.gpu[i], &gpus.gpu[i], sizeof(p4d_gpu));
	p4d_gpus_free(&table);
	assert_int_equal(p4d_gpus_load(&table, "/nonexistent", &err), -1);
	assert_non_null(strstr(err.text, "/nonexistent"));
	assert_int_equal(err.code, P4D_E_IO);
}

/* The values that the cost model reads about a GPU, in the units of p4d_gpu. */
static void rates(void **state)
{
	(void)state;
	const p4d_gpu *a100 = p4d_gpu_find(&gpus, "a100-80gb", NULL),
		      *v100 = p4d_gpu_find(&gpus, "v100-32gb", NULL);

	assert_true(a100->sm == 80 && a100->multiprocessors == 108);
	assert_true(a100->peak_fp32_flops == 19.5e12 && a100->peak_fp16_flops == 0);
	assert_true(a100->link_bytes_per_s == 300e9 && a100->net_bytes_per_s == 25e9);
	assert_true(a100->gemm_efficiency > 0.7 && a100->gemm_efficiency < 0.9);
	assert_true(v100->sm == 70 && v100->peak_fp16_flops == 125e12 && v100->peak_bf16_flops == 0);
	for (size_t i = 0; i < gpus.count; i++) {
		const p4d_gpu *gpu = &gpus.gpu[i];
		bool slice = !strcmp(gpu->status, "derived"), amd = !strncmp(gpu->name, "mi", 2);
		/* all NVIDIA GPUs have an architecture; only unpartitioned ones have rates, and then
		 * either all or none */
		assert_true((gpu->sm > 0) == !amd);
		bool clock = !amd && !slice;
		assert_true((gpu->gemm_efficiency > 0) == clock && (gpu->hbm_efficiency > 0) == clock);
		assert_true((gpu->link_efficiency > 0) == clock && (gpu->net_bytes_per_s > 0) == clock);
		assert_true((gpu->multiprocessors > 0) == clock && (gpu->peak_fp32_flops > 0) == clock);
		assert_true(gpu->attention_backward_efficiency <= gpu->attention_forward_efficiency);
	}
}

/* A site may add rows with only the mandatory members. Missing members are 0. */
static void least_row(void **state)
{
	static const char text[] =
	    "{\"gpus\":[{\"name\":\"x\",\"usable_gib\":1.0000000009,\"nominal_gb\":1}]}";
	p4d_gpus table = {0};
	p4d_error err = {0};
	(void)state;

	assert_int_equal(p4d_gpus_parse(&table, text, strlen(text), "gpus.json", &err), 0);
	assert_int_equal(table.count, 1);
	assert_int_equal(table.gpu[0].usable_bytes, 1 << 30); /* 1.0000000009 GiB is rounded down */
	assert_int_equal(table.gpu[0].nominal_bytes, 1000000000);
	assert_int_equal(table.gpu[0].reported_bytes, 0);
	assert_true(table.gpu[0].peak_bf16_flops == 0 && table.gpu[0].link_bytes_per_s == 0);
	assert_string_equal(table.gpu[0].aliases, "");
	p4d_gpus_free(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_gpu_is_there),
	    cmocka_unit_test(table_is_sound),
	    cmocka_unit_test(names_of_slurm),
	    cmocka_unit_test(slices),
	    cmocka_unit_test(precisions),
	    cmocka_unit_test(unknown_names),
	    cmocka_unit_test(bad_tables),
	    cmocka_unit_test(built_in_table),
	    cmocka_unit_test(rates),
	    cmocka_unit_test(least_row),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
