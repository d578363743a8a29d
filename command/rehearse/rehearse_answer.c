/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/rehearse_answer.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/number.h"
#include "report/table.h"

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
	return verdict;
}

static void print_phases(const p4d_rehearsed *r, p4d_table *table)
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

static int print_table(const p4d_rehearse_answer *a, p4d_error *err)
{
	static const char *const columns[] = {"rank",      "step",      "phase",     "parameters",
					      "gradients", "optimizer", "allocated", "reserved (GiB)"};
	p4d_table table = {0};
	bool any = false;

	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		p4d_table_column(&table, columns[i], i == 2 ? P4D_LEFT : P4D_RIGHT);
	for (unsigned i = 0; i < a->count; i++) {
		any = any || a->rehearsed[i].phases;
		print_phases(&a->rehearsed[i], &table);
	}
	if (any)
		return p4d_table_print(&table, false, err);
	p4d_table_free(&table);
	return 0;
}

/* GPUs of the table that hold what was reserved; the smallest first. */
static void print_places(const p4d_rehearse_answer *a, const p4d_rehearsed *worst, const p4d_gpus *gpus)
{
	unsigned printed = 0;
	uint64_t last = 0;

	for (; printed < 3; printed++) {
		const p4d_gpu *least = NULL;
		for (size_t i = 0; i < gpus->count; i++) {
			const p4d_gpu *g = &gpus->gpu[i];
			if (g->sm == a->player->gpu->sm && !p4d_gpu_is_mig(g) && g->usable_bytes > last &&
			    g->usable_bytes > worst->device && g != a->player->gpu &&
			    (!least || g->usable_bytes < least->usable_bytes))
				least = g;
		}
		if (!least)
			break;
		printf("%s%s (%.0f %%)", printed ? ", " : "Also fits GPUs of this generation: ", least->name,
		       100 * p4d_to_gib(worst->device) / p4d_to_gib(least->usable_bytes));
		last = least->usable_bytes;
	}
	if (printed)
		putchar('\n');
}

static void print_rank(const p4d_rehearsed *r, const p4d_gpu *gpu)
{
	const p4d_rehearsed_phase *peak = p4d_rehearsed__peak(r);

	printf("Rank %" PRIu64 ": %.1f of %.1f GiB on the GPU (%.0f %%)", r->played.rank,
	       p4d_to_gib(r->device), p4d_to_gib(gpu->usable_bytes),
	       100 * p4d_to_gib(r->device) / p4d_to_gib(gpu->usable_bytes));
	if (peak)
		printf("; PyTorch allocated %.2f and reserved %.2f GiB, most in %s of step %" PRIu64,
		       p4d_to_gib(r->allocated), p4d_to_gib(r->reserved), peak->name, peak->step);
	printf(".\n  Host: %.1f GiB resident, %.1f pinned. %.0f s.", p4d_to_gib(r->played.resident_bytes),
	       p4d_to_gib(r->pinned), r->played.seconds);
	if (r->flops)
		printf(" Matrix products: %.3g FLOP.", (double)r->flops);
	if (r->collectives)
		printf(" NCCL: %" PRIu64 " calls, %.2f GiB.", r->collectives,
		       p4d_to_gib(r->collective_bytes));
	putchar('\n');
	for (unsigned i = 0; i < r->doubts_count; i++)
		printf("  Note: %s.\n", r->doubts[i]);
	for (unsigned i = 0; i < r->missing_count; i++)
		printf("  Not played: %s.\n", r->missing[i]);
}

int p4d_rehearse__print(const p4d_rehearse_answer *a, p4d_error *err)
{
	const p4d_rehearsed *worst;
	char reason[P4D_REHEARSE_REASON];
	p4d_rehearsed_verdict verdict = p4d_rehearse__judge(a, &worst, reason);

	printf("Verdict: %s%s%s on %" PRIu64 " x %s\n\n", p4d_rehearsed__verdict_name(verdict),
	       *reason ? ": " : "", reason, a->player->nodes * a->player->gpus_per_node,
	       a->player->gpu->name);
	for (unsigned i = 0; i < a->count; i++)
		print_rank(&a->rehearsed[i], a->player->gpu);
	putchar('\n');
	if (print_table(a, err))
		return -1;
	if (verdict <= P4D_REHEARSED_WARN)
		print_places(a, worst, a->gpus);
	return p4d_rehearse__status(verdict);
}

int p4d_rehearse__status(p4d_rehearsed_verdict verdict)
{
	return verdict == P4D_REHEARSED_REJECT       ? P4D_E_DOES_NOT_FIT
	       : verdict == P4D_REHEARSED_INCOMPLETE ? P4D_E_UNMODELLED
						     : 0;
}
