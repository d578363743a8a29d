/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The log that test_backend reads after p4d-train has run on the rehearsal's stand-ins. Each rank writes a
 * file, whose name is made of P4D_WATCH and the number of its GPU. The file has these lines, in the order
 * of events:
 *
 *   asked BYTES COUNT...           p4d-train asks how much memory is free: before it takes the arena, after
 *                                  each step, and for its report at the end. BYTES are in use; the counts are
 *                                  those of p4d_report_count
 *   began BYTES COUNT...           a step begins
 *   target COUNT                   a product is described that takes so many multiprocessors
 *   ended BYTES COUNT...           the process ends
 *   comm HANDLE ID RANKS RANK      a communicator
 *   call HANDLE OPERATION BYTES PEER, with the root of a collective or -1 as its PEER
 */
#define WATCH_VARIABLE "P4D_WATCH"

/* Appends a line; adds the line break. */
__attribute__((format(printf, 1, 2))) void watch_line(const char *format, ...);
