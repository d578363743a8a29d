/* SPDX-License-Identifier: Apache-2.0 */
/* p4d completion: completions for bash, zsh and fish, of p4d and of sbatch --p4d. */
#include <stdio.h>
#include <string.h>

#include "command.h"

/* One option of a command, or of sbatch (with its prefix). */
typedef struct completed {
	const char *prefix, *name, *help;
	const char *choices; /* "a|b"; "": any value; NULL: no value */
} completed;

typedef void print_option(const completed *option);

static void each_job_option(unsigned where, const char *prefix, print_option *print)
{
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		char help[P4D_HELP_TEXT];
		if (!(info->where & where))
			continue;
		print(&(completed){prefix, info->name, p4d_request_help((p4d_option)i, help),
				   info->kind == P4D_SWITCH_KIND           ? NULL
				   : strchr(p4d_option_choices(info), '|') ? p4d_option_choices(info)
									   : ""});
	}
}

static void each_option(const p4d_subcommand *command, print_option *print)
{
	if (command->takes & P4D_TAKES_JOB)
		each_job_option(P4D_WHERE_COMMAND, "", print);
	for (const p4d_line_option *own = p4d_line_own; own->name; own++)
		if (own->takes == P4D_TAKES_ANY || command->takes & own->takes)
			print(&(completed){"", own->name, own->help, own->argument ? "" : NULL});
}

/* "a|b" as "a b" */
static void print_choices(const char *choices)
{
	for (; *choices; choices++)
		putchar(*choices == '|' ? ' ' : *choices);
}

/* Text for single quotes. In zsh's specifications '[', ']' and ':' have a meaning and are escaped. */
static void print_quoted(const char *text, const char *special)
{
	for (; *text; text++)
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			printf("%s%c", strchr(special, *text) ? "\\" : "", *text);
}

static void print_word(const completed *o)
{
	printf(" --%s%s", o->prefix, o->name);
}

static void print_case(const completed *o)
{
	if (!o->choices || !*o->choices)
		return;
	printf("\t--%s%s) echo '", o->prefix, o->name);
	print_choices(o->choices);
	puts("' ;;");
}

static void print_bash(const p4d_subcommand *commands, size_t count)
{
	puts("# bash completion of p4d, and of the --p4d- options of sbatch, salloc and srun\n"
	     "_p4d_values()\n{\n\tcase $1 in\n"
	     "\t--model | --p4d-model) p4d models 2>/dev/null | awk 'NR > 1 { print $1 }' ;;\n"
	     "\t--gpu) p4d gpus 2>/dev/null | awk 'NR > 1 { print $1 }' ;;");
	each_job_option(P4D_WHERE_COMMAND, "", print_case);
	each_job_option(P4D_WHERE_SLURM, "p4d-", print_case);
	puts("\tesac\n}\n\n_p4d_options()\n{\n\tcase $1 in");
	for (size_t i = 0; i < count; i++) {
		printf("\t%s) echo '", commands[i].name);
		each_option(&commands[i], print_word);
		puts("' ;;");
	}
	fputs("\tsbatch) echo '", stdout);
	each_job_option(P4D_WHERE_SLURM, "p4d-", print_word);
	fputs("' ;;\n\tesac\n}\n\n"
	      "# The word and the one before it, where bash takes = for a word of its own.\n"
	      "_p4d_split()\n{\n"
	      "\tcur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
	      "\tif [ \"$cur\" = = ]; then\n\t\tcur=\n"
	      "\telif [ \"$prev\" = = ]; then\n\t\tprev=${COMP_WORDS[COMP_CWORD - 2]}\n\tfi\n}\n\n"
	      "_p4d()\n{\n\tlocal cur prev words\n\t_p4d_split\n"
	      "\tif [ \"$COMP_CWORD\" = 1 ]; then\n\t\twords='",
	      stdout);
	for (size_t i = 0; i < count; i++)
		printf("%s%s", i ? " " : "", commands[i].name);
	puts("'\n\telif [ \"${prev#--}\" != \"$prev\" ] && words=$(_p4d_values \"$prev\") && [ -n \"$words\" "
	     "]; then\n\t\t:\n"
	     "\telif [ \"${cur#-}\" != \"$cur\" ]; then\n\t\twords=$(_p4d_options \"${COMP_WORDS[1]}\")\n"
	     "\telse\n\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n\t\treturn\n\tfi\n"
	     "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n}\n"
	     "complete -o default -F _p4d p4d\n\n"
	     "# What completed sbatch before does so still, except for --p4d- options.\n"
	     "_p4d_slurm()\n{\n\tlocal cur prev words before=_p4d_before_$1\n\t_p4d_split\n"
	     "\tcase $cur in\n\t--p4d*) words=$(_p4d_options sbatch) ;;\n"
	     "\t*) case $prev in --p4d-*) words=$(_p4d_values \"$prev\") ;; esac ;;\n\tesac\n"
	     "\tif [ -n \"$words\" ]; then\n\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	     "\telif [ -n \"${!before}\" ]; then\n\t\t\"${!before}\" \"$@\"\n\tfi\n}\n"
	     "for _p4d_command in sbatch salloc srun; do\n"
	     "\t_p4d_function=$(complete -p \"$_p4d_command\" 2>/dev/null | sed -n 's/.*-F \\([^ "
	     "]*\\).*/\\1/p')\n"
	     "\t[ \"$_p4d_function\" = _p4d_slurm ] || declare \"_p4d_before_$_p4d_command=$_p4d_function\"\n"
	     "\tcomplete -o default -F _p4d_slurm \"$_p4d_command\"\ndone\nunset _p4d_command _p4d_function");
}

static void print_zsh_option(const completed *o)
{
	printf("\t\t'--%s%s%s[", o->prefix, o->name, o->choices ? "=" : "");
	print_quoted(o->help, "[]:");
	putchar(']');
	if (o->choices) {
		fputs(":value:", stdout);
		if (*o->choices) {
			putchar('(');
			print_choices(o->choices);
			putchar(')');
		}
	}
	puts("' \\");
}

static void print_zsh(const p4d_subcommand *commands, size_t count)
{
	puts("#compdef p4d sbatch salloc srun\n"
	     "# zsh completion of p4d, and of the --p4d- options of sbatch, salloc and srun\n"
	     "if [[ $service != p4d ]]; then\n"
	     "\tif [[ $PREFIX != --p4d* ]]; then\n\t\t_default\n\t\treturn\n\tfi\n"
	     "\t_arguments \\");
	each_job_option(P4D_WHERE_SLURM, "p4d-", print_zsh_option);
	puts("\t\t'*:file:_files'\n\treturn\nfi\n"
	     "if (( CURRENT == 2 )); then\n\tlocal -a commands=(");
	for (size_t i = 0; i < count; i++) {
		printf("\t\t'%s:", commands[i].name);
		print_quoted(commands[i].help, ":");
		puts("'");
	}
	puts("\t)\n\t_describe command commands\n\treturn\nfi\nlocal command=$words[2]\n"
	     "shift words\n(( CURRENT-- ))\ncase $command in");
	for (size_t i = 0; i < count; i++) {
		printf("%s)\n\t_arguments \\\n", commands[i].name);
		each_option(&commands[i], print_zsh_option);
		puts("\t\t'*:file:_files'\n\t;;");
	}
	puts("esac");
}

/* The command whose options print_fish_option prints. */
static const char *fish_command;

static void print_fish_option(const completed *o)
{
	if (fish_command)
		printf("complete -c p4d -n '__fish_seen_subcommand_from %s'", fish_command);
	else
		fputs("complete -c sbatch -c salloc -c srun", stdout);
	printf(" -l %s%s%s", o->prefix, o->name, o->choices ? " -x" : "");
	if (o->choices && *o->choices) {
		fputs(" -a '", stdout);
		print_choices(o->choices);
		putchar('\'');
	}
	fputs(" -d '", stdout);
	print_quoted(o->help, "");
	puts("'");
}

static void print_fish(const p4d_subcommand *commands, size_t count)
{
	puts("# fish completion of p4d, and of the --p4d- options of sbatch, salloc and srun");
	for (size_t i = 0; i < count; i++) {
		printf("complete -c p4d -n __fish_use_subcommand -a %s -d '", commands[i].name);
		print_quoted(commands[i].help, "");
		puts("'");
		fish_command = commands[i].name;
		each_option(&commands[i], print_fish_option);
	}
	fish_command = NULL;
	each_job_option(P4D_WHERE_SLURM, "p4d-", print_fish_option);
}

int p4d_command_completion(const char *shell, const p4d_subcommand *commands, size_t count, p4d_error *err)
{
	static const struct {
		const char *name;
		void (*print)(const p4d_subcommand *commands, size_t count);
	} shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

	for (size_t i = 0; shell && i < sizeof(shells) / sizeof(shells[0]); i++)
		if (!strcmp(shells[i].name, shell)) {
			shells[i].print(commands, count);
			return 0;
		}
	p4d_fail(err, P4D_E_USAGE, "p4d completion writes for bash, zsh and fish");
	return p4d_fix(err, "p4d completion bash");
}
