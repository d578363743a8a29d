/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/verdict_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plan/plan_line.h"
#include "request/framework.h"

#define APPROVED "p4d:"
#define VERDICT "p4d-verdict:"

typedef enum field_kind { TEXT, NUMBER } field_kind;

typedef struct field {
	const char *name;
	field_kind kind;
	size_t offset, size;
} field;

/* The fields, in the order in which they are written. */
static const field fields[] = {
#define FIELD(name, kind, member) \
	{ \
		name, kind, offsetof(p4d_verdict_record, member), sizeof(((p4d_verdict_record *)0)->member) \
	}
    FIELD("nodes", NUMBER, nodes),   FIELD("gpus-per-node", NUMBER, gpus_per_node),
    FIELD("tp", NUMBER, tp),         FIELD("cp", NUMBER, cp),
    FIELD("pp", NUMBER, pp),         FIELD("micro-batch", NUMBER, micro_batch),
    FIELD("model", TEXT, model),     FIELD("framework", TEXT, framework),
    FIELD("phase", TEXT, phase),     FIELD("gpu", TEXT, gpu),
    FIELD("verdict", TEXT, verdict), FIELD("code", TEXT, code),
    FIELD("mode", TEXT, mode),       FIELD("read", TEXT, read),
    FIELD("by", TEXT, by),           FIELD("digest", TEXT, digest),
    FIELD("id", TEXT, id),
#undef FIELD
};

static void set_layout(const p4d_verdict *v, p4d_verdict_record *r)
{
	r->nodes = v->geometry.nodes;
	r->gpus_per_node = v->geometry.gpus_per_node;
	if (!v->judged)
		return;
	r->tp = (uint32_t)v->layout.tp;
	r->cp = (uint32_t)v->layout.cp;
	r->pp = (uint32_t)v->layout.pp;
	r->micro_batch = (uint32_t)v->layout.micro_batch;
	r->need_gib = p4d_to_gib(v->estimate.peak.device_bytes);
	r->capacity_gib = p4d_to_gib(v->estimate.capacity_bytes);
	snprintf(r->phase, sizeof(r->phase), "%s", p4d_memory_phase_name(v->estimate.peak.phase));
}

/* Stores the name of the framework that trains, or of the engine that serves. */
static void set_framework(const p4d_verdict *v, p4d_verdict_record *r)
{
	char name[32] = "";

	if (v->judged)
		snprintf(name, sizeof(name), "%s", p4d_framework_of(v->layout.framework)->name);
	else if (v->engine[0])
		snprintf(name, sizeof(name), "%s", v->engine);
	else if (v->plan[0] && p4d_is_set(&v->planned, P4D_ENGINE))
		p4d_request_value_text(&v->planned, P4D_ENGINE, name, sizeof(name));
	snprintf(r->framework, sizeof(r->framework), "%.*s", (int)sizeof(r->framework) - 1, name);
}

/* Name of the verdict's outcome; "": there is nothing to report about the job. */
static const char *outcome_of(const p4d_verdict *v)
{
	const bool judged = v->judged || v->colocated.capacity_bytes || v->serving.max_model_len;
	const p4d_outcome outcome = p4d_verdict_outcome(v);

	if (!judged && !v->messages && !v->plan[0])
		return "";
	if (judged && outcome == P4D_OUTCOME_NOT_JUDGED) /* only trainings have an estimate */
		return p4d_outcome_name(v->action == P4D_WARN ? P4D_OUTCOME_WARN : P4D_OUTCOME_PASS);
	return p4d_outcome_name(outcome);
}

p4d_verdict_record p4d_verdict_record_of(const p4d_verdict *v)
{
	p4d_verdict_record r = {.approved = v->plan[0] && p4d_is_set(&v->planned, P4D_MODEL)};
	p4d_text code = p4d_text_in(r.code, sizeof(r.code));

	memcpy(r.digest, v->digest, sizeof(r.digest));
	if (r.approved && !r.digest[0])
		p4d_plan_digest(&v->planned, r.digest);
	set_layout(v, &r);
	set_framework(v, &r);
	snprintf(r.model, sizeof(r.model), "%s", v->model);
	snprintf(r.gpu, sizeof(r.gpu), "%s", v->geometry.gpu ? v->geometry.gpu->name : "");
	snprintf(r.verdict, sizeof(r.verdict), "%s", outcome_of(v));
	for (unsigned i = 0; i < v->messages; i++)
		p4d_text_entry(&code, "+", "P4D%03d", (int)v->message[i].code);
	snprintf(r.mode, sizeof(r.mode), "%s", p4d_site_mode_name(v->policy.mode));
	snprintf(r.read, sizeof(r.read), "%s", v->read ? "script" : "");
	return r;
}

/* Whether a character of a value needs no escape. */
static bool is_literal(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("._/+-", c));
}

static void write_value(p4d_text *text, const char *value)
{
	for (; *value; value++)
		if (is_literal(*value))
			p4d_text_add_bytes(text, value, 1);
		else
			p4d_text_print(text, "%%%02x", (unsigned char)*value);
}

static void begin_field(p4d_text *text, const char *name)
{
	p4d_text_add(text, text->length ? "," : "");
	p4d_text_add(text, name);
	p4d_text_add(text, "=");
}

static void write_field(p4d_text *text, const p4d_verdict_record *r, const field *f)
{
	const char *member = (const char *)r + f->offset;
	uint32_t number = 0;

	if (f->kind == TEXT && *member) {
		begin_field(text, f->name);
		write_value(text, member);
	}
	if (f->kind == NUMBER)
		memcpy(&number, member, sizeof(number));
	if (number) {
		begin_field(text, f->name);
		p4d_text_print(text, "%" PRIu32, number);
	}
}

const char *p4d_verdict_record_fields(const p4d_verdict_record *r, char buf[P4D_VERDICT_RECORD])
{
	p4d_text text = p4d_text_in(buf, P4D_VERDICT_RECORD);

	if (r->capacity_gib > 0)
		p4d_text_print(&text, "%.1fof%.1fGiB", r->need_gib, r->capacity_gib);
	else if (r->need_gib > 0)
		p4d_text_print(&text, "%.1fGiB", r->need_gib);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!r->approved || fields[i].offset != offsetof(p4d_verdict_record, digest))
			write_field(&text, r, &fields[i]);
	return buf;
}

const char *p4d_verdict_record_write(const p4d_verdict_record *r, char buf[P4D_VERDICT_RECORD])
{
	char rest[P4D_VERDICT_RECORD];
	p4d_text text = p4d_text_in(buf, P4D_VERDICT_RECORD);

	if (r->approved)
		p4d_text_print(&text, APPROVED "%s:", r->digest);
	else
		p4d_text_add(&text, VERDICT);
	p4d_text_add(&text, p4d_verdict_record_fields(r, rest));
	return buf;
}

static int hex(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Reads a value that write_value has written. False: malformed. A text that is too long is cut off. */
static bool read_value(const char *text, size_t length, char *out, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < length; i++) {
		char c = text[i];
		if (c == '%') {
			const int high = i + 2 < length ? hex(text[i + 1]) : -1;
			const int low = i + 2 < length ? hex(text[i + 2]) : -1;
			if (high < 0 || low < 0 || !(high | low))
				return false;
			c = (char)(high << 4 | low);
			i += 2;
		}
		if (used + 1 < size)
			out[used++] = c;
	}
	out[used] = '\0';
	return true;
}

static bool read_number(const char *text, size_t length, uint32_t *out)
{
	uint64_t number = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		number = number * 10 + (uint64_t)(text[i] - '0');
		if (number > UINT32_MAX)
			return false;
	}
	*out = (uint32_t)number;
	return length > 0;
}

/* Reads digits with a decimal point, at most up to the end of the word. */
static const char *read_gib(const char *at, double *gib)
{
	char digits[32];
	const size_t length = strspn(at, "0123456789.");

	if (!length || length >= sizeof(digits))
		return NULL;
	memcpy(digits, at, length);
	digits[length] = '\0';
	*gib = strtod(digits, NULL);
	return at + length;
}

/* Reads memory such as "47.6of79.1GiB". */
static bool read_memory(const char *text, size_t length, p4d_verdict_record *r)
{
	const char *at = read_gib(text, &r->need_gib);

	if (at && !strncmp(at, "of", 2))
		at = read_gib(at + 2, &r->capacity_gib);
	return at && !strncmp(at, "GiB", 3) && at + 3 == text + length;
}

static bool read_field(const char *text, size_t length, p4d_verdict_record *r)
{
	const char *equals = memchr(text, '=', length);
	const size_t name = equals ? (size_t)(equals - text) : 0;

	if (!equals)
		return read_memory(text, length, r);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const field *f = &fields[i];
		char *member = (char *)r + f->offset;
		uint32_t number;
		if (strlen(f->name) != name || strncmp(f->name, text, name) != 0)
			continue;
		if (f->kind == TEXT)
			return read_value(equals + 1, length - name - 1, member, f->size);
		if (!read_number(equals + 1, length - name - 1, &number))
			return false;
		memcpy(member, &number, sizeof(number));
		return true;
	}
	return true;
}

bool p4d_verdict_record_read_fields(const char *at, p4d_verdict_record *r)
{
	const char *end = at + strcspn(at, " \t\n");

	while (at < end) {
		size_t length = strcspn(at, ", \t\n");
		if (length && !read_field(at, length, r)) {
			memset(r, 0, sizeof(*r));
			return false;
		}
		at += length + (at[length] == ',');
	}
	return true;
}

static bool read_word(const char *word, p4d_verdict_record *r)
{
	if (!strncmp(word, VERDICT, strlen(VERDICT)))
		return p4d_verdict_record_read_fields(word + strlen(VERDICT), r);
	word += strlen(APPROVED);
	const size_t digest = strcspn(word, ": ");
	if (digest >= sizeof(r->digest) || word[digest] != ':' ||
	    !p4d_verdict_record_read_fields(word + digest + 1, r))
		return false;
	memcpy(r->digest, word, digest);
	r->digest[digest] = '\0';
	r->approved = true;
	return true;
}

bool p4d_verdict_record_is_word(const char *word)
{
	return !strncmp(word, APPROVED, strlen(APPROVED)) || !strncmp(word, VERDICT, strlen(VERDICT));
}

bool p4d_verdict_record_read(const char *text, p4d_verdict_record *r)
{
	memset(r, 0, sizeof(*r));
	for (const char *at = text; at && *at; at += strspn(at, " ")) {
		if (p4d_verdict_record_is_word(at))
			return read_word(at, r);
		at += strcspn(at, " ");
	}
	return false;
}

p4d_outcome p4d_verdict_record_outcome(const p4d_verdict_record *r)
{
	return p4d_outcome_named(r->verdict);
}
