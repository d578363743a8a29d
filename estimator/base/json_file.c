/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_file.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { MAX_LEVELS = 32 };

char *p4d_text_read(const char *path, size_t max_bytes, size_t *length, p4d_error *err)
{
	struct stat status;
	const int fd = p4d_file_open(path);
	const bool known = fd >= 0 && fstat(fd, &status) == 0, regular = known && S_ISREG(status.st_mode);
	char *text = regular ? p4d_file_read(fd, max_bytes, length) : NULL;

	if (known && !regular)
		p4d_fail(err, P4D_E_IO, "%.255s: not a regular file", path);
	else if (!text && errno == EFBIG)
		p4d_fail(err, P4D_E_IO, "%.255s: larger than %zu bytes", path, max_bytes);
	else if (!text && errno == ENOMEM)
		p4d_fail(err, P4D_E_NO_MEMORY, "%.255s: no memory to read it", path);
	else if (!text)
		p4d_fail(err, P4D_E_IO, "%.255s: cannot be read: %m", path);
	if (fd >= 0)
		close(fd);
	return text;
}

struct json_object *p4d_json_read(const char *path, size_t max_bytes, p4d_error *err)
{
	size_t length;
	char *text = p4d_text_read(path, max_bytes, &length, err);

	if (!text)
		return NULL;
	struct json_object *object = p4d_json_parse(text, length, path, err);
	free(text);
	return object;
}

/* Number of members of all objects in a tree. */
static size_t count_members(struct json_object *node)
{
	size_t count = 0;

	if (json_object_is_type(node, json_type_object)) {
		json_object_object_foreach(node, key, member)
		{
			(void)key;
			count += 1 + count_members(member);
		}
	} else if (json_object_is_type(node, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(node); i++)
			count += count_members(json_object_array_get_idx(node, i));
	}
	return count;
}

/* Length of the string literal that starts at text[0] == '"', both quotes included. */
static size_t literal_length(const char *text, size_t length)
{
	size_t i = 1;

	while (i < length && text[i] != '"')
		i += text[i] == '\\' ? 2 : 1;
	return i < length ? i + 1 : length;
}

/*
 * Counts the members in a valid JSON text: outside of strings, a ':' occurs only after a key. *quote:
 * position of a single quote; json-c accepts keys in single quotes even in strict mode.
 */
static size_t count_written(const char *text, size_t length, size_t *quote)
{
	size_t count = 0;

	*quote = length;
	for (size_t i = 0; i < length && *quote == length; i++) {
		if (text[i] == '"')
			i += literal_length(text + i, length - i) - 1;
		else if (text[i] == ':')
			count++;
		else if (text[i] == '\'')
			*quote = i;
	}
	return count;
}

/* Writes the first key that the outermost object has twice; "" if the repetition is in an inner object or
 * written with escapes. */
static void find_repeated(const char *text, size_t length, char *name, size_t size)
{
	struct json_object *seen = json_object_new_object();
	int level = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == '{' || text[i] == '[')
			level++;
		if (text[i] == '}' || text[i] == ']')
			level--;
		if (text[i] != '"')
			continue;
		size_t literal = literal_length(text + i, length - i), after = i + literal;
		while (after < length && isspace((unsigned char)text[after]))
			after++;
		bool printable = true;
		for (size_t j = 0; j < literal; j++)
			printable = printable && !iscntrl((unsigned char)text[i + j]);
		if (printable && level == 1 && after < length && text[after] == ':' && literal - 2 < size) {
			memcpy(name, text + i + 1, literal - 2);
			name[literal - 2] = '\0';
			if (json_object_object_get_ex(seen, name, NULL))
				break;
			json_object_object_add(seen, name, NULL);
		}
		name[0] = '\0';
		i += literal - 1;
	}
	json_object_put(seen);
}

/* Number of bytes of the non-ASCII character at this position; 0: none starts here. */
static size_t decode(const unsigned char *at, size_t left, uint32_t *code)
{
	static const uint32_t least[] = {[2] = 0x80, [3] = 0x800, [4] = 0x10000};
	const size_t bytes = at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3 : at[0] >> 3 == 30 ? 4 : 0;

	if (!bytes || bytes > left)
		return 0;
	*code = at[0] & 0x7fu >> bytes;
	for (size_t i = 1; i < bytes; i++) {
		if (at[i] >> 6 != 2)
			return 0;
		*code = *code << 6 | (at[i] & 0x3f);
	}
	const bool is_surrogate = *code >> 11 == 0x1b;
	return *code < least[bytes] || *code > 0x10ffff || is_surrogate ? 0 : bytes;
}

/*
 * Bytes of a \uXXXX escape, and the largest growth of a text: a character of two bytes becomes six bytes, one
 * of four becomes twelve.
 */
enum { ESCAPE = 6, MOST_GROWTH = 3 };

static size_t put_escape(char *to, uint32_t unit)
{
	static const char digits[] = "0123456789abcdef";
	const char escape[ESCAPE] = {
	    '\\', 'u', digits[unit >> 12], digits[unit >> 8 & 15], digits[unit >> 4 & 15], digits[unit & 15]};

	memcpy(to, escape, sizeof(escape));
	return sizeof(escape);
}

/* State of copying a text to ASCII. */
typedef struct ascii {
	const char *text;
	size_t length, at;
	bool
	    after_backslash; /* position just after a backslash, where a non-ASCII character is not allowed */
} ascii;

/* Writes the next character, as an escape if it is not ASCII. Returns the number of bytes written. */
static size_t escape_next(ascii *a, char to[2 * ESCAPE])
{
	const unsigned char *at = (const unsigned char *)a->text + a->at;
	uint32_t code = 0;
	const size_t bytes = *at < 0x80 ? 1 : decode(at, a->length - a->at, &code);
	const bool as_it_is = bytes < 2 || a->after_backslash;
	size_t written = 0;

	a->after_backslash = *at == '\\' && !a->after_backslash;
	a->at += as_it_is ? 1 : bytes;
	if (as_it_is) {
		/* json-c accepts some invalid UTF-8, but never the byte 0xff */
		*to = bytes ? (char)*at : '\xff';
		return 1;
	}
	if (code >= 0x10000)
		written = put_escape(to, 0xd800 | (code - 0x10000) >> 10);
	return written + put_escape(to + written, code < 0x10000 ? code : 0xdc00 | (code & 0x3ff));
}

/*
 * Copies the text to ASCII, because json-c 0.18 in strict mode refuses other characters as control characters
 * (its issue 892). The caller frees the result. *escaped, the length of the result, is at most INT_MAX,
 * because check_text has refused texts longer than INT_MAX / MOST_GROWTH.
 */
static char *escape_text(const char *text, size_t length, size_t *escaped)
{
	ascii a = {.text = text, .length = length};
	char *copy = malloc(MOST_GROWTH * length + 2 * ESCAPE), *to = copy;

	while (copy && a.at < length)
		to += escape_next(&a, to);
	*escaped = (size_t)(to - copy);
	return copy;
}

/* The position in the original text of a character, from its offset in the escaped text. */
static size_t offset_of(const char *text, size_t length, size_t escaped)
{
	ascii a = {.text = text, .length = length};
	char one[2 * ESCAPE];
	size_t start = 0;

	for (size_t end = 0; end <= escaped && a.at < length; end += escape_next(&a, one))
		start = a.at;
	return start;
}

static struct json_object *tokenize(struct json_tokener *tokener, const char *text, size_t length,
				    const char *what, p4d_error *err)
{
	size_t bytes;
	char *escaped = escape_text(text, length, &bytes);

	if (!escaped) {
		p4d_fail(err, P4D_E_NO_MEMORY, "%.255s: no memory to parse it", what);
		return NULL;
	}
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	struct json_object *object = json_tokener_parse_ex(tokener, escaped, (int)bytes);
	free(escaped);
	enum json_tokener_error state = json_tokener_get_error(tokener);

	if (state == json_tokener_continue)
		p4d_fail(err, P4D_E_JSON,
			 "%.255s: truncated: the JSON text ends after %zu bytes, inside a value", what,
			 length);
	else if (state == json_tokener_error_depth)
		p4d_fail(err, P4D_E_JSON, "%.255s: nested more than %d levels deep", what, MAX_LEVELS);
	else if (state != json_tokener_success)
		p4d_fail(err, P4D_E_JSON, "%.255s: malformed JSON at byte %zu: %s", what,
			 offset_of(text, length, json_tokener_get_parse_end(tokener)) + 1,
			 state == json_tokener_error_parse_number ? "not a number, or a number above 64 bits"
								  : json_tokener_error_desc(state));
	else
		return object;
	json_object_put(object);
	return NULL;
}

/* Checks the text before it is parsed. */
static int check_text(const char *text, size_t length, const char *what, p4d_error *err)
{
	size_t start = 0;

	while (start < length && isspace((unsigned char)text[start]))
		start++;
	if (start == length)
		return p4d_fail(err, P4D_E_JSON, "%.255s: empty file", what);
	if (length > INT_MAX / MOST_GROWTH)
		return p4d_fail(err, P4D_E_IO, "%.255s: larger than %d bytes", what, INT_MAX / MOST_GROWTH);
	const char *nul = memchr(text, '\0', length);
	if (nul)
		return p4d_fail(err, P4D_E_JSON, "%.255s: NUL byte at byte %zu", what,
				(size_t)(nul - text) + 1);
	if (text[start] == '[')
		return p4d_fail(err, P4D_E_JSON, "%.255s: contains a JSON array, not an object", what);
	if (text[start] != '{')
		return p4d_fail(err, P4D_E_JSON, "%.255s: not a JSON object (begins with byte 0x%02x)", what,
				(unsigned char)text[start]);
	return 0;
}

/* Finds errors that json-c accepts silently: single quotes, and repeated keys, of which it keeps the last. */
static int check_members(struct json_object *object, const char *text, size_t length, const char *what,
			 p4d_error *err)
{
	size_t quote, written = count_written(text, length, &quote);
	char name[64] = "";

	if (quote < length)
		return p4d_fail(err, P4D_E_JSON, "%.255s: malformed JSON at byte %zu: single quote", what,
				quote + 1);
	if (written == count_members(object))
		return 0;
	find_repeated(text, length, name, sizeof(name));
	return p4d_fail(err, P4D_E_JSON, "%.255s: %s%s%s is given twice", what,
			*name ? "field \"" : "a field", name, *name ? "\"" : "");
}

struct json_object *p4d_json_parse(const char *text, size_t length, const char *what, p4d_error *err)
{
	if (check_text(text, length, what, err) < 0)
		return NULL;
	/* json-c also counts the values in the innermost level */
	struct json_tokener *tokener = json_tokener_new_ex(MAX_LEVELS + 1);
	if (!tokener) {
		p4d_fail(err, P4D_E_NO_MEMORY, "%.255s: no memory to parse it", what);
		return NULL;
	}
	struct json_object *object = tokenize(tokener, text, length, what, err);
	json_tokener_free(tokener);
	if (object && check_members(object, text, length, what, err) < 0) {
		json_object_put(object);
		return NULL;
	}
	return object;
}

static int wrong_type(struct json_object *member, const char *key, const char *wanted, p4d_error *err)
{
	return p4d_fail(err, P4D_E_JSON, "\"%.64s\" is %.40s, not %s", key,
			json_object_to_json_string_ext(member, JSON_C_TO_STRING_PLAIN), wanted);
}

int p4d_json_integer(struct json_object *object, const char *key, int64_t min, int64_t max, int64_t *value,
		     p4d_error *err)
{
	struct json_object *member = json_object_object_get(object, key);
	bool huge = false;
	int64_t number;

	if (!member)
		return 0;
	if (json_object_is_type(member, json_type_double)) {
		double real = json_object_get_double(member);
		/* beyond 2^53 a double is not exact */
		if (!(fabs(real) <= 0x1p53) || real != trunc(real))
			return wrong_type(member, key, "a whole number", err);
		number = (int64_t)real;
	} else if (json_object_is_type(member, json_type_int)) {
		number = json_object_get_int64(member);
		/* json-c returns INT64_MAX for all larger numbers */
		huge = number == INT64_MAX && json_object_get_uint64(member) > INT64_MAX;
	} else {
		return wrong_type(member, key, "a whole number", err);
	}
	if (huge || number < min || number > max)
		return p4d_fail(err, P4D_E_VALUE, "\"%.64s\" is %.40s: not from %" PRId64 " to %" PRId64, key,
				json_object_get_string(member), min, max);
	*value = number;
	return 0;
}

int p4d_json_boolean(struct json_object *object, const char *key, bool *value, p4d_error *err)
{
	struct json_object *member = json_object_object_get(object, key);

	if (!member)
		return 0;
	if (!json_object_is_type(member, json_type_boolean))
		return p4d_fail(err, P4D_E_JSON, "\"%s\" is %.40s, not true or false", key,
				json_object_to_json_string_ext(member, JSON_C_TO_STRING_PLAIN));
	*value = json_object_get_boolean(member);
	return 0;
}

int p4d_json_number(struct json_object *object, const char *key, double min, double max, double *value,
		    p4d_error *err)
{
	struct json_object *member = json_object_object_get(object, key);

	if (!member)
		return 0;
	if (!json_object_is_type(member, json_type_double) && !json_object_is_type(member, json_type_int))
		return wrong_type(member, key, "a number", err);
	double number = json_object_get_double(member);
	if (!(number >= min && number <= max)) /* written so that NaN is refused */
		return p4d_fail(err, P4D_E_VALUE, "\"%.64s\" is %.40s: not from %g to %g", key,
				json_object_get_string(member), min, max);
	*value = number;
	return 0;
}

/* Appends text to buf, after a comma unless buf is empty. */
static int append(struct json_object *text, const char *key, char *buf, size_t size, p4d_error *err)
{
	const char *string = json_object_get_string(text);
	size_t length = (size_t)json_object_get_string_len(text), used = strlen(buf), comma = used > 0;

	for (size_t i = 0; i < length; i++)
		if (iscntrl((unsigned char)string[i]))
			return p4d_fail(err, P4D_E_JSON, "\"%.64s\" contains the control character 0x%02x",
					key, (unsigned char)string[i]);
	if (length + comma >= size - used)
		return p4d_fail(err, P4D_E_JSON, "\"%.64s\" is longer than %zu characters", key, size - 1);
	if (comma)
		buf[used] = ',';
	memcpy(buf + used + comma, string, length);
	buf[used + comma + length] = '\0';
	return 0;
}

int p4d_json_string(struct json_object *object, const char *key, char *buf, size_t size, p4d_error *err)
{
	struct json_object *member = json_object_object_get(object, key);

	if (!member)
		return 0;
	if (!json_object_is_type(member, json_type_string))
		return wrong_type(member, key, "a string", err);
	buf[0] = '\0';
	return append(member, key, buf, size, err);
}

int p4d_json_list(struct json_object *object, const char *key, char *buf, size_t size, p4d_error *err)
{
	struct json_object *member = json_object_object_get(object, key);

	if (!member)
		return 0;
	if (!json_object_is_type(member, json_type_array))
		return wrong_type(member, key, "a list of strings", err);
	buf[0] = '\0';
	for (size_t i = 0; i < json_object_array_length(member); i++) {
		struct json_object *entry = json_object_array_get_idx(member, i);
		if (!json_object_is_type(entry, json_type_string))
			return wrong_type(entry, key, "a list of strings", err);
		const char *text = json_object_get_string(entry);
		if (!*text || strchr(text, ','))
			return p4d_fail(
			    err, P4D_E_JSON,
			    "\"%.64s\" has the entry \"%.40s\", which is empty or contains a comma", key,
			    text);
		if (append(entry, key, buf, size, err) < 0)
			return -1;
	}
	return 0;
}

int p4d_json_unknown_field(const char *key, p4d_error *err)
{
	/* quoted as JSON, so that control characters are escaped */
	struct json_object *text = json_object_new_string(key);

	p4d_fail(err, P4D_E_JSON, "unknown field %.64s", json_object_to_json_string(text));
	json_object_put(text);
	return -1;
}
