/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the margins as framework sections of p4d.conf. Each line has a comment with the numbers that it is
 * based on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/new_file.h"
#include "base/text.h"
#include "calibrate/calibrate_internal.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "unknown"
#endif

/* Writes that comment: "n=412, 95 % bound +1.23 GiB, 2026-10-01 to 2026-11-28, Slurm 24.05, driver
 * 550.54". */
static void evidence(p4d_text *text, const p4d_calibrate_fit *fit)
{
	p4d_text_print(text, "n=%u, 95 %% bound %+.2f GiB", fit->measured, fit->bound_own);
	if (*fit->first)
		p4d_text_print(text, ", %s to %s", fit->first, fit->last);
	if (*fit->slurm)
		p4d_text_print(text, ", Slurm %s", fit->slurm);
	if (*fit->driver)
		p4d_text_print(text, ", driver %s", fit->driver);
}

static void add_counts(p4d_text *text, const p4d_calibrate_fit *fit)
{
	if (fit->censored)
		p4d_text_print(text,
			       "; %u measurements of at least 0.9 of the GPU's memory are only upper bounds",
			       fit->censored);
	if (fit->deaths)
		p4d_text_print(text, "; %u jobs ran out of memory, %u of them would pass", fit->deaths,
			       fit->passed);
	if (fit->held)
		p4d_text_print(text, "; with a larger margin, p4d would refuse job %s, which ran",
			       fit->held->measured.id);
	p4d_text_add(text, "\n");
}

static void add_group(p4d_text *text, const p4d_calibrate_group *g)
{
	const p4d_calibrate_fit *fit = &g->fit;

	if (!fit->enough) {
		p4d_text_print(text, "# %s: %u rows below 0.9 of the GPU's memory; a margin needs %d rows\n",
			       g->title, fit->measured, P4D_CALIBRATE_LEAST);
		return;
	}
	p4d_text_print(text,
		       "# %s: with this margin, %.1f %% of the measurements are at most the prediction; with "
		       "p4d's own constants %.1f %%",
		       g->title, 100 * fit->covered, 100 * fit->covered_own);
	add_counts(text, fit);
	if (!fit->raised)
		return;
	p4d_text_print(text, "framework \"%s\" {\n", g->title);
	p4d_text_print(text, "\treserve_gib = %.2f\t# ", fit->reserve_gib);
	evidence(text, fit);
	if (fit->fragmentation > 0) {
		p4d_text_print(text, "\n\tfragmentation = %.3f\t# ", fit->fragmentation);
		evidence(text, fit);
	}
	p4d_text_add(text, "\n}\n");
}

int p4d_calibrate__write(const p4d_calibrate *all, const char *rows, const char *path, p4d_error *err)
{
	const char *slash = strrchr(rows, '/');
	const time_t now = time(NULL);
	p4d_text text = {.grows = true};
	char day[16] = "";
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(day, sizeof(day), "%Y-%m-%d", &tm);
	p4d_text_print(&text, "# Written by p4d calibrate (p4d %s) on %s from ", PACKAGE_VERSION, day);
	p4d_text_escaped(&text, slash ? slash + 1 : rows);
	p4d_text_add(&text, ". For `include` in p4d.conf.\n");
	for (size_t i = 0; i < all->groups; i++)
		add_group(&text, &all->group[i]);
	p4d_text_add(&text, "version = 1\n");
	return p4d_new_file_put_text(path, &text, err);
}
