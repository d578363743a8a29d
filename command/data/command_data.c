/* SPDX-License-Identifier: Apache-2.0 */
/* p4d data: makes training data from text. */
#include "data/command_data.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arguments.h"
#include "base/number.h"
#include "base/option.h"
#include "data/chat.h"
#include "data/documents.h"
#include "data/pairs.h"
#include "data/progress.h"
#include "data/tokenizer.h"
#include "data/tokens_writer.h"
#include "line/line.h"
#include "report/report.h"

const char p4d_data_options[] =
    "\n"
    "  -o, --output PREFIX         write PREFIX.bin and PREFIX.idx\n"
    "  --tokenizer bytes|ids|FILE  bytes (the default): one token per byte, and token 256 after each\n"
    "                              document. FILE: a tokenizer.json or a SentencePiece model, a\n"
    "                              directory with one, or ORG/NAME in the hub's cache. ids: the\n"
    "                              input has token IDs\n"
    "  --split-lines               each line is a document\n"
    "  --jsonl                     each line is a JSON object with one document\n"
    "  --field NAME                member of the object that has the document. Default: text; with ids\n"
    "                              input_ids; with --chat messages, conversations (ShareGPT), or\n"
    "                              prompt and completion\n"
    "  --chat own|NAME|FILE        each line has a conversation: messages with role and content. Only\n"
    "                              the assistant's tokens have a loss (PREFIX.mask). Template: own,\n"
    "                              that of the tokenizer's model; FILE, in Jinja; or NAME: chatml,\n"
    "                              qwen2.5, llama-3, llama-2, mistral, gemma, zephyr\n"
    "  --answers all|last|each     answers to train on: all; only the last; or each answer, in a\n"
    "                              document of its own with the conversation before it\n"
    "  --pairs                     each line has a prompt, a chosen and a rejected answer, for p4d-train\n"
    "                              --workload preference: texts or, with --chat, lists of messages\n"
    "  --chat-date YYYY-MM-DD      today's date, for templates that show it\n"
    "  --vocab N                   with ids: size of the vocabulary\n"
    "  --begin-token N|NAME|none   token before each document (default: the tokenizer's; with ids: none)\n"
    "  --end-token N|NAME|none     token after each document (default: the tokenizer's; with ids: none)\n"
    "  --bad-lines N               number of wrong JSON lines that p4d may ignore (default: 1 % of all)\n"
    "  --json                      print JSON, as p4d-json(5) describes it\n"
    "\n"
    "FILE - is standard input.";

/* Which answers of a conversation are trained on. */
enum { ALL, LAST, EACH };

typedef struct data {
	const char *output, *tokenizer_name, *field, *chat_name, *chat_date, *answers, *begin_text, *end_text;
	uint64_t vocabulary, most_bad; /* most_bad: UINT64_MAX: 1 % of the lines */
	bool split_lines, json_lines, json, help, pairs;
	bool ids;
	int which; /* value of --answers */
	int files;
	char **file;

	p4d_tokenizer tokenizer;
	p4d_chat chat;
	int32_t begin, end; /* tokens around each document; -1: none */
	p4d_documents documents;
	p4d_tokens_writer writer;
	p4d_progress progress;

	uint64_t lines, bad; /* number of lines of JSON, and of lines left out because they are wrong */
	p4d_error first_bad;
} data;

/* The signal that asked to stop. */
static volatile sig_atomic_t stopped;

static void stop(int number)
{
	stopped = number;
}

static int usage(p4d_error *err, const char *text)
{
	p4d_fail(err, P4D_E_USAGE, "%s", text);
	return p4d_fix(err, "p4d help data");
}

static int set_text(const char **to, const char *name, const char *text, p4d_error *err)
{
	if (!*text)
		return p4d_fail(err, P4D_E_VALUE, "--%s is empty", name);
	return p4d_option_once(to, name, text, err);
}

static int read_number(const char *name, const char *text, uint64_t max, uint64_t *number, p4d_error *err)
{
	if (p4d_number_whole(text, 0, max, number))
		return 0;
	return p4d_fail(err, P4D_E_VALUE, "--%s=%.64s: not a whole number up to %" PRIu64, name, text, max);
}

enum {
	OUTPUT = 256,
	TOKENIZER,
	SPLIT,
	JSONL,
	FIELD,
	CHAT,
	CHAT_DATE,
	ANSWERS,
	VOCAB,
	BEGIN,
	END,
	JSON,
	BAD,
	HELP,
	PAIRS
};

/* Takes an option. Its value, if it has one, is in optarg. */
static int take_argument(data *d, int which, p4d_error *err)
{
	const struct {
		int which;
		const char **to, *name;
	} texts[] = {
	    {OUTPUT, &d->output, "output"},
	    {'o', &d->output, "output"},
	    {TOKENIZER, &d->tokenizer_name, "tokenizer"},
	    {FIELD, &d->field, "field"},
	    {CHAT, &d->chat_name, "chat"},
	    {CHAT_DATE, &d->chat_date, "chat-date"},
	    {ANSWERS, &d->answers, "answers"},
	    {BEGIN, &d->begin_text, "begin-token"},
	    {END, &d->end_text, "end-token"},
	};

	d->split_lines |= which == SPLIT;
	d->json_lines |= which == JSONL;
	d->json |= which == JSON;
	d->pairs |= which == PAIRS;
	d->help |= which == HELP || which == 'h';
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (which == texts[i].which)
			return set_text(texts[i].to, texts[i].name, optarg, err);
	if (which == VOCAB)
		return read_number("vocab", optarg, (uint64_t)INT32_MAX + 1, &d->vocabulary, err);
	return which == BAD ? read_number("bad-lines", optarg, UINT64_MAX - 1, &d->most_bad, err) : 0;
}

static int parse_arguments(data *d, int argc, char *argv[], p4d_error *err)
{
	static const struct option table[] = {
	    {"output", required_argument, NULL, OUTPUT},
	    {"tokenizer", required_argument, NULL, TOKENIZER},
	    {"split-lines", no_argument, NULL, SPLIT},
	    {"jsonl", no_argument, NULL, JSONL},
	    {"field", required_argument, NULL, FIELD},
	    {"chat", required_argument, NULL, CHAT},
	    {"chat-date", required_argument, NULL, CHAT_DATE},
	    {"answers", required_argument, NULL, ANSWERS},
	    {"vocab", required_argument, NULL, VOCAB},
	    {"begin-token", required_argument, NULL, BEGIN},
	    {"end-token", required_argument, NULL, END},
	    {"json", no_argument, NULL, JSON},
	    {"help", no_argument, NULL, HELP},
	    {"pairs", no_argument, NULL, PAIRS},
	    {"bad-lines", required_argument, NULL, BAD},
	    {NULL, 0, NULL, 0},
	};
	int which, more, rc = 0;

	optind = 0;
	while (rc == 0 && (more = p4d_arguments_next(argc, argv, ":ho:", table, &which, err)) != 0) {
		if (more < 0) {
			if (!err->fix[0])
				p4d_fix(err, "p4d help data");
			return -1;
		}
		rc = take_argument(d, which, err);
	}
	d->files = argc - optind;
	d->file = argv + optind;
	return rc;
}

static int find_answers(data *d, p4d_error *err)
{
	static const char *const names[] = {[ALL] = "all", [LAST] = "last", [EACH] = "each"};

	for (int i = ALL; d->answers && i <= EACH; i++)
		if (!strcmp(d->answers, names[i])) {
			d->which = i;
			return 0;
		}
	return d->answers
		   ? p4d_fail(err, P4D_E_VALUE, "--answers=%.64s: expected all, last or each", d->answers)
		   : 0;
}

static int check_arguments(data *d, p4d_error *err)
{
	if (!d->tokenizer_name)
		d->tokenizer_name = "bytes";
	d->ids = !strcmp(d->tokenizer_name, "ids");
	if (!d->files)
		return usage(err, "no text file given");
	if (!d->output)
		return usage(err, "--output PREFIX is missing");
	if (d->ids && !d->vocabulary)
		return usage(err, "--tokenizer ids needs --vocab N, the size of the vocabulary");
	if (!d->ids && d->vocabulary)
		return usage(err,
			     "--vocab needs --tokenizer ids; other tokenizers have their own vocabulary");
	if (d->split_lines && (d->json_lines || d->ids))
		return usage(err, "--split-lines cannot be combined with JSON");
	if (d->chat_name && (d->split_lines || d->ids))
		return usage(
		    err, "--chat reads conversations in JSON: leave out --split-lines and --tokenizer ids");
	if (d->chat_name && (d->begin_text || d->end_text))
		return usage(err,
			     "--begin-token and --end-token have no effect: a chat template has its own");
	if (d->pairs && (d->split_lines || d->ids || d->field))
		return usage(err, "--pairs reads prompt, chosen and rejected in JSON: leave out "
				  "--split-lines, --field and --tokenizer ids");
	if (d->chat_date && !d->chat_name)
		return usage(err, "--chat-date needs --chat");
	if (d->answers && !d->chat_name)
		return usage(err, "--answers needs --chat");
	if (d->answers && d->pairs)
		return usage(
		    err, "--answers has no effect with --pairs: the training uses both answers of a pair");
	if (find_answers(d, err) < 0)
		return -1;
	if (d->most_bad != UINT64_MAX && !d->json_lines && !d->ids && !d->chat_name && !d->pairs)
		return usage(err, "--bad-lines needs --jsonl");
	if (d->field && !d->json_lines && !d->ids && !d->chat_name)
		return usage(err, "--field needs --jsonl");
	d->documents.tokens = d->ids;
	d->documents.field = d->field ? d->field : d->chat_name ? NULL : d->ids ? "input_ids" : "text";
	d->documents.form = d->pairs                  ? P4D_PAIRS
			    : d->chat_name            ? P4D_CONVERSATIONS
			    : d->json_lines || d->ids ? P4D_JSON_LINES
			    : d->split_lines          ? P4D_EACH_LINE
						      : P4D_WHOLE_FILE;
	return 0;
}

/*
 * Reads the value of --begin-token or --end-token: a number or, if the tokenizer has names, a name. A text of
 * digits is a number.
 */
static int find_token(const data *d, const char *option, const char *text, int32_t *token, p4d_error *err)
{
	const uint64_t last = d->tokenizer.vocabulary - 1;
	uint64_t number;

	if (!text)
		return 0;
	*token = -1;
	if (!strcmp(text, "none"))
		return 0;
	*token = p4d_number_whole(text, 0, last, &number) ? (int32_t)number
							  : p4d_tokenizer_token(&d->tokenizer, text);
	if (*token >= 0)
		return 0;
	return p4d_fail(err, P4D_E_VALUE,
			"--%s=%.64s: neither a number up to %" PRIu64 " nor the name of a token of %.200s",
			option, text, last, d->tokenizer_name);
}

static int open_chat(data *d, p4d_error *err)
{
	const int rc =
	    p4d_chat__open(&d->chat, d->chat_name, d->chat_date, &d->tokenizer, d->tokenizer_name, err);

	d->chat.last = d->which != ALL;
	return rc;
}

static int open_tokenizer(data *d, p4d_error *err)
{
	d->tokenizer = (p4d_tokenizer){.vocabulary = d->vocabulary, .begin = -1, .end = -1};
	if (!d->ids && p4d_tokenizer_open(&d->tokenizer, d->tokenizer_name, err) < 0)
		return -1;
	d->begin = d->end = -1;
	if (d->chat_name)
		return open_chat(d, err);
	d->begin = d->tokenizer.begin;
	d->end = d->tokenizer.end;
	if (find_token(d, "begin-token", d->begin_text, &d->begin, err) < 0 ||
	    find_token(d, "end-token", d->end_text, &d->end, err) < 0)
		return -1;
	if (d->end >= 0 || d->end_text || d->ids)
		return 0;
	p4d_fail(err, P4D_E_VALUE, "%.200s has no end-of-sentence token", d->tokenizer_name);
	return p4d_fix(err, "--end-token N, or --end-token none");
}

/* Sum of the sizes of all inputs, in bytes; 0: a size is unknown. */
static uint64_t input_bytes(const data *d)
{
	uint64_t sum = 0;
	struct stat status;

	for (int i = 0; i < d->files; i++) {
		if (stat(d->file[i], &status) < 0 || !S_ISREG(status.st_mode))
			return 0;
		sum += (uint64_t)status.st_size;
	}
	return sum;
}

static int add(void *context, const int32_t *tokens, uint64_t count, p4d_error *err)
{
	data *d = context;

	if (stopped)
		return p4d_fail(err, P4D_E_IO, "interrupted");
	if (count && d->begin >= 0 && !d->writer.open_tokens &&
	    p4d_tokens_writer_add(&d->writer, &d->begin, 1, err) < 0)
		return -1;
	return p4d_tokens_writer_add(&d->writer, tokens, count, err);
}

static int add_turn(void *context, const int32_t *tokens, size_t count, bool trained, p4d_error *err)
{
	data *d = context;

	d->writer.trains = trained;
	return add(d, tokens, count, err);
}

/* Adds a document: a conversation that is cut off after an answer. */
static int add_part(data *d, const p4d_conversation *whole, size_t count, p4d_error *err)
{
	struct json_object *part = json_object_new_array();
	int rc = part ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a conversation");

	for (size_t i = 0; rc == 0 && i < count; i++)
		json_object_array_add(part, json_object_get(json_object_array_get_idx(whole->messages, i)));
	if (rc == 0)
		rc = p4d_chat__encode(&d->chat, &(p4d_conversation){part, whole->line}, add_turn, d, err);
	json_object_put(part);
	return rc < 0 ? -1 : p4d_tokens_writer_end(&d->writer, err);
}

/* Adds a document for each answer, starting with the longest. A wrong message is therefore found before
 * anything is written. */
static int add_answers(data *d, const p4d_conversation *whole, p4d_error *err)
{
	const size_t count = json_object_array_length(whole->messages);
	bool found = false;

	for (size_t i = count; i-- && !(found && d->which == LAST);)
		if (p4d_chat__is_answer(whole->messages, i)) {
			found = true;
			if (add_part(d, whole, i + 1, err) < 0)
				return -1;
		}
	return found
		   ? 0
		   : add_part(d, whole, count, err); /* if there was no answer, add_part says what is wrong */
}

/* Ends the document of one answer. A line adds the documents of both answers or none. */
static int end_answer(void *context, p4d_error *err)
{
	data *d = context;

	return d->writer.open_tokens ? p4d_tokens_writer_end(&d->writer, err)
				     : p4d_fail(err, P4D_E_VALUE, "an answer without tokens");
}

static int add_pair(data *d, p4d_error *err)
{
	const p4d_pair_sink to = {.tokenizer = &d->tokenizer,
				  .chat = d->chat_name ? &d->chat : NULL,
				  .end = d->end,
				  .add = add_turn,
				  .finish = end_answer,
				  .context = d};

	return p4d_pairs__encode(&to, &d->documents, err);
}

static int add_document(data *d, const p4d_document_text *document, p4d_error *err)
{
	if (d->pairs)
		return add_pair(d, err);
	const p4d_conversation conversation = {document->messages, d->documents.object};
	if (document->messages && d->which != ALL)
		return add_answers(d, &conversation, err);
	int rc = document->messages ? p4d_chat__encode(&d->chat, &conversation, add_turn, d, err)
		 : document->ids
		     ? add(d, document->ids, document->length, err)
		     : p4d_tokenizer_encode(&d->tokenizer, document->text, document->length, add, d, err);

	/* SentencePiece has no tokens for some texts, for instance blanks */
	if (rc == 0 && d->end >= 0 && d->writer.open_tokens)
		rc = add(d, &d->end, 1, err);
	return rc < 0 ? -1 : p4d_tokens_writer_end(&d->writer, err);
}

/* Adds the file's name to errors of the tokenizer or the writer; readers add it themselves. */
static int add_place(const data *d, p4d_error *err)
{
	p4d_error inner = *err;

	if (inner.code != P4D_E_VALUE)
		return -1;
	if (d->documents.line)
		p4d_fail(err, inner.code, "%.100s:%" PRIu64 ": %.300s", d->documents.name, d->documents.line,
			 inner.text);
	else
		p4d_fail(err, inner.code, "%.100s: %.300s", d->documents.name, inner.text);
	return p4d_fix(err, "%s", inner.fix);
}

/* If all of the first BAD_AT_ONCE lines are wrong, the command fails, because the file is probably of
 * another kind. */
enum { BAD_AT_ONCE = 1000 };

static uint64_t most_bad(const data *d)
{
	return d->most_bad == UINT64_MAX ? d->lines / 100 : d->most_bad;
}

/* Whether a wrong line may be left out: no token of it was written, and not too many lines were wrong. */
static bool may_leave_out(data *d, const p4d_error *err)
{
	const bool of_line =
	    d->documents.form >= P4D_JSON_LINES && (err->code == P4D_E_JSON || err->code == P4D_E_VALUE);

	if (stopped || !of_line || d->writer.open_tokens || (d->pairs && d->writer.documents % 2) ||
	    d->most_bad == 0)
		return false;
	if (!d->bad++)
		d->first_bad = *err;
	return d->bad <= (d->most_bad == UINT64_MAX ? most_bad(d) + BAD_AT_ONCE : d->most_bad);
}

static int add_file(data *d, const char *path, p4d_error *err)
{
	p4d_document_text document;
	int rc;

	if (p4d_documents__open(&d->documents, path, err) < 0)
		return -1;
	while ((rc = p4d_documents__next(&d->documents, &document, err)) != 0) {
		d->lines++;
		if (rc > 0 && add_document(d, &document, err) < 0)
			rc = add_place(d, err);
		if (rc < 0 && !may_leave_out(d, err))
			return -1;
		p4d_progress__update(&d->progress, d->documents.read_bytes);
	}
	p4d_documents__close(&d->documents);
	return 0;
}

/* Fails if too many lines were wrong. Called at the end, when the number of lines is known. */
static int judge_bad(const data *d, p4d_error *err)
{
	p4d_error said = {.code = P4D_OK};

	if (!d->bad)
		return 0;
	if (d->bad <= most_bad(d)) {
		p4d_fail(&said, d->first_bad.code, "%.300s; p4d left out %" PRIu64 " of %" PRIu64 " lines",
			 d->first_bad.text, d->bad, d->lines);
		fprintf(stderr, "p4d: [P4D%03d] %s\n", said.code, said.text);
		return 0;
	}
	*err = d->first_bad;
	if (d->bad > 1) {
		p4d_fail(err, d->first_bad.code, "%.300s; %" PRIu64 " of %" PRIu64 " lines are wrong",
			 d->first_bad.text, d->bad, d->lines);
		p4d_fix(err, "--bad-lines %" PRIu64 ", to leave them out", d->bad);
	}
	return -1;
}

static int convert(data *d, p4d_error *err)
{
	if (p4d_tokens_writer_open(&d->writer, d->output, d->tokenizer.vocabulary, d->chat_name || d->pairs,
				   d->pairs, err) < 0)
		return -1;
	p4d_progress__start(&d->progress, d->output, input_bytes(d));
	int rc = 0;
	for (int i = 0; rc == 0 && i < d->files; i++)
		rc = add_file(d, d->file[i], err);
	p4d_progress__end(&d->progress);
	if (rc == 0 && !stopped)
		rc = judge_bad(d, err);
	if (rc == 0 && stopped)
		rc = p4d_fail(err, P4D_E_IO, "interrupted");
	if (rc == 0 && !d->writer.tokens)
		rc = p4d_fail(err, P4D_E_DATA, "no text in %.200s%s", d->file[0],
			      d->files > 1 ? " or the other files" : "");
	return rc;
}

static int report(const data *d, uint64_t documents, uint64_t tokens, uint64_t trained, p4d_error *err)
{
	const bool narrow = d->tokenizer.vocabulary <= 65536;

	if (!d->json) {
		printf("%s.bin: %" PRIu64 " document%s, %" PRIu64 " tokens of a vocabulary of %" PRIu64
		       " (%s)",
		       d->output, documents, documents == 1 ? "" : "s", tokens, d->tokenizer.vocabulary,
		       narrow ? "uint16" : "int32");
		if (d->chat_name || d->pairs)
			printf("; loss on %" PRIu64 " (%s.mask)", trained, d->output);
		if (d->chat_name)
			printf(", template %s", p4d_chat__taken(&d->chat));
		if (d->pairs)
			printf("; %" PRIu64 " pairs", documents / 2);
		if (d->bad)
			printf("; %" PRIu64 " of %" PRIu64 " lines left out", d->bad, d->lines);
		puts("");
		return 0;
	}
	struct json_object *object = json_object_new_object();
	json_object_object_add(object, "prefix", json_object_new_string(d->output));
	json_object_object_add(object, "documents", json_object_new_uint64(documents));
	json_object_object_add(object, "tokens", json_object_new_uint64(tokens));
	if (d->pairs)
		json_object_object_add(object, "pairs", json_object_new_uint64(documents / 2));
	if (d->chat_name || d->pairs)
		json_object_object_add(object, "trained", json_object_new_uint64(trained));
	if (d->chat_name)
		json_object_object_add(object, "template", json_object_new_string(p4d_chat__taken(&d->chat)));
	json_object_object_add(object, "left_out", json_object_new_uint64(d->bad));
	json_object_object_add(object, "vocab", json_object_new_uint64(d->tokenizer.vocabulary));
	json_object_object_add(object, "begin_token", d->begin >= 0 ? json_object_new_int(d->begin) : NULL);
	json_object_object_add(object, "end_token", d->end >= 0 ? json_object_new_int(d->end) : NULL);
	json_object_object_add(object, "type", json_object_new_string(narrow ? "uint16" : "int32"));
	return p4d_report_json_print(object, err);
}

/* Installs a handler that removes partial files before the signal is raised again. */
static void catch_signals(void (*handler)(int))
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = handler}, before;

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
}

static int run(data *d, p4d_error *err)
{
	if (check_arguments(d, err) < 0 || open_tokenizer(d, err) < 0)
		return -1;
	catch_signals(stop);
	int rc = convert(d, err);
	uint64_t documents = d->writer.documents, tokens = d->writer.tokens, trained = d->writer.trained;
	if (rc == 0)
		rc = p4d_tokens_writer_close(&d->writer, err);
	else
		p4d_tokens_writer_abandon(&d->writer);
	catch_signals(SIG_DFL);
	if (stopped && rc < 0)
		raise(stopped);
	return rc < 0 ? -1 : report(d, documents, tokens, trained, err);
}

int p4d_command_data(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err)
{
	data d = {.most_bad = UINT64_MAX};
	int rc = parse_arguments(&d, argc, argv, err);

	if (rc == 0 && d.help)
		p4d_line_help(self, true);
	else if (rc == 0)
		rc = run(&d, err);
	p4d_tokens_writer_abandon(&d.writer);
	p4d_documents__free(&d.documents);
	p4d_chat__close(&d.chat);
	p4d_tokenizer_close(&d.tokenizer);
	return rc;
}
