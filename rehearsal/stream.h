/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * Milliseconds between any two events. Programs that measure kernels repeat those that take less than this.
 */
enum { P4D_STREAM_ELAPSED_MS = 1000 };

/*
 * Streams are in order and always finished. A stream only stores which graph capture it takes part in. An
 * event stores the capture of the stream that recorded it; streams that wait for the event join this capture.
 */
typedef struct p4d_runtime_stream p4d_runtime_stream;
typedef struct p4d_event p4d_event;

/*
 * Returns the capture that STREAM takes part in; 0: none. STREAM is a handle of the program; 0, 1 and 2 are
 * the device's own streams.
 */
unsigned long long p4d_stream_capture(const p4d_runtime_stream *stream);

p4d_event *p4d_event_new(void);
void p4d_event_record(p4d_event *event, const p4d_runtime_stream *stream);
