/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the tables to a terminal, or one row per job as CSV. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backtest/backtest.h"
#include "report/report.h"
#include "report/table.h"

static void add_cell(p4d_table *table, p4d_color color, const p4d_backtest_cell *cell)
{
	if (cell->jobs)
		p4d_table_cell(table, color, "%" PRIu64 " (%.1f)", cell->jobs, cell->gpu_hours);
	else
		p4d_table_cell(table, P4D_PLAIN, "-");
}

/* Colours the most interesting cells. */
static p4d_color color_of(int end, int verdict)
{
	if (end == P4D_BACKTEST_COMPLETED && verdict == P4D_BACKTEST_REFUSED)
		return P4D_RED;
	if (!p4d_backtest_is_death((p4d_backtest_end)end))
		return P4D_PLAIN;
	return verdict == P4D_BACKTEST_REFUSED  ? P4D_GREEN
	       : verdict <= P4D_BACKTEST_WARNED ? P4D_YELLOW
						: P4D_PLAIN;
}

static int print_cells(const p4d_backtest *b, p4d_error *err)
{
	p4d_table table = {.columns = 0};

	puts("Jobs (GPU-hours) by how they ended and by p4d's verdict:\n");
	p4d_table_columns(&table, {"END", P4D_LEFT}, {"PASSED", P4D_RIGHT}, {"WARNED", P4D_RIGHT},
			  {"REFUSED", P4D_RIGHT}, {"NOT JUDGED", P4D_RIGHT});
	for (int end = 0; end < P4D_BACKTEST_ENDS; end++) {
		if (end == P4D_BACKTEST_SAID && !b->read_output)
			continue;
		p4d_table_cell(&table, P4D_PLAIN, "%s", p4d_backtest_end_titles[end]);
		for (int verdict = 0; verdict < P4D_BACKTEST_VERDICTS; verdict++)
			add_cell(&table, color_of(end, verdict), &b->cell[end][verdict]);
	}
	return p4d_table_print(&table, false, err);
}

static int print_groups(const char *title, const p4d_backtest_group *groups, unsigned count, p4d_error *err)
{
	p4d_table table = {.columns = 0};

	if (!count)
		return 0;
	printf("\n%s\n\n", title);
	p4d_table_columns(&table, {"GPU-HOURS", P4D_RIGHT}, {"JOBS", P4D_RIGHT}, {"ONE OF THEM", P4D_LEFT},
			  {"SCRIPT", P4D_LEFT}, {"MODEL", P4D_LEFT}, {"PREDICTED", P4D_RIGHT},
			  {"MEASURED", P4D_RIGHT});
	for (unsigned i = 0; i < count; i++) {
		const p4d_backtest_row *row = groups[i].row;
		const p4d_backtest_result *r = row->result;
		p4d_table_cell(&table, P4D_PLAIN, "%.1f", groups[i].cell.gpu_hours);
		p4d_table_cell(&table, P4D_PLAIN, "%" PRIu64, groups[i].cell.jobs);
		p4d_table_cell(&table, P4D_PLAIN, "%s", row->job->id);
		p4d_table_cell(&table, P4D_PLAIN, "%s", r->place);
		p4d_table_cell(&table, P4D_PLAIN, "%s", r->model);
		if (r->need_bytes)
			p4d_table_cell(&table, P4D_PLAIN, "%.1f of %.1f GiB", p4d_to_gib(r->need_bytes),
				       p4d_to_gib(r->capacity_bytes));
		else
			p4d_table_cell(&table, P4D_PLAIN, "P4D%03d", (int)r->code);
		if (row->measured_bytes)
			p4d_table_cell(&table, P4D_PLAIN, "%s%.1f GiB",
				       row->measured == P4D_MEASURED_MEAN ? "mean " : "",
				       p4d_to_gib(row->measured_bytes));
		else
			p4d_table_cell(&table, P4D_PLAIN, "-");
	}
	return p4d_table_print(&table, false, err);
}

static int print_stages(const p4d_backtest *b, p4d_error *err)
{
	p4d_table table = {.columns = 0};

	puts("\nHow many jobs p4d could check:\n");
	p4d_table_columns(&table, {"", P4D_LEFT}, {"JOBS (GPU-HOURS)", P4D_RIGHT});
	for (int stage = 0; stage < P4D_BACKTEST_STAGES; stage++) {
		p4d_table_cell(&table, P4D_PLAIN, "%s", p4d_backtest__stage_titles[stage]);
		add_cell(&table, P4D_PLAIN, &b->stage[stage]);
	}
	if (p4d_table_print(&table, false, err) < 0)
		return -1;
	if (b->reasons)
		puts("\nWhy p4d could not check jobs, most frequent reasons first:\n");
	for (unsigned i = 0; i < b->reasons; i++)
		printf("%8" PRIu64 "  %s\n", b->reason[i].cell.jobs, b->reason[i].text);
	return 0;
}

static int print_limits(const p4d_backtest *b, p4d_error *err)
{
	p4d_table table = {.columns = 0};

	puts("\nJobs (GPU-hours) with other values of the setting limit in p4d.conf:\n");
	p4d_table_columns(&table, {"LIMIT", P4D_LEFT}, {"REFUSED BUT RAN", P4D_RIGHT});
	if (b->read_output)
		p4d_table_column(&table, "DEATHS CAUGHT", P4D_RIGHT);
	p4d_table_column(&table, "LIKELY DEATHS CAUGHT (97 %)", P4D_RIGHT);
	for (int i = 0; i < P4D_BACKTEST_LIMITS; i++) {
		p4d_table_cell(&table, P4D_PLAIN, "%.2f", p4d_backtest__limits[i]);
		add_cell(&table, P4D_PLAIN, &b->at[i].ran);
		if (b->read_output)
			add_cell(&table, P4D_PLAIN, &b->at[i].caught[P4D_BACKTEST_SAID]);
		add_cell(&table, P4D_PLAIN, &b->at[i].caught[P4D_BACKTEST_FULL]);
	}
	if (p4d_table_print(&table, false, err) < 0)
		return -1;
	if (!b->strict)
		puts("p4d cannot apply other limits to this p4d.conf, so jobs that pass now pass in all "
		     "rows.");
	return 0;
}

static void print_notes(const p4d_backtest *b)
{
	puts("");
	if (b->changed)
		printf("p4d reads files as they are today: for %" PRIu64
		       " job%s, a file has changed since the job was submitted.\n",
		       b->changed, b->changed == 1 ? "" : "s");
	if (!b->environments)
		puts("Slurm does not store environments (AccountingStoreFlags=job_env), so p4d does not know "
		     "variables that scripts do not set.");
	if (!b->read_output)
		puts("Slurm reports a job that ran out of GPU memory as FAILED. --read-output searches the "
		     "output of jobs for the error message.");
}

int p4d_backtest__print(p4d_backtest *b, p4d_error *err)
{
	const char *path = p4d_site_path(b->site);
	double hours = 0;

	for (size_t i = 0; i < b->rows; i++)
		hours += b->row[i].gpu_hours;
	printf("%zu jobs with GPUs have ended since %s, with %.1f GPU-hours. p4d checked %" PRIu64
	       " different scripts with %s.\n\n",
	       b->rows, b->since, hours, b->scripts,
	       *path ? path : "p4d's defaults, because there is no p4d.conf");
	if (print_cells(b, err) < 0 ||
	    print_groups(
		"Jobs that p4d refuses, but that ran. Look at these jobs first, because p4d may be wrong:",
		b->ran, b->rans, err) < 0 ||
	    print_groups("Jobs that p4d passes, but that ran out of GPU memory:", b->died, b->dieds, err) <
		0 ||
	    print_stages(b, err) < 0 || print_limits(b, err) < 0)
		return -1;
	print_notes(b);
	return 0;
}

/* Prints a field with RFC 4180's quotes. A text that a spreadsheet would evaluate gets an apostrophe. */
static void print_field(const char *text, const char *end)
{
	putchar('"');
	if (*text && strchr("=+-@", *text))
		putchar('\'');
	for (; *text; text++) {
		if (*text == '"')
			putchar('"');
		if ((unsigned char)*text >= ' ')
			putchar(*text);
	}
	printf("\"%s", end);
}

static void print_number(bool known, double number)
{
	if (known)
		printf("%.4f", number);
	putchar(',');
}

static void print_row(const p4d_backtest_row *row)
{
	const p4d_backtest_result *r = row->result;
	const p4d_accounting_job *job = row->job;
	char code[16] = "";

	if (r->code)
		snprintf(code, sizeof(code), "P4D%03d", (int)r->code);
	print_field(job->id, ",");
	print_field(job->user, ",");
	print_field(job->account, ",");
	print_field(job->partition, ",");
	print_field(job->state, ",");
	printf("%s,%s,%s,", p4d_backtest_end_names[row->end], p4d_backtest__verdict_names[r->verdict], code);
	printf("%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",", job->nodes, job->gpus, job->elapsed_s);
	print_number(true, row->gpu_hours);
	print_field(r->model, ",");
	print_field(r->framework, ",");
	print_field(r->gpu, ",");
	print_number(r->fraction >= 0, r->fraction);
	print_number(r->need_bytes, p4d_to_gib(r->need_bytes));
	print_number(r->capacity_bytes, p4d_to_gib(r->capacity_bytes));
	print_number(row->measured_bytes, p4d_to_gib(row->measured_bytes));
	for (int i = 0; i < P4D_BACKTEST_LIMITS; i++)
		printf("%d,", r->refused_at[i]);
	printf("%d,", row->changed);
	print_field(r->place, ",");
	print_field(*r->reason ? r->reason : r->text, "\r\n");
}

int p4d_backtest__print_csv(const p4d_backtest *b)
{
	fputs("job,user,account,partition,state,end,verdict,code,nodes,gpus,elapsed_s,gpu_hours,model,"
	      "framework,"
	      "gpu,fraction,predicted_gib,capacity_gib,measured_gib,refused_at_0.90,refused_at_0.95,"
	      "refused_at_0.97,refused_at_1.00,files_changed,script,why\r\n",
	      stdout);
	for (size_t i = 0; i < b->rows; i++)
		print_row(&b->row[i]);
	return 0;
}
