/* SPDX-License-Identifier: Apache-2.0 */
/*
 * References of OmegaConf (2.3) to the value of another argument: ${actor.lr}, or ${oc.select:actor.lr,0}
 * with a value that applies if the other one is missing. A reference stands for the value that the other
 * argument has after p4d has read all files and words.
 */
#include <stdio.h>
#include <string.h>

#include "reader/reader_internal.h"

enum { NAME = 160 };

/* Finds the parts of a reference. False: it is another expression. *otherwise: "" if there is none. */
static bool parts(const char *text, char *name, char *otherwise)
{
	static const char selects[] = "oc.select:";
	const char *at = text + 2;
	const bool selected = !strncmp(text, "${", 2) && !strncmp(at, selects, sizeof(selects) - 1);

	at += selected ? sizeof(selects) - 1 : 0;
	const size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."),
		     more = at[length] == ',';
	const char *end = at + length + more, *close = strchr(end, '}');
	if (strncmp(text, "${", 2) != 0 || !length || *at == '.' || length + 3 > NAME || !close || close[1] ||
	    more != selected || (size_t)(close - end) >= NAME)
		return false;
	while (*end == ' ')
		end++;
	snprintf(name, NAME, "--%.*s", (int)length, at);
	snprintf(otherwise, NAME, "%.*s", (int)(close - end), end);
	return true;
}

bool p4d_reader__refer(p4d_read_context *c, const p4d_read_argument *a, const char *text,
		       const p4d_read_given *given)
{
	char name[NAME], otherwise[NAME];
	const size_t most = sizeof(c->reference) / sizeof(c->reference[0]);

	if (c->references == most || !parts(text, name, otherwise))
		return false;
	const p4d_read_argument *target = p4d_reader__find(c->reading->reader, name);
	if (!target || target == a || target->what < 0 || a->what < 0 || !target->value != !a->value ||
	    (!a->value && target->words != a->words))
		return false;
	c->reference[c->references++] = (p4d_read_reference){
	    .argument = a,
	    .target = target,
	    .otherwise = *otherwise ? p4d_shell_keep(c->shell, otherwise) : NULL,
	    .given = {.name = a->name + strspn(a->name, "-"), .file = given->file, .line = given->line},
	};
	return true;
}

/* Whether nothing has replaced the reference. */
static bool remains(const p4d_reading *r, const p4d_read_reference *reference)
{
	for (unsigned i = 0; i < r->unknowns; i++)
		if (r->unknown[i].argument == reference->argument->name)
			return true;
	return false;
}

void p4d_reader__resolve(p4d_read_context *c)
{
	p4d_reading *r = c->reading;

	for (unsigned i = 0; i < c->references; i++) {
		const p4d_read_reference *one = &c->reference[i];
		const p4d_read_value value = *p4d_reader__slot(r, one->target->what);
		p4d_read_given given = one->given;
		const bool set = p4d_reader__set(&value) && value.argument == one->target->name;
		given.value = set ? value.text : one->otherwise;
		if (set && one->argument->value)
			given.value = !strcmp(value.text, one->target->value) ? "true" : "false";
		if (!remains(r, one) || (!set && p4d_reader__set(&value)) || value.unknown || !given.value)
			continue;
		/* p4d_reader__take treats null as a switch's "false" */
		if (one->argument->value || strcmp(given.value, "null") != 0)
			p4d_reader__take(r, one->argument, &given);
	}
}
