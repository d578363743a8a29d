/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Counts of the stand-ins, as JSON in the file that the settings name. Any thread may call these functions.
 */

typedef enum p4d_report_count {
	P4D_REPORT_LAUNCHES,         /* kernels */
	P4D_REPORT_PRODUCTS,         /* matmuls of cuBLAS and cuBLASLt */
	P4D_REPORT_FLOPS,            /* FLOPs of those matmuls */
	P4D_REPORT_GRAPHS,           /* executions of cuDNN's graphs */
	P4D_REPORT_COLLECTIVES,      /* calls of NCCL */
	P4D_REPORT_COLLECTIVE_BYTES, /* bytes that this rank passed to them */
	P4D_REPORT_UNANSWERED,       /* collectives with another rank's data, for which there is no record */
	P4D_REPORT_MISSING,          /* names of p4d_report_missing */
	P4D_REPORT_FLOPS_8,          /* FLOPs of matmuls with 8 bits or fewer; */
	P4D_REPORT_FLOPS_TF32,       /* of matmuls with 32 bits in tf32; */
	P4D_REPORT_FLOPS_32,         /* of matmuls with 32 bits or more. FLOPS is the sum of all */
	P4D_REPORT_PRODUCT_DEPTH,    /* k of m x k times k x n, summed over those matmuls */
	P4D_REPORT_PRODUCT_BYTES,    /* bytes of operands and results of those matmuls */
	P4D_REPORT_ALLOCATIONS,      /* blocks of device memory, and how many of them were given back */
	P4D_REPORT_FREED,
	P4D_REPORT_PINNED, /* blocks of pinned, registered and managed memory, and how many were given back */
	P4D_REPORT_PINNED_FREED,
	P4D_REPORT_STREAMS, /* streams that were created and destroyed; events and communicators follow in the
			       same way */
	P4D_REPORT_STREAMS_ENDED,
	P4D_REPORT_EVENTS,
	P4D_REPORT_EVENTS_ENDED,
	P4D_REPORT_COMMUNICATORS,
	P4D_REPORT_COMMUNICATORS_ENDED,
	P4D_REPORT_WAITS,     /* calls in which the host waits for the device */
	P4D_REPORT_QUESTIONS, /* calls of cuBLASLt that ask which algorithm computes a matmul */
	P4D_REPORT_COPIES,    /* copies and fills on a stream */
	P4D_REPORT_PLANS,     /* plans of cuDNN */
	P4D_REPORT_COUNTS,
} p4d_report_count;

void p4d_report_add(p4d_report_count count, uint64_t value);

/* The total of a count so far, for the Python module; 0: there is no such count. */
uint64_t p4d_report_count_of(int count);

/* A workspace that cuDNN's plan requests; the report has the largest. */
void p4d_report_workspace(uint64_t bytes);

/*
 * The program called NAME (a string that stays valid), which no stand-in implements. The report has each name
 * once.
 */
void p4d_report_missing(const char *name);

/*
 * A circumstance that makes the answer less certain, as a sentence (a string that stays valid). The report
 * has each one once.
 */
void p4d_report_doubt(const char *doubt);

/* A doubt about sizes, so that the answer is unvalidated; the text is copied. The Python module also calls
 * this. */
void p4d_report_unvalidated(const char *why);

/*
 * Writes the report, as at the end of the process; a later call replaces it. The Python module calls this
 * before it ends the process. 0; -1 if the file could not be written.
 */
int p4d_report_write(void);
