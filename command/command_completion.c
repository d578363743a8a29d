/* SPDX-License-Identifier: Apache-2.0 */
/* p4d completion: prints functions with which bash, zsh and fish complete the words after `p4d`, and the
 * p4d options of sbatch. */
#include <stdio.h>
#include <string.h>

#include "base/completion.h"
#include "command.h"

typedef void print_option(const p4d_completed *option);

static void each_job_option(unsigned where, const char *prefix, print_option *print)
{
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		char help[P4D_HELP_TEXT];
		if (!(info->where & where))
			continue;
		const p4d_completed one =
		    p4d_completed_of(info, prefix, p4d_request_help((p4d_option)i, help));
		print(&one);
	}
}

static void each_option(const p4d_subcommand *command, print_option *print)
{
	if (command->takes & P4D_TAKES_JOB)
		each_job_option(P4D_WHERE_COMMAND, "", print);
	for (const p4d_line_option *own = p4d_line_own; own->name; own++)
		if (own->takes == P4D_TAKES_ANY || command->takes & own->takes)
			print(&(p4d_completed){"", own->name, own->help, own->argument ? "" : NULL,
					       p4d_completed_is_path(own->argument)});
}

static void print_bash(const p4d_subcommand *commands, size_t count)
{
	puts("# bash completion of p4d, and of the --p4d- options of sbatch, salloc and srun\n"
	     "_p4d_values()\n{\n\tcase $1 in\n"
	     "\t--model | --p4d-model) p4d models 2>/dev/null | awk 'NR > 1 { print $1 }' ;;\n"
	     "\t--gpu) p4d gpus 2>/dev/null | awk 'NR > 1 { print $1 }' ;;");
	each_job_option(P4D_WHERE_COMMAND, "", p4d_completed_case);
	each_job_option(P4D_WHERE_SLURM, "p4d-", p4d_completed_case);
	puts("\tesac\n}\n\n_p4d_options()\n{\n\tcase $1 in");
	for (size_t i = 0; i < count; i++) {
		printf("\t%s) echo '", commands[i].name);
		each_option(&commands[i], p4d_completed_word);
		puts("' ;;");
	}
	fputs("\tsbatch) echo '", stdout);
	each_job_option(P4D_WHERE_SLURM, "p4d-", p4d_completed_word);
	fputs("' ;;\n\tesac\n}\n\n", stdout);
	p4d_completed_split("p4d");
	fputs("_p4d()\n{\n\tlocal cur prev words\n\t_p4d_split\n"
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

static void print_zsh(const p4d_subcommand *commands, size_t count)
{
	puts("#compdef p4d sbatch salloc srun\n"
	     "# zsh completion of p4d, and of the --p4d- options of sbatch, salloc and srun\n"
	     "if [[ $service != p4d ]]; then\n"
	     "\tif [[ $PREFIX != --p4d* ]]; then\n\t\t_default\n\t\treturn\n\tfi\n"
	     "\t_arguments \\");
	each_job_option(P4D_WHERE_SLURM, "p4d-", p4d_completed_zsh);
	puts("\t\t'*:file:_files'\n\treturn\nfi\n"
	     "if (( CURRENT == 2 )); then\n\tlocal -a commands=(");
	for (size_t i = 0; i < count; i++) {
		printf("\t\t'%s:", commands[i].name);
		p4d_completed_quoted(commands[i].help, ":");
		puts("'");
	}
	puts("\t)\n\t_describe command commands\n\treturn\nfi\nlocal command=$words[2]\n"
	     "shift words\n(( CURRENT-- ))\ncase $command in");
	for (size_t i = 0; i < count; i++) {
		printf("%s)\n\t_arguments \\\n", commands[i].name);
		each_option(&commands[i], p4d_completed_zsh);
		puts("\t\t'*:file:_files'\n\t;;");
	}
	puts("esac");
}

/* The command whose options print_fish_option prints. */
static const char *fish_command;

static void print_fish_option(const p4d_completed *o)
{
	char begin[128] = "complete -c sbatch -c salloc -c srun";

	if (fish_command)
		snprintf(begin, sizeof(begin), "complete -c p4d -n '__fish_seen_subcommand_from %s'",
			 fish_command);
	p4d_completed_fish(begin, o);
}

static void print_fish(const p4d_subcommand *commands, size_t count)
{
	puts("# fish completion of p4d, and of the --p4d- options of sbatch, salloc and srun");
	for (size_t i = 0; i < count; i++) {
		printf("complete -c p4d -n __fish_use_subcommand -a %s -d '", commands[i].name);
		p4d_completed_quoted(commands[i].help, "");
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
