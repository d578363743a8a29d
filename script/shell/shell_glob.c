/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files: words with an unquoted *, ? or [ ], and ls. */
#include <ctype.h>
#include <string.h>

#include "shell/shell_internal.h"

enum { LONGEST = 512 }; /* longest path in a list */

/* A list of names under construction. */
typedef struct name_list {
	p4d_shell *sh;
	p4d_value folder, pattern; /* the two parts of the word; pattern length 0: every name */
	p4d_shell_words found;     /* folder and name, sorted */
	bool only_files;           /* a folder ends the search without a result */
	bool failed;
} name_list;

static bool is_wild(p4d_cell c)
{
	return !c.unknown && !c.quoted && (c.c == '*' || c.c == '?');
}

static bool is_plain(p4d_cell cell, char c)
{
	return !cell.unknown && !cell.quoted && cell.c == c;
}

/* Whether a word has a set of characters: [ and a later ]. */
static bool has_set(p4d_value word)
{
	bool open = false;

	for (uint32_t i = 0; i < word.length; i++) {
		if (open && is_plain(word.at[i], ']'))
			return true;
		open = open || is_plain(word.at[i], '[');
	}
	return false;
}

static bool has_star(p4d_value word)
{
	for (uint32_t i = 0; i < word.length; i++)
		if (is_wild(word.at[i]))
			return true;
	return false;
}

static bool has_wild(p4d_value word)
{
	return has_star(word) || has_set(word);
}

/* Compares texts as the locales of languages do first: only letters and digits, without case. */
static int letters_order(const char *a, const char *b)
{
	for (;; a++, b++) {
		while (*a && !isalnum((unsigned char)*a))
			a++;
		while (*b && !isalnum((unsigned char)*b))
			b++;
		const int order = tolower((unsigned char)*a) - tolower((unsigned char)*b);
		if (order || !*a)
			return order;
	}
}

/*
 * Inserts a word into a sorted list. Fails if the order depends on the locale, which p4d does not know:
 * "B" is before "a", and "1.y" before "10.y", only in the C locale.
 */
static bool insert(p4d_shell *sh, p4d_shell_words *words, p4d_value word)
{
	char text[LONGEST], before[LONGEST];
	uint32_t to = words->count;

	if (word.length >= sizeof(text))
		return false;
	p4d_value_text(word, text, sizeof(text));
	p4d_shell__add_word(sh, words, word);
	for (; to && p4d_shell__work(sh, 1); to--) {
		const int order = strcmp(p4d_value_text(words->at[to - 1], before, sizeof(before)), text);
		const int letters = letters_order(before, text);
		if (!letters || (order < 0) != (letters < 0))
			return false;
		if (order < 0)
			break;
		words->at[to] = words->at[to - 1];
	}
	if (!sh->stopped)
		words->at[to] = word;
	return !sh->stopped;
}

static void take_name(void *taker, const char *name, bool folder)
{
	name_list *n = taker;
	p4d_shell_build b = {0};
	const p4d_cell like = n->pattern.length  ? n->pattern.at[0]
			      : n->folder.length ? n->folder.at[0]
						 : (p4d_cell){0};

	if (n->failed || (name[0] == '.' && !(n->pattern.length && n->pattern.at[0].c == '.')))
		return;
	p4d_shell__add_value(n->sh, &b, n->folder, true);
	p4d_shell__add_text(n->sh, &b, name, (p4d_cell){.line = like.line, .file = like.file, .quoted = 1});
	const p4d_value path = p4d_shell__copied(n->sh, (p4d_value){b.at, b.length}),
			last = p4d_shell__part(path, n->folder.length, path.length - n->folder.length);
	if (n->sh->stopped || (n->pattern.length && !p4d_shell__matches(n->sh, n->pattern, last)))
		return;
	n->failed = (folder && n->only_files) || !insert(n->sh, &n->found, path);
}

/* Whether the script itself writes or removes a file in a folder, or one whose place p4d does not know. */
static bool writes_in(p4d_shell *sh, const char *folder)
{
	const size_t length = strlen(folder);

	for (const p4d_shell_written *f = sh->written; f && p4d_shell__work(sh, f->path.length + 1);
	     f = f->next) {
		const char *path = p4d_shell__absolute(sh, f->path);
		if (!*path || (!strncmp(path, folder, length) && (!path[length] || path[length] == '/')))
			return true;
	}
	return false;
}

/* Whether options, GLOBIGNORE or programs that p4d does not read make other names of a word. */
static bool may_be_others(p4d_shell *sh)
{
	p4d_value value;

	return sh->changes_names || (sh->in.options & P4D_SHELL_OTHER_NAMES) ||
	       (p4d_shell__lookup(sh, (p4d_shell_name){"GLOBIGNORE", 10}) &&
		p4d_shell_variable(sh, "GLOBIGNORE", &value) && value.length);
}

/*
 * Finds the name_list in n->folder that match n->pattern. False: p4d does not know them. A folder of which
 * p4d reads no entries, and a pattern in the folder's name, are not known.
 */
static bool find_names(name_list *n)
{
	p4d_shell *sh = n->sh;
	const p4d_value here = p4d_shell__value_of(sh, ".", (p4d_cell){0});
	const p4d_shell_host *host = sh->host;

	if (!host->list || may_be_others(sh) || p4d_value_unknown(n->folder) ||
	    p4d_value_unknown(n->pattern) || has_wild(n->folder))
		return false;
	const char *folder = p4d_shell__absolute(sh, n->folder.length ? n->folder : here);
	return *folder && !writes_in(sh, folder) && p4d_shell__work(sh, 64) &&
	       host->list(host->context, folder, take_name, n) && !n->failed && !sh->stopped;
}

/* The names that a word stands for. False: p4d does not know them. */
static bool names_of(p4d_shell *sh, p4d_value word, bool only_files, name_list *n)
{
	uint32_t slash = word.length;

	while (slash && (word.at[slash - 1].unknown || word.at[slash - 1].c != '/'))
		slash--;
	*n = (name_list){.sh = sh,
			 .folder = p4d_shell__part(word, 0, slash),
			 .pattern = p4d_shell__part(word, slash, word.length - slash),
			 .only_files = only_files};
	return n->pattern.length && find_names(n);
}

/* Whether the command is a function of the script or one that p4d runs itself. */
static bool is_own(p4d_shell *sh, p4d_value command)
{
	for (const p4d_shell_function *f = sh->in.function; f; f = f->next)
		if (f->name.length == command.length &&
		    !memcmp(f->name.text, p4d_shell__name_of(sh, command).text, command.length))
			return true;
	return p4d_shell__builtin(command);
}

static bool has_equals(p4d_value word)
{
	for (uint32_t i = 0; i < word.length; i++)
		if (!word.at[i].unknown && word.at[i].c == '=')
			return true;
	return false;
}

/* Whether a word whose files p4d does not know stays as it is. n: what p4d has found of it. */
static bool stays(p4d_shell *sh, const p4d_shell_words *words, p4d_value word, p4d_shell_names use,
		  const name_list *n, bool known)
{
	const bool option = word.at[0].c == '-' || has_equals(word);

	if (!has_star(word)) /* [0,1] is rarely a set of characters */
		return known || option || !n->folder.length;
	return use == P4D_SHELL_NAMES_OF_COMMAND && (known || !n->folder.length || !is_own(sh, words->at[0]));
}

void p4d_shell__expand_names(p4d_shell *sh, p4d_shell_words *words, uint32_t from, p4d_shell_names use)
{
	p4d_shell_words all = {0};
	bool any = false;
	char text[96];

	for (uint32_t i = from; i < words->count && !any && !(sh->in.options & P4D_SHELL_NOGLOB); i++)
		any = has_wild(words->at[i]);
	for (uint32_t i = 0; any && i < words->count && !sh->stopped; i++) {
		const p4d_value word = words->at[i];
		name_list n = {.sh = sh};
		if (i < from || !has_wild(word)) {
			p4d_shell__add_word(sh, &all, word);
			continue;
		}
		const bool known = names_of(sh, word, false, &n);
		for (uint32_t j = 0; known && j < n.found.count; j++)
			p4d_shell__add_word(sh, &all, n.found.at[j]);
		if (known && (n.found.count ||
			      (use != P4D_SHELL_NAMES_OF_ARRAY && (sh->in.options & P4D_SHELL_NULLGLOB))))
			continue;
		if (stays(sh, words, word, use, &n, known)) {
			p4d_shell__add_word(sh, &all, word); /* as bash does if no name matches */
			continue;
		}
		const p4d_cell files = {.line = word.at[0].line,
					.file = word.at[0].file,
					.unknown =
					    p4d_shell__reason(sh, "the names of the files %s",
							      p4d_value_text(word, text, sizeof(text))) &
					    0x7fffu,
					.c = P4D_CELL_WORDS};
		p4d_shell__add_word(sh, &all, p4d_shell__copied(sh, (p4d_value){&files, 1}));
	}
	if (any && !sh->stopped)
		*words = all;
}

/* ls without options that change the order: a name per line. */
p4d_shell_status p4d_shell__run_ls(const p4d_shell_call *w)
{
	p4d_shell *sh = w->sh;
	p4d_shell_options o = {.switches = "1", .valued = ""};
	const size_t first = p4d_shell__filter_options(w, &o);
	p4d_shell_words printed = {0};

	if (first == SIZE_MAX)
		return p4d_shell__print_unknown(w);
	name_list in = {.sh = sh};
	p4d_shell_build folder = {0};
	if (first + 1 == w->count) {
		p4d_shell__add_value(sh, &folder, w->at[first], true);
		p4d_shell__add(sh, &folder, (p4d_cell){.c = '/', .quoted = 1});
		in.folder = (p4d_value){folder.at, folder.length};
	}
	const bool listed = first + 1 >= w->count && find_names(&in);
	for (uint32_t i = 0; listed && i < in.found.count; i++)
		p4d_shell__add_word(sh, &printed,
				    p4d_shell__part(in.found.at[i], in.folder.length,
						    in.found.at[i].length - in.folder.length));
	for (size_t i = first; !listed && i < w->count && !sh->stopped; i++) {
		name_list n;
		if (has_wild(w->at[i]) || !names_of(sh, w->at[i], true, &n) || n.found.count != 1 ||
		    !insert(sh, &printed, w->at[i]))
			return p4d_shell__print_unknown(w);
	}
	for (uint32_t i = 0; i < printed.count; i++) {
		p4d_shell__print(w, printed.at[i]);
		p4d_shell__print(w, p4d_shell__value_of(sh, "\n", (p4d_cell){0}));
	}
	return printed.count ? P4D_SHELL_TAKEN : p4d_shell__print_unknown(w);
}
