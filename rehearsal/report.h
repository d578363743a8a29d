/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Counts of the stand-ins. The report has them as JSON, in the file that the settings name. Any thread may
 * call these functions.
 */

typedef enum p4d_report_count {
	P4D_REPORT_LAUNCHES,         /* kernels */
	P4D_REPORT_PRODUCTS,         /* matmuls of cuBLAS and cuBLASLt */
	P4D_REPORT_FLOPS,            /* FLOPs of those matmuls */
	P4D_REPORT_GRAPHS,           /* executions of cuDNN's graphs */
	P4D_REPORT_COLLECTIVES,      /* calls of NCCL */
	P4D_REPORT_COLLECTIVE_BYTES, /* bytes that this rank passed to them */
	/* collectives that needed another rank's data, which the record does not have */
	P4D_REPORT_UNANSWERED,
	P4D_REPORT_MISSING,    /* names of p4d_report_missing */
	P4D_REPORT_FLOPS_8,    /* FLOPs of matmuls in 8 bits or fewer */
	P4D_REPORT_FLOPS_TF32, /* FLOPs of matmuls in tf32 */
	/* FLOPs of matmuls in 32 bits or more; FLOPS also includes these three */
	P4D_REPORT_FLOPS_32,
	P4D_REPORT_PRODUCT_DEPTH, /* sum over matmuls of k, where m x k is multiplied by k x n */
	P4D_REPORT_PRODUCT_BYTES, /* bytes of the operands and results of matmuls */
	/* blocks of device memory that were allocated; FREED: how many of them were freed */
	P4D_REPORT_ALLOCATIONS,
	P4D_REPORT_FREED,
	/* blocks of pinned, registered and managed memory; PINNED_FREED: how many of them were freed */
	P4D_REPORT_PINNED,
	P4D_REPORT_PINNED_FREED,
	/* streams that were created; STREAMS_ENDED: destroyed; likewise for events and communicators */
	P4D_REPORT_STREAMS,
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

/* Returns a count so far, for the Python module; 0: there is no such count. */
uint64_t p4d_report_count_of(int count);

/* Records a workspace that a plan of cuDNN needs. The report has the largest. */
void p4d_report_workspace(uint64_t bytes);

/*
 * Records that the program called NAME, which no stand-in implements. NAME must stay valid. The report has
 * each name once.
 */
void p4d_report_missing(const char *name);

/*
 * Records a circumstance that makes the answer less certain, as a sentence. The text must stay valid. The
 * report has each text once.
 */
void p4d_report_doubt(const char *doubt);

/*
 * Records a doubt about sizes, which makes the answer `unvalidated`. The text is copied. The Python module
 * also calls this.
 */
void p4d_report_unvalidated(const char *why);

/*
 * Writes the report. The Python module calls this before it ends the process. A later call replaces the
 * report. Returns 0; -1: the file could not be written.
 */
int p4d_report_write(void);
