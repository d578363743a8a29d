/* SPDX-License-Identifier: Apache-2.0 */
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "picture/charts.h"
#include "report/table.h"

enum {
	USUAL_COLUMNS = 80,
	LEAST_PLOT = 20,
	MOST_LABEL = 24,
	NUMBER = 8, /* width of the numbers on the left */
	NOBODY = 0xff,
};

/* How curves are drawn: cells of 2 by 4 dots (Braille), or of one letter (ASCII). */
typedef struct looks {
	bool braille, colors;
	unsigned columns, across, down; /* cells of a line; columns and rows of dots in a cell */
	size_t label;                   /* width of the longest label */
} looks;

typedef struct canvas {
	const looks *looks;
	unsigned columns, rows;
	uint8_t *dots, *curve; /* (rows, columns): Braille bits; which curve is on top */
} canvas;

static bool is_utf8(void)
{
	const locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
	const bool yes = locale && !strcmp(nl_langinfo_l(CODESET, locale), "UTF-8");

	if (locale)
		freelocale(locale);
	return yes;
}

static looks find_looks(const p4d_charts *charts)
{
	const size_t terminal = p4d_table_terminal_width();
	looks l = {.braille = is_utf8(), .colors = terminal && !getenv("NO_COLOR")};

	for (size_t i = 0; i < charts->count; i++)
		for (size_t k = 0; k < p4d_chart__curves(&charts->chart[i]); k++) {
			const size_t length = strlen(charts->chart[i].curve[k].label);
			l.label = length > l.label ? length : l.label;
		}
	l.label = l.label < MOST_LABEL ? l.label : MOST_LABEL;
	const size_t beside = NUMBER + 2 + (l.label ? l.label + 3 : 0),
		     all = terminal ? terminal : USUAL_COLUMNS;
	l.columns = (unsigned)(all > beside + LEAST_PLOT ? all - beside : LEAST_PLOT);
	l.across = l.braille ? 2 : 1;
	l.down = l.braille ? 4 : 1;
	return l;
}

static void put_dot(canvas *c, unsigned curve, int x, int y)
{
	/* the two columns of a cell, from the top */
	static const uint8_t bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
	const int across = (int)c->looks->across, down = (int)c->looks->down;

	if (x < 0 || y < 0 || x >= (int)c->columns * across || y >= (int)c->rows * down)
		return;
	const size_t cell = (size_t)(y / down) * c->columns + (size_t)(x / across);
	c->dots[cell] |= bits[y % down][x % across];
	c->curve[cell] = (uint8_t)curve;
}

/* Position of a point, in dots from the top left. */
typedef struct dot {
	double x, y;
} dot;

static dot dot_of(const canvas *c, const p4d_chart_axis *x, const p4d_chart_axis *y, p4d_chart_point point)
{
	const double width = c->columns * c->looks->across - 1, height = c->rows * c->looks->down - 1;

	return (dot){width * (point.x - x->low) / (x->high - x->low),
		     height * (y->high - point.y) / (y->high - y->low)};
}

static void draw_line(canvas *c, unsigned curve, dot from, dot to)
{
	const double most = fmax(fabs(to.x - from.x), fabs(to.y - from.y));
	const int steps = (int)ceil(most) > 0 ? (int)ceil(most) : 1;

	for (int i = 0; i <= steps; i++)
		put_dot(c, curve, (int)lround(from.x + (to.x - from.x) * i / steps),
			(int)lround(from.y + (to.y - from.y) * i / steps));
}

/* The letter of a curve if there are several. */
static char letter(const p4d_chart *chart, unsigned curve)
{
	return chart->count == 1 ? '*' : (char)('a' + curve % 26);
}

static void print_cell(const canvas *c, const p4d_chart *chart, size_t cell)
{
	const unsigned pattern = c->dots[cell], code = 0x2800 + pattern;

	if (!pattern)
		putchar(' ');
	else if (!c->looks->braille)
		putchar(letter(chart, c->curve[cell]));
	else
		printf("%c%c%c", (char)(0xe0 | code >> 12), (char)(0x80 | (code >> 6 & 0x3f)),
		       (char)(0x80 | (code & 0x3f)));
}

/* Prints ANSI codes of colours that are readable on black and white; 0: the default colour. */
static void set_color(const looks *l, const p4d_chart_curve *curve)
{
	static const int codes[P4D_CHART_COLORS] = {34, 33, 32, 35, 36, 31, 90, 94};

	if (l->colors)
		printf("\033[%dm", curve ? codes[curve->color % P4D_CHART_COLORS] : 0);
}

static void print_label(const canvas *c, const p4d_chart *chart, const int *placed, unsigned row)
{
	for (size_t k = 0; k < p4d_chart__curves(chart); k++) {
		const p4d_chart_curve *curve = &chart->curve[k];
		if (placed[k] != (int)row || !curve->label[0])
			continue;
		putchar(' ');
		set_color(c->looks, curve);
		if (!c->looks->braille && chart->count > 1)
			printf("%c ", letter(chart, (unsigned)k));
		printf("%.*s", MOST_LABEL, curve->label);
		set_color(c->looks, NULL);
	}
}

/* The number at the tick of a row; "": no tick. */
static const char *tick_of(const canvas *c, const p4d_chart_axis *y, unsigned row, char buf[32])
{
	const double height = c->rows * c->looks->down - 1;
	double at;

	for (unsigned i = 0; (at = p4d_chart__tick(y, i)) <= y->high; i++)
		if ((unsigned)lround(height * (y->high - at) / (y->high - y->low)) / c->looks->down == row)
			return p4d_chart__number(at, y->step, buf);
	return "";
}

static void print_rows(const canvas *c, const p4d_chart *chart, const p4d_chart_axis *y, const int *placed)
{
	char number[32];

	for (unsigned row = 0; row < c->rows; row++) {
		const char *tick = tick_of(c, y, row, number);
		unsigned last = c->columns;
		while (last && !c->dots[(size_t)row * c->columns + last - 1])
			last--;
		bool labelled = false;
		for (size_t k = 0; k < p4d_chart__curves(chart); k++)
			labelled = labelled || (placed[k] == (int)row && chart->curve[k].label[0]);
		printf("%*s %s", NUMBER, tick, c->looks->braille ? *tick ? "┤" : "│" : *tick ? "+" : "|");
		unsigned shown = NOBODY;
		for (unsigned column = 0; column < (labelled ? c->columns : last); column++) {
			const size_t cell = (size_t)row * c->columns + column;
			if (c->looks->colors && c->dots[cell] && c->curve[cell] != shown)
				set_color(c->looks, &chart->curve[shown = c->curve[cell]]);
			print_cell(c, chart, cell);
		}
		if (shown != NOBODY)
			set_color(c->looks, NULL);
		print_label(c, chart, placed, row);
		putchar('\n');
	}
}

static void print_chart(canvas *c, const p4d_chart *chart, const p4d_chart_axis *x)
{
	const p4d_chart_axis y = p4d_chart__y_axis(chart, 1 + chart->rows / 2);
	const size_t count = p4d_chart__curves(chart);
	int wanted[P4D_CHART_CURVES] = {0}, placed[P4D_CHART_CURVES];

	c->rows = chart->rows;
	memset(c->dots, 0, (size_t)c->rows * c->columns);
	for (size_t k = 0; k < count; k++) {
		const p4d_chart_curve *curve = &chart->curve[k];
		dot from = dot_of(c, x, &y, curve->point[0]);
		for (size_t i = 0; i < curve->count; i++) {
			const dot to = dot_of(c, x, &y, curve->point[i]);
			draw_line(c, (unsigned)k, from, to);
			from = to;
		}
		wanted[k] = (int)(lround(from.y) / c->looks->down);
	}
	p4d_chart__place_labels(wanted, count, c->rows, placed);
	printf("%s\n", chart->title);
	print_rows(c, chart, &y, placed);
}

static void print_steps(const looks *l, const p4d_chart_axis *x)
{
	char number[32];
	unsigned used = 0;
	double at;

	printf("%*s %s", NUMBER, "", l->braille ? "└" : "+");
	for (unsigned i = 0; i < l->columns; i++)
		fputs(l->braille ? "─" : "-", stdout);
	printf("\n%*s  ", NUMBER, "step");
	for (unsigned i = 0; (at = p4d_chart__tick(x, i)) <= x->high; i++) {
		const char *text = p4d_chart__number(at, x->step, number);
		const unsigned length = (unsigned)strlen(text), last = l->columns - length;
		unsigned column = (unsigned)lround((l->columns - 1) * at / x->high);
		column = column < last ? column : last;
		if (column < used)
			continue;
		printf("%*s%s", (int)(column - used), "", text);
		used = column + length;
	}
	putchar('\n');
}

int p4d_charts_print(const p4d_charts *charts, p4d_error *err)
{
	const looks l = find_looks(charts);
	const p4d_chart_axis x = p4d_chart__x_axis(charts, l.columns / 10);
	canvas c = {.looks = &l, .columns = l.columns};
	unsigned rows = 0;

	for (size_t i = 0; i < charts->count; i++)
		rows = charts->chart[i].rows > rows ? charts->chart[i].rows : rows;
	c.dots = calloc(rows, c.columns);
	c.curve = calloc(rows, c.columns);
	if (!c.dots || !c.curve) {
		free(c.dots);
		free(c.curve);
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a chart of %u columns", c.columns);
	}
	for (size_t i = 0; i < charts->count; i++)
		print_chart(&c, &charts->chart[i], &x);
	print_steps(&l, &x);
	free(c.dots);
	free(c.curve);
	return 0;
}
