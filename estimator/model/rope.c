/* SPDX-License-Identifier: Apache-2.0 */
#include "model/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

enum { TYPES = 3, NUMBERS = 4 };
static const struct {
	const char *name, *example;
	unsigned numbers; /* number of numbers after the name */
} types[TYPES] = {
    [P4D_ROPE_NONE] = {"none", "none", 0},
    [P4D_ROPE_LINEAR] = {"linear", "linear,2", 1},
    [P4D_ROPE_LLAMA3] = {"llama3", "llama3,8,1,4,8192", NUMBERS},
};
static const double two_pi = 6.28318530717958647692;

void p4d_rope_default(p4d_request *request)
{
	if (!p4d_is_set(request, P4D_NORM_EPSILON))
		p4d_request_put_real(request, P4D_NORM_EPSILON, 1e-5, P4D_BY_MODEL);
	if (!p4d_is_set(request, P4D_ROPE_THETA))
		p4d_request_put_real(request, P4D_ROPE_THETA, 10000, P4D_BY_MODEL);
	if (!p4d_is_set(request, P4D_ROPE_SCALING))
		p4d_request_set(request, P4D_ROPE_SCALING, "none", P4D_BY_MODEL, NULL);
}

static int find_type(const char *text, size_t length)
{
	int type = 0;

	while (type < TYPES &&
	       (strlen(types[type].name) != length || strncmp(text, types[type].name, length)))
		type++;
	return type;
}

/* Reads numbers, each after a comma. Returns how many there are; NUMBERS + 1 if malformed. */
static unsigned read_numbers(const char *at, double number[NUMBERS])
{
	unsigned count = 0;
	char word[P4D_NUMBER_TEXT];

	for (; *at == ','; at += 1 + strlen(word)) {
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(at + 1, ","), at + 1);
		if (count == NUMBERS || !p4d_number_real(word, 0, INFINITY, &number[count++]))
			return NUMBERS + 1;
	}
	return *at ? NUMBERS + 1 : count;
}

static int read_scaling(const char *text, p4d_rope *rope, p4d_error *err)
{
	const size_t length = strcspn(text, ",");
	const int type = find_type(text, length);
	double number[NUMBERS] = {1, 1, 2, 1};

	if (type == TYPES)
		return p4d_fail(
		    err, P4D_E_UNMODELLED,
		    "RoPE scaling \"%.*s\" is not supported; p4d-train has none, linear and llama3",
		    (int)length, text);
	const unsigned count = read_numbers(text + length, number);
	if (count == 0 && types[type].numbers) {
		p4d_fail(err, P4D_E_UNMODELLED,
			 "the model uses RoPE scaling %s but does not give its factors", text);
		return p4d_fix(err, "--p4d-rope-scaling=%s", types[type].example);
	}
	if (count != types[type].numbers || !(number[0] >= 1 && number[0] <= 1e6) ||
	    !(number[1] > 0 && number[1] < number[2] && number[2] <= 1e6) ||
	    !(number[3] >= 1 && number[3] <= 1e9)) {
		p4d_fail(err, P4D_E_VALUE,
			 "--p4d-rope-scaling=%s: none takes no number; linear takes a factor of at least 1; "
			 "llama3 takes such a factor, the low and the high factor (low below high), and the "
			 "original "
			 "positions",
			 text);
		return p4d_fix(err, "--p4d-rope-scaling=%s", types[type].example);
	}
	*rope = (p4d_rope){rope->theta, (p4d_rope_type)type, number[0], number[1], number[2], number[3]};
	return 0;
}

int p4d_rope_of(const p4d_request *request, p4d_rope *rope, p4d_error *err)
{
	p4d_rope read = {.theta = p4d_request_real(request, P4D_ROPE_THETA)};

	if (read_scaling(request->rope_scaling, &read, err) < 0)
		return -1;
	*rope = read;
	return 0;
}

double p4d_rope_frequency(const p4d_rope *rope, uint64_t head_dim, uint64_t pair)
{
	const double plain = pow(rope->theta, -2.0 * (double)pair / (double)head_dim);

	if (rope->type == P4D_ROPE_NONE)
		return plain;
	if (rope->type == P4D_ROPE_LINEAR)
		return plain / rope->factor;
	const double turns = rope->original * plain / two_pi;
	if (turns > rope->high)
		return plain;
	if (turns < rope->low)
		return plain / rope->factor;
	const double smooth = (turns - rope->low) / (rope->high - rope->low);
	return (1 - smooth) * plain / rope->factor + smooth * plain;
}
