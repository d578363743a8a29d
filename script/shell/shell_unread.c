/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that may be set by files and texts that p4d cannot read. */
#include <string.h>

#include "shell/shell_internal.h"

static const char output_of[] = "output of ";

/* The part of a name after its last slash. */
static p4d_shell_name last_part(const char *text, size_t length)
{
	size_t from = length;

	while (from && text[from - 1] != '/')
		from--;
	return (p4d_shell_name){text + from, length - from};
}

static bool is_among(p4d_shell_name name, const char *const *names)
{
	for (; *names; names++)
		if (strlen(*names) == name.length && !memcmp(*names, name.text, name.length))
			return true;
	return false;
}

/*
 * Whether a command makes programs available to a shell, like module. Such commands, and the text that they
 * print for eval, set search paths, but nothing that affects a training.
 */
static bool changes_environment(p4d_shell_name name)
{
	static const char *const names[] = {
	    "module",   "ml",         "lmod",   "modulecmd",   "conda",
	    "mamba",    "micromamba", "spack",  "pyenv",       "opam",
	    "brew",     "pixi",       "poetry", "virtualenv",  "ssh-agent",
	    "nvm",      "fnm",        "rbenv",  "dircolors",   "lesspipe",
	    "starship", "guix",       "nix",    "path_helper", "register-python-argcomplete",
	    NULL};

	return is_among(name, names);
}

void p4d_shell__unread(p4d_shell *sh, const char *what)
{
	const size_t prefix = sizeof(output_of) - 1;
	const bool printed = !strncmp(what, output_of, prefix);
	const char *const rest = what + (printed ? prefix : 0);

	sh->unreads++;
	if ((printed && changes_environment(last_part(rest, strlen(rest)))) ||
	    (sh->host->unread && !sh->host->unread(sh->host->context, what))) {
		sh->in.unread.modules = true;
		return;
	}
	sh->in.unread.reason = p4d_shell__reason(sh, "%s", what);
	sh->in.unread.at = sh->unreads;
}

void p4d_shell__environment(p4d_shell *sh, p4d_value command)
{
	char text[64];

	if (sh->in.unread.modules || !command.length || command.length >= sizeof(text))
		return;
	p4d_value_text(command, text, sizeof(text));
	sh->in.unread.modules = changes_environment(last_part(text, command.length));
}

static bool begins_with(p4d_shell_name name, const char *text)
{
	const size_t length = strlen(text);

	return name.length >= length && !memcmp(name.text, text, length);
}

static bool ends_with(p4d_shell_name name, const char *text)
{
	const size_t length = strlen(text);

	return name.length >= length && !memcmp(name.text + name.length - length, text, length);
}

bool p4d_shell__of_modules(const p4d_shell *sh, p4d_shell_name name)
{
	static const char *const first[] = {"CUDA", "CUDNN", "NCCL",  "ROCM",   "HIP",    "UCX",
					    "MPI",  "OMPI",  "I_MPI", "CONDA_", "MAMBA",  "PYTHON",
					    "EB",   "LMOD",  "HF_",   "SLURM",  "MODULE", "VIRTUAL_ENV"},
				 *const last[] = {"_HOME", "_ROOT",  "_DIR",    "_PATH", "_PREFIX",
						  "_BASE", "_LIB",   "_BIN",    "DIR",   "_INC",
						  "_ENV",  "_CACHE", "_VERSION"},
				 *const whole[] = {"SCRATCH", "WORK", "PROJECT", "STORE", "TMPDIR",
						   "PATH",    "CC",   "CXX",     NULL};

	if (!sh->in.unread.modules)
		return false;
	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		if (begins_with(name, first[i]))
			return true;
	for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++)
		if (ends_with(name, last[i]))
			return true;
	return is_among(name, whole);
}

const char *p4d_shell_may_set(p4d_shell *sh)
{
	return sh->in.unread.reason ? p4d_shell_unknown(sh, sh->in.unread.reason) : NULL;
}

/* Whether a variable has a value that is not empty. */
static bool has_text(const p4d_shell_var *v)
{
	return v && (v->value.count > 1 || (v->value.count == 1 && v->value.at[0].length));
}

uint16_t p4d_shell__may_be_set(p4d_shell *sh, p4d_shell_name name)
{
	static const char *const own[] = {"PWD",  "OLDPWD", "IFS",      "OPTIND",   "OPTARG",
					  "HOME", "USER",   "DIRSTACK", "HOSTNAME", NULL};
	if (!sh->in.unread.reason || begins_with(name, "SLURM_") || is_among(name, own))
		return 0;
	const p4d_shell_var *v = p4d_shell__lookup(sh, name);
	if (has_text(v))
		return 0;
	v = v ? v : p4d_shell__find(sh, name, false);
	if (v && (v->set || v->array) &&
	    v->since >= sh->in.unread.at) /* the variable was emptied or unset after that input */
		return 0;
	const char *what = p4d_shell_unknown(sh, sh->in.unread.reason);
	return p4d_shell__reason(sh,
				 strncmp(what, output_of, sizeof(output_of) - 1)
				     ? "$%.*s may be set by %s, which p4d cannot read"
				     : "$%.*s may be set by the %s",
				 (int)(name.length < 48 ? name.length : 48), name.text, what);
}
