/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files: words with an unquoted * or ?, and ls. */
#include <string.h>
#include <strings.h>

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

static bool has_wild(p4d_value word)
{
	for (uint32_t i = 0; i < word.length; i++)
		if (is_wild(word.at[i]))
			return true;
	return false;
}

/*
 * Inserts a word into a sorted list. Fails if the order depends on the locale, which p4d does not know:
 * "B" is before "a" only in the C locale.
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
		if ((order < 0) != (strcasecmp(before, text) < 0))
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

/* Whether the script itself writes a file in a folder, or one whose place p4d does not know. */
static bool writes_in(p4d_shell *sh, const char *folder)
{
	const size_t length = strlen(folder);

	for (const p4d_shell_written *f = sh->written; f && p4d_shell__work(sh, f->path.length + 1);
	     f = f->next) {
		const char *path = p4d_shell__absolute(sh, f->path);
		if (!*path || (!strncmp(path, folder, length) && path[length] == '/'))
			return true;
	}
	return false;
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

	if (!host->list || p4d_value_unknown(n->folder) || p4d_value_unknown(n->pattern) ||
	    has_wild(n->folder))
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

void p4d_shell__expand_names(p4d_shell *sh, p4d_shell_words *words, uint32_t from, p4d_shell_names use)
{
	p4d_shell_words all = {0};
	bool any = false;
	char text[96];

	for (uint32_t i = from; i < words->count && !any; i++)
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
		if (known && n.found.count)
			continue;
		if (use == P4D_SHELL_NAMES_OF_LOOP ||
		    (use == P4D_SHELL_NAMES_OF_COMMAND &&
		     (known || !n.folder.length || !p4d_shell__builtin(words->at[0])))) {
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
