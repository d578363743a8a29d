/* SPDX-License-Identifier: Apache-2.0 */
#include "report/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <libsmartcols/libsmartcols.h>

#include "base/grow.h"

enum { GAP = 2 }; /* blanks between columns */

void p4d_table_column(p4d_table *table, const char *header, p4d_align align)
{
	table->header[table->columns] = header;
	table->align[table->columns++] = align;
}

void p4d_table_add_columns(p4d_table *table, const p4d_table_head *head, size_t count)
{
	for (size_t i = 0; i < count; i++)
		p4d_table_column(table, head[i].header, head[i].align);
}

void p4d_table_cell(p4d_table *table, p4d_color color, const char *format, ...)
{
	va_list args;
	char *text;

	if (!p4d_grow(&table->cell, &table->room, table->cells + 1, sizeof(*table->cell))) {
		table->failed = true;
		return;
	}
	va_start(args, format);
	int length = vasprintf(&text, format, args);
	va_end(args);
	if (length < 0) {
		table->failed = true;
		return;
	}
	table->cell[table->cells++] = (struct p4d_cell){text, color};
}

void p4d_table_note(p4d_table *table, const char *text)
{
	table->failed = table->failed || !p4d_grow(&table->note, &table->room_of_notes, table->notes + 1,
						   sizeof(*table->note));
	if (table->failed)
		return;
	struct p4d_note *note = &table->note[table->notes++];
	note->row = table->cells / table->columns - 1;
	note->text = strdup(text);
	table->failed = !note->text;
}

size_t p4d_table_terminal_width(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !isatty(STDOUT_FILENO))
		return 0;
	return size.ws_col ? size.ws_col : 80;
}

static size_t natural_width(const p4d_table *table)
{
	size_t width = 0;

	for (size_t column = 0; column < table->columns; column++) {
		size_t widest = strlen(table->header[column]);
		for (size_t i = column; i < table->cells; i += table->columns) {
			size_t length = strlen(table->cell[i].text);
			widest = length > widest ? length : widest;
		}
		width += widest + (column ? GAP : 0);
	}
	return width;
}

static int add_column(struct libscols_table *out, const char *header, p4d_align align)
{
	int flags = align == P4D_RIGHT ? SCOLS_FL_RIGHT : align == P4D_CUT ? SCOLS_FL_TRUNC : 0;

	/* libsmartcols takes a hint above 1 as a width; with 0.1 it assigns the rest of the line */
	return scols_table_new_column(out, header, 0.1, flags) ? 0 : -1;
}

static int add_cell(struct libscols_line *line, size_t column, const struct p4d_cell *cell)
{
	static const char *const names[] = {NULL, "green", "yellow", "red"};

	if (scols_line_set_data(line, column, cell->text) < 0)
		return -1;
	return cell->color ? scols_cell_set_color(scols_line_get_cell(line, column), names[cell->color]) : 0;
}

static int fill(const p4d_table *table, struct libscols_table *out)
{
	for (size_t column = 0; column < table->columns; column++)
		if (add_column(out, table->header[column], table->align[column]) < 0)
			return -1;
	for (size_t i = 0; i < table->cells; i += table->columns) {
		struct libscols_line *line = scols_table_new_line(out, NULL);
		for (size_t column = 0; line && column < table->columns; column++)
			if (add_cell(line, column, &table->cell[i + column]) < 0)
				return -1;
		if (!line)
			return -1;
	}
	return 0;
}

static int fill_turned(const p4d_table *table, struct libscols_table *out)
{
	if (add_column(out, table->header[0], P4D_LEFT) < 0)
		return -1;
	for (size_t i = 0; i < table->cells; i += table->columns)
		if (add_column(out, table->cell[i].text, P4D_RIGHT) < 0)
			return -1;
	for (size_t row = 1; row < table->columns; row++) {
		struct libscols_line *line = scols_table_new_line(out, NULL);
		if (!line || scols_line_set_data(line, 0, table->header[row]) < 0)
			return -1;
		for (size_t i = row, column = 1; i < table->cells; i += table->columns, column++)
			if (add_cell(line, column, &table->cell[i]) < 0)
				return -1;
	}
	return 0;
}

/*
 * Prints a table with notes: each row is a line of its own, after the headers. Only tables without notes are
 * cut.
 */
static int print_with_notes(const p4d_table *table, struct libscols_table *out)
{
	const struct p4d_note *note = table->note, *end = note + table->notes;
	char *text;
	size_t row = 0;

	if (scols_print_table_to_string(out, &text) < 0)
		return -1;
	for (const char *at = text; *at; row++) {
		const size_t length = strcspn(at, "\n");
		printf("%.*s\n", (int)length, at);
		for (; row > 0 && note < end && note->row == row - 1; note++)
			p4d_table_print_wrapped(6, 0, note->text);
		at += length + (at[length] == '\n');
	}
	free(text);
	return 0;
}

static int print_turned(const p4d_table *table, struct libscols_table *out)
{
	const int result = fill_turned(table, out) == 0 ? scols_print_table(out) : -1;

	for (size_t i = 0; result >= 0 && i < table->notes; i++)
		printf("%s%s %s %s\n", i ? "" : "\n", table->header[0],
		       table->cell[table->note[i].row * table->columns].text, table->note[i].text);
	return result;
}

static int print(const p4d_table *table, bool turn)
{
	size_t terminal = p4d_table_terminal_width(), width = natural_width(table);
	struct libscols_table *out = scols_new_table();
	int result = -1;

	if (!out)
		return -1;
	bool too_wide = terminal && width > terminal;
	bool can_cut = false;
	for (size_t i = 0; i < table->columns; i++)
		can_cut = can_cut || table->align[i] == P4D_CUT;
	scols_table_set_column_separator(out, "  ");
	scols_table_set_termforce(out, too_wide && can_cut ? SCOLS_TERMFORCE_AUTO : SCOLS_TERMFORCE_NEVER);
	scols_table_enable_colors(out, terminal && !getenv("NO_COLOR"));
	if (too_wide && turn)
		result = print_turned(table, out);
	else if (fill(table, out) == 0)
		result = table->notes ? print_with_notes(table, out) : scols_print_table(out);
	scols_unref_table(out);
	return result;
}

void p4d_table_free(p4d_table *table)
{
	for (size_t i = 0; i < table->cells; i++)
		free(table->cell[i].text);
	free(table->cell);
	for (size_t i = 0; i < table->notes; i++)
		free(table->note[i].text);
	free(table->note);
	memset(table, 0, sizeof(*table));
}

int p4d_table_print(p4d_table *table, bool turn, p4d_error *err)
{
	int result = table->failed ? -1 : print(table, turn);

	p4d_table_free(table);
	return result < 0 ? p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a table") : 0;
}

void p4d_table_print_wrapped(unsigned indent, size_t elsewhere, const char *text)
{
	const size_t terminal = p4d_table_terminal_width(), width = terminal ? terminal : elsewhere;
	size_t used = 0;

	while (*text) {
		size_t word = strcspn(text, " ");
		if (width && used && used + 1 + word > width) {
			putchar('\n');
			used = 0;
		}
		if (!used) {
			printf("%*s", (int)indent, "");
			used = indent;
		} else {
			putchar(' ');
			used++;
		}
		printf("%.*s", (int)word, text);
		used += word;
		text += word + strspn(text + word, " ");
	}
	putchar('\n');
}
