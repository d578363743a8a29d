/* SPDX-License-Identifier: Apache-2.0 */
/* JSON values from text: strict, as p4d asks json-c to be. */
#include "json-c/json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct json_tokener {
	const char *text;
	size_t at, length;
	int depth;
	enum json_tokener_error error;
};

static const char *const descriptions[] = {
    "success",          "continue",
    "nesting too deep", "unexpected character",
    "number expected",  "invalid string sequence",
    "out of memory",
};

struct json_tokener *json_tokener_new_ex(int depth)
{
	struct json_tokener *tokener = calloc(1, sizeof(*tokener));

	if (tokener)
		tokener->depth = depth;
	return tokener;
}

void json_tokener_free(struct json_tokener *tokener)
{
	free(tokener);
}

/* This parser is always strict. */
void json_tokener_set_flags(struct json_tokener *tokener, int flags)
{
	(void)tokener;
	(void)flags;
}

enum json_tokener_error json_tokener_get_error(struct json_tokener *tokener)
{
	return tokener->error;
}

size_t json_tokener_get_parse_end(struct json_tokener *tokener)
{
	return tokener->at;
}

const char *json_tokener_error_desc(enum json_tokener_error error)
{
	return descriptions[error];
}

static bool fail(struct json_tokener *t, enum json_tokener_error error)
{
	if (t->error == json_tokener_success)
		t->error = error;
	return false;
}

/* Fails, because the text ends here or has the wrong character here. */
static bool unexpected(struct json_tokener *t)
{
	return fail(t, t->at < t->length ? json_tokener_error_parse_unexpected : json_tokener_continue);
}

static char next(struct json_tokener *t)
{
	while (t->at < t->length && strchr(" \t\r\n", t->text[t->at]))
		t->at++;
	return t->at < t->length ? t->text[t->at] : '\0';
}

static bool take(struct json_tokener *t, char wanted)
{
	if (next(t) != wanted)
		return false;
	t->at++;
	return true;
}

static bool take_word(struct json_tokener *t, const char *word)
{
	const size_t length = strlen(word);

	if (t->length - t->at < length || strncmp(t->text + t->at, word, length) != 0)
		return false;
	t->at += length;
	return true;
}

/* The four digits of \uXXXX; -1: there are none. */
static long take_unit(struct json_tokener *t)
{
	long unit = 0;

	for (int i = 0; i < 4; i++, t->at++) {
		const int digit = t->at < t->length ? tolower((unsigned char)t->text[t->at]) : 0;
		if (!isxdigit(digit))
			return -1;
		unit = 16 * unit + (isdigit(digit) ? digit - '0' : digit - 'a' + 10);
	}
	return unit;
}

/* Writes the UTF-8 of a character; returns its bytes. */
static size_t put_utf8(char *to, long code)
{
	const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
	static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};

	to[0] = (char)(lead[more] | code >> 6 * more);
	for (int i = 1; i <= more; i++)
		to[i] = (char)(0x80 | (code >> 6 * (more - i) & 0x3f));
	return (size_t)more + 1;
}

/* What follows "\u". Half a pair of surrogates becomes U+FFFD, as in json-c. */
static bool take_unicode(struct json_tokener *t, char **to)
{
	long code = take_unit(t);

	if (code >= 0xd800 && code < 0xdc00) {
		const size_t after = t->at;
		const long low = take_word(t, "\\u") ? take_unit(t) : -1;
		const bool paired = low >= 0xdc00 && low < 0xe000;
		code = paired ? 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff)) : 0xfffd;
		t->at = paired ? t->at : after;
	} else if (code >= 0xdc00 && code < 0xe000) {
		code = 0xfffd;
	}
	if (code < 0)
		return fail(t, t->at < t->length ? json_tokener_error_parse_string : json_tokener_continue);
	*to += put_utf8(*to, code);
	return true;
}

static bool take_escape(struct json_tokener *t, char **to)
{
	static const char letters[] = "bnrtf\"\\/", plain[] = "\b\n\r\t\f\"\\/";
	const char letter = t->at < t->length ? t->text[t->at++] : '\0';
	const char *at = letter ? strchr(letters, letter) : NULL;

	if (letter == 'u')
		return take_unicode(t, to);
	if (!at)
		return fail(t, letter ? json_tokener_error_parse_string : json_tokener_continue);
	*(*to)++ = plain[at - letters];
	return true;
}

/* A string from its opening quote on; the caller frees it. Escapes are never shorter than the characters that
 * they stand for. */
static char *take_string(struct json_tokener *t, size_t *length)
{
	char *text = malloc(t->length - t->at + 1), *to = text;
	bool good = text || fail(t, json_tokener_error_memory);

	for (t->at++; good && t->at < t->length && t->text[t->at] != '"';) {
		const char character = t->text[t->at++];
		if (character == '\\')
			good = take_escape(t, &to);
		else if ((unsigned char)character < ' ')
			good = fail(t, json_tokener_error_parse_string);
		else
			*to++ = character;
	}
	if (good && t->at >= t->length)
		good = fail(t, json_tokener_continue);
	t->at++;
	if (good) {
		*to = '\0';
		*length = (size_t)(to - text);
		return text;
	}
	free(text);
	return NULL;
}

static struct json_object *string(struct json_tokener *t)
{
	size_t length;
	char *text = take_string(t, &length);
	struct json_object *object = text ? json_object_new_string_len(text, (int)length) : NULL;

	free(text);
	if (!object)
		fail(t, json_tokener_error_memory);
	return object;
}

/* Whether the digits are a number of JSON: no leading zero or plus, digits on both sides of a point. */
static bool is_number(const char *text, bool *whole)
{
	text += *text == '-';
	if (!isdigit((unsigned char)*text))
		return false;
	text += *text == '0' ? 1 : strspn(text, "0123456789");
	*whole = !*text;
	if (*text == '.') {
		const size_t digits = strspn(++text, "0123456789");
		if (!digits)
			return false;
		text += digits;
	}
	if (*text == 'e' || *text == 'E') {
		text += 1 + (text[1] == '+' || text[1] == '-');
		const size_t digits = strspn(text, "0123456789");
		if (!digits)
			return false;
		text += digits;
	}
	return !*text;
}

static struct json_object *from_digits(struct json_tokener *t, const char *digits)
{
	bool whole;

	if (!is_number(digits, &whole)) {
		fail(t, json_tokener_error_parse_number);
		return NULL;
	}
	if (!whole)
		return json_object_new_double_s(strtod(digits, NULL), digits);
	errno = 0;
	struct json_object *object = *digits == '-' ? json_object_new_int64(strtoll(digits, NULL, 10))
						    : json_object_new_uint64(strtoull(digits, NULL, 10));
	if (errno == ERANGE)
		fail(t, json_tokener_error_parse_number);
	return object;
}

static struct json_object *number(struct json_tokener *t)
{
	char digits[512];
	size_t length = 0;

	while (t->at + length < t->length && strchr("+-.0123456789eE", t->text[t->at + length]))
		length++;
	if (!length || length >= sizeof(digits)) {
		fail(t, length ? json_tokener_error_parse_number : json_tokener_error_parse_unexpected);
		return NULL;
	}
	memcpy(digits, t->text + t->at, length);
	digits[length] = '\0';
	struct json_object *object = from_digits(t, digits);
	t->at += t->error == json_tokener_success ? length : 0;
	return object;
}

static struct json_object *value(struct json_tokener *t, int depth);

static bool take_member(struct json_tokener *t, struct json_object *object, int depth)
{
	size_t length;
	char *key = next(t) == '"' ? take_string(t, &length) : NULL;

	if (!key || !take(t, ':')) {
		free(key);
		return unexpected(t);
	}
	struct json_object *member = value(t, depth);
	if (t->error != json_tokener_success)
		json_object_put(member);
	else if (json_object_object_add(object, key, member) < 0)
		fail(t, json_tokener_error_memory);
	free(key);
	return t->error == json_tokener_success;
}

static bool take_entry(struct json_tokener *t, struct json_object *array, int depth)
{
	struct json_object *entry = value(t, depth);

	if (t->error != json_tokener_success)
		json_object_put(entry);
	else if (json_object_array_add(array, entry) < 0)
		fail(t, json_tokener_error_memory);
	return t->error == json_tokener_success;
}

/* An object or array, from its bracket on. */
static struct json_object *container(struct json_tokener *t, char close, int depth)
{
	const bool is_object = close == '}';
	struct json_object *object = is_object ? json_object_new_object() : json_object_new_array();

	t->at++;
	if (!object)
		fail(t, json_tokener_error_memory);
	else if (depth <= 0)
		fail(t, json_tokener_error_depth);
	else if (take(t, close))
		return object;
	while (t->error == json_tokener_success) {
		if (!(is_object ? take_member : take_entry)(t, object, depth - 1) || take(t, close))
			break;
		if (!take(t, ','))
			unexpected(t);
	}
	return object;
}

/* NULL is "null" as well as an error; t->error distinguishes them. */
static struct json_object *value(struct json_tokener *t, int depth)
{
	const char first = next(t);

	if (first == '{' || first == '[')
		return container(t, first == '{' ? '}' : ']', depth - 1);
	if (first == '"')
		return string(t);
	if (take_word(t, "null"))
		return NULL;
	if (take_word(t, "true"))
		return json_object_new_boolean(1);
	if (take_word(t, "false"))
		return json_object_new_boolean(0);
	if (take_word(t, "NaN"))
		return json_object_new_double_s((double)NAN, "NaN");
	if (take_word(t, "Infinity"))
		return json_object_new_double_s((double)INFINITY, "Infinity");
	if (take_word(t, "-Infinity"))
		return json_object_new_double_s(-(double)INFINITY, "-Infinity");
	if (first)
		return number(t);
	unexpected(t);
	return NULL;
}

struct json_object *json_tokener_parse_ex(struct json_tokener *tokener, const char *text, int length)
{
	tokener->text = text;
	tokener->length = (size_t)length;
	tokener->at = 0;
	tokener->error = json_tokener_success;
	struct json_object *object = value(tokener, tokener->depth);
	if (tokener->error == json_tokener_success && next(tokener))
		unexpected(tokener);
	if (tokener->error == json_tokener_success)
		return object;
	json_object_put(object);
	return NULL;
}
