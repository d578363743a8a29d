/* SPDX-License-Identifier: Apache-2.0 */
#include "template/utf8.h"

size_t p4d_template__character(const char *at, size_t length, uint32_t *code)
{
	const unsigned char first = length ? (unsigned char)*at : 0;
	const size_t bytes = !length ? 0 : first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

	*code = bytes > 1 ? first & (0x7fU >> bytes) : first;
	for (size_t i = 1; i < bytes; i++) {
		if (i == length || ((unsigned char)at[i] & 0xc0) != 0x80) {
			*code = first;
			return 1;
		}
		*code = *code << 6 | ((unsigned char)at[i] & 0x3f);
	}
	return bytes;
}

size_t p4d_template__characters(p4d_string text)
{
	size_t count = 0;
	uint32_t code;

	for (size_t at = 0; at < text.length; count++)
		at += p4d_template__character(text.at + at, text.length - at, &code);
	return count;
}

size_t p4d_template__place(p4d_string text, size_t character)
{
	size_t at = 0;
	uint32_t code;

	for (; character && at < text.length; character--)
		at += p4d_template__character(text.at + at, text.length - at, &code);
	return at;
}

bool p4d_template__is_ascii(p4d_string text)
{
	for (size_t i = 0; i < text.length; i++)
		if ((unsigned char)text.at[i] >= 0x80)
			return false;
	return true;
}

bool p4d_template__is_space(uint32_t code)
{
	return (code >= '\t' && code <= '\r') || (code >= 0x1c && code <= ' ') || code == 0x85 ||
	       code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
	       code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

size_t p4d_template__leading_space(p4d_string text)
{
	size_t at = 0, bytes;
	uint32_t code;

	while ((bytes = p4d_template__character(text.at + at, text.length - at, &code)) != 0 &&
	       p4d_template__is_space(code))
		at += bytes;
	return at;
}

size_t p4d_template__trailing_space(p4d_string text)
{
	size_t end = text.length;
	uint32_t code;

	while (end) {
		size_t before = end - 1;
		while (before && end - before < 4 && ((unsigned char)text.at[before] & 0xc0) == 0x80)
			before--;
		if (p4d_template__character(text.at + before, end - before, &code) != end - before ||
		    !p4d_template__is_space(code))
			break;
		end = before;
	}
	return text.length - end;
}
