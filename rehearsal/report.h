/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What the stand-ins saw, as JSON in the file that the settings name. Any thread may call. */

typedef enum p4d_report_count {
	P4D_REPORT_LAUNCHES,         /* kernels */
	P4D_REPORT_PRODUCTS,         /* matrix products of cuBLAS and cuBLASLt */
	P4D_REPORT_FLOPS,            /* FLOPs of those products */
	P4D_REPORT_GRAPHS,           /* executions of cuDNN's graphs */
	P4D_REPORT_COLLECTIVES,      /* calls of NCCL */
	P4D_REPORT_COLLECTIVE_BYTES, /* bytes that this rank passed to them */
	P4D_REPORT_UNANSWERED,       /* collectives whose data another rank has, and no record */
	P4D_REPORT_MISSING,          /* names of p4d_report_missing */
	P4D_REPORT_FLOPS_8,          /* of products of 8 bits or fewer, */
	P4D_REPORT_FLOPS_TF32,       /* of 32 bits in tf32, */
	P4D_REPORT_FLOPS_32,         /* and of 32 bits or more; FLOPS has all of these */
	P4D_REPORT_PRODUCT_DEPTH,    /* k of m x k times k x n, summed over those products */
	P4D_REPORT_PRODUCT_BYTES,    /* operands and results of those products */
	P4D_REPORT_COUNTS,
} p4d_report_count;

void p4d_report_add(p4d_report_count count, uint64_t value);

/* What was added so far, for the Python module; 0: there is no such count. */
uint64_t p4d_report_count_of(int count);

/* A workspace that cuDNN's plan asks for; the report has the largest. */
void p4d_report_workspace(uint64_t bytes);

/* The program called NAME (a string that stays), which no stand-in plays. The report has each name once. */
void p4d_report_missing(const char *name);

/* Something that makes the answer less sure, a sentence that stays. The report has each once. */
void p4d_report_doubt(const char *doubt);

/* A doubt whether sizes are right, so the answer is unvalidated; a copy is kept. The Python module also calls
 * it. */
void p4d_report_unvalidated(const char *why);

/*
 * Writes the report, as the end of the process does; a later call replaces it. For the Python module, before
 * it ends the process. 0, or -1 where the file could not be written.
 */
int p4d_report_write(void);
