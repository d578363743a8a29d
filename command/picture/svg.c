/* SPDX-License-Identifier: Apache-2.0 */
#include "picture/svg.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int p4d_svg__open(p4d_svg *svg, p4d_error *err)
{
	memset(svg, 0, sizeof(*svg));
	svg->body = open_memstream(&svg->text, &svg->bytes);
	return svg->body ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a picture");
}

void p4d_svg__free(p4d_svg *svg)
{
	if (svg->body)
		fclose(svg->body);
	free(svg->text);
	memset(svg, 0, sizeof(*svg));
}

static double tenth(double value)
{
	return round(10 * value) / 10;
}

/* Prints a number with one decimal, or without it if it is 0, because half of a picture's text is numbers. */
static void put_number(FILE *to, double value)
{
	const double rounded = tenth(value);

	if (rounded == trunc(rounded))
		fprintf(to, "%.0f", rounded + 0.0);
	else if (fabs(rounded) < 1)
		fprintf(to, "%s.%d", rounded < 0 ? "-" : "", (int)lround(fabs(10 * rounded)));
	else
		fprintf(to, "%.1f", rounded);
}

static void put_attribute(FILE *to, const char *name, double value)
{
	fprintf(to, " %s=\"", name);
	put_number(to, value);
	fputc('"', to);
}

/* Number of bytes of the UTF-8 character at the start of the text; 0 if XML does not allow it. */
static size_t character(const unsigned char *text)
{
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	const size_t length = text[0] < 0x80             ? 1
			      : (text[0] & 0xe0) == 0xc0 ? 2
			      : (text[0] & 0xf0) == 0xe0 ? 3
			      : (text[0] & 0xf8) == 0xf0 ? 4
							 : 0;
	unsigned code = length > 1 ? text[0] & (0x7fu >> length) : text[0];

	for (size_t i = 1; i < length; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (text[i] & 0x3f);
	}
	if (!length || code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	return code < 0x20 || code == 0x7f || code == 0xfffe || code == 0xffff ? 0 : length;
}

static void put_escaped(FILE *to, const char *text)
{
	for (const unsigned char *at = (const unsigned char *)text; *at;) {
		const size_t length = character(at);
		if (!length)
			fputc('?', to);
		else if (*at == '&')
			fputs("&amp;", to);
		else if (*at == '<')
			fputs("&lt;", to);
		else if (*at == '>')
			fputs("&gt;", to);
		else
			fwrite(at, 1, length, to);
		at += length ? length : 1;
	}
}

void p4d_svg__rect(p4d_svg *svg, const char *class, double x, double y, double width, double height)
{
	/* the size is computed from the rounded far edge, so that neighbours touch */
	fprintf(svg->body, "<rect class=\"%s\"", class);
	put_attribute(svg->body, "x", x);
	put_attribute(svg->body, "y", y);
	put_attribute(svg->body, "width", tenth(x + width) - tenth(x));
	put_attribute(svg->body, "height", tenth(y + height) - tenth(y));
	fputs("/>\n", svg->body);
}

void p4d_svg__line(p4d_svg *svg, const char *class, double x1, double y1, double x2, double y2)
{
	fprintf(svg->body, "<line class=\"%s\"", class);
	put_attribute(svg->body, "x1", x1);
	put_attribute(svg->body, "y1", y1);
	put_attribute(svg->body, "x2", x2);
	put_attribute(svg->body, "y2", y2);
	fputs("/>\n", svg->body);
}

void p4d_svg__text(p4d_svg *svg, const char *class, double x, double y, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(svg->body, "<text class=\"%s\"", class);
	put_attribute(svg->body, "x", x);
	put_attribute(svg->body, "y", y);
	fputc('>', svg->body);
	put_escaped(svg->body, text);
	fputs("</text>\n", svg->body);
}

void p4d_svg__band(p4d_svg *svg, const char *class, double height, double opacity)
{
	fprintf(svg->body, "<path class=\"%s\" stroke-width=\"", class);
	put_number(svg->body, height);
	if (opacity < 1)
		fprintf(svg->body, "\" stroke-opacity=\"%.2f", opacity);
	fputs("\" d=\"", svg->body);
	svg->begun = false;
}

void p4d_svg__box(p4d_svg *svg, double x, double y, double width)
{
	const double start = tenth(x), end = tenth(x + width);

	if (end <= start)
		return;
	/* a gap thinner than a tenth of a pixel is invisible, so the boxes are merged */
	if (svg->begun && fabs(start - svg->strokes_end) < 0.05) {
		fputc('h', svg->body);
	} else {
		fputc('M', svg->body);
		put_number(svg->body, start);
		fputc(' ', svg->body);
		put_number(svg->body, y);
		fputc('h', svg->body);
	}
	put_number(svg->body, end - start);
	svg->strokes_end = end;
	svg->begun = true;
}

void p4d_svg__band_end(p4d_svg *svg)
{
	fputs("\"/>\n", svg->body);
}

void p4d_svg__area(p4d_svg *svg, const char *class, double x, double floor)
{
	fprintf(svg->body, "<path class=\"%s\" d=\"M", class);
	put_number(svg->body, x);
	fputc(' ', svg->body);
	put_number(svg->body, floor);
}

void p4d_svg__area_to(p4d_svg *svg, double x, double y)
{
	fputc('H', svg->body);
	put_number(svg->body, x);
	fputc('V', svg->body);
	put_number(svg->body, y);
}

void p4d_svg__area_end(p4d_svg *svg, double x, double floor)
{
	p4d_svg__area_to(svg, x, floor);
	fputs("z\"/>\n", svg->body);
}

void p4d_svg__curve(p4d_svg *svg, const char *class)
{
	fprintf(svg->body, "<path class=\"%s\" d=\"", class);
	svg->begun = false;
}

void p4d_svg__curve_to(p4d_svg *svg, double x, double y)
{
	fputc(svg->begun ? 'L' : 'M', svg->body);
	put_number(svg->body, x);
	fputc(' ', svg->body);
	put_number(svg->body, y);
	svg->begun = true;
}

void p4d_svg__curve_end(p4d_svg *svg, bool dot)
{
	fputs(dot ? "h0\" stroke-linecap=\"round\" style=\"stroke-width:5\"/>\n" : "\"/>\n", svg->body);
}

void p4d_svg__labels(p4d_svg *svg, const char *class, double y, double size)
{
	fprintf(svg->body, "<text class=\"%s\"", class);
	put_attribute(svg->body, "y", y);
	put_attribute(svg->body, "font-size", size);
	fputc('>', svg->body);
}

void p4d_svg__label(p4d_svg *svg, double x, unsigned long number)
{
	fputs("<tspan x=\"", svg->body);
	put_number(svg->body, x);
	fprintf(svg->body, "\">%lu</tspan>", number);
}

void p4d_svg__labels_end(p4d_svg *svg)
{
	fputs("</text>\n", svg->body);
}

static void put_styles(FILE *to, const p4d_svg_style *styles)
{
	fputs(
	    "<style>\n"
	    "svg{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",\"DejaVu Sans\","
	    "Arial,sans-serif}\n",
	    to);
	for (const p4d_svg_style *at = styles; at->selector; at++)
		fprintf(to, "%s{%s}\n", at->selector, at->light);
	fputs("@media (prefers-color-scheme:dark){\n", to);
	for (const p4d_svg_style *at = styles; at->selector; at++)
		if (at->dark)
			fprintf(to, "%s{%s}\n", at->selector, at->dark);
	fputs("}\n</style>\n", to);
}

static void put_picture(FILE *to, const p4d_svg *svg, double width, double height, const char *title,
			const char *description, const p4d_svg_style *styles)
{
	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"title desc\" "
		"viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\">\n<title id=\"title\">",
		width, height, width, height);
	put_escaped(to, title);
	fputs("</title>\n<desc id=\"desc\">", to);
	put_escaped(to, description);
	fputs("</desc>\n", to);
	put_styles(to, styles);
	fputs("<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n", to);
	fwrite(svg->text, 1, svg->bytes, to);
	fputs("</svg>\n", to);
}

int p4d_svg__save(p4d_svg *svg, const char *path, double width, double height, const char *title,
		  const char *description, const p4d_svg_style *styles, p4d_error *err)
{
	bool complete = !ferror(svg->body);
	int result = 0;

	complete = fclose(svg->body) == 0 && complete;
	svg->body = NULL;
	FILE *to = complete ? fopen(path, "w") : NULL;
	if (!complete) {
		result = p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the picture %.200s", path);
	} else if (!to) {
		result = p4d_fail(err, P4D_E_IO, "%.300s: cannot be written: %s", path, strerror(errno));
	} else {
		errno = 0;
		put_picture(to, svg, width, height, title, description, styles);
		bool failed = fflush(to) != 0 || ferror(to);
		failed = fclose(to) != 0 || failed;
		if (failed)
			result = p4d_fail(err, P4D_E_IO, "%.300s: cannot be written: %s", path,
					  errno ? strerror(errno) : "output is incomplete");
	}
	p4d_svg__free(svg);
	return result;
}
