/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a script writes, and files that it sources. */
#include <string.h>

#include "base/file.h"
#include "shell/shell_internal.h"

/*
 * Whether two uses of a text mean the same: it is known, or its unknown parts are variables that never
 * change. config.$SLURM_JOB_ID.json is always the same file.
 */
static bool same_each_time(p4d_value text)
{
	for (uint32_t i = 0; i < text.length; i++)
		if (text.at[i].unknown && text.at[i].c != P4D_CELL_WORD && text.at[i].c != P4D_CELL_UNSET &&
		    text.at[i].c != P4D_CELL_UNSET_HERE)
			return false;
	return true;
}

void p4d_shell__write(p4d_shell *sh, const p4d_shell_redirection *r, p4d_value text)
{
	p4d_value before;
	p4d_shell_build b = {0};

	if (!r->has_output || !same_each_time(r->output) || p4d_value_is(r->output, "/dev/null"))
		return;
	const p4d_shell_redirection from = {.has_input_path = true, .input_path = r->output};
	if (r->appends && p4d_shell__input(sh, &from, &before))
		p4d_shell__add_value(sh, &b, before, false);
	p4d_shell__add_value(sh, &b, text, false);
	p4d_shell_written *file = p4d_shell__take(sh, sizeof(*file));
	if (file) {
		*file = (p4d_shell_written){sh->written, r->output, {b.at, b.length}, false};
		sh->written = file;
	}
}

void p4d_shell__change_names(const p4d_shell_call *w)
{
	for (size_t i = 0; i < w->count && !w->sh->stopped; i++) {
		p4d_shell_written *file =
		    w->at[i].length && w->at[i].at[0].c != '-' ? p4d_shell__take(w->sh, sizeof(*file)) : NULL;
		if (!file)
			continue;
		*file = (p4d_shell_written){w->sh->written, w->at[i], {0}, true};
		w->sh->written = file;
	}
}

/* Whether a program that p4d does not read changes no names of files. */
static bool keeps_names(p4d_value command)
{
	static const char *const names[] = {
	    "module", "ml",       "conda",  "mamba", "micromamba", "spack",    "nvcc",   "squeue",
	    "sacct",  "sinfo",    "df",     "du",    "free",       "lscpu",    "lspci",  "ibstat",
	    "type",   "which",    "hash",   "alias", "deactivate", "complete", "umask",  "stat",
	    "kill",   "printenv", "locale", "tput",  "ps",         "pgrep",    "uptime", "ifconfig",
	    "ip",     "sort",     "uniq",   "jq",    "diff",       "column",   "tac",    "getent"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (p4d_value_is(command, names[i]))
			return true;
	return false;
}

void p4d_shell__lose_names(p4d_shell *sh, p4d_value command)
{
	sh->changes_names = sh->changes_names || !keeps_names(command);
}

/* Removes "." and ".." from an absolute path, as cd does. */
static void tidy(char *path)
{
	size_t to = 0;

	for (const char *at = path; *at;) {
		const char *name = at + strspn(at, "/");
		const size_t n = strcspn(name, "/");
		at = name + n;
		if (!n || (n == 1 && name[0] == '.'))
			continue;
		if (n == 2 && name[0] == '.' && name[1] == '.') {
			while (to && path[--to] != '/')
				;
			continue;
		}
		path[to++] = '/';
		memmove(path + to, name, n);
		to += n;
	}
	if (!to)
		path[to++] = '/';
	path[to] = '\0';
}

/*
 * Returns the absolute path of a file relative to the job's current directory. "" if that directory is
 * unknown.
 */
const char *p4d_shell__absolute(p4d_shell *sh, p4d_value path)
{
	p4d_shell_build b = {0};
	p4d_value from = {0};
	const bool home = path.length && path.at[0].c == '~' && !path.at[0].quoted &&
			  (path.length == 1 || path.at[1].c == '/');

	if (p4d_value_unknown(path) || !path.length)
		return "";
	if (home && !p4d_shell_variable(sh, "HOME", &from))
		return "";
	if (!home && path.at[0].c != '/')
		p4d_shell_variable(sh, "PWD", &from);
	if (p4d_value_unknown(from))
		return "";
	p4d_shell__add_value(sh, &b, from, false);
	p4d_shell__add(sh, &b, (p4d_cell){.c = '/'});
	p4d_shell__add_value(sh, &b, p4d_shell__part(path, home, path.length - home), false);
	if (!p4d_shell__work(sh, b.length))
		return "";
	char *text = p4d_shell__take(sh, b.length + 1);
	if (!text)
		return "";
	p4d_value_text((p4d_value){b.at, b.length}, text, b.length + 1);
	if (text[0] == '/')
		tidy(text);
	return text;
}

bool p4d_shell_file(p4d_shell *sh, p4d_value path, p4d_value *written, const char **text, size_t *length)
{
	*written = (p4d_value){0};
	*text = NULL;
	const char *wanted = p4d_shell__absolute(sh, path);
	for (const p4d_shell_written *f = sh->written; f && p4d_shell__work(sh, f->path.length + 1);
	     f = f->next)
		if (!f->only_name && (*wanted ? !strcmp(p4d_shell__absolute(sh, f->path), wanted)
					      : same_each_time(path) && p4d_shell__equal(path, f->path))) {
			*written = f->text;
			return true;
		}
	if (!*wanted || !sh->host->file)
		return false;
	*text = sh->host->file(sh->host->context, wanted, length);
	return *text != NULL;
}

void p4d_shell__all(p4d_shell *sh, p4d_shell_source s, p4d_shell_mode mode)
{
	if (++sh->depth > P4D_SHELL_DEPTH)
		p4d_shell__stop(sh, "the script is nested too deep to read");
	p4d_shell__run(sh, &s, mode);
	while (s.at < s.length &&
	       !p4d_shell__over(sh)) { /* continues after a closing bracket that has no opening one */
		p4d_shell__advance(sh, &s);
		p4d_shell__run(sh, &s, mode);
	}
	sh->depth--;
}

/* Reads a file of commands. words: the file, and its own parameters if there are any. */
bool p4d_shell__run_file(p4d_shell *sh, const p4d_value *words, size_t count, p4d_shell_mode mode,
			 bool own_parameters)
{
	p4d_value written;
	const char *text;
	size_t length;

	if (!count || !p4d_shell_file(sh, words[0], &written, &text, &length) ||
	    (!text && written.length == 1 && written.at[0].unknown))
		return false;
	p4d_shell_source s = p4d_shell__source_of(sh, written, NULL);
	if (text) {
		s = (p4d_shell_source){.text = text,
				       .length = length,
				       .line = 1,
				       .file = p4d_shell__place(sh, "%s", p4d_shell__text_of(sh, words[0]))};
	}
	static const p4d_cell sourced[] = {{.c = 's'}, {.c = 'o'}, {.c = 'u'},
					   {.c = 'r'}, {.c = 'c'}, {.c = 'e'}};
	const p4d_shell_words before = sh->in.parameters;
	const p4d_shell_frame frame = {.outer = own_parameters ? NULL : sh->in.frame,
				       .function = {sourced, 6},
				       .source = words[0]},
			      *const outer = sh->in.frame;
	if (own_parameters || count > 1) {
		sh->in.parameters = (p4d_shell_words){0};
		for (size_t i = 0; i < count; i++)
			p4d_shell__add_word(sh, &sh->in.parameters,
					    !i && !own_parameters && before.count ? before.at[0] : words[i]);
	}
	sh->in.frame = &frame;
	p4d_shell__all(sh, s, mode);
	sh->in.frame = outer;
	sh->in.parameters = before;
	sh->in.returned = false;
	return true;
}

bool p4d_shell_script(p4d_shell *sh, const p4d_value *words, size_t count, int levels)
{
	if (sh->level >= levels)
		return false;
	const p4d_shell_mode mode = sh->mode;
	p4d_shell_scope scope;
	p4d_shell__enter(sh, &scope, true);
	sh->level++;
	bool read = p4d_shell__run_file(sh, words, count, mode, true);
	sh->level--;
	p4d_shell__leave(sh, &scope);
	sh->mode = mode;
	return read;
}

void p4d_shell_text(p4d_shell *sh, const p4d_value *words, size_t count)
{
	static const p4d_shell_frame text = {.outer = NULL};
	const p4d_shell_mode mode = sh->mode;
	p4d_shell_scope scope;

	p4d_shell__enter(sh, &scope, true);
	sh->in.frame = &text;
	sh->in.parameters = (p4d_shell_words){0};
	for (size_t i = 1; i < count; i++)
		p4d_shell__add_word(sh, &sh->in.parameters, words[i]);
	p4d_shell__all(sh, p4d_shell__source_of(sh, words[0], NULL), mode);
	p4d_shell__leave(sh, &scope);
	sh->mode = mode;
}

bool p4d_shell_may_run(p4d_shell *sh, const p4d_value *words, size_t count)
{
	const p4d_shell_mode mode = sh->mode;
	size_t texts;
	const p4d_value *text =
	    words[0].length == 1 ? p4d_shell_may_be(sh, words[0].at[0].unknown, &texts) : NULL;

	for (size_t i = 0; text && i < texts && p4d_shell__work(sh, P4D_SHELL_BUCKETS); i++) {
		p4d_shell_build b = {0};
		p4d_shell_scope scope;
		p4d_shell__add_value(sh, &b, text[i], false);
		for (size_t j = 1; j < count; j++) {
			p4d_shell__add(sh, &b, (p4d_cell){.c = ' '});
			p4d_shell__add_value(sh, &b, words[j], true);
		}
		p4d_shell__enter(sh, &scope, false);
		p4d_shell__all(sh, p4d_shell__source_of(sh, (p4d_value){b.at, b.length}, NULL),
			       P4D_SHELL_MAYBE);
		p4d_shell__leave(sh, &scope);
	}
	sh->mode = mode;
	return text != NULL;
}

/*
 * Whether the name of a Python program says that it changes files, by a word that begins with a verb:
 * config_updater.py. Some verbs are also nouns. Such a verb must be the whole first word (set_lr.py); some
 * of them may also be the whole last word (yaml_patch.py, but not create_patches.py or test_set.py).
 */
static bool says_that_it_edits(const char *path)
{
	static const struct {
		const char *text;
		bool first, last;
	} verbs[] = {{"edit", false, false},     {"modify", false, false}, {"update", false, false},
		     {"override", false, false}, {"patch", true, true},    {"set", true, false},
		     {"fill", true, false}};
	const char *name = p4d_file_name(path);
	const size_t length = strlen(name);

	if (length <= 3 || strcmp(name + length - 3, ".py") != 0)
		return false;
	for (const char *word = name; *word; word += strcspn(word, "_-."), word += strspn(word, "_-."))
		for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
			const size_t verb = strlen(verbs[i].text);
			if (strncmp(word, verbs[i].text, verb) != 0)
				continue;
			const bool whole = strchr("_-.", word[verb]), last = !strcmp(word + verb, ".py");
			if (!verbs[i].first || (whole && (word == name || (verbs[i].last && last))))
				return true;
		}
	return false;
}

/* The last characters of a path, as many as fit into a text of this size. */
static p4d_value end_of(p4d_value path, size_t size)
{
	const uint32_t most = (uint32_t)size - 1;

	return path.length > most ? p4d_shell__part(path, path.length - most, most) : path;
}

/* Whether a command changes files that it is given: an editor, or a program whose name says so. */
static bool edits(const p4d_shell_call *w, const char *command)
{
	/* letter: the option with which it edits; 0: it always does */
	static const struct {
		const char *name, *option;
		char letter;
	} editors[] = {{"yq", "--inplace", 'i'},
		       {"tomlq", "--in-place", 'i'},
		       {"perl", "-pi", 'i'},
		       {"ruby", "-pi", 'i'},
		       {"crudini", "", 0},
		       {"patch", "", 0},
		       {"ed", "", 0},
		       {"ex", "", 0},
		       {"sponge", "", 0}};
	const char *slash = strrchr(command, '/'), *name = slash ? slash + 1 : command;
	char word[64];

	for (size_t i = 0; i < sizeof(editors) / sizeof(editors[0]); i++) {
		bool found = !editors[i].letter;
		for (size_t j = 0; j < w->count && !strcmp(name, editors[i].name) && !found; j++) {
			p4d_value_text(w->at[j], word, sizeof(word));
			found = !strcmp(word, editors[i].option) ||
				(word[0] == '-' && word[1] != '-' && strchr(word, editors[i].letter));
		}
		if (!strcmp(name, editors[i].name))
			return found;
	}
	size_t option = 0;
	if (!strncmp(name, "python", 6)) { /* skips Python's own options before the program: python -u
					    * set_lr.py */
		while (option < w->count && w->at[option].length && w->at[option].at[0].c == '-')
			option++;
		if (option == w->count)
			return false;
		name = p4d_value_text(end_of(w->at[option], sizeof(word)), word, sizeof(word));
	}
	return says_that_it_edits(name);
}

/* After this command the file has a text that p4d does not know. */
static void lose_file(const p4d_shell_call *w, p4d_value path, const char *command)
{
	const p4d_shell_redirection to = {.has_output = true, .output = path};

	p4d_shell__write(w->sh, &to,
			 p4d_shell__not_known(w->sh, p4d_shell__reason(w->sh, "%s changes it", command)));
}

static bool is_at(p4d_value text, uint32_t at, const char *what)
{
	const uint32_t length = (uint32_t)strlen(what);

	return text.length - at >= length && p4d_value_is(p4d_shell__part(text, at, length), what);
}

static bool has_end(p4d_value path, const char *end)
{
	const uint32_t length = (uint32_t)strlen(end);

	return path.length > length && is_at(path, path.length - length, end);
}

/* Whether a Python program writes files. If so, every configuration file that it names becomes unknown,
 * because the program may write it. */
static bool loses_named(const p4d_shell_call *w, p4d_value program)
{
	static const char *const writes[] = {"'w'",    "\"w\"", "'a'",    "\"a\"",      "'w+'",
					     "\"w+\"", "'r+'",  "\"r+\"", "write_text", "dump("},
				 *const ends[] = {".json", ".yaml", ".yml", ".toml", ".txt", ".env", ".sh"};
	bool found = false;

	for (uint32_t i = 0; i < program.length && !found; i++)
		for (size_t j = 0; j < sizeof(writes) / sizeof(writes[0]); j++)
			found = found || (program.at[i].c == writes[j][0] && is_at(program, i, writes[j]));
	for (uint32_t i = 0; i < program.length && found; i++) {
		uint32_t end = i + 1;
		if (program.at[i].c != '\'' && program.at[i].c != '"')
			continue;
		while (end < program.length && program.at[end].c != program.at[i].c)
			end++;
		const p4d_value path = p4d_shell__part(program, i + 1, end - i - 1);
		for (size_t j = 0; j < sizeof(ends) / sizeof(ends[0]) && end < program.length; j++)
			if (has_end(path, ends[j]))
				lose_file(w, path, "python");
		i = end;
	}
	return found;
}

/* Whether the command is Python with its program on the command line or on standard input, and writes files.
 */
static bool writes_files(const p4d_shell_call *w, const char *command)
{
	p4d_value program;

	if (strncmp(p4d_file_name(command), "python", 6) != 0)
		return false;
	if (w->count > 1 && p4d_value_is(w->at[0], "-c"))
		return p4d_shell__work(w->sh, w->at[1].length) && loses_named(w, w->at[1]);
	if (w->count && !p4d_value_is(w->at[0], "-"))
		return false;
	return p4d_shell__input(w->sh, w->redirection, &program) && p4d_shell__work(w->sh, program.length) &&
	       loses_named(w, program);
}

void p4d_shell__edit(const p4d_shell_call *w, p4d_value command)
{
	char name[64];
	p4d_value written;
	const char *text;
	size_t length;

	if (p4d_value_unknown(command))
		return;
	p4d_value_text(end_of(command, sizeof(name)), name, sizeof(name));
	if (!writes_files(w, name) && !edits(w, name))
		return;
	for (size_t i = 0; i < w->count; i++) {
		p4d_value path = w->at[i];
		while (path.length && path.at[0].c == '-') { /* --output=FILE */
			const p4d_value rest = p4d_shell__part(path, 1, path.length - 1);
			uint32_t equals = 0;
			while (equals < rest.length && rest.at[equals].c != '=')
				equals++;
			path = equals < rest.length
				   ? p4d_shell__part(rest, equals + 1, rest.length - equals - 1)
				   : (p4d_value){0};
		}
		if (path.length && !has_end(path, ".py") &&
		    p4d_shell_file(w->sh, path, &written, &text, &length))
			lose_file(w, path, name);
	}
}
