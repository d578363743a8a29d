/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"

#include <ctype.h>
#include <locale.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The C locale. newlocale allocates nothing for it, because it is a shared static object. */
static locale_t plain(void)
{
	return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

const char *p4d_number_digits(const char *text, uint64_t *number)
{
	const char *at = text;
	uint64_t value = 0;

	for (; *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
			return NULL;
	if (at == text)
		return NULL;
	*number = value;
	return at;
}

bool p4d_number_whole(const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
	uint64_t value;
	const char *end = p4d_number_digits(text, &value);

	if (!end || *end || value < least || value > most)
		return false;
	*number = value;
	return true;
}

bool p4d_number_real(const char *text, double least, double most, double *number)
{
	const char *first = least < 0 && *text == '-' ? text + 1 : text;
	char *end;

	/* strtod skips blanks, and accepts infinity and NaN by name */
	if (!isdigit((unsigned char)*first) && *first != '.')
		return false;
	double value = strtod_l(text, &end, plain());
	if (end == text || *end || !(value >= least && value <= most))
		return false;
	*number = value;
	return true;
}

bool p4d_number_hex(const char *text, uint64_t *number)
{
	if (strspn(text, "0123456789abcdef") != 16 || text[16])
		return false;
	*number = strtoull(text, NULL, 16);
	return true;
}

const char *p4d_number_integer(int64_t number, char buf[P4D_NUMBER_TEXT])
{
	uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
	char *at = buf + P4D_NUMBER_TEXT;

	*--at = '\0';
	do
		*--at = (char)('0' + rest % 10);
	while (rest /= 10);
	if (number < 0)
		*--at = '-';
	return at;
}

const char *p4d_number_text(double number, int digits, char buf[P4D_NUMBER_TEXT])
{
	locale_t before = uselocale(plain());

	snprintf(buf, P4D_NUMBER_TEXT, "%.*g", digits, number);
	uselocale(before);
	return buf;
}

const char *p4d_number_exact(double number, char buf[P4D_NUMBER_TEXT])
{
	for (int digits = 15; digits < 17; digits++)
		if (strtod_l(p4d_number_text(number, digits, buf), NULL, plain()) == number)
			return buf;
	return p4d_number_text(number, 17, buf);
}

int p4d_number_order(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}
