/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of each slice of a sequence (--token-slices), and which options can be combined with slices. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "request/fp8.h"
#include "request/framework.h"
#include "request/layout_internal.h"

/* By default, tokens of a slice are multiples of USUAL_UNIT, the size of tiles in matmuls and attention. */
enum { USUAL_UNIT = 128, TP_PARTS = 2 };

/* Returns the number of which all lengths of slices must be multiples. */
static uint64_t slice_unit(const p4d_layout *l)
{
	const uint64_t shards = l->sequence_parallel ? l->tp : 1, parts = l->tp_comm_overlap ? TP_PARTS : 1;
	const uint64_t codes = l->precision == P4D_FP8 ? p4d_fp8_recipes[l->fp8_recipe].multiple : 1;
	const uint64_t unit = shards * parts;

	/* all these numbers are powers of two, except tp, which is a power of two in practice */
	return !codes || unit % codes == 0 ? unit : codes % unit == 0 ? codes : unit * codes;
}

uint64_t p4d_layout_slice_step(const p4d_layout *l)
{
	const uint64_t least = slice_unit(l);
	uint64_t step = USUAL_UNIT % least == 0 ? USUAL_UNIT : least;

	while (step > least && (l->seq_len % step || l->seq_len / step < l->slices))
		step = step / 2 % least == 0 ? step / 2 : least;
	return step;
}

void p4d_layout_set_slices(p4d_layout *l, const uint32_t *lengths)
{
	l->slice_len = 0;
	for (uint64_t i = 0; i < l->slices; i++) {
		l->slice_tokens[i] = lengths[i];
		l->slice_len = lengths[i] > l->slice_len ? lengths[i] : l->slice_len;
	}
}

/*
 * Fills lengths that are as equal as the step allows. The first slices get one step more, because they attend
 * to fewer tokens.
 */
static void equal(const p4d_layout *l, uint32_t *lengths)
{
	const uint64_t step = p4d_layout_slice_step(l), steps = l->seq_len / step;
	const uint64_t each = steps / l->slices, more = steps % l->slices;

	for (uint64_t i = 0; i < l->slices; i++)
		lengths[i] = (uint32_t)((each + (i < more)) * step);
}

const char *p4d_layout_slices_text(const uint32_t *lengths, uint64_t slices, char *buf, size_t size)
{
	p4d_text text = p4d_text_in(buf, size);

	for (uint64_t i = 0; i < slices; i++)
		p4d_text_entry(&text, ",", "%" PRIu32, lengths[i]);
	return buf;
}

/* Reads lengths and returns their number; 0: malformed, or too many. */
static uint64_t read_lengths(const char *text, uint32_t lengths[P4D_MAX_SLICES])
{
	return p4d_layout__numbers(text, UINT32_MAX, P4D_MAX_SLICES, false, lengths);
}

static bool fits(const p4d_layout *l, const uint32_t *lengths, uint64_t count)
{
	uint64_t total = 0;

	for (uint64_t i = 0; i < count; i++) {
		total += lengths[i];
		if (lengths[i] % slice_unit(l))
			return false;
	}
	return count == l->slices && total == l->seq_len;
}

static int take_lengths(const p4d_request *r, p4d_layout *l, p4d_error *err)
{
	uint32_t lengths[P4D_MAX_SLICES] = {0};
	char text[sizeof(r->slice_lengths)];

	if (!p4d_is_set(r, P4D_SLICE_LENGTHS)) {
		equal(l, lengths);
	} else if (!fits(l, lengths, read_lengths(r->slice_lengths, lengths))) {
		p4d_fail(err, P4D_E_SEQUENCE,
			 "slice-lengths=%.80s must be token-slices=%" PRIu64
			 " numbers that add up to seq-len=%" PRIu64 ", each a multiple of %" PRIu64,
			 r->slice_lengths, l->slices, l->seq_len, slice_unit(l));
		equal(l, lengths);
		return p4d_fix(err, "--p4d-slice-lengths=%s",
			       p4d_layout_slices_text(lengths, l->slices, text, sizeof(text)));
	}
	p4d_layout_set_slices(l, lengths);
	return 0;
}

static int check_count(const p4d_layout *l, p4d_error *err)
{
	const uint64_t unit = slice_unit(l), most = l->seq_len / unit;

	if (l->slices <= most && l->seq_len % unit == 0)
		return 0;
	if (l->seq_len % unit) {
		p4d_fail(err, P4D_E_SEQUENCE,
			 "token-slices=%" PRIu64 ": a slice has a multiple of %" PRIu64
			 " tokens here, which seq-len=%" PRIu64 " is not",
			 l->slices, unit, l->seq_len);
		return p4d_fix(err, "--p4d-seq-len=%" PRIu64, most ? most * unit : unit);
	}
	p4d_fail(err, P4D_E_SEQUENCE,
		 "token-slices=%" PRIu64 ": a sequence of %" PRIu64 " tokens has at most %" PRIu64
		 " slices of %" PRIu64,
		 l->slices, l->seq_len, most, unit);
	return p4d_fix(err, "--p4d-token-slices=%" PRIu64, most);
}

/* Checks the schedule: slices run only in the orders of TeraPipe (gpipe) and Seq1F1B (1f1b). */
static int check_company(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	char name[24];

	if (!p4d_schedule_kinds[l->schedule]->slices) {
		p4d_fail(err, P4D_E_SCHEDULE,
			 "token-slices=%" PRIu64 " needs schedule=1f1b or gpipe, not schedule=%s", l->slices,
			 p4d_request_value_text(r, P4D_SCHEDULE, name, sizeof(name)));
		return p4d_fix(err, "--p4d-schedule=1f1b --p4d-vpp=1");
	}
	if (l->vocab_parallel != P4D_VOCAB_OFF) {
		p4d_fail(err, P4D_E_VALUE,
			 "token-slices=%" PRIu64
			 " cannot be combined with vocab-parallel=%s, whose passes take whole micro-batches",
			 l->slices, p4d_request_value_text(r, P4D_VOCAB_PARALLEL, name, sizeof(name)));
		return p4d_fix(err, "--p4d-vocab-parallel=off");
	}
	if (l->cp > 1) {
		p4d_fail(err, P4D_E_VALUE,
			 "token-slices=%" PRIu64 " cannot be combined with cp=%" PRIu64
			 ": both split the sequence",
			 l->slices, l->cp);
		return p4d_fix(err, "--p4d-cp=1");
	}
	return 0;
}

/*
 * Checks a request with one slice, the whole sequence. Its length may be given, because a command line cannot
 * unset an option.
 */
static int check_whole(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	uint32_t lengths[P4D_MAX_SLICES];

	if (!p4d_is_stated(r, P4D_SLICE_LENGTHS))
		return 0;
	const uint64_t count = read_lengths(r->slice_lengths, lengths);
	if (count == 1 && lengths[0] == l->seq_len)
		return 0;
	p4d_fail(err, P4D_E_SEQUENCE, "slice-lengths=%.80s has no effect with token-slices=1",
		 r->slice_lengths);
	if (!p4d_framework_has(r, P4D_TOKEN_SLICES))
		return p4d_fix(err, "leave out --p4d-slice-lengths");
	return count > 1 ? p4d_fix(err, "--p4d-token-slices=%" PRIu64, count)
			 : p4d_fix(err, "--p4d-slice-lengths=%" PRIu64, l->seq_len);
}

int p4d_layout__slices(const p4d_request *r, p4d_layout *l, p4d_error *err)
{
	l->slice_begin = 0;
	l->slice_len = l->seq_len;
	if (l->slices == 1)
		return check_whole(r, l, err);
	return check_company(r, l, err) < 0 || check_count(l, err) < 0 ? -1 : take_lengths(r, l, err);
}
