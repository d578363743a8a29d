/* SPDX-License-Identifier: Apache-2.0 */
/* What bash, zsh and fish complete after p4d-train. */
#include <stdio.h>
#include <string.h>

#include "base/completion.h"
#include "run/settings_internal.h"

typedef void put_option(const p4d_completed *option);

static void each_option(put_option *put)
{
	for (const p4d_option_info *at = p4d_settings__table; at < p4d_settings__table + P4D_SETTINGS; at++) {
		const p4d_completed one = p4d_completed_of(at, "", at->help);
		put(&one);
	}
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (p4d_settings__takes((p4d_option)i)) {
			const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
			const p4d_completed one = p4d_completed_of(info, "", info->help);
			put(&one);
		}
	put(&(p4d_completed){"", "help", "print the options", NULL, false});
	put(&(p4d_completed){"", "version", "print the version", NULL, false});
	put(&(p4d_completed){"", "completion", "print completions of a shell", "bash|zsh|fish", false});
}

static void put_fish(const p4d_completed *o)
{
	p4d_completed_fish("complete -c p4d-train", o);
}

static void print_bash(void)
{
	puts("# bash completion of p4d-train\n"
	     "_p4d_train_values()\n{\n\tcase $1 in\n"
	     "\t--model) p4d models 2>/dev/null | awk 'NR > 1 { print $1 }' ;;");
	each_option(p4d_completed_case);
	puts("\tesac\n}\n");
	p4d_completed_split("p4d_train");
	fputs("_p4d_train()\n{\n\tlocal cur prev words\n\t_p4d_train_split\n"
	      "\tif [ \"${prev#--}\" != \"$prev\" ] && words=$(_p4d_train_values \"$prev\") && [ -n "
	      "\"$words\" ]; then\n"
	      "\t\t:\n\telif [ \"${cur#-}\" != \"$cur\" ]; then\n\t\twords='",
	      stdout);
	each_option(p4d_completed_word);
	puts("'\n\telse\n\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n\t\treturn\n\tfi\n"
	     "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n}\n"
	     "complete -o default -F _p4d_train p4d-train");
}

static void print_zsh(void)
{
	puts("#compdef p4d-train\n# zsh completion of p4d-train\n_arguments \\");
	each_option(p4d_completed_zsh);
	puts("\t\t'*:file:_files'");
}

static void print_fish(void)
{
	puts("# fish completion of p4d-train");
	each_option(put_fish);
}

int p4d_settings_completion(const char *shell, p4d_error *err)
{
	static const struct {
		const char *name;
		void (*print)(void);
	} shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

	for (size_t i = 0; i < sizeof(shells) / sizeof(*shells); i++)
		if (!strcmp(shells[i].name, shell)) {
			shells[i].print();
			return 0;
		}
	p4d_fail(err, P4D_E_USAGE, "p4d-train completes in bash, zsh and fish, not in %.64s", shell);
	return p4d_fix(err, "p4d-train --completion bash");
}
