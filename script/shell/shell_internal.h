/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "shell/shell.h"

/*
 * Two cells are not characters of a value. BOUNDARY separates the words of "$@". HOLDER stands for a pair of
 * quotes, so that "" is a word.
 */
#define P4D_CELL_BOUNDARY ((p4d_cell){.c = 0})
/* c of an unknown value that may be unset, so that bash expands it to nothing. */
#define P4D_CELL_UNSET 'u'
/* Like UNSET, for a variable that a module or an unread file may set. */
#define P4D_CELL_UNSET_HERE 'h'
/* c of an unknown value that is one word and not an option: the name of a host, a number. */
#define P4D_CELL_WORD 'w'
/* Like WORD, for a value that may be several words: names of hosts. */
#define P4D_CELL_WORDS 'W'
#define P4D_CELL_HOLDER ((p4d_cell){.c = 0, .quoted = 1})

/* How a command is read: not at all, because a test that is not known may decide for it, or as bash runs it.
 */
typedef enum p4d_shell_mode { P4D_SHELL_SKIP, P4D_SHELL_MAYBE, P4D_SHELL_RUN } p4d_shell_mode;

/* TAKEN: assumed to succeed. */
typedef enum p4d_shell_status {
	P4D_SHELL_FALSE,
	P4D_SHELL_TRUE,
	P4D_SHELL_OPEN,
	P4D_SHELL_TAKEN
} p4d_shell_status;

/* Text that is read, and how far. */
typedef struct p4d_shell_source {
	const char *text;
	size_t length, at;
	uint32_t line;
	uint8_t file;
	const p4d_cell *origin;   /* text composed from values; NULL: from a file */
	size_t body_at, body_end; /* here-documents: the line end they follow, and theirs; 0 none */
	uint32_t body_lines;
} p4d_shell_source;

/* A value under construction. */
typedef struct p4d_shell_build {
	p4d_cell *at;
	uint32_t length, room;
	bool braces; /* {a,b} in it makes several words */
} p4d_shell_build;

typedef struct p4d_shell_words {
	p4d_value *at;
	uint32_t count, room;
} p4d_shell_words;

typedef struct p4d_shell_name {
	const char *text;
	size_t length;
} p4d_shell_name;

typedef struct p4d_shell_var {
	struct p4d_shell_var *next;
	p4d_shell_name name;
	p4d_shell_words value; /* one, or the elements of an array */
	p4d_shell_words key;   /* keys of a map */
	p4d_shell_build kept;  /* memory of a value that grows */
	uint32_t scope;        /* the subshell that set it */
	uint32_t since;        /* p4d_shell.unreads when it was changed last */
	p4d_shell_name target; /* for a reference: the variable that it names; length 0: not known */
	uint16_t lost;         /* why nothing is known of its elements; 0: it is */
	bool array, set, exported, map, integer, reference;
	bool assigned; /* or exported by the script, not only in the environment that sbatch passes on */
} p4d_shell_var;

/* What a function gives back when it returns. */
typedef struct p4d_shell_local {
	struct p4d_shell_local *next;
	p4d_shell_var *variable, before;
} p4d_shell_local;

/* A function or file that is being read, of those inside each other: FUNCNAME and BASH_SOURCE. */
typedef struct p4d_shell_frame {
	const struct p4d_shell_frame *outer; /* NULL: the script itself */
	p4d_value function, source;
} p4d_shell_frame;

typedef struct p4d_shell_function {
	struct p4d_shell_function *next;
	p4d_shell_name name;
	p4d_shell_source body;
	p4d_value source; /* the path of the file that defines it */
} p4d_shell_function;

typedef struct p4d_shell_written {
	struct p4d_shell_written *next;
	p4d_value path, text;
} p4d_shell_written;

/* What may have set any variable: a file or a text that could not be read. */
typedef struct p4d_shell_unread {
	uint16_t reason; /* its name; 0: nothing */
	uint32_t at;     /* p4d_shell.unreads with it */
	bool modules;    /* something changed the environment as modules do, which sets paths and the like */
} p4d_shell_unread;

/* What a subshell cannot change: variables are set in front of those of the shell around it. */
enum { P4D_SHELL_BUCKETS = 64 };
typedef struct p4d_shell_scope {
	p4d_shell_var *variable[P4D_SHELL_BUCKETS];
	p4d_shell_function *function;
	p4d_shell_local *local;
	p4d_shell_words parameters;
	const p4d_shell_frame *frame;
	p4d_shell_unread unread;
	uint32_t scope, process;
	bool exited, returned, left_loop, broke_loop;
} p4d_shell_scope;

/* What a command is redirected from and to: a text, or the path of a file. */
typedef struct p4d_shell_redirection {
	p4d_value input, input_path, output;
	bool has_input, has_input_path, has_output, appends;
	bool dropped; /* to the standard error */
} p4d_shell_redirection;

enum { P4D_SHELL_DEPTH = 64, P4D_SHELL_ITERATIONS = 64 };

struct p4d_shell {
	const p4d_shell_host *host;
	char *memory;
	size_t size, used;
	uint64_t work;
	const char *stopped; /* why; nothing more is read */
	bool exited;         /* so that nothing more is read, as it should be */
	p4d_value exit;      /* the word */
	bool returned;       /* from a function or sourced file */
	bool left_loop;      /* by break or continue */
	bool broke_loop;     /* by break */
	int depth, level;    /* depth of recursion; level of scripts that run scripts */
	int in_function;
	uint32_t commands; /* commands that the host has got */
	int branches;      /* depth of branches that may not run */
	uint32_t files, unknowns;
	const char *file[P4D_SHELL_FILES];
	const char *unknown[P4D_SHELL_UNKNOWNS];
	p4d_shell_words may_be[P4D_SHELL_UNKNOWNS]; /* the word that it stands for; none: anything */
	bool anything[P4D_SHELL_UNKNOWNS];
	p4d_shell_words parameters; /* $0, $1 ... */
	p4d_shell_var *variable[P4D_SHELL_BUCKETS];
	p4d_shell_function *function;
	p4d_shell_local *local;
	p4d_shell_written *written;
	const p4d_shell_frame *frame;
	p4d_shell_unread unread;
	uint32_t unreads;       /* how many things could not be read so far */
	uint32_t scope, scopes; /* this subshell, and the number of subshells so far */
	uint32_t process;       /* scope that this bash began with: older variables are there if exported */
	p4d_shell_mode mode;    /* mode of the present command */
	bool exports;           /* set -a: assigned variables are exported */
	bool references;        /* some variable is declare -n */
	bool perhaps;           /* an unknown test decides whether the present text runs */
	p4d_shell_build *out;   /* what commands print, for what reads it; NULL: nothing does */
	p4d_shell_build scratch;
	p4d_value pipe; /* input from a pipe that nobody has read yet */
	bool piped;
	const p4d_shell_redirection *redirection; /* of the command that the host gets */
	uint32_t option_at, option_index;         /* getopts: place within a word, and number of the word */
};

/* shell_value.c: memory and values. What needs memory that is not there stops the shell. */
void *p4d_shell__take(p4d_shell *sh, size_t size);
void p4d_shell__stop(p4d_shell *sh, const char *why);
bool p4d_shell__work(p4d_shell *sh, uint64_t amount); /* false: stopped */
/* Names that last; empty where memory is spent. */
p4d_shell_name p4d_shell__name(p4d_shell *sh, const char *text, size_t length);
p4d_shell_name p4d_shell__name_of(p4d_shell *sh, p4d_value value);
uint16_t p4d_shell__reason(p4d_shell *sh, const char *format, ...) __attribute__((format(printf, 2, 3)));
void p4d_shell__add(p4d_shell *sh, p4d_shell_build *b, p4d_cell cell);
void p4d_shell__add_value(p4d_shell *sh, p4d_shell_build *b, p4d_value value, bool quoted);
void p4d_shell__add_text(p4d_shell *sh, p4d_shell_build *b, const char *text, p4d_cell like);
void p4d_shell__add_word(p4d_shell *sh, p4d_shell_words *words, p4d_value word);
/* The value of an assignment, which is not split into words. The result is complete: nothing can be added. */
p4d_value p4d_shell__joined(p4d_shell *sh, p4d_shell_build *b);
/* A value that begins with the one before it, A="$A ...", in the memory of that: a list that a script puts
 * together line by line takes no more than its length. kept: the variable's, where it can grow. */
p4d_value p4d_shell__extended(p4d_shell *sh, p4d_shell_build *kept, p4d_value before, p4d_value value);
/* A part of a value, which may be empty and nowhere. */
static inline p4d_value p4d_shell__part(p4d_value value, uint32_t from, uint32_t length)
{
	return length ? (p4d_value){value.at + from, length} : (p4d_value){0};
}
p4d_value p4d_shell__copied(p4d_shell *sh, p4d_value value);
/* Why one of these may be several words, or none; 0: none may. */
uint16_t p4d_shell__any_number(const p4d_value *at, size_t count);
/* A number for a file, or another place that values come from. */
uint8_t p4d_shell__place(p4d_shell *sh, const char *format, ...) __attribute__((format(printf, 2, 3)));
p4d_value p4d_shell__value_of(p4d_shell *sh, const char *text, p4d_cell like);
p4d_value p4d_shell__digits(p4d_shell *sh, int64_t number, p4d_cell like);
const char *p4d_shell__text_of(p4d_shell *sh, p4d_value value);
p4d_value p4d_shell__not_known(p4d_shell *sh, uint16_t reason);
bool p4d_shell__equal(p4d_value a, p4d_value b);

/* shell_split.c */
/* The characters of $IFS. */
const char *p4d_shell__separators(p4d_shell *sh, char *buf, size_t size);
/* Splits the text at unquoted separators into words, and adds them. */
void p4d_shell__split(p4d_shell *sh, const p4d_shell_build *b, p4d_shell_words *words);

/* shell_variable.c */
p4d_shell_var *p4d_shell__find(p4d_shell *sh, p4d_shell_name name, bool create);
/* The variable for a change: its copy in this subshell. */
p4d_shell_var *p4d_shell__own(p4d_shell *sh, p4d_shell_name name);
/* The variable of the script, or of the environment; NULL: not set. */
p4d_shell_var *p4d_shell__lookup(p4d_shell *sh, p4d_shell_name name);
/* process: another bash, which has exported variables only, and no functions. */
void p4d_shell__enter(p4d_shell *sh, p4d_shell_scope *scope, bool process);
void p4d_shell__leave(p4d_shell *sh, const p4d_shell_scope *scope);
void p4d_shell__assign(p4d_shell *sh, p4d_shell_mode mode, p4d_shell_name name, p4d_value value, bool append,
		       uint32_t line);
void p4d_shell__assign_array(p4d_shell *sh, p4d_shell_mode mode, p4d_shell_name name, p4d_shell_words words,
			     bool append, uint32_t line);
/* unset NAME, or NAME[SUBSCRIPT] where subscript has a length. */
void p4d_shell__unset(p4d_shell *sh, p4d_shell_mode mode, p4d_shell_name name, p4d_value subscript,
		      uint32_t line);
void p4d_shell__assign_element(p4d_shell *sh, p4d_shell_mode mode, p4d_shell_name name, p4d_value subscript,
			       p4d_value value, bool append, uint32_t line);
/* Where the element of a subscript is, or would be. False: not known, with the reason. */
bool p4d_shell__index(p4d_shell *sh, const p4d_shell_var *v, p4d_value subscript, int64_t *index,
		      uint16_t *unknown);

/* One of the texts that an unknown one may be. */
void p4d_shell__may_be(p4d_shell *sh, uint16_t unknown, p4d_value text);

/* shell_unread.c: what may be set by what p4d cannot read. */
/* A file, or a text, that may set any variable; what: "params.sh", "output of python3". */
void p4d_shell__unread(p4d_shell *sh, const char *what);
/* After a command: it may have changed the environment, as `module load` does. */
void p4d_shell__environment(p4d_shell *sh, p4d_value command);
/* Why it is not known whether a variable that the script leaves unset or empty is set; 0: it is not. */
uint16_t p4d_shell__may_be_set(p4d_shell *sh, p4d_shell_name name);
/* Whether modules set variables of such a name, also where nothing else was left unread. */
bool p4d_shell__of_modules(const p4d_shell *sh, p4d_shell_name name);

/* shell_frame.c: BASH_SOURCE and FUNCNAME, which bash keeps itself. The variable; NULL: it is empty. */
bool p4d_shell__is_of_frames(p4d_shell_name name);
p4d_shell_var *p4d_shell__of_frames(p4d_shell *sh, p4d_shell_name name);

/* shell_word.c: words with their quotes and expansions. b is NULL where they are only skipped. */
static inline char p4d_shell__peek(const p4d_shell_source *s, size_t ahead)
{
	return s->at < s->length && ahead < s->length - s->at ? s->text[s->at + ahead] : '\0';
}
void p4d_shell__advance(p4d_shell *sh, p4d_shell_source *s);
p4d_cell p4d_shell__cell(const p4d_shell_source *s, bool quoted);
void p4d_shell__blanks(p4d_shell *sh, p4d_shell_source *s); /* and comments, and continued lines */
bool p4d_shell__ends_word(char c);
size_t p4d_shell__name_length(const p4d_shell_source *s, size_t from);
void p4d_shell__word(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b);
/* Text up to the character `end`, which stays, or the end, as in double quotes. */
void p4d_shell__quoted_until(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b, char end, bool quoted);
/* Behind the bracket that closes one, which was just passed. */
void p4d_shell__skip_nested(p4d_shell *sh, p4d_shell_source *s, char open, char close);
p4d_shell_source p4d_shell__source_of(p4d_shell *sh, p4d_value value, const p4d_shell_source *like);

/* shell_brace.c: the words into which braces expand a word. The first brace is at `first`, the word ends at
 * `end`. False: the word has no such braces. */
bool p4d_shell__braces(p4d_shell *sh, const p4d_shell_source *s, size_t end, size_t first,
		       p4d_shell_words *words);

/* shell_parameter.c: ${...}, from the character after the brace; passes the closing one. */
void p4d_shell__parameter(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b, bool quoted);
void p4d_shell__emit(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b, p4d_shell_name name,
		     bool quoted);

/* shell_number.c: false where it is not known, with the reason. What it assigns is assigned, or not known
 * afterwards. */
bool p4d_shell__number(p4d_shell *sh, p4d_value expression, int64_t *number, uint16_t *unknown);

/* shell_test.c: words of [ ] or [[ ]] without the brackets; pattern matching as in `case`. */
p4d_shell_status p4d_shell__test(p4d_shell *sh, const p4d_value *words, size_t count, bool patterns);
bool p4d_shell__matches(p4d_shell *sh, p4d_value pattern, p4d_value text);

/* shell_run.c */
p4d_shell_status p4d_shell__run(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode);
p4d_shell_mode p4d_shell__branch(p4d_shell_mode mode, p4d_shell_status status, bool wanted);
bool p4d_shell__at_end(const p4d_shell *sh, const p4d_shell_source *s);
/* Whether a reserved word stands here, which is passed if so. */
bool p4d_shell__take_word(p4d_shell *sh, p4d_shell_source *s, const char *word);
void p4d_shell__lines(p4d_shell *sh, p4d_shell_source *s); /* passes blanks, comments and empty lines */

/* shell_loop.c: after the reserved word. */
p4d_shell_status p4d_shell__while(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode, bool until);
p4d_shell_status p4d_shell__for(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode);

/* A command built into the shell, with the words after its name. */
typedef struct p4d_shell_call {
	p4d_shell *sh;
	const p4d_value *at;
	size_t count;
	p4d_shell_mode mode;
	const p4d_shell_redirection *redirection;
	const p4d_shell_source *source;
} p4d_shell_call;

typedef struct p4d_shell_builtin {
	const char *name;
	p4d_shell_status (*run)(const p4d_shell_call *call);
	bool declares; /* its words are assignments */
} p4d_shell_builtin;

/* NAME=, NAME+= or NAME[...]= */
typedef struct p4d_shell_assignment {
	p4d_shell_name name;
	bool append, element;
	p4d_shell_source subscript;
} p4d_shell_assignment;

/* shell_command.c: one simple command, which passes its words, assignments and redirections. */
p4d_shell_status p4d_shell__simple(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode);
/* The redirections of a compound command, whose output began at `from`. */
void p4d_shell__redirections(p4d_shell *sh, p4d_shell_source *s, uint32_t from, p4d_shell_mode mode);
/* The input that its redirections name; nothing is written. False: they name none that can be read. */
bool p4d_shell__redirected_input(p4d_shell *sh, p4d_shell_source *s, p4d_value *text);
/* Passes the name and the sign of an assignment; false: none stands here. */
bool p4d_shell__assignment(p4d_shell *sh, p4d_shell_source *s, p4d_shell_assignment *a);
/* Reads all of a text. */
void p4d_shell__all(p4d_shell *sh, p4d_shell_source s, p4d_shell_mode mode);
bool p4d_shell__over(const p4d_shell *sh);

/* What stands between brackets, as a value. */
p4d_value p4d_shell__subscript(p4d_shell *sh, p4d_shell_source inside);

/* shell_builtin.c: `local` and `export` with their options, before the assignment. */
void p4d_shell__declare(p4d_shell *sh, const p4d_value *words, size_t count, p4d_shell_name name);
/* NULL: there is no such command. */
const p4d_shell_builtin *p4d_shell__builtin(p4d_value name);

/* Commands that print known text, that read known text, and that are the shell's own. A NULL name ends each
 * list. */
extern const p4d_shell_builtin p4d_shell__printers[], p4d_shell__filters[], p4d_shell__searches[],
    p4d_shell__readers[];

/* shell_filter.c: options of a filter: -n 2, -n2, -d, ... Returns the first operand's index; SIZE_MAX: one
 * that is not followed. */
typedef struct p4d_shell_options {
	const char *switches, *valued;
	bool is[128];
	p4d_value value[128];
} p4d_shell_options;

size_t p4d_shell__filter_options(const p4d_shell_call *call, p4d_shell_options *options);
/* The text that a filter reads: from a file if its words name one, else its input. False: some of it is
 * unknown; the output is then set to unknown. */
bool p4d_shell__filter_text(const p4d_shell_call *call, const p4d_value *path, p4d_value *text);
/* The next line of a text, which is cut off its front, with its end. */
p4d_value p4d_shell__next_line(p4d_value *text);
p4d_value p4d_shell__without_end(p4d_value line);
/* shell_awk.c */
p4d_shell_status p4d_shell__run_awk(const p4d_shell_call *call);

/* shell_output.c: what a command prints. */
p4d_value p4d_shell__output(p4d_shell *sh, p4d_shell_source inside);
/* The path of a file with the output of a process substitution. */
p4d_value p4d_shell__output_file(p4d_shell *sh, p4d_shell_source inside);
void p4d_shell__print(const p4d_shell_call *call, p4d_value text);
/* The output of this command is not known. */
p4d_shell_status p4d_shell__print_unknown(const p4d_shell_call *call);
/* Sends the output after `from` to its redirection. */
void p4d_shell__redirected(p4d_shell *sh, const p4d_shell_redirection *r, uint32_t from, p4d_shell_mode mode);
/* What a command reads. False: nothing that the script says. */
bool p4d_shell__input(p4d_shell *sh, const p4d_shell_redirection *r, p4d_value *text);

/* shell_file.c: what the script writes, and reads as commands (false: it cannot be read). */
void p4d_shell__write(p4d_shell *sh, const p4d_shell_redirection *r, p4d_value text);
const char *p4d_shell__absolute(p4d_shell *sh, p4d_value path); /* "": not known */
bool p4d_shell__run_file(p4d_shell *sh, const p4d_value *words, size_t count, p4d_shell_mode mode,
			 bool own_parameters);

/* shell_pattern.c */

/* A pattern: characters, each with how often. What is not among these is not followed. */
enum { P4D_SHELL_ATOMS = 64 };
typedef struct p4d_shell_atom {
	unsigned char set[32]; /* one bit a character */
	char times;            /* '1', '*', '+', '?' */
} p4d_shell_atom;
typedef struct p4d_shell_pattern {
	p4d_shell_atom at[P4D_SHELL_ATOMS];
	size_t count;
	bool start, end; /* ^ $ */
	bool any_case;
} p4d_shell_pattern;

/* False: p4d does not support the pattern. plain: no character is special. extended: as in grep -E and awk.
 */
bool p4d_shell__read_pattern(p4d_shell_pattern *p, const char *text, bool plain, bool extended);
/* The first place from *at on where a line has a pattern, and where that ends. */
bool p4d_shell__find_match(p4d_shell *sh, const p4d_shell_pattern *p, p4d_value line, uint32_t *at,
			   uint32_t *end);
bool p4d_shell__has_match(p4d_shell *sh, const p4d_shell_pattern *p, p4d_value line);
