/* SPDX-License-Identifier: Apache-2.0 */
#include "base/completion.h"

#include <stdio.h>
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

/* Prints "a|b" as "a b". */
static void put_choices(const char *choices)
{
	for (; *choices; choices++)
		putchar(*choices == '|' ? ' ' : *choices);
}

void p4d_completed_quoted(const char *text, const char *special)
{
	for (; *text; text++)
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			printf("%s%c", strchr(special, *text) ? "\\" : "", *text);
}

void p4d_completed_word(const p4d_completed *o)
{
	printf(" --%s%s", o->prefix, o->name);
}

void p4d_completed_case(const p4d_completed *o)
{
	if (!o->choices || !*o->choices)
		return;
	printf("\t--%s%s) echo '", o->prefix, o->name);
	put_choices(o->choices);
	fputs("' ;;\n", stdout);
}

void p4d_completed_split(const char *name)
{
	printf("# The word and the one before it, where bash takes = for a word of its own.\n"
	       "_%s_split()\n{\n"
	       "\tcur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
	       "\tif [ \"$cur\" = = ]; then\n\t\tcur=\n"
	       "\telif [ \"$prev\" = = ]; then\n\t\tprev=${COMP_WORDS[COMP_CWORD - 2]}\n\tfi\n}\n\n",
	       name);
}

/* Escapes '[', ']' and ':', which have a meaning in zsh's specifications. */
void p4d_completed_zsh(const p4d_completed *o)
{
	printf("\t\t'--%s%s%s[", o->prefix, o->name, o->choices ? "=" : "");
	p4d_completed_quoted(o->help, "[]:");
	putchar(']');
	if (o->choices)
		printf(":value:%s", o->files ? "_files" : "");
	if (o->choices && *o->choices) {
		putchar('(');
		put_choices(o->choices);
		putchar(')');
	}
	fputs("' \\\n", stdout);
}

void p4d_completed_fish(const char *begin, const p4d_completed *o)
{
	printf("%s -l %s%s%s", begin, o->prefix, o->name, !o->choices ? "" : o->files ? " -r -F" : " -x");
	if (o->choices && *o->choices) {
		fputs(" -a '", stdout);
		put_choices(o->choices);
		putchar('\'');
	}
	fputs(" -d '", stdout);
	p4d_completed_quoted(o->help, "");
	fputs("'\n", stdout);
}
