/* SPDX-License-Identifier: Apache-2.0 */
#include "picture/page.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

enum { PICTURE_BYTES = 1 << 20 };

static const char style[] =
    "<style>\n"
    "body{font:15px/1.45 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 "
    "1rem;color:#1f2328;background:#fff}\n"
    "table{display:block;overflow-x:auto;border-collapse:collapse;margin:.6rem 0 1.6rem}\n"
    "th,td{padding:.3rem .5rem;border-bottom:1px solid #d8dee4;text-align:right;white-space:nowrap}\n"
    "th:first-child,td:first-child,.l{text-align:left}\n"
    ".bad{color:#cf222e}.good{color:#1a7f37}.miss,.warn{color:#9a6700}.dim{color:#59636e}\n"
    "code,li{overflow-wrap:anywhere}li{margin:.4rem 0}\n"
    "button{all:unset;cursor:pointer;font-weight:600}button:focus-visible{outline:2px solid}\n"
    "[aria-sort=ascending] button::after{content:\" \\2191\"}"
    "[aria-sort=descending] button::after{content:\" \\2193\"}\n"
    ".picture{overflow-x:auto}.picture svg{width:100%;min-width:44rem;height:auto}\n"
    "@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#2a313a}\n"
    ".bad{color:#ff7b72}.good{color:#3fb950}.miss,.warn{color:#e3b341}.dim{color:#9198a1}}\n"
    "</style>\n";

/*
 * A click on a heading sorts by that column, ascending and then descending. A column of texts is sorted as
 * text. In other columns, the sort key is the last number of a cell, without brackets at its end. Cells
 * without a number come first.
 */
static const char script[] =
    "<script>\n"
    "\"use strict\";\n"
    "const number = text => {\n"
    "  const m = text.match(/((?:^-)?[\\d.]+)( ms| s| min| h)?( %)?( \\([\\d.]+\\))?$/);\n"
    "  return m ? m[1] * ({\" ms\": .001, \" min\": 60, \" h\": 3600}[m[2]] || 1) : NaN;\n"
    "};\n"
    "for (const button of document.querySelectorAll(\"th button\")) button.onclick = () => {\n"
    "  const head = button.parentNode, body = head.closest(\"table\").tBodies[0];\n"
    "  const up = head.getAttribute(\"aria-sort\") !== \"ascending\";\n"
    "  for (const other of head.parentNode.cells) other.removeAttribute(\"aria-sort\");\n"
    "  head.setAttribute(\"aria-sort\", up ? \"ascending\" : \"descending\");\n"
    "  const text = row => row.cells[head.cellIndex].textContent;\n"
    "  const key = row => {\n"
    "    const x = number(text(row));\n"
    "    return isNaN(x) ? -Number.MAX_VALUE : x;\n"
    "  };\n"
    "  const order = head.classList.contains(\"l\")\n"
    "    ? (a, b) => text(a).localeCompare(text(b), undefined, {numeric: true})\n"
    "    : (a, b) => key(a) - key(b);\n"
    "  body.append(...[...body.rows].sort((a, b) => up ? order(a, b) : order(b, a)));\n"
    "};\n"
    "</script>\n";

void p4d_page_text(FILE *to, const char *text)
{
	p4d_text escaped = {.grows = true};

	p4d_text_escaped(&escaped, text);
	for (const char *at = escaped.at; at && *at; at++)
		switch (*at) {
		case '&':
			fputs("&amp;", to);
			break;
		case '<':
			fputs("&lt;", to);
			break;
		case '>':
			fputs("&gt;", to);
			break;
		case '"':
			fputs("&quot;", to);
			break;
		default:
			fputc(*at, to);
		}
	free(escaped.at);
}

void p4d_page_begin(FILE *to, const char *title)
{
	fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
	      to);
	p4d_page_text(to, title);
	fprintf(to, "</title>\n%s</head>\n<body>\n<h1>", style);
	p4d_page_text(to, title);
	fputs("</h1>\n", to);
}

void p4d_page_end(FILE *to)
{
	fprintf(to, "%s</body>\n</html>\n", script);
}

void p4d_page_line(FILE *to, const char *tag, const char *class, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(to, "<%s class=\"%s\">", tag, class);
	p4d_page_text(to, text);
	fprintf(to, "</%s>\n", tag);
}

static void write_cell(FILE *to, const p4d_table *table, size_t i)
{
	static const char *const classes[] = {"", " good", " warn", " bad"};
	const struct p4d_cell *cell = &table->cell[i];

	fprintf(to, "<td class=\"%s%s\">", table->align[i % table->columns] == P4D_RIGHT ? "" : "l",
		classes[cell->color]);
	p4d_page_text(to, cell->text);
	fputs("</td>", to);
}

static void write_heading(FILE *to, const char *title, bool is_text)
{
	fprintf(to, "<th class=\"%s\"><button>", is_text ? "l" : "");
	p4d_page_text(to, title);
	fputs("</button></th>", to);
}

void p4d_page_columns(FILE *to, const p4d_page_column *columns, size_t count)
{
	fputs("<table>\n<thead><tr>", to);
	for (size_t i = 0; i < count; i++)
		write_heading(to, columns[i].title, columns[i].is_text);
	fputs("</tr></thead>\n<tbody>\n", to);
}

void p4d_page_table(FILE *to, const p4d_table *table)
{
	fputs("<table>\n<thead><tr>", to);
	for (size_t i = 0; i < table->columns; i++)
		write_heading(to, table->header[i], table->align[i] != P4D_RIGHT);
	fputs("</tr></thead>\n<tbody>\n", to);
	for (size_t i = 0; i < table->cells; i++) {
		if (i % table->columns == 0)
			fputs("<tr>", to);
		write_cell(to, table, i);
		if ((i + 1) % table->columns == 0)
			fputs("</tr>\n", to);
	}
	fputs("</tbody>\n</table>\n", to);
}

void p4d_page_messages(FILE *to, unsigned count, const p4d_message *messages)
{
	if (count)
		fputs("<ul>\n", to);
	for (unsigned i = 0; i < count; i++) {
		fprintf(to, "<li>P4D%03d: ", (int)messages[i].code);
		p4d_page_text(to, messages[i].text);
		if (*messages[i].fix) {
			fputs("<br>fix: <code>", to);
			p4d_page_text(to, messages[i].fix);
			fputs("</code>", to);
		}
		fputs("</li>\n", to);
	}
	if (count)
		fputs("</ul>\n", to);
}

/* Inserts the picture without the XML header, which only a separate file needs. */
int p4d_page_picture(FILE *to, p4d_page_draw *draw, const void *of, p4d_error *err)
{
	char path[64];
	size_t length;
	const int file = memfd_create("picture.svg", MFD_CLOEXEC);

	if (file < 0)
		return p4d_fail(err, P4D_E_IO, "a picture: %s", strerror(errno));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	int rc = draw(of, path, err);
	char *text =
	    rc == 0 && lseek(file, 0, SEEK_SET) == 0 ? p4d_file_read(file, PICTURE_BYTES, &length) : NULL;
	const char *svg = text ? strstr(text, "<svg") : NULL;
	if (svg)
		fprintf(to, "<div class=\"picture\">\n%s</div>\n", svg);
	else if (rc == 0)
		rc = p4d_fail(err, P4D_E_IO, "a picture cannot be read");
	free(text);
	close(file);
	return rc;
}

int p4d_page_save(const char *path, p4d_page_write *write, const void *of, p4d_error *err)
{
	FILE *to = fopen(path, "w");

	if (!to)
		return p4d_fail(err, P4D_E_IO, "%.300s: %s", path, strerror(errno));
	const int rc = write(to, of, err);
	const bool failed = ferror(to);
	if (fclose(to) == 0 && !failed)
		return rc;
	return rc < 0 ? rc : p4d_fail(err, P4D_E_IO, "%.300s cannot be written", path);
}
