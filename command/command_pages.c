/* SPDX-License-Identifier: Apache-2.0 */
#include "command_pages.h"

#include "picture/page.h"

static int draw_memory(const void *of, const char *path, p4d_error *err)
{
	const p4d_estimate_page *page = of;
	p4d_picture picture = *page->picture;

	picture.path = path;
	return p4d_picture_memory(&picture, page->estimate, err);
}

static int write_stages(FILE *to, const p4d_estimate_page *page, p4d_error *err)
{
	const p4d_picture *p = page->picture;
	p4d_table table = {0};

	if (p4d_report_stages(p->layout, page->estimate, p->safe, p->limit, &table, err) < 0)
		return -1;
	p4d_page_line(to, "h2", "", "GiB per %s, at the peak of each stage",
		      p4d_on_gpu(p->layout->device) ? "GPU" : "rank");
	p4d_page_table(to, &table);
	p4d_table_free(&table);
	return 0;
}

static void write_phases(FILE *to, const p4d_estimate *e)
{
	char size[P4D_SIZE_TEXT];
	p4d_table table = {0};

	p4d_table_columns(&table, {"phase", P4D_LEFT}, {"GiB allocated", P4D_RIGHT});
	for (int phase = 0; phase < P4D_PHASES; phase++) {
		p4d_table_cell(&table, P4D_PLAIN, "%s", p4d_memory_phase_name((p4d_phase)phase));
		p4d_table_cell(&table, P4D_PLAIN, "%s", p4d_report_gib(e->peak.phase_bytes[phase], size));
	}
	p4d_page_line(to, "h2", "", "Phases of stage %u", e->stage);
	p4d_page_table(to, &table);
	p4d_table_free(&table);
	p4d_page_line(to, "p", "", "Host memory per node: %s%s", p4d_report_gib(e->host_bytes, size),
		      e->host_bytes == P4D_NOT_MODELLED ? "" : " GiB");
}

static void write_options(FILE *to, const p4d_request *request)
{
	static const char *const who[] = {"", "the user", "the script", "the site", "the model", "p4d"};
	char value[1024];
	p4d_table table = {0};

	p4d_table_columns(&table, {"option", P4D_LEFT}, {"value", P4D_LEFT}, {"chosen by", P4D_LEFT});
	for (int i = 0; i < P4D_OPTIONS; i++) {
		if (!p4d_is_set(request, (p4d_option)i) ||
		    (request->origin[i] >= P4D_BY_SITE && !p4d_report_is_default(request, i)))
			continue;
		p4d_table_cell(&table, P4D_PLAIN, "%s", p4d_request_option_info((p4d_option)i)->name);
		p4d_table_cell(&table, P4D_PLAIN, "%s",
			       p4d_request_value_text(request, (p4d_option)i, value, sizeof(value)));
		p4d_table_cell(&table, P4D_PLAIN, "%s", who[request->origin[i]]);
	}
	p4d_page_line(to, "h2", "", "Options");
	p4d_page_table(to, &table);
	p4d_table_free(&table);
}

static int write_estimate(FILE *to, const void *of, p4d_error *err)
{
	static const char *const classes[] = {"good", "warn", "bad"};
	const p4d_estimate_page *page = of;
	const p4d_subject *subject = page->subject;
	char step[512];

	p4d_page_begin(to, subject->model);
	p4d_page_line(to, "p", page->estimate->capacity_bytes ? classes[page->action] : "", "%s",
		      page->verdict);
	p4d_page_messages(to, subject->messages, subject->message);
	if (p4d_page_picture(to, draw_memory, page, err) < 0 || write_stages(to, page, err) < 0)
		return -1;
	write_phases(to, page->estimate);
	p4d_page_line(to, "p", "", "%s",
		      p4d_report_step_text(subject->capacity.gpu, page->timed, step, sizeof(step)));
	write_options(to, &subject->request);
	p4d_page_end(to);
	return 0;
}

int p4d_command__estimate_page(const p4d_estimate_page *page, const char *path, p4d_error *err)
{
	return p4d_page_save(path, write_estimate, page, err);
}

static int write_plan(FILE *to, const void *of, p4d_error *err)
{
	const p4d_plan_page *page = of;
	const p4d_subject *subject = page->subject;

	p4d_page_begin(to, subject->model);
	p4d_page_line(to, "p", "", "%s. Global batch %s.", page->heading, page->batch);
	p4d_page_messages(to, subject->messages, subject->message);
	p4d_page_line(to, "h2", "", "%s", page->bars->title);
	if (p4d_page_picture(to, p4d_picture_bars, page->bars, err) < 0)
		return -1;
	p4d_page_line(to, "h2", "", "Layouts");
	p4d_page_table(to, page->table);
	if (page->unvalidated)
		p4d_page_line(to, "p", "dim", "Step times are unvalidated: %s", page->unvalidated);
	if (page->accuracy)
		p4d_page_line(to, "p", "dim", "Accuracy of step times: %s", page->accuracy);
	if (page->ties)
		p4d_page_line(to, "p", "dim", "%s", page->ties);
	p4d_page_line(to, "h2", "", "Flags for sbatch");
	fputs("<ol>\n", to);
	for (size_t i = 0; i < page->count; i++) {
		fputs("<li><code>", to);
		p4d_page_text(to, page->row[i].flags);
		fputs("</code></li>\n", to);
	}
	fputs("</ol>\n", to);
	if (*page->preferred) {
		p4d_page_line(to, "p", "",
			      "Without these options, sbatch takes the best layout below the safe fraction, "
			      "the share of memory above which it warns:");
		p4d_page_line(to, "code", "", "%s", page->preferred);
	}
	p4d_page_end(to);
	return 0;
}

int p4d_command__plan_page(const p4d_plan_page *page, const char *path, p4d_error *err)
{
	return p4d_page_save(path, write_plan, page, err);
}
