/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * A text table, printed with libsmartcols: define the columns first, then add the cells row by row. On a
 * terminal, the table is at most as wide as the terminal; elsewhere no cell is cut. If memory runs out,
 * p4d_table_print reports it.
 */

typedef enum p4d_align {
	P4D_LEFT,
	P4D_RIGHT,
	P4D_CUT
} p4d_align; /* P4D_CUT: left-aligned, and cut if the terminal is too narrow */
typedef enum p4d_color { P4D_PLAIN, P4D_GREEN, P4D_YELLOW, P4D_RED } p4d_color;

enum { P4D_TABLE_COLUMNS = 32 };

typedef struct p4d_table {
	size_t columns, cells, room;
	const char *header[P4D_TABLE_COLUMNS]; /* borrowed */
	p4d_align align[P4D_TABLE_COLUMNS];
	struct p4d_cell {
		char *text;
		p4d_color color;
	} * cell; /* row by row */
	size_t notes, room_of_notes;
	struct p4d_note {
		size_t row;
		char *text;
	} * note; /* in the order of rows */
	bool failed;
} p4d_table;

void p4d_table_column(p4d_table *table, const char *header, p4d_align align);
/* Adds columns, each written as {"HEADER", P4D_RIGHT}. */
#define p4d_table_columns(table, ...) \
	p4d_table_add_columns(table, (const p4d_table_head[]){__VA_ARGS__}, \
			      sizeof((const p4d_table_head[]){__VA_ARGS__}) / sizeof(p4d_table_head))
typedef struct p4d_table_head {
	const char *header;
	p4d_align align;
} p4d_table_head;
void p4d_table_add_columns(p4d_table *table, const p4d_table_head *head, size_t count);
void p4d_table_cell(p4d_table *table, p4d_color color, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Adds a line below the row whose cells were added last. If rows and columns are exchanged, it is printed
 * below the table.
 */
void p4d_table_note(p4d_table *table, const char *text);

/*
 * Prints to stdout and frees the table. turn: if the table is wider than the terminal, rows and columns are
 * exchanged (the first column becomes the heading). Errors: NO_MEMORY.
 */
int p4d_table_print(p4d_table *table, bool turn, p4d_error *err);

/* Frees a table that was not printed. Does nothing with a table that was printed or is zero. */
void p4d_table_free(p4d_table *table);

/* Columns of the terminal on stdout; 0 if it is no terminal. */
size_t p4d_table_terminal_width(void);

/*
 * Prints text as a paragraph with every line indented, wrapped to the terminal's width; without a terminal to
 * `elsewhere` columns (0: not wrapped).
 */
void p4d_table_print_wrapped(unsigned indent, size_t elsewhere, const char *text);
