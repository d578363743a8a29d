/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "request/request.h"

/*
 * Rates of a GPU, and fractions of them that kernels sustain; 0: unknown. RATE(member, name in gpus.json,
 * largest value there, unit).
 *
 * Peaks are dense. If the fp16 peak is unknown, it is the bf16 peak. The fp32 peak is without tf32. Links are
 * per GPU in one direction: inside a node, to other nodes, and to the host's memory. The efficiencies of
 * attention are fractions of the peak, for the causal half. board_watts is the board's power limit.
 */
#define P4D_GPU_RATES(RATE) \
	RATE(peak_bf16_flops, "peak_bf16_tflops", 1e9, 1e12) \
	RATE(peak_fp16_flops, "peak_fp16_tflops", 1e9, 1e12) \
	RATE(peak_fp8_flops, "peak_fp8_tflops", 1e9, 1e12) \
	RATE(peak_fp4_flops, "peak_fp4_tflops", 1e9, 1e12) \
	RATE(peak_fp32_flops, "peak_fp32_tflops", 1e9, 1e12) \
	RATE(hbm_bytes_per_s, "hbm_tb_per_s", 1e6, 1e12) \
	RATE(link_bytes_per_s, "link_gb_per_s", 1e9, 1e9) \
	RATE(net_bytes_per_s, "net_gb_per_s", 1e9, 1e9) \
	RATE(host_link_bytes_per_s, "host_link_gb_per_s", 1e9, 1e9) \
	RATE(gemm_efficiency, "gemm_efficiency", 1, 1) \
	RATE(gemm_fp8_efficiency, "gemm_fp8_efficiency", 1, 1) \
	RATE(gemm_fp4_efficiency, "gemm_fp4_efficiency", 1, 1) \
	RATE(attention_forward_efficiency, "attention_forward_efficiency", 1, 1) \
	RATE(attention_backward_efficiency, "attention_backward_efficiency", 1, 1) \
	RATE(hbm_efficiency, "hbm_efficiency", 1, 1) \
	RATE(link_efficiency, "link_efficiency", 1, 1) \
	RATE(board_watts, "board_watts", 1e4, 1)

enum { P4D_GPU_NAME = 48 };

/*
 * Memory overhead that a site measured for ranks of a framework. Formulas use the maximum of this and their
 * own constants.
 */
typedef struct p4d_gpu_margin {
	int framework;                 /* a framework, of P4D_FRAMEWORK */
	int64_t model_code, precision; /* values of a layout; -1: any */
	char gpu[P4D_GPU_NAME];        /* "": any */
	uint64_t reserve_bytes;        /* outside the allocator; 0: not measured */
	unsigned fragmentation; /* thousandths of the allocated memory, default allocator; 0: not measured */
} p4d_gpu_margin;

/* All margins of a site, the most specific margins first. */
typedef struct p4d_gpu_margins {
	size_t count;
	p4d_gpu_margin *margin; /* owned */
} p4d_gpu_margins;

/* A GPU as gpus.json describes it. */
typedef struct p4d_gpu {
	char name[P4D_GPU_NAME]; /* "h100-80gb" */
	char label[64];          /* "NVIDIA H100 SXM5 80 GB" */
	char aliases[256];       /* GRES names, comma-separated */
	uint64_t usable_bytes;   /* what a process can allocate */
	uint64_t reported_bytes; /* what nvidia-smi prints; 0 unknown */
	uint64_t nominal_bytes;  /* marketing size, 80e9 for "80 GB" (method paper) */
#define RATE(member, name, most, unit) double member;
	P4D_GPU_RATES(RATE)
#undef RATE
	int multiprocessors; /* 0: unknown */
	int nvlink_domain;   /* GPUs that NVLink connects across nodes; 0: only those of a node */
	int gpus_per_node;   /* GPUs of a usual node; 0: 8 */
	int sm;              /* compute capability, 90 for 9.0; 0 unknown */
	char source[256];
	char status[16]; /* how sure the row is: "read", "mixed", "weak", "derived" (MIG slices), "site"
			    (p4d.conf) */
	const p4d_gpu_margins *margins; /* margins of the site; NULL: none */
} p4d_gpu;

/* The most specific margin of a GPU for this framework, model code and precision; NULL: none. gpu may be
 * NULL. */
const p4d_gpu_margin *p4d_gpu_margin_of(const p4d_gpu *gpu, int framework, int64_t model_code,
					int64_t precision);

/* p4d stores bytes; GiB is only for printing. */
static inline double p4d_to_gib(uint64_t bytes)
{
	return (double)bytes / (double)((uint64_t)1 << 30);
}

/* A table of GPUs; read-only after loading, may be shared between threads. */
typedef struct p4d_gpus {
	size_t count;
	const p4d_gpu *gpu; /* sorted by name; the order ignores separators */
	p4d_gpu *owned;     /* the same table if it is writable; NULL: the built-in table */
} p4d_gpus;

/*
 * Loads a file like etc/gpus.json: an object whose list `gpus` has one object per GPU, with `name`, `label`,
 * `aliases`, `usable_gib`, `reported_mib`, `nominal_gb`, the rates above, `multiprocessors`, `nvlink_domain`,
 * `gpus_per_node`, `sm`, `source`, `status`. name, usable_gib and nominal_gb are mandatory; rates are
 * optional. path NULL: the built-in copy of etc/gpus.json; reads no file. The caller frees the table with
 * p4d_gpus_free (which accepts a zeroed struct). Errors: IO, JSON, VALUE.
 */
int p4d_gpus_load(p4d_gpus *gpus, const char *path, p4d_error *err);

/* Like p4d_gpus_load, but reads only the file `path`, never the built-in copy. */
int p4d_gpus_read(p4d_gpus *gpus, const char *path, p4d_error *err);
/* Like p4d_gpus_read, for the text of a file. what: the file's name in messages. */
int p4d_gpus_parse(p4d_gpus *gpus, const char *text, size_t length, const char *what, p4d_error *err);

/* Copies the built-in table, so that callers can change rows. Errors: NO_MEMORY. */
int p4d_gpus_own(p4d_gpus *gpus, p4d_error *err);

/* Adds a GPU with a new name; copies a built-in table first. Pointers into the table become invalid.
 * Errors: NO_MEMORY. */
int p4d_gpus_add(p4d_gpus *gpus, const p4d_gpu *gpu, p4d_error *err);

void p4d_gpus_free(p4d_gpus *gpus);

/*
 * The lowest compute capability (80 for 8.0) whose matrix units support the precision or FP8 recipe (by its
 * name in request/fp8.h). 0: this GPU supports it, or p4d does not know whether it does.
 */
int p4d_gpu_lacks(const p4d_gpu *gpu, const char *precision);

/* Sets nvlink-domain of a request, if it is unset and NVLink connects this GPU across nodes. gpu may be NULL.
 */
void p4d_gpu_set_domain(const p4d_gpu *gpu, p4d_request *request);

/* Whether the GPU is an instance of a partitioned GPU (MIG), such as h100-80gb-1g.10gb. */
bool p4d_gpu_is_mig(const p4d_gpu *gpu);

/* Usual number of GPUs in a node. */
static inline uint32_t p4d_gpu_usual_node(const p4d_gpu *gpu)
{
	return gpu->gpus_per_node ? (uint32_t)gpu->gpus_per_node : 8;
}

/* Whether this is a GPU's name or one of its aliases, as p4d_gpu_find compares them. */
bool p4d_gpu_is_named(const p4d_gpu *gpu, const char *name);

/*
 * Finds a GPU by name or alias. Case, '-', '_' and ' ' are ignored. MIG slices go by name ("h100-1g.10gb").
 * If several GPUs match an alias (a100: 40 or 80 GB), returns the one with the least memory, and sets
 * *ambiguous (may be NULL) to the number of matches, otherwise to 1. A GPU's own name is never ambiguous.
 * NULL: unknown; *ambiguous is then unchanged.
 */
const p4d_gpu *p4d_gpu_find(const p4d_gpus *gpus, const char *name, unsigned *ambiguous);
