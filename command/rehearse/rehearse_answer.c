/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/rehearse_answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "rehearse/rehearse_step.h"
#include "report/report.h"
#include "report/table.h"

enum { ROWS = 8 };

/* Number of an engine's processes in addition to the program's own process. */
static uint64_t workers_beside(const p4d_rehearsed *r)
{
	const p4d_rehearsed_serving *s = &r->serving;

	if (!p4d_rehearsed_serving__is_answer(s) || !s->workers)
		return 0;
	return s->workers - (s->pid == (uint64_t)r->played.pid);
}

static uint64_t host_of(const p4d_rehearsed *r)
{
	return r->played.resident_bytes + r->copied + r->pinned +
	       workers_beside(r) * r->serving.worker_resident;
}

uint64_t p4d_rehearse__node_host(const p4d_rehearse_answer *a)
{
	const uint64_t ranks = a->player->ranks_per_node;
	uint64_t most = 0;

	for (unsigned i = 0; i < a->count; i++)
		if (host_of(&a->rehearsed[i]) > most)
			most = host_of(&a->rehearsed[i]);
	return most + (ranks - 1) * host_of(&a->rehearsed[a->count - 1]);
}

p4d_rehearsed_verdict p4d_rehearse__judge(const p4d_rehearse_answer *a, const p4d_rehearsed **worst,
					  char reason[P4D_REHEARSE_REASON])
{
	p4d_rehearsed_verdict verdict = P4D_REHEARSED_PASS;
	char text[P4D_REHEARSE_REASON];

	*worst = &a->rehearsed[0];
	for (unsigned i = 0; i < a->count; i++) {
		p4d_rehearsed_verdict v =
		    p4d_rehearsed__judge(&a->rehearsed[i], a->player->gpu, text, sizeof(text));
		bool is_fuller = v == verdict && a->rehearsed[i].device > (*worst)->device;
		if (v > verdict || is_fuller || !i) {
			verdict = v;
			*worst = &a->rehearsed[i];
			snprintf(reason, P4D_REHEARSE_REASON, "%s", text);
		}
	}
	const uint64_t host = p4d_rehearse__node_host(a);
	if (verdict == P4D_REHEARSED_PASS && a->host_bytes && host > a->host_bytes) {
		verdict = P4D_REHEARSED_WARN;
		snprintf(reason, P4D_REHEARSE_REASON,
			 "the ranks of a node need %.1f GiB of host memory, but the job has %.1f GiB",
			 p4d_to_gib(host), p4d_to_gib(a->host_bytes));
	}
	return verdict;
}

/* ---- The verdict ---- */

static double share(uint64_t bytes, uint64_t of)
{
	return 100 * p4d_to_gib(bytes) / p4d_to_gib(of);
}

/* Prints how much memory a rank lacked that ran out of memory. */
static void print_excess(const p4d_rehearse_answer *a, const p4d_rehearsed *worst)
{
	const p4d_rehearsed *roomy = &a->fits->roomy;
	const uint64_t usable = a->player->gpu->usable_bytes;

	if (roomy->text && !roomy->played.status && p4d_rehearsed__limits_itself(worst))
		printf("With a higher limit PyTorch would reserve %.2f GiB.\n", p4d_to_gib(roomy->reserved));
	if (!roomy->text || roomy->played.status || roomy->device <= usable)
		return;
	const uint64_t least = p4d_rehearse_fits__least(roomy);
	printf("On a GPU with enough memory the program would use %.1f GiB, %.1f GiB more than this GPU has",
	       p4d_to_gib(roomy->device), p4d_to_gib(roomy->device - usable));
	if (least < usable)
		printf("; tensors would take only %.1f GiB of this, so little memory is missing",
		       p4d_to_gib(least));
	puts(".");
}

static void print_verdict(const p4d_rehearse_answer *a, p4d_rehearsed_verdict verdict,
			  const p4d_rehearsed *worst, const char *reason)
{
	const p4d_gpu *gpu = a->player->gpu;
	const uint64_t workers = worst->serving.external ? 1 : worst->serving.workers,
		       gpus = p4d_player__world(a->player) * (workers ? workers : 1);

	printf("Verdict: %s", p4d_rehearsed__verdict_name(verdict));
	if (verdict <= P4D_REHEARSED_WARN)
		printf(": %.1f of %.1f GiB (%.0f %%)", p4d_to_gib(worst->device),
		       p4d_to_gib(gpu->usable_bytes), share(worst->device, gpu->usable_bytes));
	printf(" on %" PRIu64 " x %s%s%s\n", gpus, gpu->name, *reason ? ": " : "", reason);
	print_excess(a, worst);
}

/* ---- A rank ---- */

static void print_peak(const p4d_rehearsed *r, const p4d_gpu *gpu)
{
	const p4d_rehearsed_phase *peak = p4d_rehearsed__peak(r);

	printf("Rank %" PRIu64 ": ", r->played.rank);
	if (r->device || !peak) /* if a program was killed, the memory outside PyTorch is unknown */
		printf("%.1f of %.1f GiB on the GPU (%.0f %%)%s", p4d_to_gib(r->device),
		       p4d_to_gib(gpu->usable_bytes), share(r->device, gpu->usable_bytes), peak ? "; " : "");
	if (peak)
		printf("PyTorch allocated %.2f and reserved %.2f GiB, most in %s of step %" PRIu64,
		       p4d_to_gib(r->allocated), p4d_to_gib(r->reserved), peak->name, peak->step);
	puts(".");
}

/* Prints the places in the program that read values which only a GPU computes. */
static void print_reads(const p4d_rehearsed *r)
{
	for (unsigned i = 0; i < r->read_count && i < ROWS; i++)
		printf("  Note: the program read a value that only a GPU computes at %s (%s, %" PRIu64
		       " time%s).\n",
		       r->read[i].place, r->read[i].name, r->read[i].count, r->read[i].count > 1 ? "s" : "");
	if (r->unknown_reads > ROWS)
		printf("  Note: it also read such values at %" PRIu64 " other places.\n",
		       r->unknown_reads - ROWS);
}

static void print_notes(const p4d_rehearsed *r)
{
	print_reads(r);
	for (unsigned i = 0; i < r->unseen_count; i++)
		printf("  Note: the program did not %s.\n",
		       strcmp(r->unseen[i], "eval") ? "save" : "evaluate");
	for (unsigned i = 0; i < r->doubts_count; i++)
		printf("  Note: %s.\n", r->doubts[i]);
	for (unsigned i = 0; i < r->missing_count; i++)
		printf("  Not included: %s.\n", r->missing[i]);
}

/* Prints what the GPU's memory contains at the peak of allocated memory. */
static int print_largest(const p4d_rehearsed *r, p4d_error *err)
{
	p4d_table table = {0};
	uint64_t rest = r->allocated;
	char what[160];

	if (!r->largest_count)
		return 0;
	p4d_table_columns(&table, {"largest at the peak", P4D_LEFT}, {"GiB", P4D_RIGHT});
	for (unsigned i = 0; i < r->largest_count && i < ROWS && 200 * r->largest[i].bytes > r->allocated;
	     i++) {
		const p4d_rehearsed_largest *l = &r->largest[i];
		snprintf(what, sizeof(what), "%.20s%s%.120s", l->kind, l->module ? " of " : "",
			 l->module ? l->module : "");
		p4d_table_cell(&table, P4D_PLAIN, "%s", what);
		p4d_table_cell(&table, P4D_PLAIN, "%.2f", p4d_to_gib(l->bytes));
		rest -= l->bytes < rest ? l->bytes : rest;
	}
	p4d_table_cell(&table, P4D_PLAIN, "all else");
	p4d_table_cell(&table, P4D_PLAIN, "%.2f", p4d_to_gib(rest));
	return p4d_table_print(&table, false, err);
}

static void add_phases(const p4d_rehearsed *r, p4d_table *table)
{
	for (unsigned i = 0; i < r->phases; i++) {
		const p4d_rehearsed_phase *p = &r->phase[i];
		p4d_table_cell(table, P4D_PLAIN, "%" PRIu64, r->played.rank);
		p4d_table_cell(table, P4D_PLAIN, "%" PRIu64, p->step);
		p4d_table_cell(table, P4D_PLAIN, "%s", p->name);
		const uint64_t bytes[] = {p->parameters, p->gradients, p->optimizer, p->allocated,
					  p->reserved};
		for (size_t k = 0; k < sizeof(bytes) / sizeof(bytes[0]); k++)
			p4d_table_cell(table, P4D_PLAIN, "%.2f", p4d_to_gib(bytes[k]));
	}
}

static int print_phases(const p4d_rehearse_answer *a, p4d_error *err)
{
	static const char *const columns[] = {"rank",      "step",      "phase",     "parameters",
					      "gradients", "optimizer", "allocated", "reserved (GiB)"};
	p4d_table table = {0};
	bool any = false;

	for (unsigned i = 0; i < a->count; i++)
		any = any || a->rehearsed[i].phases;
	if (!any)
		return 0;
	putchar('\n');
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		p4d_table_column(&table, columns[i], i == 2 ? P4D_LEFT : P4D_RIGHT);
	for (unsigned i = 0; i < a->count; i++)
		add_phases(&a->rehearsed[i], &table);
	return p4d_table_print(&table, false, err);
}

/* ---- The job ---- */

static void print_host(const p4d_rehearse_answer *a, const p4d_rehearsed *worst)
{
	const uint64_t node = p4d_rehearse__node_host(a);

	printf("Host:  %.1f GiB per rank (%.1f resident, %.1f pinned, %.1f copied from the GPU)",
	       p4d_to_gib(host_of(worst)), p4d_to_gib(worst->played.resident_bytes),
	       p4d_to_gib(worst->pinned), p4d_to_gib(worst->copied));
	if (a->player->ranks_per_node > 1)
		printf(", %.1f GiB for a node", p4d_to_gib(node));
	if (a->host_bytes)
		printf("; the job has %.1f GiB%s", p4d_to_gib(a->host_bytes),
		       node > a->host_bytes ? ": too little" : "");
	puts(".");
}

static void print_estimate(const p4d_rehearse_answer *a, const p4d_rehearsed *worst)
{
	const p4d_rehearsed *r = a->fits->roomy.text ? &a->fits->roomy : worst;

	const p4d_rehearse_estimate *e = &a->estimate;
	char seconds[P4D_SIZE_TEXT];

	if (e->device_bytes && r->device)
		printf("p4d estimates %.1f GiB from the command line (%+.1f %%)%s%s.\n",
		       p4d_to_gib(e->device_bytes), share(e->device_bytes, r->device) - 100,
		       e->seconds > 0 ? ", and a step of " : "",
		       e->seconds > 0 ? p4d_report_seconds(e->seconds, seconds) : "");
	if (e->cache_bytes && r->serving.cache)
		printf("p4d estimates a KV cache of %.2f GiB from the command line (%+.1f %%), %" PRIu64
		       " tokens.\n",
		       p4d_to_gib(e->cache_bytes), share(e->cache_bytes, r->serving.cache) - 100,
		       e->cache_tokens);
}

static void print_fits(const p4d_rehearse_answer *a, p4d_rehearse_fit_state state, const char *title)
{
	const char *before = title;

	for (unsigned i = 0; i < a->fits->count; i++) {
		const p4d_rehearse_fit *fit = &a->fits->fit[i];
		if (fit->state != state)
			continue;
		printf("%s%s", before, fit->gpu->name);
		if (state == P4D_REHEARSE_FITS)
			printf(" (%.0f %%%s%s)", share(fit->device, fit->gpu->usable_bytes),
			       *fit->partitions ? "; -p " : "", fit->partitions);
		before = ", ";
	}
	if (before != title)
		puts(state == P4D_REHEARSE_FITS_PERHAPS ? "; rehearse with --gpu." : ".");
}

static int print_micro_batch(const p4d_rehearse_answer *a, p4d_error *err)
{
	const p4d_micro_batch *m = a->micro_batch;
	p4d_table table = {0};

	if (!m->option || !m->tries)
		return 0;
	putchar('\n');
	p4d_table_column(&table, m->option, P4D_RIGHT);
	p4d_table_columns(&table, {"GiB", P4D_RIGHT}, {"of the GPU", P4D_RIGHT});
	for (unsigned i = 0; i < m->tries; i++) {
		const p4d_micro_batch_try *t = &m->tried[i];
		p4d_table_cell(&table, P4D_PLAIN, "%" PRIu64, t->value);
		p4d_table_cell(&table, P4D_PLAIN, t->fits ? "%.1f" : "-", p4d_to_gib(t->device));
		if (t->fits)
			p4d_table_cell(&table, P4D_PLAIN, "%.0f %%",
				       share(t->device, a->player->gpu->usable_bytes));
		else
			p4d_table_cell(&table, P4D_PLAIN, "does not fit");
	}
	if (p4d_table_print(&table, false, err))
		return -1;
	if (m->largest)
		printf("Largest that fits: %s%s %" PRIu64 ".\n", m->sure ? "" : "at least ", m->option,
		       m->largest);
	else
		printf("None of these fits.\n");
	return 0;
}

int p4d_rehearse__print(const p4d_rehearse_answer *a, p4d_error *err)
{
	const p4d_rehearsed *worst;
	char reason[P4D_REHEARSE_REASON];
	p4d_rehearsed_verdict verdict = p4d_rehearse__judge(a, &worst, reason);

	print_verdict(a, verdict, worst, reason);
	putchar('\n');
	for (unsigned i = 0; i < a->count; i++) {
		print_peak(&a->rehearsed[i], a->player->gpu);
		print_notes(&a->rehearsed[i]);
	}
	p4d_rehearsed_serving__print(&worst->serving);
	if (worst->largest_count)
		putchar('\n');
	if (print_largest(worst, err) || print_phases(a, err))
		return -1;
	putchar('\n');
	print_host(a, worst);
	p4d_rehearse_step__print(a, worst);
	print_estimate(a, worst);
	print_fits(a, P4D_REHEARSE_FITS, "Fits:  ");
	print_fits(a, P4D_REHEARSE_FITS_PERHAPS, "May fit:  ");
	print_fits(a, P4D_REHEARSE_FITS_NOT, "Does not fit:  ");
	if (print_micro_batch(a, err))
		return -1;
	return p4d_rehearse__status(verdict);
}

int p4d_rehearse__status(p4d_rehearsed_verdict verdict)
{
	return verdict == P4D_REHEARSED_REJECT       ? P4D_E_DOES_NOT_FIT
	       : verdict == P4D_REHEARSED_INCOMPLETE ? P4D_E_UNMODELLED
						     : 0;
}
