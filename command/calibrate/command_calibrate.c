/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/command_calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arguments.h"
#include "base/json_file.h"
#include "base/option.h"
#include "calibrate/calibrate_internal.h"
#include "report/report.h"
#include "report/table.h"

enum { MAX_FILE = 64 * 1024 * 1024 };

const char p4d_calibrate_options[] =
    "\n"
    "  -o, --output FILE           write the margins as sections of p4d.conf into FILE, for its `include`\n"
    "  --share FILE                also write the rows, without the names of users, jobs and models, and\n"
    "                              without groups of fewer than five users\n"
    "  --conf FILE                 the p4d.conf to use\n"
    "  --json                      print JSON, as p4d-json(5) describes it\n"
    "\n"
    "ROWS.csv is a file that p4d report --rows wrote, or a file with the columns that p4d validate reads.";

typedef struct calibrate_arguments {
	const char *output, *share, *conf;
	bool json, help;
	int operands;
	char **operand;
} calibrate_arguments;

static int parse(calibrate_arguments *a, int argc, char *argv[], p4d_error *err)
{
	enum { OUTPUT = 256, SHARE, CONF, JSON, HELP };
	static const struct option table[] = {
	    {"output", required_argument, NULL, OUTPUT}, {"share", required_argument, NULL, SHARE},
	    {"conf", required_argument, NULL, CONF},     {"json", no_argument, NULL, JSON},
	    {"help", no_argument, NULL, HELP},           {NULL, 0, NULL, 0},
	};
	int which, more, rc = 0;

	optind = 0;
	while (rc == 0 && (more = p4d_arguments_next(argc, argv, ":ho:", table, &which, err)) != 0) {
		if (more < 0)
			return err->fix[0] ? -1 : p4d_fix(err, "p4d help calibrate");
		a->json |= which == JSON;
		a->help |= which == HELP || which == 'h';
		if (which == OUTPUT || which == 'o')
			rc = p4d_option_once(&a->output, "output", optarg, err);
		else if (which == SHARE)
			rc = p4d_option_once(&a->share, "share", optarg, err);
		else if (which == CONF)
			rc = p4d_option_once(&a->conf, "conf", optarg, err);
	}
	a->operands = argc - optind;
	a->operand = argv + optind;
	if (rc == 0 && !a->help && a->operands != 1) {
		p4d_fail(err, P4D_E_USAGE, "calibrate needs one CSV file of measurements");
		return p4d_fix(err, "p4d report --rows rows.csv");
	}
	return rc;
}

static void add_cells(p4d_table *t, const p4d_calibrate_group *g)
{
	const p4d_calibrate_fit *fit = &g->fit;

	p4d_table_cell(t, P4D_PLAIN, "%s", g->title);
	p4d_table_cell(t, P4D_PLAIN, "%u", fit->measured);
	p4d_table_cell(t, P4D_PLAIN, "%u", fit->censored);
	p4d_table_cell(t, P4D_PLAIN, "%u", fit->deaths);
	/* without measurements there is no bound */
	p4d_table_cell(t, P4D_PLAIN, fit->measured ? "%+.2f" : "-", fit->bound_own);
	p4d_table_cell(t, P4D_PLAIN, fit->measured ? "%+.2f" : "-", fit->bound_in_force);
	if (!fit->enough) {
		for (int i = 0; i < 3; i++)
			p4d_table_cell(t, P4D_PLAIN, "-");
		p4d_table_cell(t, P4D_PLAIN, "fewer than %d rows", P4D_CALIBRATE_LEAST);
		return;
	}
	p4d_table_cell(t, P4D_PLAIN, "%+.2f", fit->bound);
	p4d_table_cell(t, P4D_PLAIN, "%.2f", fit->reserve_gib);
	p4d_table_cell(t, P4D_PLAIN, "%.3f", fit->fragmentation);
	if (fit->held)
		p4d_table_cell(t, P4D_PLAIN, "held by %s", fit->held->measured.id);
	else
		p4d_table_cell(t, P4D_PLAIN, "%s", fit->raised ? "raised" : "p4d's own margins are enough");
}

static int print_table(const p4d_calibrate *all, p4d_error *err)
{
	static const char *const numbers[] = {"rows",     "censored", "deaths",  "own",
					      "in force", "new",      "reserve", "fragmentation"};
	p4d_table t = {0};

	puts("Measured minus predicted memory in GiB; 95 % of the jobs are below it (own: with p4d's "
	     "margins; in "
	     "force: with the present p4d.conf; new: with the new margins):");
	p4d_table_column(&t, "jobs", P4D_LEFT);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		p4d_table_column(&t, numbers[i], P4D_RIGHT);
	p4d_table_column(&t, "", P4D_LEFT);
	for (size_t i = 0; i < all->groups; i++)
		add_cells(&t, &all->group[i]);
	const int rc = p4d_table_print(&t, true, err);
	p4d_table_free(&t);
	return rc;
}

static int print_text(const p4d_calibrate *all, p4d_error *err)
{
	if (print_table(all, err) < 0)
		return -1;
	if (all->left_out)
		printf(
		    "%u rows left out: rows of inference engines, and rows without validate = 1 or oom = 1\n",
		    all->left_out);
	if (all->untaken)
		printf("%u row%s that p4d cannot use; the first: %s\nfix: p4d validate lists them\n",
		       all->untaken, all->untaken == 1 ? "" : "s", all->first_untaken);
	return 0;
}

static struct json_object *json_of(const p4d_calibrate_group *g)
{
	const p4d_calibrate_fit *fit = &g->fit;
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "framework", json_object_new_string(g->title));
	json_object_object_add(o, "rows", json_object_new_int64(fit->measured));
	json_object_object_add(o, "censored", json_object_new_int64(fit->censored));
	json_object_object_add(o, "deaths", json_object_new_int64(fit->deaths));
	json_object_object_add(o, "deaths_passed", json_object_new_int64(fit->passed));
	json_object_object_add(o, "bound_own_gib", p4d_report_json_fraction(fit->bound_own));
	json_object_object_add(o, "bound_in_force_gib", p4d_report_json_fraction(fit->bound_in_force));
	json_object_object_add(o, "bound_gib", fit->enough ? p4d_report_json_fraction(fit->bound) : NULL);
	json_object_object_add(o, "covered_own", p4d_report_json_fraction(fit->covered_own));
	json_object_object_add(o, "covered_in_force", p4d_report_json_fraction(fit->covered_in_force));
	json_object_object_add(o, "covered", fit->enough ? p4d_report_json_fraction(fit->covered) : NULL);
	json_object_object_add(o, "reserve_gib",
			       fit->enough ? p4d_report_json_fraction(fit->reserve_gib) : NULL);
	json_object_object_add(o, "fragmentation",
			       fit->enough ? p4d_report_json_fraction(fit->fragmentation) : NULL);
	json_object_object_add(o, "raised", json_object_new_boolean(fit->raised));
	json_object_object_add(o, "held_by",
			       fit->held ? json_object_new_string(fit->held->measured.id) : NULL);
	return o;
}

static int print_json(const p4d_calibrate *all, p4d_error *err)
{
	struct json_object *object = json_object_new_object(), *groups = json_object_new_array();

	for (size_t i = 0; i < all->groups; i++)
		json_object_array_add(groups, json_of(&all->group[i]));
	json_object_object_add(object, "groups", groups);
	json_object_object_add(object, "left_out", json_object_new_int64(all->left_out));
	json_object_object_add(object, "not_taken", json_object_new_int64(all->untaken));
	return p4d_report_json_print(object, err);
}

static int share(const p4d_calibrate *all, const calibrate_arguments *a, p4d_error *err)
{
	unsigned shared, withheld;

	if (p4d_calibrate__share(all, a->share, &shared, &withheld, err) < 0)
		return -1;
	if (a->json)
		return 0;
	printf("wrote %u rows without names to %s", shared, a->share);
	if (withheld)
		printf("; left out %u rows: the row's group has fewer than five users, or the row's options "
		       "contain a name",
		       withheld);
	putchar('\n');
	return 0;
}

static void say_written(const char *path)
{
	char *whole = realpath(path, NULL);

	printf("%s: written; in p4d.conf: include = { \"%s\" }\n", path, whole ? whole : path);
	free(whole);
}

static int calibrate(p4d_calibrate *all, const calibrate_arguments *a, char *text, p4d_error *err)
{
	const char *rows = a->operand[0];

	if (p4d_calibrate__read(all, rows, text, err) < 0)
		return -1;
	for (size_t i = 0; i < all->groups; i++)
		if (p4d_calibrate__fit(all, i, err) < 0)
			return -1;
	if ((a->json ? print_json : print_text)(all, err) < 0 ||
	    (a->output && p4d_calibrate__write(all, rows, a->output, err) < 0))
		return -1;
	if (a->output && !a->json)
		say_written(a->output);
	return a->share ? share(all, a, err) : 0;
}

int p4d_command_calibrate(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err)
{
	calibrate_arguments a = {.output = NULL};
	p4d_calibrate all = {.site = NULL};
	size_t length;
	int rc = -1;

	if (parse(&a, argc, argv, err) < 0)
		return -1;
	if (a.help) {
		p4d_line_help(self, true);
		return 0;
	}
	p4d_site *site = p4d_line_open_site(a.conf, err);
	char *bytes = site ? p4d_text_read(a.operand[0], MAX_FILE, &length, err) : NULL;
	char *text = bytes ? strndup(bytes, length) : NULL;
	all.site = site;
	if (text)
		rc = calibrate(&all, &a, text, err);
	else if (bytes)
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu bytes", length);
	free(bytes);
	free(text);
	p4d_calibrate__free(&all);
	p4d_site_free(site);
	if (rc < 0) {
		p4d_request_without_prefix(err->text);
		p4d_request_without_prefix(err->fix);
	}
	return rc;
}
