/* SPDX-License-Identifier: Apache-2.0 */
#include "data/documents.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/grow.h"
#include "data/conversation.h"

enum { LONGEST = 1 << 30, STEP = 1 << 20, LEVELS = 32 };

/* Fails for a compressed file that is damaged or followed by other bytes. Ignoring such bytes could lose
 * data, and reading them could add garbage. */
static int cannot_expand(const p4d_documents *documents, p4d_error *err)
{
	const p4d_unpack_fault *fault = &documents->fault;

	if (!fault->follows)
		return p4d_fail(
		    err, P4D_E_IO,
		    "%.200s: cannot be read: the compressed data are damaged or cut off at byte %" PRIu64,
		    documents->name, fault->at);
	p4d_fail(err, P4D_E_IO,
		 "%.200s: cannot be read: the bytes from %" PRIu64
		 " on are not compressed by %s. If they are text, p4d can read the expanded bytes and this "
		 "text together",
		 documents->name, fault->at, fault->of->name);
	return p4d_fix(err, "(head -c %" PRIu64 " %.100s | %s; tail -c +%" PRIu64 " %.100s) | p4d data ... -",
		       fault->at, documents->name, fault->of->fix, fault->at + 1, documents->name);
}

static int cannot_read(const p4d_documents *documents, p4d_error *err)
{
	int why = errno;

	if (why == EBADMSG && documents->fault.of)
		return cannot_expand(documents, err);
	p4d_fail(err, P4D_E_IO, "%.200s: cannot be read: %s", documents->name, strerror(why));
	if (why == EISDIR)
		p4d_fix(err, "%.200s/*", documents->name);
	return -1;
}

int p4d_documents__open(p4d_documents *documents, const char *path, p4d_error *err)
{
	struct stat status;

	documents->name = strcmp(path, "-") != 0 ? path : "standard input";
	documents->in = documents->name == path ? fopen(path, "re") : stdin;
	documents->done = false;
	documents->line = 0;
	if (!documents->in)
		return cannot_read(documents, err);
	if (fstat(fileno(documents->in), &status) == 0 && S_ISDIR(status.st_mode)) {
		errno = EISDIR;
		return cannot_read(documents, err);
	}
	/* standard input cannot be rewound after reading its first bytes */
	return documents->in == stdin
		   ? 0
		   : p4d_unpack__open(&documents->in, documents->name, &documents->fault, err);
}

void p4d_documents__close(p4d_documents *documents)
{
	if (documents->in && documents->in != stdin)
		fclose(documents->in);
	documents->in = NULL;
}

void p4d_documents__free(p4d_documents *documents)
{
	p4d_documents__close(documents);
	json_object_put(documents->messages);
	json_object_put(documents->object);
	if (documents->tokener)
		json_tokener_free(documents->tokener);
	free(documents->buffer);
	free(documents->ids);
}

static int no_memory(const p4d_documents *documents, p4d_error *err)
{
	return p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory for a document", documents->name);
}

/* Length of the byte order mark that some editors write before UTF-8. */
static size_t byte_order_mark(const char *text, size_t length)
{
	return length >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
}

static int read_whole(p4d_documents *documents, p4d_document_text *document, p4d_error *err)
{
	size_t used = 0, got;

	if (documents->done)
		return 0;
	do {
		if (documents->size - used < STEP) {
			size_t size = documents->size ? 2 * documents->size : 2 * STEP;
			char *more = realloc(documents->buffer, size);
			if (!more)
				return no_memory(documents, err);
			documents->buffer = more;
			documents->size = size;
		}
		got = fread(documents->buffer + used, 1, STEP, documents->in);
		used += got;
		if (used > LONGEST) {
			p4d_fail(err, P4D_E_IO, "%.200s: larger than 1 GiB, the limit for a document",
				 documents->name);
			return p4d_fix(err, "--split-lines");
		}
	} while (got);
	if (ferror(documents->in))
		return cannot_read(documents, err);
	documents->done = true;
	documents->read_bytes += used;
	const size_t mark = byte_order_mark(documents->buffer, used);
	*document = (p4d_document_text){documents->buffer + mark, used - mark, NULL, NULL};
	return used > mark;
}

/* Reads the next line that is not empty, without its line break. */
static int read_line(p4d_documents *documents, p4d_document_text *document, p4d_error *err)
{
	ssize_t length;
	size_t mark;

	do {
		errno = 0;
		length = getline(&documents->buffer, &documents->size, documents->in);
		/* the text before a read error may be a part of a line only */
		if (length < 0 || ferror(documents->in)) {
			if (errno == ENOMEM)
				return no_memory(documents, err);
			return ferror(documents->in) ? cannot_read(documents, err) : 0;
		}
		documents->line++;
		documents->read_bytes += (uint64_t)length;
		if (length && documents->buffer[length - 1] == '\n')
			length--;
		if (length && documents->buffer[length - 1] == '\r')
			length--;
		mark = documents->line == 1 ? byte_order_mark(documents->buffer, (size_t)length) : 0;
	} while ((size_t)length == mark);
	*document = (p4d_document_text){documents->buffer + mark, (size_t)length - mark, NULL, NULL};
	return 1;
}

static int wrong(const p4d_documents *documents, p4d_error *err, const char *what, const char *detail)
{
	return p4d_fail(err, P4D_E_JSON, "%.200s:%" PRIu64 ": %s%.100s", documents->name, documents->line,
			what, detail);
}

static int take_ids(p4d_documents *documents, struct json_object *list, p4d_document_text *document,
		    p4d_error *err)
{
	size_t count = json_object_array_length(list);

	if (!p4d_grow(&documents->ids, &documents->room, count + 1, sizeof(*documents->ids)))
		return no_memory(documents, err);
	for (size_t i = 0; i < count; i++) {
		struct json_object *number = json_object_array_get_idx(list, i);
		int64_t id = json_object_is_type(number, json_type_int) ? json_object_get_int64(number) : -1;
		if (id < 0 || id > INT32_MAX)
			return wrong(documents, err, "not a token: ", json_object_to_json_string(number));
		documents->ids[i] = (int32_t)id;
	}
	*document = (p4d_document_text){NULL, count, documents->ids, NULL};
	return 1;
}

static int parse_line(p4d_documents *documents, p4d_document_text line, p4d_error *err)
{
	if (!documents->tokener)
		documents->tokener = json_tokener_new_ex(LEVELS);
	if (!documents->tokener)
		return no_memory(documents, err);
	if (line.length > INT_MAX)
		return wrong(documents, err, "line longer than 2 GiB", "");
	json_object_put(documents->object);
	json_tokener_reset(documents->tokener);
	json_tokener_set_flags(documents->tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	documents->object = json_tokener_parse_ex(documents->tokener, line.text, (int)line.length);
	enum json_tokener_error state = json_tokener_get_error(documents->tokener);
	if (state == json_tokener_continue)
		return wrong(documents, err, "malformed JSON: unexpected end of line", "");
	if (state != json_tokener_success)
		return wrong(documents, err, "malformed JSON: ", json_tokener_error_desc(state));
	if (!json_object_is_type(documents->object, json_type_object))
		return wrong(documents, err, "not a JSON object", "");
	return 0;
}

static int read_conversation(p4d_documents *documents, p4d_document_text *document, p4d_error *err)
{
	const char *field = documents->field ? documents->field : "messages";
	struct json_object *member = NULL;

	json_object_put(documents->messages);
	documents->messages = NULL;
	if (!json_object_object_get_ex(documents->object, field, &member) && !documents->field) {
		const char *what = p4d_conversation__convert(documents->object, &documents->messages);
		if (what)
			return wrong(documents, err, what, "");
		member = documents->messages;
	}
	*document = (p4d_document_text){.messages = member};
	return json_object_is_type(member, json_type_array)
		   ? 1
		   : wrong(documents, err, "has no list of messages in its field ", field);
}

static int read_json(p4d_documents *documents, p4d_document_text *document, p4d_error *err)
{
	struct json_object *member = NULL;
	int rc = read_line(documents, document, err);

	if (rc <= 0)
		return rc;
	if (parse_line(documents, *document, err) < 0)
		return -1;
	if (documents->form == P4D_PAIRS) {
		*document = (p4d_document_text){.text = NULL};
		return 1;
	}
	if (documents->form == P4D_CONVERSATIONS)
		return read_conversation(documents, document, err);
	json_object_object_get_ex(documents->object, documents->field, &member);
	if (!json_object_is_type(member, documents->tokens ? json_type_array : json_type_string))
		return wrong(documents, err,
			     documents->tokens ? "has no list of tokens in its field "
					       : "has no text in its field ",
			     documents->field);
	if (documents->tokens)
		return take_ids(documents, member, document, err);
	*document = (p4d_document_text){json_object_get_string(member),
					(size_t)json_object_get_string_len(member), NULL, NULL};
	return 1;
}

int p4d_documents__next(p4d_documents *documents, p4d_document_text *document, p4d_error *err)
{
	switch (documents->form) {
	case P4D_WHOLE_FILE:
		return read_whole(documents, document, err);
	case P4D_EACH_LINE:
		return read_line(documents, document, err);
	case P4D_JSON_LINES:
	case P4D_CONVERSATIONS:
	case P4D_PAIRS:
		break;
	}
	return read_json(documents, document, err);
}
