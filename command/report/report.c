/* SPDX-License-Identifier: Apache-2.0 */
/* Prints answers as text. */
#include "report/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plan/memory_played.h"
#include "report/table.h"
#include "request/framework.h"

static const double GIB = 1073741824.0;

const char *p4d_report_gib(uint64_t bytes, char buf[P4D_SIZE_TEXT])
{
	if (bytes == P4D_NOT_MODELLED)
		snprintf(buf, P4D_SIZE_TEXT, "not modelled");
	else
		snprintf(buf, P4D_SIZE_TEXT, "%.2f", (double)bytes / GIB);
	return buf;
}

const char *p4d_report_action(p4d_action action)
{
	static const char *const names[] = {"pass", "warn", "reject"};

	return names[action];
}

void p4d_report_messages(unsigned count, const p4d_message *messages)
{
	char text[sizeof(messages->text) + sizeof(messages->fix) + 64];

	for (unsigned i = 0; i < count; i++)
		fprintf(stderr, "%s\n", p4d_guard_message_text(&messages[i], text, sizeof(text)));
}

void p4d_report_error(const p4d_error *err)
{
	p4d_message message = {.code = err->code};

	memcpy(message.text, err->text, sizeof(message.text));
	memcpy(message.fix, err->fix, sizeof(message.fix));
	p4d_report_messages(1, &message);
}

/* Prints one line, which is broken only on a terminal. */
__attribute__((format(printf, 1, 2))) static void print_line(const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	p4d_table_print_wrapped(0, 0, text);
}

static const char *choice(p4d_option option, int64_t value, char buf[32])
{
	return p4d_request_choice_name(option, value, buf, 32);
}

void p4d_report_layout(const char *model, const p4d_layout *l, uint64_t nodes, const p4d_gpu *gpu, int method)
{
	char schedule[32], vocabulary[32], recompute[32], precision[32], device[32];
	char evaluation[48] = "", spread[96] = "", slices[192] = "", lengths[512], tp[P4D_TP_TEXT];
	const bool gathered = l->cp_comm == P4D_CP_ALL_GATHER;

	if (l->eval_micro_batch != l->micro_batch)
		snprintf(evaluation, sizeof(evaluation), ", in evaluation %" PRIu64, l->eval_micro_batch);
	if (l->slices > 1)
		snprintf(slices, sizeof(slices), " of slices of %.160s tokens",
			 p4d_layout_slices_text(l->slice_tokens, l->slices, lengths, sizeof(lengths)));
	if (l->experts)
		snprintf(spread, sizeof(spread), "ep %" PRIu64 ", etp %" PRIu64 ", imbalance %.4g, ", l->ep,
			 l->etp, l->imbalance);

	print_line("%s on %" PRIu64 " node%s of %" PRIu64 " x %s, framework %s%s", model, nodes,
		   nodes == 1 ? "" : "s", l->gpus_per_node,
		   gpu                      ? gpu->name
		   : !p4d_on_gpu(l->device) ? "CPU ranks"
					    : "unnamed GPUs",
		   p4d_framework_of(l->framework)->name, method == P4D_METHOD_PAPER ? ", method paper" : "");
	print_line(
	    "tp %s, cp %" PRIu64 "%s, pp %" PRIu64 ", dp %" PRIu64 ", %svpp %" PRIu64
	    ", %s%s%s%s%s; micro-batch %" PRIu64 " x %" PRIu64 " x dp = global-batch %" PRIu64
	    "%s; seq-len %" PRIu64 "; recompute %s; %s on %s",
	    p4d_layout_tp_text(l, tp), l->cp, gathered ? " by all-gather" : "", l->pp, l->dp, spread, l->vpp,
	    choice(P4D_SCHEDULE, l->schedule, schedule), l->vocab_parallel == P4D_VOCAB_OFF ? "" : " with ",
	    l->vocab_parallel == P4D_VOCAB_OFF ? ""
					       : choice(P4D_VOCAB_PARALLEL, l->vocab_parallel, vocabulary),
	    l->local_loss ? ", each stage has its own loss (another model than with full backpropagation)"
			  : "",
	    slices, l->micro_batch, l->micro_batches, l->global_batch, evaluation, l->seq_len,
	    choice(P4D_RECOMPUTE, l->recompute, recompute), choice(P4D_PRECISION, l->precision, precision),
	    choice(P4D_DEVICE, l->device, device));
}

/* Whether a default is worth reporting: it is no number of the model, and users can set the option. */
bool p4d_report_is_default(const p4d_request *request, int option)
{
	const p4d_option_info *info = p4d_request_option_info((p4d_option)option);

	/* if the framework leaves no choice, there is nothing to report */
	return request->origin[option] >= P4D_BY_SITE && !p4d_layout_lacks(request, (p4d_option)option) &&
	       (info->where & P4D_WHERE_COMMAND) && !(info->where & P4D_WHERE_MODEL) &&
	       (request->origin[option] != P4D_BY_P4D ||
		!p4d_framework_fixed_of(request, (p4d_option)option));
}

/* Whether an option is one of those that affect memory most, and that users set first. */
static bool decides(int option)
{
	static const p4d_option deciding[] = {
	    P4D_TP,         P4D_CP,         P4D_PP,        P4D_EP,        P4D_MICRO_BATCH, P4D_GLOBAL_BATCH,
	    P4D_SEQ_LEN,    P4D_RECOMPUTE,  P4D_FRAMEWORK, P4D_PRECISION, P4D_OPTIMIZER,   P4D_PARAM_DTYPE,
	    P4D_ZERO_STAGE, P4D_FP8_RECIPE, P4D_ATTENTION, P4D_LORA_RANK, P4D_NODES,       P4D_GPUS_PER_NODE};

	for (size_t i = 0; i < sizeof(deciding) / sizeof(deciding[0]); i++)
		if (option == (int)deciding[i])
			return true;
	return false;
}

void p4d_report_list(const char *title, const char *entries)
{
	puts(title);
	p4d_table_print_wrapped(2, 80, entries);
}

void p4d_report_defaults(const p4d_request *request, bool all)
{
	static const char *const who[] = {"", "", "", "the site", "the model", "p4d"};

	for (int origin = P4D_BY_SITE; origin <= P4D_BY_P4D; origin++) {
		char buf[1024], value[256];
		p4d_text text = p4d_text_in(buf, sizeof(buf));
		for (int i = 0; i < P4D_OPTIONS; i++)
			if (p4d_report_is_default(request, i) && request->origin[i] == origin &&
			    (all || origin != P4D_BY_P4D || decides(i)))
				p4d_text_entry(
				    &text, ", ", "%s=%s", p4d_request_option_info((p4d_option)i)->name,
				    p4d_request_value_text(request, (p4d_option)i, value, sizeof(value)));
		char title[64];
		snprintf(title, sizeof(title), "Chosen by %s%s:", who[origin],
			 origin == P4D_BY_P4D && !all ? " (--verbose has all)" : "");
		if (text.length)
			p4d_report_list(title, buf);
	}
}

typedef struct stage_row {
	p4d_stage memory;
	uint32_t layers;
} stage_row;

static bool same_row(const stage_row *a, const stage_row *b)
{
	return a->layers == b->layers && a->memory.phase == b->memory.phase &&
	       a->memory.allocated_bytes == b->memory.allocated_bytes &&
	       a->memory.device_bytes == b->memory.device_bytes &&
	       !memcmp(a->memory.part, b->memory.part, sizeof(a->memory.part));
}

static const char *const part_headers[P4D_PART_COUNT] = {
    [P4D_PART_PARAMS] = "params",       [P4D_PART_GRADS] = "grads",
    [P4D_PART_OPTIMIZER] = "optimizer", [P4D_PART_ACTIVATIONS] = "activations",
    [P4D_PART_LOGITS] = "logits",       [P4D_PART_WORKING_SET] = "working set",
    [P4D_PART_GRAPHS] = "graphs",       [P4D_PART_WEIGHT_GRAD] = "wgrad buf",
    [P4D_PART_ATTENTION] = "attention", [P4D_PART_STAGING] = "staging",
    [P4D_PART_LIBRARIES] = "libraries", [P4D_PART_FRAGMENTATION] = "fragment",
    [P4D_PART_CONTEXT] = "context",     [P4D_PART_COMM] = "comm",
};

static void add_row(p4d_table *table, const stage_row *row, uint32_t first, uint32_t last, const bool *shown,
		    const p4d_estimate *estimate, double safe, double limit, p4d_action most)
{
	static const p4d_color colors[] = {P4D_GREEN, P4D_YELLOW, P4D_RED};
	char size[P4D_SIZE_TEXT];

	if (first == last)
		p4d_table_cell(table, P4D_PLAIN, "%u", first);
	else
		p4d_table_cell(table, P4D_PLAIN, "%u-%u", first, last);
	p4d_table_cell(table, P4D_PLAIN, "%u", row->layers);
	for (int part = 0; part < P4D_PART_COUNT; part++)
		if (shown[part])
			p4d_table_cell(table, P4D_PLAIN, "%s", p4d_report_gib(row->memory.part[part], size));
	p4d_table_cell(table, P4D_PLAIN, "%s", p4d_report_gib(row->memory.allocated_bytes, size));
	p4d_table_cell(table, P4D_PLAIN, "%s", p4d_report_gib(row->memory.device_bytes, size));
	if (!estimate->capacity_bytes)
		return;
	double fraction = (double)row->memory.device_bytes / (double)estimate->capacity_bytes;
	p4d_action action = fraction > limit ? most : fraction > safe ? P4D_WARN : P4D_PASS;
	p4d_table_cell(table, P4D_PLAIN, "%s", p4d_report_gib(estimate->capacity_bytes, size));
	p4d_table_cell(table, P4D_PLAIN, "%.1f %%", 100 * fraction);
	p4d_table_cell(table, colors[action], "%s", p4d_report_action(action));
}

/*
 * Makes one row per stage, which the caller frees. used: the parts that are not zero in all stages. NULL: see
 * *err.
 */
static stage_row *rows_of(const p4d_layout *layout, const p4d_estimate *estimate, bool used[P4D_PART_COUNT],
			  p4d_error *err)
{
	const uint32_t stages = p4d_memory_stage_count(layout, estimate->method);
	stage_row *row = calloc(stages, sizeof(*row));

	if (!row) {
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %u stages", stages);
		return NULL;
	}
	for (uint32_t i = 0; i < stages; i++) {
		row[i].layers = layout->stage_layers[i];
		if (p4d_memory_of_estimate(layout, estimate, i, &row[i].memory, err) < 0) {
			free(row);
			return NULL;
		}
		for (int part = 0; part < P4D_PART_COUNT; part++)
			used[part] = used[part] || row[i].memory.part[part];
	}
	return row;
}

int p4d_report_stages(const p4d_layout *layout, const p4d_estimate *estimate, double safe, double limit,
		      p4d_table *table, p4d_error *err)
{
	const uint32_t stages = p4d_memory_stage_count(layout, estimate->method);
	bool used[P4D_PART_COUNT] = {false};
	stage_row *row = rows_of(layout, estimate, used, err);
	/* p4d at most warns if the layout may stay below the limit because fragmentation may be smaller */
	const p4d_action most =
	    estimate->capacity_bytes && p4d_memory_unsure(layout, estimate, limit) ? P4D_WARN : P4D_REJECT;

	if (!row)
		return -1;
	p4d_table_columns(table, {"stage", P4D_LEFT}, {"layers", P4D_RIGHT});
	for (int part = 0; part < P4D_PART_COUNT; part++)
		if (used[part])
			p4d_table_column(table, part_headers[part], P4D_RIGHT);
	p4d_table_columns(table, {"allocated", P4D_RIGHT}, {"device", P4D_RIGHT});
	if (estimate->capacity_bytes) {
		p4d_table_column(table, p4d_on_gpu(layout->device) ? "usable" : "of host", P4D_RIGHT);
		p4d_table_columns(table, {"fraction", P4D_RIGHT}, {"verdict", P4D_LEFT});
	}
	for (uint32_t first = 0, stage = 1; stage <= stages; stage++) {
		if (stage < stages && same_row(&row[first], &row[stage]))
			continue;
		add_row(table, &row[first], first, stage - 1, used, estimate, safe, limit, most);
		first = stage;
	}
	free(row);
	return 0;
}

static void print_phases(const p4d_estimate *estimate)
{
	char buf[256], size[P4D_SIZE_TEXT];
	p4d_text text = p4d_text_in(buf, sizeof(buf));

	for (int phase = 0; phase < P4D_PHASES; phase++)
		p4d_text_entry(&text, ", ", "%s %s", p4d_memory_phase_name((p4d_phase)phase),
			       p4d_report_gib(estimate->peak.phase_bytes[phase], size));
	print_line("Phases of stage %u, GiB allocated: %s", estimate->stage, buf);
}

/*
 * Prints reserved memory. The verdict does not depend on it, because PyTorch reserves less if memory is
 * short.
 */
static void print_reserved(const p4d_layout *layout, const p4d_estimate *estimate)
{
	const uint64_t reserved = p4d_memory_reserved(layout, estimate->gpu, estimate->stage, false);
	char size[P4D_SIZE_TEXT];

	if (reserved && estimate->method == P4D_METHOD_PLAN)
		print_line("PyTorch reserves about %s GiB in training if the GPU has them",
			   p4d_report_gib(reserved, size));
}

/*
 * Prints host memory that the verdict does not include, because it depends on settings that p4d does not
 * know.
 */
static void print_host_beside(const p4d_estimate *estimate)
{
	const p4d_host_beside *h = &estimate->host;
	char size[P4D_SIZE_TEXT];

	if (h->rounding)
		print_line("Host memory, if it is pinned: %s GiB more (PyTorch rounds each pinned tensor up "
			   "to a power of two)",
			   p4d_report_gib(h->rounding, size));
	if (h->loading)
		print_line("Host memory while weights load: %s GiB if each rank reads them "
			   "(with cpu_ram_efficient_loading, only one rank reads them)",
			   p4d_report_gib(h->loading, size));
	if (h->saving)
		print_line("Host memory while saving: %s GiB more on one node",
			   p4d_report_gib(h->saving, size));
}

static void print_peak(const p4d_estimate *estimate, double safe, double limit)
{
	char device[P4D_SIZE_TEXT], capacity[P4D_SIZE_TEXT], of[128] = "";

	if (estimate->capacity_bytes)
		snprintf(of, sizeof(of), " of %s (%.1f %%; safe up to %.0f %%, limit %.0f %%)",
			 p4d_report_gib(estimate->capacity_bytes, capacity), 100 * estimate->fraction,
			 100 * safe, 100 * limit);
	print_line("Peak: stage %u in phase %s, %s GiB%s", estimate->stage,
		   p4d_memory_phase_name(estimate->peak.phase),
		   p4d_report_gib(estimate->peak.device_bytes, device), of);
}

int p4d_report_memory(const p4d_layout *layout, const p4d_estimate *estimate, double safe, double limit,
		      p4d_error *err)
{
	char host[P4D_SIZE_TEXT];
	p4d_table table = {0};

	if (p4d_report_stages(layout, estimate, safe, limit, &table, err) < 0)
		return -1;
	printf("\nGiB per %s, at the peak of each stage:\n", p4d_on_gpu(layout->device) ? "GPU" : "rank");
	if (p4d_table_print(&table, true, err) < 0)
		return -1;
	putchar('\n');
	print_peak(estimate, safe, limit);
	print_phases(estimate);
	print_reserved(layout, estimate);
	print_line("Host memory per node: %s%s", p4d_report_gib(estimate->host_bytes, host),
		   estimate->host_bytes == P4D_NOT_MODELLED ? "" : " GiB");
	print_host_beside(estimate);
	return 0;
}
