/* SPDX-License-Identifier: Apache-2.0 */
/* One page that needs nothing else: tables, and the pictures of command/picture as SVG in it. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backtest/backtest.h"
#include "base/file.h"
#include "base/text.h"
#include "picture/bars.h"
#include "report/report.h"

enum { PICTURE_BYTES = 1 << 20 };

static const char style[] =
    "<style>\n"
    "body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 "
    "1rem;color:#1f2328;background:#fff}\n"
    "table{border-collapse:collapse;margin:.6rem 0 1.6rem}\n"
    "th,td{padding:.3rem .7rem;border-bottom:1px solid #d8dee4;text-align:right;white-space:nowrap}\n"
    "th:first-child,td:first-child,.l{text-align:left}\n"
    ".bad{color:#cf222e}.good{color:#1a7f37}.miss{color:#9a6700}.dim{color:#59636e}\n"
    "svg{max-width:100%;height:auto}\n"
    "@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#2a313a}\n"
    ".bad{color:#ff7b72}.good{color:#3fb950}.miss{color:#e3b341}.dim{color:#9198a1}}\n"
    "</style>\n";

static void write_text(FILE *to, const char *text)
{
	char buf[2048];
	p4d_text escaped = p4d_text_in(buf, sizeof(buf));

	p4d_text_escaped(&escaped, text);
	for (const char *at = buf; *at; at++)
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
}

static void write_cell(FILE *to, const char *class, const p4d_backtest_cell *cell)
{
	if (cell->jobs)
		fprintf(to, "<td class=\"%s\">%" PRIu64 " <span class=\"dim\">(%.1f)</span></td>", class,
			cell->jobs, cell->gpu_hours);
	else
		fputs("<td class=\"dim\">-</td>", to);
}

static const char *class_of(int end, int verdict)
{
	if (end == P4D_BACKTEST_COMPLETED && verdict == P4D_BACKTEST_REFUSED)
		return "bad";
	if (!p4d_backtest_is_death((p4d_backtest_end)end))
		return "";
	return verdict == P4D_BACKTEST_REFUSED ? "good" : verdict <= P4D_BACKTEST_WARNED ? "miss" : "";
}

static void write_cells(FILE *to, const p4d_backtest *b)
{
	fputs("<h2>End and verdict</h2>\n<p>Jobs, and their GPU-hours in brackets.</p>\n<table>\n"
	      "<tr><th>end</th><th>passed</th><th>warned</th><th>refused</th><th>not judged</th></tr>\n",
	      to);
	for (int end = 0; end < P4D_BACKTEST_ENDS; end++) {
		if (end == P4D_BACKTEST_SAID && !b->read_output)
			continue;
		fputs("<tr><td>", to);
		write_text(to, p4d_backtest_end_titles[end]);
		fputs("</td>", to);
		for (int verdict = 0; verdict < P4D_BACKTEST_VERDICTS; verdict++)
			write_cell(to, class_of(end, verdict), &b->cell[end][verdict]);
		fputs("</tr>\n", to);
	}
	fputs("</table>\n", to);
}

static void write_groups(FILE *to, const char *title, const p4d_backtest_group *groups, unsigned count)
{
	if (!count)
		return;
	fprintf(to,
		"<h2>%s</h2>\n<table>\n<tr><th class=\"l\">script</th><th>jobs</th><th class=\"l\">one of "
		"them</th>"
		"<th class=\"l\">model</th><th>predicted GiB</th><th>of</th><th>measured GiB</th></tr>\n",
		title);
	for (unsigned i = 0; i < count; i++) {
		const p4d_backtest_row *row = groups[i].row;
		const p4d_backtest_result *r = row->result;
		const char *const texts[] = {row->job->id, r->model};
		fputs("<tr><td class=\"l\" title=\"", to);
		write_text(to, row->job->work_dir);
		fputs("\">", to);
		write_text(to, r->place);
		fputs("</td>", to);
		write_cell(to, "", &groups[i].cell);
		for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
			fputs("<td class=\"l\">", to);
			write_text(to, texts[t]);
			fputs("</td>", to);
		}
		if (r->need_bytes)
			fprintf(to, "<td>%.1f</td><td>%.1f</td>", p4d_to_gib(r->need_bytes),
				p4d_to_gib(r->capacity_bytes));
		else
			fprintf(to, "<td>P4D%03d</td><td></td>", (int)r->code);
		if (row->measured_bytes)
			fprintf(to, "<td>%s%.1f</td>", row->measured == P4D_MEASURED_MEAN ? "mean " : "",
				p4d_to_gib(row->measured_bytes));
		else
			fputs("<td class=\"dim\">-</td>", to);
		fputs("</tr>\n", to);
	}
	fputs("</table>\n", to);
}

/* The picture, without the XML header that only a file of its own needs. */
static int write_picture(FILE *to, const p4d_bars *bars, p4d_error *err)
{
	char path[64];
	size_t length;
	const int file = memfd_create("picture.svg", MFD_CLOEXEC);

	if (file < 0)
		return p4d_fail(err, P4D_E_IO, "a picture: %s", strerror(errno));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	int rc = p4d_picture_bars(bars, path, err);
	char *text =
	    rc == 0 && lseek(file, 0, SEEK_SET) == 0 ? p4d_file_read(file, PICTURE_BYTES, &length) : NULL;
	const char *svg = text ? strstr(text, "<svg") : NULL;
	if (svg)
		fprintf(to, "%s\n", svg);
	else if (rc == 0)
		rc = p4d_fail(err, P4D_E_IO, "a picture cannot be read");
	free(text);
	close(file);
	return rc;
}

static int write_stages(FILE *to, const p4d_backtest *b, p4d_error *err)
{
	p4d_bar bar[P4D_BACKTEST_STAGES];
	static const char *const keys[] = {"jobs"};

	for (int i = 0; i < P4D_BACKTEST_STAGES; i++)
		bar[i] =
		    (p4d_bar){.label = p4d_backtest__stage_titles[i], .part = {(double)b->stage[i].jobs}};
	fputs("<h2>How far p4d came</h2>\n", to);
	if (write_picture(to,
			  &(p4d_bars){.title = "How far p4d came",
				      .key = keys,
				      .keys = 1,
				      .bar = bar,
				      .count = P4D_BACKTEST_STAGES},
			  err) < 0)
		return -1;
	if (b->reasons)
		fputs("<h3>Why jobs were not judged</h3>\n<table>\n<tr><th "
		      "class=\"l\">why</th><th>jobs</th></tr>\n",
		      to);
	for (unsigned i = 0; i < b->reasons; i++) {
		fputs("<tr><td class=\"l\">", to);
		write_text(to, b->reason[i].text);
		fputs("</td>", to);
		write_cell(to, "", &b->reason[i].cell);
		fputs("</tr>\n", to);
	}
	if (b->reasons)
		fputs("</table>\n", to);
	return 0;
}

static int write_limits(FILE *to, const p4d_backtest *b, p4d_error *err)
{
	static const char *const keys[] = {"refused but ran", "deaths caught, by their output",
					   "likely deaths caught, GPU at 97 %"};
	char label[P4D_BACKTEST_LIMITS][16];
	p4d_bar bar[P4D_BACKTEST_LIMITS];

	for (int i = 0; i < P4D_BACKTEST_LIMITS; i++) {
		snprintf(label[i], sizeof(label[i]), "limit %.2f", p4d_backtest__limits[i]);
		bar[i] = (p4d_bar){.label = label[i],
				   .part = {(double)b->at[i].ran.jobs,
					    (double)b->at[i].caught[P4D_BACKTEST_SAID].jobs,
					    (double)b->at[i].caught[P4D_BACKTEST_FULL].jobs}};
	}
	fputs("<h2>Other limits</h2>\n", to);
	return write_picture(to,
			     &(p4d_bars){.title = "Jobs refused at other limits",
					 .key = keys,
					 .keys = 3,
					 .bar = bar,
					 .count = P4D_BACKTEST_LIMITS},
			     err);
}

static int write_page(FILE *to, const p4d_backtest *b, p4d_error *err)
{
	fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>p4d backtest</title>\n",
	      to);
	fprintf(to, "%s</head>\n<body>\n<h1>p4d backtest</h1>\n<p>%zu jobs with GPUs have ended since ",
		style, b->rows);
	write_text(to, b->since);
	fprintf(to, ". p4d judged %" PRIu64 " different scripts", b->scripts);
	if (b->changed)
		fprintf(to, "; of %" PRIu64 " jobs a file was changed after the job was submitted",
			b->changed);
	fputs(".</p>\n", to);
	write_cells(to, b);
	write_groups(to, "Refused, but they ran", b->ran, b->rans);
	write_groups(to, "Passed, but they died of GPU memory", b->died, b->dieds);
	if (write_stages(to, b, err) < 0 || write_limits(to, b, err) < 0)
		return -1;
	fputs("</body>\n</html>\n", to);
	return 0;
}

int p4d_backtest__write_html(const p4d_backtest *b, const char *path, p4d_error *err)
{
	FILE *to = fopen(path, "w");

	if (!to)
		return p4d_fail(err, P4D_E_IO, "%.300s: %s", path, strerror(errno));
	const int rc = write_page(to, b, err);
	const bool failed = ferror(to);
	if (fclose(to) == 0 && !failed)
		return rc;
	return rc < 0 ? rc : p4d_fail(err, P4D_E_IO, "%.300s cannot be written", path);
}
