/* SPDX-License-Identifier: Apache-2.0 */
#include "job_submit_kept.h"

#include <string.h>
#include <time.h>

enum { MOST = 8 };

typedef struct job_key {
	size_t length;
	bool complete;
	char bytes[P4D_KEPT_BYTES];
} job_key;

/* All verdicts in the table are of one second and one generation; a new one replaces the oldest. */
static struct {
	time_t second;
	uint64_t generation;
	unsigned count, next;
	job_key key[MOST], asked;
	p4d_verdict verdict[MOST];
} kept;

static void add(job_key *key, const void *bytes, size_t length)
{
	key->complete = key->complete && length <= sizeof(key->bytes) - key->length;
	if (!key->complete || !length)
		return;
	memcpy(key->bytes + key->length, bytes, length);
	key->length += length;
}

/* Adds the texts that are set, each with its index, and then their number. */
static void add_texts(job_key *key, const char *const *texts, uint16_t count)
{
	for (uint16_t i = 0; i < count; i++)
		if (texts[i]) {
			add(key, &i, sizeof(i));
			add(key, texts[i], strnlen(texts[i], sizeof(key->bytes)) + 1);
		}
	add(key, &count, sizeof(count));
}

/* Adds a job to a key, its texts first. The pointers after the texts refer to memory of this generation. */
static void add_job(job_key *key, const p4d_job *job)
{
	enum { TEXTS = offsetof(p4d_job, associations) / sizeof(char *) };
	const char *texts[TEXTS];

	memcpy(texts, job, sizeof(texts));
	add_texts(key, texts, TEXTS);
	add(key, (const char *)job + sizeof(texts), offsetof(p4d_job, script) - sizeof(texts));
	add(key, &job->script_length, sizeof(job->script_length));
	add(key, job->script, job->script ? job->script_length : 0);
	key->complete = key->complete && !job->reading;
}

bool p4d_kept_find(const p4d_job *job, const p4d_environment *env, uint64_t generation, p4d_verdict *verdict)
{
	const time_t now = time(NULL);
	job_key *asked = &kept.asked;

	asked->length = 0;
	asked->complete = p4d_environment_plan(env) && !env->conflict.code;
	if (!asked->complete)
		return false;
	if (now != kept.second || generation != kept.generation)
		kept.count = kept.next = 0;
	kept.second = now;
	kept.generation = generation;
	add_job(asked, job);
	add_texts(asked, env->option, P4D_OPTIONS);
	add_texts(asked, env->output, P4D_ENVIRONMENT_OUTPUTS);
	for (unsigned i = 0; asked->complete && i < kept.count; i++)
		if (kept.key[i].length == asked->length &&
		    !memcmp(kept.key[i].bytes, asked->bytes, asked->length)) {
			*verdict = kept.verdict[i];
			return true;
		}
	return false;
}

void p4d_kept_add(const p4d_verdict *verdict)
{
	const unsigned at = kept.next;

	if (!kept.asked.complete)
		return;
	kept.key[at].length = kept.asked.length;
	memcpy(kept.key[at].bytes, kept.asked.bytes, kept.asked.length);
	kept.verdict[at] = *verdict;
	kept.next = (at + 1) % MOST;
	kept.count = kept.count < MOST ? kept.count + 1 : MOST;
}
