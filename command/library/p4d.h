/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libp4d: the answers of `p4d estimate`, `p4d plan` and `p4d check` for programs. p4d(3) describes it.
 *
 * A query is a command line and, optionally, the text of a job script. Its reply is the command's JSON, which
 * p4d-json(5) describes, with functions for its members. The library does not end its process, and prints
 * nothing.
 */
#ifndef P4D_H
#define P4D_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct p4d_query p4d_query;
typedef struct p4d_reply p4d_reply;

/* The release of the library that runs: "0.1.0". */
const char *p4d_version(void);

/* command: "estimate", "plan" or "check". NULL: no memory. */
p4d_query *p4d_query_new(const char *command);
void p4d_query_free(p4d_query *query);

/*
 * The functions below copy their arguments. They return 0, or -1 if there is no memory or a pointer is NULL.
 */

/* Adds a word to the command line: "--gpu=h100", "--p4d-tp=8", the name of a model. */
int p4d_query_word(p4d_query *query, const char *word);
/*
 * check: adds the text of the job script at this position of the command line. Words added afterwards are
 * the script's arguments. name: the script's name in messages. Without this call, the command line names a
 * file.
 */
int p4d_query_script(p4d_query *query, const char *name, const char *text, size_t length);
/* check: the directory that the job is submitted from. Default: the current one. */
int p4d_query_directory(p4d_query *query, const char *path);
/* check: the environment that the job is submitted with, "NAME=VALUE", up to a NULL. Default: the process's.
 */
int p4d_query_environment(p4d_query *query, const char *const *variables);
/*
 * Only for estimate: makes a query for a process that must not wait. p4d answers in milliseconds and reads no
 * file. The reply has neither a fix nor a step time, and uses p4d's own models, GPUs and limits, not those of
 * p4d.conf.
 */
int p4d_query_quick(p4d_query *query);

/* Answers the query. The query does not change. Errors are also replies. NULL: no memory. */
p4d_reply *p4d_query_run(const p4d_query *query);
void p4d_reply_free(p4d_reply *reply);

/* The results of the following functions live as long as the reply. */

/* The exit status of the command: 0, or the number of the P4D code because of which the job is refused. */
int p4d_reply_code(const p4d_reply *reply);
/* "pass", "warn" or "reject"; "error": the query has no answer. NULL: there is no verdict, as for plan, or
 * without a GPU. */
const char *p4d_reply_verdict(const p4d_reply *reply);

/* Number of messages, including those of a job's components and of the jobs that a script submits. */
size_t p4d_reply_messages(const p4d_reply *reply);
int p4d_reply_message_code(const p4d_reply *reply, size_t index);         /* 12 for P4D012 */
const char *p4d_reply_message_text(const p4d_reply *reply, size_t index); /* without the code */
const char *p4d_reply_message_fix(const p4d_reply *reply, size_t index);  /* options to paste; or NULL */

/*
 * A member of the JSON, by its JSON pointer (RFC 6901): "/peak/device_bytes", "/plan". p4d_reply_text returns
 * NULL if there is no such text. p4d_reply_number returns -1 if there is no such number; a boolean counts as
 * 0 or 1.
 */
const char *p4d_reply_text(const p4d_reply *reply, const char *pointer);
int p4d_reply_number(const p4d_reply *reply, const char *pointer, double *value);

/* The whole reply as JSON text. */
const char *p4d_reply_json(const p4d_reply *reply);

#ifdef __cplusplus
}
#endif

#endif
