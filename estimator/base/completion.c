/* SPDX-License-Identifier: Apache-2.0 */
#include "base/completion.h"

#include <string.h>

bool p4d_completed_is_path(const char *argument)
{
	return argument && (strstr(argument, "FILE") || strstr(argument, "DIR"));
}

p4d_completed p4d_completed_of(const p4d_option_info *info, const char *prefix, const char *help)
{
	const char *choices = p4d_option_choices(info);

	return (p4d_completed){
	    .prefix = prefix,
	    .name = info->name,
	    .help = help,
	    .choices = info->kind == P4D_SWITCH_KIND                         ? NULL
		       : info->kind != P4D_TEXT_KIND && strchr(choices, '|') ? choices
									     : "",
	    .files = info->kind == P4D_TEXT_KIND && p4d_completed_is_path(info->argument),
	};
}

/* "a|b" as "a b" */
static void put_choices(FILE *to, const char *choices)
{
	for (; *choices; choices++)
		putc(*choices == '|' ? ' ' : *choices, to);
}

void p4d_completed_quoted(FILE *to, const char *text, const char *special)
{
	for (; *text; text++)
		if (*text == '\'')
			fputs("'\\''", to);
		else
			fprintf(to, "%s%c", strchr(special, *text) ? "\\" : "", *text);
}

void p4d_completed_word(FILE *to, const p4d_completed *o)
{
	fprintf(to, " --%s%s", o->prefix, o->name);
}

void p4d_completed_case(FILE *to, const p4d_completed *o)
{
	if (!o->choices || !*o->choices)
		return;
	fprintf(to, "\t--%s%s) echo '", o->prefix, o->name);
	put_choices(to, o->choices);
	fputs("' ;;\n", to);
}

void p4d_completed_split(FILE *to, const char *name)
{
	fprintf(to,
		"# The word and the one before it, where bash takes = for a word of its own.\n"
		"_%s_split()\n{\n"
		"\tcur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
		"\tif [ \"$cur\" = = ]; then\n\t\tcur=\n"
		"\telif [ \"$prev\" = = ]; then\n\t\tprev=${COMP_WORDS[COMP_CWORD - 2]}\n\tfi\n}\n\n",
		name);
}

/* In zsh's specifications '[', ']' and ':' have a meaning. */
void p4d_completed_zsh(FILE *to, const p4d_completed *o)
{
	fprintf(to, "\t\t'--%s%s%s[", o->prefix, o->name, o->choices ? "=" : "");
	p4d_completed_quoted(to, o->help, "[]:");
	putc(']', to);
	if (o->choices)
		fprintf(to, ":value:%s", o->files ? "_files" : "");
	if (o->choices && *o->choices) {
		putc('(', to);
		put_choices(to, o->choices);
		putc(')', to);
	}
	fputs("' \\\n", to);
}

void p4d_completed_fish(FILE *to, const char *begin, const p4d_completed *o)
{
	fprintf(to, "%s -l %s%s%s", begin, o->prefix, o->name,
		!o->choices ? ""
		: o->files  ? " -r -F"
			    : " -x");
	if (o->choices && *o->choices) {
		fputs(" -a '", to);
		put_choices(to, o->choices);
		putc('\'', to);
	}
	fputs(" -d '", to);
	p4d_completed_quoted(to, o->help, "");
	fputs("'\n", to);
}
