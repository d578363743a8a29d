/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "shell/shell.h"

/*
 * Two kinds of cells are not characters. BOUNDARY separates the words of "$@". HOLDER stands for a pair of
 * quotes, so that "" is a word.
 */
#define P4D_CELL_BOUNDARY ((p4d_cell){.c = 0})
/* value of c in a cell for an unknown text that may be unset; bash then expands it to nothing */
#define P4D_CELL_UNSET 'u'
/* like P4D_CELL_UNSET, for a variable that a module or a file that p4d cannot read may set */
#define P4D_CELL_UNSET_HERE 'h'
/* value of c in a cell for an unknown text that is one word and no option: a host name, a number */
#define P4D_CELL_WORD 'w'
/* like P4D_CELL_WORD, for a text that may be several words: host names */
#define P4D_CELL_WORDS 'W'
#define P4D_CELL_HOLDER ((p4d_cell){.c = 0, .quoted = 1})

/*
 * How p4d reads a command. SKIP: it does not run. MAYBE: an unknown test decides whether it runs. RUN: as
 * bash runs it.
 */
typedef enum p4d_shell_mode { P4D_SHELL_SKIP, P4D_SHELL_MAYBE, P4D_SHELL_RUN } p4d_shell_mode;

/* Result of a command. TAKEN: p4d assumes that it succeeds. */
typedef enum p4d_shell_status {
	P4D_SHELL_FALSE,
	P4D_SHELL_TRUE,
	P4D_SHELL_OPEN,
	P4D_SHELL_TAKEN
} p4d_shell_status;

/* The text that is being read, and the position in it. */
typedef struct p4d_shell_source {
	const char *text;
	size_t length, at;
	uint32_t line;
	uint8_t file;
	const p4d_cell *origin;   /* set if the text is composed from values; NULL: it is from a file */
	size_t body_at, body_end; /* here-documents: the line end after which they start, and where they
				   * end; 0: none */
	uint32_t body_lines;
} p4d_shell_source;

/* A value under construction. */
typedef struct p4d_shell_build {
	p4d_cell *at;
	uint32_t length, room;
	bool braces; /* the value contains {a,b}, which expands to several words */
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
	p4d_shell_words value; /* one value, or the elements of an array */
	p4d_shell_words key;   /* keys of a map */
	p4d_shell_build kept;  /* memory of a value that grows */
	uint32_t scope;        /* id of the subshell that set it */
	uint32_t since; /* number of unread inputs (p4d_shell.unreads) when the variable last changed */
	p4d_shell_name
	    target;    /* for a reference (declare -n): the name of the other variable; length 0: unknown */
	uint16_t lost; /* reason why the array's elements are unknown; 0: they are known */
	bool array, set, exported, map, integer, reference;
	bool assigned; /* assigned or exported by the script, not only passed on by sbatch */
} p4d_shell_var;

/* A local variable of a function, with the value that the variable gets back when the function returns. */
typedef struct p4d_shell_local {
	struct p4d_shell_local *next;
	p4d_shell_var *variable, before;
} p4d_shell_local;

/* The functions and files that are being read, nested: FUNCNAME and BASH_SOURCE. */
typedef struct p4d_shell_frame {
	const struct p4d_shell_frame *outer; /* NULL: this is the script itself */
	p4d_value function, source;
} p4d_shell_frame;

typedef struct p4d_shell_function {
	struct p4d_shell_function *next;
	p4d_shell_name name;
	p4d_shell_source body;
	p4d_value source; /* path of the file that defines the function */
} p4d_shell_function;

typedef struct p4d_shell_written {
	struct p4d_shell_written *next;
	p4d_value path, text;
	bool only_name; /* the file may be new or gone; p4d knows no text of it */
} p4d_shell_written;

/* A file or a text that could not be read and may have set any variable. */
typedef struct p4d_shell_unread {
	uint16_t reason; /* p4d_shell_unknown gives the name of the input; 0: there is no such input */
	uint32_t at;     /* value of p4d_shell.unreads just after this input */
	bool modules;    /* some command changed the environment as modules do, which set search paths and
			  * similar variables */
} p4d_shell_unread;

/*
 * State of a shell or subshell, which a subshell cannot change for its parent. Variables of the subshell hide
 * those of the shell around it.
 */
enum { P4D_SHELL_BUCKETS = 64 };
/* Options of set and shopt that change what p4d reads. A process begins with none of them. */
enum {
	P4D_SHELL_ALLEXPORT = 1,   /* assigned variables are exported */
	P4D_SHELL_NOGLOB = 2,      /* * and ? in words mean no files */
	P4D_SHELL_NOCASEMATCH = 4, /* [[ ]] and case ignore case */
	P4D_SHELL_NULLGLOB = 8,    /* a word that matches no file vanishes */
	P4D_SHELL_FAILGLOB = 16,
	P4D_SHELL_DOTGLOB = 32,
	P4D_SHELL_NOCASEGLOB = 64,
	P4D_SHELL_GLOBSTAR = 128,
	/* p4d does not know which files words mean with these */
	P4D_SHELL_OTHER_NAMES =
	    P4D_SHELL_FAILGLOB | P4D_SHELL_DOTGLOB | P4D_SHELL_NOCASEGLOB | P4D_SHELL_GLOBSTAR
};
struct p4d_shell_scope {
	p4d_shell_var *variable[P4D_SHELL_BUCKETS];
	p4d_shell_function *function;
	p4d_shell_local *local;
	p4d_shell_words parameters; /* $0, $1 ... */
	const p4d_shell_frame *frame;
	p4d_shell_unread unread;
	unsigned options; /* P4D_SHELL_ALLEXPORT and so on */
	uint32_t scope;   /* id of this subshell */
	uint32_t process; /* id of the subshell in which this bash process began; of the variables set
			   * before, the process has only the exported ones */
	bool exited;      /* an exit ended the script or subshell; nothing more is read */
	bool returned;    /* a return ended the function or sourced file */
	bool left_loop;   /* a break or continue ended the pass of the loop */
	bool broke_loop;  /* a break ended the loop */
	bool continues;   /* a `continue 2`: the outermost of the loops that end goes on with its next pass */
	uint32_t outer;   /* number of loops around this one that end with it, after `break 2` */
};

/* Redirections of a command: its input is a text, and its output goes to the path of a file. */
typedef struct p4d_shell_redirection {
	p4d_value input, input_path, output;
	bool has_input, has_input_path, has_output, appends;
	bool dropped; /* the output goes to the standard error */
} p4d_shell_redirection;

enum { P4D_SHELL_DEPTH = 64, P4D_SHELL_ITERATIONS = 64 };

struct p4d_shell {
	const p4d_shell_host *host;
	char *memory;
	size_t size, used;
	uint64_t work;
	p4d_shell_scope in;  /* state of the current subshell */
	const char *stopped; /* why reading stopped; nothing more is read */
	p4d_value exit;      /* the command that exits, before the script's end */
	int depth, level;    /* depth of recursion; level of scripts that run scripts */
	int in_function;
	uint32_t commands; /* number of commands given to the host */
	int branches;      /* number of nested branches that may not run */
	uint32_t files, unknowns;
	const char *file[P4D_SHELL_FILES];
	const char *unknown[P4D_SHELL_UNKNOWNS];
	p4d_shell_words
	    may_be[P4D_SHELL_UNKNOWNS]; /* possible values of each unknown text; none: it may be anything */
	bool anything[P4D_SHELL_UNKNOWNS];
	p4d_shell_written *written;
	uint32_t unreads;     /* number of unread files and texts so far */
	uint32_t scopes;      /* number of subshells so far */
	p4d_shell_mode mode;  /* how the current command is read */
	int arithmetic;       /* number of expressions inside expressions, by elements of arrays */
	bool changes_names;   /* a command that p4d does not read may have made or removed files */
	bool references;      /* some variable is declare -n */
	bool perhaps;         /* an unknown test decides whether the current text runs */
	p4d_shell_build *out; /* output of commands, for the command that reads it; NULL: nothing reads
			       * it */
	p4d_shell_build scratch;
	p4d_value pipe; /* input from a pipe that no command has read yet */
	bool piped;
	const p4d_shell_redirection *redirection; /* redirections of the command that the host gets */
	uint32_t option_at, option_index;         /* getopts: position inside a word, and index of the word */
};

/* shell_value.c: memory and values. A function stops the shell if there is no memory for its result. */
void *p4d_shell__take(p4d_shell *sh, size_t size);
void p4d_shell__stop(p4d_shell *sh, const char *why);
bool p4d_shell__work(p4d_shell *sh, uint64_t amount); /* false: stopped */
/* Names that stay valid; empty if memory is used up. */
p4d_shell_name p4d_shell__name(p4d_shell *sh, const char *text, size_t length);
p4d_shell_name p4d_shell__name_of(p4d_shell *sh, p4d_value value);
uint16_t p4d_shell__reason(p4d_shell *sh, const char *format, ...) __attribute__((format(printf, 2, 3)));
void p4d_shell__add(p4d_shell *sh, p4d_shell_build *b, p4d_cell cell);
void p4d_shell__add_value(p4d_shell *sh, p4d_shell_build *b, p4d_value value, bool quoted);
void p4d_shell__add_text(p4d_shell *sh, p4d_shell_build *b, const char *text, p4d_cell like);
void p4d_shell__add_word(p4d_shell *sh, p4d_shell_words *words, p4d_value word);
/*
 * Returns the value of an assignment, which is not split into words. The result is complete, so nothing can
 * be appended.
 */
p4d_value p4d_shell__joined(p4d_shell *sh, p4d_shell_build *b);
/*
 * Appends to a variable (A="$A ...") in the memory of its old value. So a list that a script assembles line
 * by line needs no more memory than its length. kept: the variable's memory that can grow.
 */
p4d_value p4d_shell__extended(p4d_shell *sh, p4d_shell_build *kept, p4d_value before, p4d_value value);
/* A part of a value. It may be empty, and then has no place. */
static inline p4d_value p4d_shell__part(p4d_value value, uint32_t from, uint32_t length)
{
	return length ? (p4d_value){value.at + from, length} : (p4d_value){0};
}
p4d_value p4d_shell__copied(p4d_shell *sh, p4d_value value);
/* The reason why one of these values may be several words, or none; 0: each is exactly one word. */
uint16_t p4d_shell__any_number(const p4d_value *at, size_t count);
/* Returns a number for a file, or for another place of values. */
uint8_t p4d_shell__place(p4d_shell *sh, const char *format, ...) __attribute__((format(printf, 2, 3)));
p4d_value p4d_shell__value_of(p4d_shell *sh, const char *text, p4d_cell like);
p4d_value p4d_shell__digits(p4d_shell *sh, int64_t number, p4d_cell like);
const char *p4d_shell__text_of(p4d_shell *sh, p4d_value value);
p4d_value p4d_shell__not_known(p4d_shell *sh, uint16_t reason);
bool p4d_shell__equal(p4d_value a, p4d_value b);

/* shell_split.c */
/* Writes the characters of $IFS into buf. */
const char *p4d_shell__separators(p4d_shell *sh, char *buf, size_t size);
/* Splits the text at unquoted separators into words, and adds them. */
void p4d_shell__split(p4d_shell *sh, const p4d_shell_build *b, p4d_shell_words *words);

/* shell_variable.c */
p4d_shell_var *p4d_shell__find(p4d_shell *sh, p4d_shell_name name, bool create);
/* Returns the variable for a change: this subshell gets a copy of its own. */
p4d_shell_var *p4d_shell__own(p4d_shell *sh, p4d_shell_name name);
/* Finds the variable of the script, or else of the environment; NULL: unset. */
p4d_shell_var *p4d_shell__lookup(p4d_shell *sh, p4d_shell_name name);
/* Enters a subshell. process: it is another bash, which has only exported variables, and no functions. */
void p4d_shell__enter(p4d_shell *sh, p4d_shell_scope *scope, bool process);
void p4d_shell__leave(p4d_shell *sh, const p4d_shell_scope *scope);
void p4d_shell__assign(p4d_shell *sh, p4d_shell_mode mode, p4d_shell_name name, p4d_value value, bool append,
		       uint32_t line);
void p4d_shell__assign_array(p4d_shell *sh, p4d_shell_mode mode, p4d_shell_name name, p4d_shell_words words,
			     bool append, uint32_t line);
/* Unsets NAME or, if subscript has a length, NAME[SUBSCRIPT]. */
void p4d_shell__unset(p4d_shell *sh, p4d_shell_mode mode, p4d_shell_name name, p4d_value subscript,
		      uint32_t line);
void p4d_shell__assign_element(p4d_shell *sh, p4d_shell_mode mode, p4d_shell_name name, p4d_value subscript,
			       p4d_value value, bool append, uint32_t line);
/* Index of an array element, or where it would be inserted. False: unknown, with the reason. */
bool p4d_shell__index(p4d_shell *sh, const p4d_shell_var *v, p4d_value subscript, int64_t *index,
		      uint16_t *unknown);

/* Records one of the possible values of an unknown text. */
void p4d_shell__may_be(p4d_shell *sh, uint16_t unknown, p4d_value text);

/* shell_unread.c: variables that may be set by input that p4d cannot read. */
/* Notes a file, or a text, that may set any variable. what: "params.sh", "output of python3". */
void p4d_shell__unread(p4d_shell *sh, const char *what);
/* Call it after a command, which may have changed the environment as `module load` does. */
void p4d_shell__environment(p4d_shell *sh, p4d_value command);
/* Why a variable that the script leaves unset or empty may nevertheless be set; 0: it is not set. */
uint16_t p4d_shell__may_be_set(p4d_shell *sh, p4d_shell_name name);
/* Whether modules set variables with such a name, even if p4d could read everything else. */
bool p4d_shell__of_modules(const p4d_shell *sh, p4d_shell_name name);

/*
 * shell_frame.c: BASH_SOURCE and FUNCNAME, which bash maintains itself. Returns the variable; NULL: it is
 * empty.
 */
bool p4d_shell__is_of_frames(p4d_shell_name name);
p4d_shell_var *p4d_shell__of_frames(p4d_shell *sh, p4d_shell_name name);

/* shell_word.c: words with their quotes and expansions. If b is NULL, they are only skipped. */
static inline char p4d_shell__peek(const p4d_shell_source *s, size_t ahead)
{
	return s->at < s->length && ahead < s->length - s->at ? s->text[s->at + ahead] : '\0';
}
void p4d_shell__advance(p4d_shell *sh, p4d_shell_source *s);
p4d_cell p4d_shell__cell(const p4d_shell_source *s, bool quoted);
void p4d_shell__blanks(p4d_shell *sh, p4d_shell_source *s); /* skips blanks, comments and continued lines */
bool p4d_shell__ends_word(char c);
size_t p4d_shell__name_length(const p4d_shell_source *s, size_t from);
void p4d_shell__word(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b);
/* Text as in double quotes, up to (and excluding) the character `end`, or to the end of the text. */
void p4d_shell__quoted_until(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b, char end, bool quoted);
/* The position after the closing bracket; the opening one was just passed. */
void p4d_shell__skip_nested(p4d_shell *sh, p4d_shell_source *s, char open, char close);
p4d_shell_source p4d_shell__source_of(p4d_shell *sh, p4d_value value, const p4d_shell_source *like);

/* shell_brace.c: the words that braces expand a word to. The first brace is at `first`, and the word ends
 * at `end`. False: the word has no such braces. */
bool p4d_shell__braces(p4d_shell *sh, const p4d_shell_source *s, size_t end, size_t first,
		       p4d_shell_words *words);

/* shell_parameter.c: ${...}, from the character after the brace to the closing brace. */
void p4d_shell__parameter(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b, bool quoted);
void p4d_shell__emit(p4d_shell *sh, p4d_shell_source *s, p4d_shell_build *b, p4d_shell_name name,
		     bool quoted);

/* shell_number.c: false if the result is unknown, with the reason. Variables that the expression assigns
 * get their value or become unknown. */
bool p4d_shell__number(p4d_shell *sh, p4d_value expression, int64_t *number, uint16_t *unknown);

/* shell_test.c: the words of [ ] or [[ ]] without the brackets; pattern matching as in `case`. */
p4d_shell_status p4d_shell__test(p4d_shell *sh, const p4d_value *words, size_t count, bool patterns);
bool p4d_shell__matches(p4d_shell *sh, p4d_value pattern, p4d_value text);
bool p4d_shell__fits(p4d_shell *sh, p4d_value pattern, p4d_value text); /* as [[ ]] and case match */

/* shell_run.c */
p4d_shell_status p4d_shell__run(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode);
p4d_shell_mode p4d_shell__branch(p4d_shell_mode mode, p4d_shell_status status, bool wanted);
bool p4d_shell__at_end(const p4d_shell *sh, const p4d_shell_source *s);
/* Whether a reserved word is here; moves past it if so. */
bool p4d_shell__take_word(p4d_shell *sh, p4d_shell_source *s, const char *word);
void p4d_shell__lines(p4d_shell *sh, p4d_shell_source *s); /* skips blanks, comments and empty lines */

/* shell_loop.c: loops, after their reserved word. */
p4d_shell_status p4d_shell__while(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode, bool until);
p4d_shell_status p4d_shell__for(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode);

/* A built-in command, with the words after its name. */
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

/* An assignment: NAME=, NAME+= or NAME[...]=. */
typedef struct p4d_shell_assignment {
	p4d_shell_name name;
	bool append, element;
	p4d_shell_source subscript;
} p4d_shell_assignment;

/* shell_command.c: one simple command with its words, assignments and redirections. */
p4d_shell_status p4d_shell__simple(p4d_shell *sh, p4d_shell_source *s, p4d_shell_mode mode);
/* Runs a command with its words. s: the text after it. */
p4d_shell_status p4d_shell__execute(p4d_shell *sh, const p4d_shell_source *s, p4d_shell_mode mode,
				    const p4d_shell_words *all, const p4d_shell_redirection *r);
/* The redirections of a compound command, whose output began at `from`. */
void p4d_shell__redirections(p4d_shell *sh, p4d_shell_source *s, uint32_t from, p4d_shell_mode mode);
/* The input that its redirections name; does not write files. False: they name none that can be read. */
bool p4d_shell__redirected_input(p4d_shell *sh, p4d_shell_source *s, p4d_value *text);
/* Moves past the name and the sign of an assignment; false: none is here. */
bool p4d_shell__assignment(p4d_shell *sh, p4d_shell_source *s, p4d_shell_assignment *a);
/* Reads a whole text. */
void p4d_shell__all(p4d_shell *sh, p4d_shell_source s, p4d_shell_mode mode);
bool p4d_shell__over(const p4d_shell *sh);

/* The text between brackets, as a value. */
p4d_value p4d_shell__subscript(p4d_shell *sh, p4d_shell_source inside);

/* shell_builtin.c: the options of `local` and `export`, before the assignment. */
void p4d_shell__declare(p4d_shell *sh, const p4d_value *words, size_t count, p4d_shell_name name);
/* NULL: there is no such command. */
const p4d_shell_builtin *p4d_shell__builtin(p4d_value name);

/* Commands that print known text, that read known text, and that are built into the shell. A NULL name
 * ends each list. */
extern const p4d_shell_builtin p4d_shell__printers[], p4d_shell__filters[], p4d_shell__searches[],
    p4d_shell__readers[];

/* shell_filter.c: options of a filter: -n 2, -n2, -d, ... Returns the index of the first operand;
 * SIZE_MAX: p4d does not support an option. */
typedef struct p4d_shell_options {
	const char *switches, *valued;
	bool is[128];
	p4d_value value[128];
} p4d_shell_options;

size_t p4d_shell__filter_options(const p4d_shell_call *call, p4d_shell_options *options);
/* The text that a filter reads: from a file if its words name one, else its input. False: some of it is
 * unknown; the output is then marked as unknown. */
bool p4d_shell__filter_text(const p4d_shell_call *call, const p4d_value *path, p4d_value *text);
/* Cuts the first line off the front of a text; returns it with its end. */
p4d_value p4d_shell__next_line(p4d_value *text);
p4d_value p4d_shell__without_end(p4d_value line);
/* shell_awk.c */
p4d_shell_status p4d_shell__run_awk(const p4d_shell_call *call);

/* shell_output.c: what a command prints. */
p4d_value p4d_shell__output(p4d_shell *sh, p4d_shell_source inside);
/* The path of a file with the output of a process substitution. */
p4d_value p4d_shell__output_file(p4d_shell *sh, p4d_shell_source inside);
void p4d_shell__print(const p4d_shell_call *call, p4d_value text);
/* Prints the output of python -c "print(...)". False: the command is another one, or its output is unknown.
 */
bool p4d_shell__print_python(const p4d_shell_call *call, p4d_value program);
/* The output of this command is unknown. */
p4d_shell_status p4d_shell__print_unknown(const p4d_shell_call *call);
/* Sends the output after `from` to its redirection. */
void p4d_shell__redirected(p4d_shell *sh, const p4d_shell_redirection *r, uint32_t from, p4d_shell_mode mode);
/* The input of a command. False: the script does not contain it. */
bool p4d_shell__input(p4d_shell *sh, const p4d_shell_redirection *r, p4d_value *text);

/* shell_file.c: files that the script writes, and files that it sources (false: it cannot be read). */
void p4d_shell__write(p4d_shell *sh, const p4d_shell_redirection *r, p4d_value text);
/* Makes the files unknown that a command changes in place, in a way that p4d does not follow. */
void p4d_shell__edit(const p4d_shell_call *call, p4d_value command);
const char *p4d_shell__absolute(p4d_shell *sh, p4d_value path); /* "": unknown */
bool p4d_shell__run_file(p4d_shell *sh, const p4d_value *words, size_t count, p4d_shell_mode mode,
			 bool own_parameters);

/* The command makes or removes the files that are its words. */
void p4d_shell__change_names(const p4d_shell_call *call);
/* After a command that p4d does not read: it may make or remove any files. */
void p4d_shell__lose_names(p4d_shell *sh, p4d_value command);

/* shell_glob.c: names of files */

/*
 * Where the words are. A program gets a word as it is if p4d finds no file that it matches. So does a
 * built-in command, but only if p4d knows that there is none. The number of words of an array matters, so p4d
 * treats such a word there as unknown.
 */
typedef enum p4d_shell_names {
	P4D_SHELL_NAMES_OF_LOOP,
	P4D_SHELL_NAMES_OF_COMMAND,
	P4D_SHELL_NAMES_OF_ARRAY
} p4d_shell_names;

/* Replaces words after the first `from` by the names of the files that they match. */
void p4d_shell__expand_names(p4d_shell *sh, p4d_shell_words *words, uint32_t from, p4d_shell_names use);
p4d_shell_status p4d_shell__run_ls(const p4d_shell_call *call);

/* shell_pattern.c */

/* A pattern: a sequence of characters with repetition counts. p4d does not support other patterns. */
enum { P4D_SHELL_ATOMS = 64 };
typedef struct p4d_shell_atom {
	unsigned char set[32]; /* set of characters, one bit each */
	char times;            /* '1', '*', '+', '?' */
} p4d_shell_atom;
typedef struct p4d_shell_pattern {
	p4d_shell_atom at[P4D_SHELL_ATOMS];
	size_t count;
	bool start, end; /* ^ $ */
	bool any_case;
	uint32_t *begins; /* gets the positions where the atoms' matches begin; NULL: nobody asks */
} p4d_shell_pattern;

/* Parses a pattern. False: p4d does not support it. plain: no character is special. extended: as in grep
 * -E and awk. */
bool p4d_shell__read_pattern(p4d_shell_pattern *p, const char *text, bool plain, bool extended);
/* The first match of a pattern in a line, at *at or later; and the end of the match. */
bool p4d_shell__find_match(p4d_shell *sh, const p4d_shell_pattern *p, p4d_value line, uint32_t *at,
			   uint32_t *end);
bool p4d_shell__has_match(p4d_shell *sh, const p4d_shell_pattern *p, p4d_value line);

/* shell_regular.c */

/* The groups of a pattern, in order: their first atom, and the atom after their last. */
enum { P4D_SHELL_GROUPS = 8 };
typedef struct p4d_shell_groups {
	size_t count, from[P4D_SHELL_GROUPS], to[P4D_SHELL_GROUPS];
} p4d_shell_groups;

/* Parses an extended pattern with groups that are not repeated. False: p4d does not support it. */
bool p4d_shell__read_grouped(p4d_shell_pattern *p, p4d_shell_groups *groups, p4d_value pattern);
/* The text of a group. begins: of the pattern; its element after the last atom's is the end of the match. */
p4d_value p4d_shell__group(const p4d_shell_groups *groups, size_t i, p4d_value text, const uint32_t *begins);
/* A basic pattern as an extended one, in which characters without a meaning are quoted. */
p4d_value p4d_shell__as_extended(p4d_shell *sh, p4d_value basic);
/* Whether a line has a match of an extended pattern. OPEN: p4d does not support the pattern. */
p4d_shell_status p4d_shell__line_matches(p4d_shell *sh, p4d_value line, p4d_value pattern, bool any_case);
/* [[ text =~ pattern ]], which also sets BASH_REMATCH. OPEN: p4d does not support the pattern. */
p4d_shell_status p4d_shell__regular(p4d_shell *sh, p4d_value text, p4d_value pattern);
