/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Text under construction, NUL-terminated at all times. What does not fit is cut off and sets `truncated`;
 * nothing is added afterwards.
 */
typedef struct p4d_text {
	char *at;
	size_t size, length;
	bool truncated;
	bool grows; /* `at` is allocated, and belongs to the caller; truncated: there was no memory */
} p4d_text;

/* In a buffer of the caller's, which starts empty. */
p4d_text p4d_text_in(char *buf, size_t size);

void p4d_text_add(p4d_text *text, const char *string);
void p4d_text_add_bytes(p4d_text *text, const char *bytes, size_t length);
void p4d_text_print(p4d_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends a list entry, with the separator unless the text is empty; whole or not at all. */
void p4d_text_entry(p4d_text *text, const char *separator, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Appends text from others (names, values, file contents), so that it cannot forge a line of a log or control
 * a terminal: control characters and bytes that are not UTF-8 become \xHH.
 */
void p4d_text_escaped(p4d_text *text, const char *string);

/* The same in place, of a text in a buffer of `size` bytes, at most 1024: what is then too long is cut off.
 */
void p4d_text_escape_in_place(char *text, size_t size);

/* The same as a value in double quotes, in which " and \ are escaped by a \. */
void p4d_text_quoted(p4d_text *text, const char *string);
