/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the arguments on a command line. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "reader/reader_internal.h"

/* A word of the command, split into its parts. */
typedef struct argument_word {
	char name[96];   /* the argument's name in the form of the tables: "--name" */
	p4d_value value; /* the text after "=" */
	bool separate;   /* the word has no "=", so the value is the next word */
} argument_word;

void p4d_reader__place(const p4d_shell *shell, p4d_value value, p4d_read_given *to)
{
	const p4d_cell where = value.length ? value.at[0] : (p4d_cell){0};

	to->file = p4d_shell_file_name(shell, where.file);
	to->line = where.line;
}

static bool is_option(p4d_value word)
{
	return word.length > 1 && !word.at[0].unknown && word.at[0].c == '-' &&
	       !(word.at[1].c >= '0' && word.at[1].c <= '9') && word.at[1].c != '.';
}

static bool is_unknown_word(p4d_value word)
{
	return p4d_value_may_be_options(word);
}

static uint32_t find_equals(p4d_value word)
{
	uint32_t at = 0;

	while (at < word.length && (word.at[at].unknown || word.at[at].c != '='))
		at++;
	return at;
}

static void take_apart(p4d_value word, argument_word *to)
{
	const uint32_t equals = find_equals(word);

	p4d_value_text((p4d_value){word.at, equals}, to->name, sizeof(to->name));
	to->separate = equals == word.length;
	to->value = (p4d_value){.length = 0};
	if (!to->separate)
		to->value = (p4d_value){word.at + equals + 1, word.length - equals - 1};
}

/* Matches training.steps=10, the syntax of hydra and similar programs. Plus signs may precede the name. */
static bool is_assignment(p4d_value word, argument_word *to)
{
	p4d_value name = word;

	while (name.length && !name.at[0].unknown && name.at[0].c == '+')
		name = (p4d_value){name.at + 1, name.length - 1};
	const uint32_t equals = find_equals(name);
	if (!equals || equals == name.length || equals + 3 > sizeof(to->name))
		return false;
	for (uint32_t i = 0; i < equals; i++)
		if (name.at[i].unknown ||
		    (!isalnum((unsigned char)name.at[i].c) && !strchr("_.-", name.at[i].c)))
			return false;
	memcpy(to->name, "--", 2);
	p4d_value_text((p4d_value){name.at, equals}, to->name + 2, sizeof(to->name) - 2);
	to->value = (p4d_value){name.at + equals + 1, name.length - equals - 1};
	to->separate = false;
	return true;
}

/* Appends a value to those of a list. */
static void join(p4d_value value, char *text, size_t size)
{
	const size_t length = strlen(text);

	if (length + 2 < size) {
		memcpy(text + length, ",", length ? 2 : 0);
		p4d_value_text(value, text + strlen(text), size - strlen(text));
	}
}

/* Whether a word without dashes is an argument. */
static bool is_argument(const p4d_read_context *c, p4d_value word)
{
	argument_word w;
	char text[sizeof(w.name)];

	return p4d_reader__find(c->reading->reader, p4d_value_text(word, text, sizeof(text))) ||
	       (c->reading->reader->assignments && is_assignment(word, &w));
}

static bool has_operands(const p4d_reader *reader)
{
	const p4d_read_argument *a = p4d_reader__find(reader, "");

	return a && a->words != p4d_reader__first;
}

/*
 * Completes the path of a file that is named without its folder. A path that is too long is cut off, but is
 * still longer than p4d accepts.
 */
static p4d_value in_folder(p4d_read_context *c, p4d_value path)
{
	const uint32_t folder = c->folder.length;

	if (!folder || !path.length || path.at[0].c == '/')
		return path;
	if (folder + 1 + path.length > P4D_READ_PATH)
		path.length = folder + 1 < P4D_READ_PATH ? P4D_READ_PATH - folder - 1 : 0;
	if (!path.length)
		return c->folder;
	memcpy(c->path, c->folder.at, folder * sizeof(*c->path));
	c->path[folder] = (p4d_cell){.c = '/'};
	memcpy(c->path + folder + 1, path.at, path.length * sizeof(*c->path));
	return (p4d_value){c->path, folder + 1 + path.length};
}

/* The table row of a name. The name may also be an option of accelerate launch. */
static const p4d_read_argument *find(const p4d_read_context *c, const char *name)
{
	const p4d_read_argument *a = p4d_reader__find(c->reading->reader, name);
	char launcher[sizeof(((argument_word *)0)->name) + 16];

	if (a || !c->accelerates || strncmp(name, "--", 2) != 0)
		return a;
	snprintf(launcher, sizeof(launcher), "--accelerate.%s", name + 2);
	return p4d_reader__find(c->reading->reader, launcher);
}

static bool next_word(p4d_value *text, p4d_value *word)
{
	uint32_t from = 0, to;

	while (from < text->length && !text->at[from].unknown && isspace((unsigned char)text->at[from].c))
		from++;
	for (to = from; to < text->length; to++)
		if (!text->at[to].unknown && isspace((unsigned char)text->at[to].c))
			break;
	*word = (p4d_value){text->at + from, to - from};
	*text = (p4d_value){text->at + to, text->length - to};
	return word->length > 0;
}

/*
 * Notes a doubt about an unknown value after an option that p4d does not know. An unquoted variable may
 * expand to options instead of a value.
 */
static void doubt_value(p4d_read_context *c, const char *option, p4d_value value)
{
	if (value.at[0].quoted)
		return;
	p4d_read_unknown *u =
	    p4d_reader__unknown(c->reading, "arguments", "p4d does not know the value of %.60s (%.80s)",
				option, p4d_shell_unknown(c->shell, p4d_value_unknown(value)));
	if (u)
		u->doubt = true;
}

/*
 * Handles options that depend on an unknown test ("" or "--load ckpt"). If p4d uses such an option, its value
 * becomes unknown; other options have no effect. False: the text may be anything else. take: mark the options
 * as unknown.
 */
static bool may_be_options(p4d_read_context *c, p4d_value unknown, bool take)
{
	size_t count = 0;
	const p4d_value *text =
	    p4d_shell_may_be(c->shell, unknown.length == 1 ? unknown.at[0].unknown : 0, &count);
	bool after_option = false;

	if (!text || has_operands(c->reading->reader))
		return false;
	for (size_t i = 0; i < count; i++) {
		argument_word w = {.name = "", .separate = false};
		p4d_value rest = text[i], word;
		while (next_word(&rest, &word)) {
			if (is_unknown_word(word) && w.separate && !find(c, w.name)) {
				if (take)
					doubt_value(c, w.name, word);
				w.separate = false;
				continue;
			}
			if (!is_option(word)) {
				if (!after_option || is_unknown_word(word) || is_argument(c, word))
					return false;
				w.separate = false;
				continue;
			}
			after_option = true;
			take_apart(word, &w);
			const p4d_read_argument *a = find(c, w.name);
			if (a && p4d_reader__is_file(a))
				return false;
			if (a && take)
				p4d_reader__take_perhaps(c->reading, a,
							 p4d_shell_unknown(c->shell, unknown.at[0].unknown));
		}
	}
	return true;
}

/* Stores the words that form the value of an argument. *used: number of words after the argument. */
static void take_word(p4d_read_context *c, const p4d_read_argument *a, argument_word *w, p4d_value word,
		      const p4d_value *behind, size_t count, size_t *used, bool files)
{
	char text[sizeof(c->reading->value[0].text)] = "";
	p4d_read_given given = {.name = w->name, .value = text};
	p4d_value value = w->value;
	size_t values = 0;

	while (w->separate && values < count && !is_option(behind[values]) &&
	       !may_be_options(c, behind[values], false) &&
	       !(a->value && p4d_value_is_unset(behind[values])) && /* an unset variable after a switch, as in
								       --switch $NOTHING, is no word */
	       (values == 0 || (!is_unknown_word(behind[values]) && !is_argument(c, behind[values]))))
		values++;
	const bool list = a->words == p4d_reader__list;
	/* other arguments take only their first word as value */
	if (values > 1 && !list && has_operands(c->reading->reader))
		values = 1;
	if (values)
		value = behind[0];
	*used = list ? values : !a->value || p4d_reader__is_file(a) ? values > 0 : 0;
	if (files != p4d_reader__is_file(a))
		return;
	p4d_reader__place(c->shell, value.length ? value : word, &given);
	if (value.length && value.at[0].expanded && word.length && !word.at[0].expanded && word.at[0].line) {
		given.named_file = p4d_shell_file_name(c->shell, word.at[0].file);
		given.named_line = word.at[0].line;
	}
	if (p4d_value_unknown(value))
		given.unknown = p4d_shell_unknown(c->shell, p4d_value_unknown(value));
	p4d_value_text(value, text, sizeof(text));
	char long_value[64];
	if (value.length >= sizeof(text) && !given.unknown && !files) {
		snprintf(long_value, sizeof(long_value), "the value has %u characters, too many for p4d",
			 value.length);
		given.unknown = long_value;
	}
	if (files) {
		p4d_reader__follow(c, a, *a->name ? value : in_folder(c, value), &given);
		return;
	}
	for (size_t i = 1; list && i < values; i++)
		join(behind[i], text, sizeof(text));
	p4d_reader__take(c->reading, a, &given);
	if (values > 1 && !a->value && !list && a->what >= 0) {
		*p4d_reader__slot(c->reading, a->what) = (p4d_read_value){.unknown = true};
		p4d_reader__unknown(c->reading,
				    a->what < (int)P4D_OPTIONS
					? p4d_request_option_info((p4d_option)a->what)->name
					: w->name + strspn(w->name, "-"),
				    "%s with several values is not modelled", w->name);
	}
}

/*
 * Reports a file name after an option that p4d does not know, because it may be that option's value or a
 * configuration file of the program.
 */
static void say_skipped(p4d_read_context *c, p4d_value word)
{
	static const char *const endings[] = {".yml", ".yaml", ".json", ".toml"};
	const p4d_read_argument *a = p4d_reader__find(c->reading->reader, "");
	char text[100];

	if (!a || !p4d_reader__is_file(a) || a->words == p4d_reader__first)
		return;
	p4d_value_text(word, text, sizeof(text));
	const size_t length = strlen(text);
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		if (length > strlen(endings[i]) && !strcmp(text + length - strlen(endings[i]), endings[i]))
			p4d_reader__unknown(c->reading, "file",
					    "p4d ignored %s, which may be the value of the preceding option",
					    text);
}

/* Reads a word and the words that belong to it; returns their number. */
static size_t read_word(p4d_read_context *c, const p4d_value *words, size_t count, bool files, bool *operand)
{
	p4d_reading *r = c->reading;
	argument_word w = {.name = ""};
	size_t used = 0;

	if (is_option(words[0])) {
		take_apart(words[0], &w);
	} else if (is_unknown_word(words[0])) {
		if (files)
			return 0;
		if (may_be_options(c, words[0], false)) {
			may_be_options(c, words[0], true);
			return 0;
		}
		p4d_read_unknown *u = p4d_reader__unknown(
		    r, "arguments", "%s", p4d_shell_unknown(c->shell, p4d_value_unknown(words[0])));
		if (u)
			u->doubt = p4d_value_is_unset(words[0]);
		r->more_arguments = r->more_arguments || !u || !u->doubt;
		return 0;
	} else if (words[0].length > 1 && words[0].at[0].c == '@') { /* argparse's fromfile_prefix_chars */
		p4d_value_text(words[0], w.name, sizeof(w.name));
		p4d_reader__unknown(r, "arguments", "p4d does not read the arguments in the file %s",
				    w.name + 1);
		r->more_arguments = true;
		return 0;
	} else if (!r->reader->assignments || !is_assignment(words[0], &w)) {
		p4d_value_text(words[0], w.name, sizeof(w.name));
		/* whether the word is an argument by itself */
		if (!p4d_reader__find(r->reader, w.name)) {
			if (!*operand) {
				say_skipped(c, words[0]);
				return 0;
			}
			w.name[0] = '\0';
			w.value = words[0];
		}
	}
	const p4d_read_argument *a = find(c, w.name);
	/* A word that belongs to no option is an operand if it comes first or names a file. A word after an
	 * option that p4d does not know may be its value. */
	*operand = *w.name ? *operand && a : a && p4d_reader__is_file(a);
	if (a) {
		take_word(c, a, &w, words[0], words + 1, count - 1, &used, files);
	} else if (is_option(words[0]) && w.separate && count > 1 && is_unknown_word(words[1]) &&
		   !may_be_options(c, words[1], false)) {
		used = 1;
		if (!files)
			doubt_value(c, w.name, words[1]);
	}
	return used;
}

static void read_launcher(p4d_read_context *c, const p4d_launch_option *option, bool files)
{
	argument_word w = {.value = option->value};
	size_t used;

	snprintf(w.name, sizeof(w.name), "%s", option->prefix);
	p4d_value_text(option->name, w.name + strlen(w.name), sizeof(w.name) - strlen(w.name));
	const p4d_read_argument *a = p4d_reader__find(c->reading->reader, w.name);
	if (a)
		take_word(c, a, &w, option->name, NULL, 0, &used, files);
}

/*
 * Reads the configuration that `accelerate config` stores in the cache (accelerate 1.15, config_args.py), if
 * the command names no other.
 */
static void read_accelerate(p4d_read_context *c, const p4d_launch *launch, size_t first)
{
	static const struct {
		const char *variable, *below;
	} places[] = {{"HF_HOME", ""}, {"XDG_CACHE_HOME", "/huggingface"}, {"HOME", "/.cache/huggingface"}};
	static const char config[] = "--accelerate.config_file";
	const p4d_read_argument *a = p4d_reader__find(c->reading->reader, config);
	char path[256], home[192];
	p4d_value value;

	for (unsigned i = 0; i < launch->options; i++) {
		p4d_value_text(launch->option[i].name, home, sizeof(home));
		if (!strcmp(home, "config_file") || !strcmp(home, "config-file") || !strcmp(home, "cpu"))
			return;
	}
	for (size_t i = first; i < launch->count; i++) {
		argument_word w;
		take_apart(launch->words[i], &w);
		if (c->accelerates && find(c, w.name) == a)
			return;
	}
	for (size_t i = 0; a && i < sizeof(places) / sizeof(places[0]); i++) {
		if (!p4d_shell_variable(c->shell, places[i].variable, &value) || !value.length)
			continue;
		snprintf(path, sizeof(path), "%s%s/accelerate/default_config.yaml",
			 p4d_value_text(value, home, sizeof(home)), places[i].below);
		if (!p4d_value_unknown(value) && value.length < sizeof(home))
			p4d_reader__follow_if_there(c, a, path);
		return;
	}
}

/* Reads options that a script takes from variables. If an option is also an argument, the argument wins. */
static void read_variables(p4d_read_context *c, bool files)
{
	const p4d_read_variable *v = c->reading->reader->variables;
	size_t used;

	for (; v && v->name; v++) {
		argument_word w = {.name = ""};
		const p4d_read_argument *a = p4d_reader__find(c->reading->reader, v->argument);
		if (!a || (v->set == P4D_SET_IN_SCRIPT && !c->of_script) ||
		    !p4d_shell_variable(c->shell, v->name, &w.value) || !w.value.length ||
		    (v->set == P4D_SET_SELDOM && p4d_value_unknown(w.value) &&
		     !p4d_shell_assigned(c->shell, v->name)))
			continue;
		snprintf(w.name, sizeof(w.name), "%s", v->argument);
		take_word(c, a, &w, w.value, NULL, 0, &used, files);
	}
}

static void find_folder(p4d_read_context *c, const p4d_launch *launch, size_t first)
{
	for (size_t i = first; i + 1 < launch->count; i++)
		for (int j = 0; j < 2 && c->reading->reader->folders[j]; j++)
			if (p4d_value_is(launch->words[i], c->reading->reader->folders[j]))
				c->folder = launch->words[i + 1];
}

/* Maximum number of words of a command that p4d reads. */
static size_t words_to_read(p4d_reading *r, size_t count)
{
	enum { MOST = 4096 };

	if (count <= MOST)
		return count;
	p4d_reader__unknown(r, "arguments", "p4d did not read all of the %zu words", count);
	r->more_arguments = true;
	return MOST;
}

void p4d_reader__arguments(p4d_read_context *c, const p4d_launch *launch, size_t first)
{
	const size_t count = words_to_read(c->reading, launch->count);

	find_folder(c, launch, first);
	for (int pass = 0; pass < 2; pass++) {
		/* files are read in the first pass, because the command line overrides them */
		const bool files = pass == 0;
		bool operand = true;
		if (files && c->reading->reader->hydra)
			p4d_reader__hydra(c, launch, first);
		if (files && (launch->accelerates || c->accelerates))
			read_accelerate(c, launch, first);
		read_variables(c, files);
		for (unsigned i = 0; i < launch->options; i++)
			read_launcher(c, &launch->option[i], files);
		for (size_t i = first; i < count; i++)
			i += read_word(c, launch->words + i, count - i, files, &operand);
	}
}
