/* SPDX-License-Identifier: Apache-2.0 */
/* Writes p4d report as one self-contained page. */
#include "picture/bars.h"
#include "picture/page.h"
#include "usage/usage.h"

/* Kinds of verdicts that a bar distinguishes. */
enum { PASSED, REFUSED, SILENT };

static int part_of(int outcome)
{
	switch (outcome) {
	case P4D_OUTCOME_PASS:
	case P4D_OUTCOME_WARN:
	case P4D_OUTCOME_REWRITE:
		return PASSED;
	case P4D_OUTCOME_WOULD_REFUSE:
	case P4D_OUTCOME_REFUSE:
		return REFUSED;
	default:
		return SILENT;
	}
}

static int write_bars(FILE *to, const p4d_usage *u, p4d_error *err)
{
	static const char *const keys[] = {
	    [PASSED] = "passed, with or without a warning or a change",
	    [REFUSED] = "would refuse",
	    [SILENT] = "not judged, or without a record",
	};
	p4d_bar bar[P4D_BACKTEST_ENDS];

	for (int end = 0; end < P4D_BACKTEST_ENDS; end++) {
		bar[end] = (p4d_bar){.label = p4d_backtest_end_titles[end]};
		for (int outcome = 0; outcome <= P4D_OUTCOMES; outcome++)
			bar[end].part[part_of(outcome)] += (double)u->cell[end][outcome].jobs;
	}
	return p4d_page_picture(to, p4d_picture_bars,
				&(p4d_bars){.title = "Jobs by how they ended and by p4d's verdict",
					    .key = keys,
					    .keys = sizeof(keys) / sizeof(*keys),
					    .bar = bar,
					    .count = P4D_BACKTEST_ENDS},
				err);
}

static int write_page(FILE *to, const void *of, p4d_error *err)
{
	const p4d_usage *u = of;

	p4d_page_begin(to, "p4d report");
	p4d_page_line(to, "p", "", "Jobs since %s", u->jobs.since);
	if (write_bars(to, u, err) < 0 || p4d_usage__print(u, to, err) < 0)
		return -1;
	p4d_page_end(to);
	return 0;
}

int p4d_usage__write_html(const p4d_usage *u, const char *path, p4d_error *err)
{
	return p4d_page_save(path, write_page, u, err);
}
