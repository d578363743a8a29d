/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report as one self-contained page: tables, and the pictures of command/picture as SVG. */
#include <inttypes.h>
#include <stdio.h>

#include "backtest/backtest.h"
#include "picture/bars.h"
#include "picture/page.h"

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
	static const p4d_page_column columns[] = {
	    {"end", true}, {"passed", false}, {"warned", false}, {"refused", false}, {"not judged", false}};

	fputs("<h2>End and verdict</h2>\n<p>Jobs, and their GPU-hours in brackets.</p>\n", to);
	p4d_page_columns(to, columns, sizeof(columns) / sizeof(*columns));
	for (int end = 0; end < P4D_BACKTEST_ENDS; end++) {
		if (end == P4D_BACKTEST_SAID && !b->read_output)
			continue;
		fputs("<tr><td class=\"l\">", to);
		p4d_page_text(to, p4d_backtest_end_titles[end]);
		fputs("</td>", to);
		for (int verdict = 0; verdict < P4D_BACKTEST_VERDICTS; verdict++)
			write_cell(to, class_of(end, verdict), &b->cell[end][verdict]);
		fputs("</tr>\n", to);
	}
	fputs("</tbody>\n</table>\n", to);
}

static void write_code(FILE *to, p4d_code code)
{
	if (code)
		fprintf(to, "<td class=\"l\">P4D%03d</td>", (int)code);
	else
		fputs("<td class=\"l dim\">-</td>", to);
}

static void write_groups(FILE *to, const char *title, const p4d_backtest_group *groups, unsigned count)
{
	static const p4d_page_column columns[] = {
	    {"script", true}, {"jobs", false},          {"one of them", true}, {"model", true},
	    {"code", true},   {"predicted GiB", false}, {"of", false},         {"measured GiB", false},
	};

	if (!count)
		return;
	p4d_page_line(to, "h2", "", "%s", title);
	p4d_page_columns(to, columns, sizeof(columns) / sizeof(*columns));
	for (unsigned i = 0; i < count; i++) {
		const p4d_backtest_row *row = groups[i].row;
		const p4d_backtest_result *r = row->result;
		const char *const texts[] = {row->job->id, r->model};
		fputs("<tr><td class=\"l\" title=\"", to);
		p4d_page_text(to, row->job->work_dir);
		fputs("\">", to);
		p4d_page_text(to, r->place);
		fputs("</td>", to);
		write_cell(to, "", &groups[i].cell);
		for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
			fputs("<td class=\"l\">", to);
			p4d_page_text(to, texts[t]);
			fputs("</td>", to);
		}
		write_code(to, r->code);
		if (r->need_bytes)
			fprintf(to, "<td>%.1f</td><td>%.1f</td>", p4d_to_gib(r->need_bytes),
				p4d_to_gib(r->capacity_bytes));
		else
			fputs("<td class=\"dim\">-</td><td class=\"dim\">-</td>", to);
		if (row->measured_bytes)
			fprintf(to, "<td>%s%.1f</td>", row->measured == P4D_MEASURED_MEAN ? "mean " : "",
				p4d_to_gib(row->measured_bytes));
		else
			fputs("<td class=\"dim\">-</td>", to);
		fputs("</tr>\n", to);
	}
	fputs("</tbody>\n</table>\n", to);
}

static int write_stages(FILE *to, const p4d_backtest *b, p4d_error *err)
{
	static const p4d_page_column columns[] = {{"why", true}, {"jobs", false}};
	static const char *const keys[] = {"jobs"};
	p4d_bar bar[P4D_BACKTEST_STAGES];

	for (int i = 0; i < P4D_BACKTEST_STAGES; i++)
		bar[i] =
		    (p4d_bar){.label = p4d_backtest__stage_titles[i], .part = {(double)b->stage[i].jobs}};
	fputs("<h2>How many jobs p4d could check</h2>\n", to);
	if (p4d_page_picture(to, p4d_picture_bars,
			     &(p4d_bars){.title = "How many jobs p4d could check",
					 .key = keys,
					 .keys = 1,
					 .bar = bar,
					 .count = P4D_BACKTEST_STAGES},
			     err) < 0)
		return -1;
	if (b->reasons) {
		fputs("<h3>Why p4d could not check jobs</h3>\n", to);
		p4d_page_columns(to, columns, sizeof(columns) / sizeof(*columns));
	}
	for (unsigned i = 0; i < b->reasons; i++) {
		fputs("<tr><td class=\"l\">", to);
		p4d_page_text(to, b->reason[i].text);
		fputs("</td>", to);
		write_cell(to, "", &b->reason[i].cell);
		fputs("</tr>\n", to);
	}
	if (b->reasons)
		fputs("</tbody>\n</table>\n", to);
	return 0;
}

static int write_limits(FILE *to, const p4d_backtest *b, p4d_error *err)
{
	static const char *const keys[] = {"refused but ran", "refused and out of memory (output)",
					   "refused, likely out of memory (GPU at 97 %)"};
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
	return p4d_page_picture(to, p4d_picture_bars,
				&(p4d_bars){.title = "Jobs refused at other limits",
					    .key = keys,
					    .keys = 3,
					    .bar = bar,
					    .count = P4D_BACKTEST_LIMITS},
				err);
}

static int write_page(FILE *to, const void *of, p4d_error *err)
{
	const p4d_backtest *b = of;

	p4d_page_begin(to, "p4d backtest");
	fprintf(to, "<p>%zu jobs with GPUs have ended since ", b->rows);
	p4d_page_text(to, b->since);
	fprintf(to, ". p4d checked %" PRIu64 " different scripts", b->scripts);
	if (b->changed)
		fprintf(to, "; for %" PRIu64 " jobs, a file has changed since the job was submitted",
			b->changed);
	fputs(".</p>\n", to);
	write_cells(to, b);
	write_groups(to, "Jobs that p4d refuses, but that ran", b->ran, b->rans);
	write_groups(to, "Jobs that p4d passes, but that ran out of GPU memory", b->died, b->dieds);
	if (write_stages(to, b, err) < 0 || write_limits(to, b, err) < 0)
		return -1;
	p4d_page_end(to);
	return 0;
}

int p4d_backtest__write_html(const p4d_backtest *b, const char *path, p4d_error *err)
{
	return p4d_page_save(path, write_page, b, err);
}
