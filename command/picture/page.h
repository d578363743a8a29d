/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

#include "guard/guard.h"
#include "report/table.h"

/*
 * A self-contained web page in a single file. It follows the light or dark mode of the browser, and can sort
 * its tables. All texts are escaped.
 */

/* Starts the page and prints its heading. */
void p4d_page_begin(FILE *to, const char *title);
/* Ends the page. A click on a heading sorts its table, by a script in the page. */
void p4d_page_end(FILE *to);

void p4d_page_text(FILE *to, const char *text);
/* Prints a text in an element such as "p" or "h2". class: "good", "warn", "bad", "dim" or "". */
void p4d_page_line(FILE *to, const char *tag, const char *class, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

typedef struct p4d_page_column {
	const char *title;
	bool is_text; /* the column has texts, aligned to the left; otherwise numbers, with or without a unit
		       */
} p4d_page_column;

/*
 * Starts a table. The caller prints its rows and ends it with "</tbody>
 * </table>
 * ".
 */
void p4d_page_columns(FILE *to, const p4d_page_column *columns, size_t count);
/* Prints a table, which the caller frees. */
void p4d_page_table(FILE *to, const p4d_table *table);
void p4d_page_messages(FILE *to, unsigned count, const p4d_message *messages);

/* Inserts the picture that `draw` writes to a path. Errors: IO, those of draw. */
typedef int p4d_page_draw(const void *of, const char *path, p4d_error *err);
int p4d_page_picture(FILE *to, p4d_page_draw *draw, const void *of, p4d_error *err);

/* Opens a file, calls `write` and closes the file. Errors: IO, those of write. */
typedef int p4d_page_write(FILE *to, const void *of, p4d_error *err);
int p4d_page_save(const char *path, p4d_page_write *write, const void *of, p4d_error *err);
