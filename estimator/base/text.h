/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * A text under construction, always NUL-terminated. If an addition does not fit, it is cut off and sets
 * `truncated`; later additions are ignored.
 */
typedef struct p4d_text {
	char *at;
	size_t size, length;
	bool truncated;
	bool grows; /* The text is allocated and belongs to the caller. truncated: there was no memory. */
} p4d_text;

/* The text is in a buffer of the caller and starts empty. */
p4d_text p4d_text_in(char *buf, size_t size);

void p4d_text_add(p4d_text *text, const char *string);
void p4d_text_add_bytes(p4d_text *text, const char *bytes, size_t length);
void p4d_text_print(p4d_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Appends a list entry, after a separator unless the text is empty. An entry that does not fit as a whole is
 * not appended.
 */
void p4d_text_entry(p4d_text *text, const char *separator, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Appends foreign text (names, values, file contents). Control characters and bytes that are not UTF-8 become
 * \xHH, so that the text cannot forge a log line or control a terminal.
 */
void p4d_text_escaped(p4d_text *text, const char *string);

/* Escapes a text in place, in a buffer of `size` bytes, at most 1024. What no longer fits is cut off. */
void p4d_text_escape_in_place(char *text, size_t size);

/* Appends foreign text as a quoted value: like p4d_text_escaped, and " and \ are also escaped by a \. */
void p4d_text_quoted(p4d_text *text, const char *string);
