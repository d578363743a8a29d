/* SPDX-License-Identifier: Apache-2.0 */
#include "job_submit_metrics.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

/* Number of series of verdicts. If all are in use, a call with a new series counts in one series per hook,
 * after the others. */
enum { SERIES = 1024, ALL_SERIES = SERIES + P4D_METRICS_HOOKS, BOUNDS = 14 };

#define OTHERS "(others)"

static const double bounds[BOUNDS] = {2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3,
				      5e-3, 1e-2, 2e-2, 5e-2, 0.1,  0.5,  1};
static const char *const hook_names[P4D_METRICS_HOOKS] = {"submit", "update"};

typedef struct series {
	p4d_metrics_call of; /* count 0: the entry is free */
	uint64_t count;
} series;

typedef struct latency {
	uint64_t count[BOUNDS + 1]; /* number of calls in each interval; the last interval has no upper
				     * bound */
	double seconds;
} latency;

typedef struct counters {
	uint64_t calls;
	latency hook[P4D_METRICS_HOOKS];
	uint64_t rehearsed[P4D_OUTCOMES];
	series verdict[ALL_SERIES];
} counters;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static counters all;

void p4d_metrics_begin(p4d_metrics_call *call, p4d_metrics_hook hook)
{
	memset(call, 0, sizeof(*call));
	call->hook = hook;
	snprintf(call->verdict, sizeof(call->verdict), "none");
}

void p4d_metrics_judged(p4d_metrics_call *call, const p4d_site *site, const char *partition,
			const p4d_verdict *verdict, const p4d_verdict_record *record)
{
	char first[64] = "";

	for (unsigned i = 0; i < verdict->messages; i++)
		call->rehearsed = call->rehearsed || verdict->message[i].code == P4D_E_REHEARSED;
	if (partition)
		snprintf(first, sizeof(first), "%.*s", (int)strcspn(partition, ","), partition);
	const p4d_site_partition *section = p4d_site_partition_of(site, *first ? first : NULL);
	snprintf(call->partition, sizeof(call->partition), "%s", section ? section->name : OTHERS);
	snprintf(call->mode, sizeof(call->mode), "%s", p4d_site_mode_name(verdict->policy.mode));
	if (record->verdict[0])
		memcpy(call->verdict, record->verdict, sizeof(call->verdict));
	if (verdict->messages)
		snprintf(call->code, sizeof(call->code), "P4D%03d", (int)verdict->message[0].code);
}

static bool is_same(const p4d_metrics_call *a, const p4d_metrics_call *b)
{
	return a->hook == b->hook && !strcmp(a->verdict, b->verdict) && !strcmp(a->code, b->code) &&
	       !strcmp(a->mode, b->mode) && !strcmp(a->partition, b->partition);
}

static uint64_t hash_of(const p4d_metrics_call *call)
{
	enum {
		FROM = offsetof(p4d_metrics_call, verdict),
		TO = offsetof(p4d_metrics_call, partition) + sizeof(call->partition)
	};

	return p4d_hash_bytes((const char *)call + FROM, TO - FROM) + (uint64_t)call->hook;
}

/*
 * Finds the series that counts a call, or adds it. The call's texts are padded with zeros, so they can be
 * compared as bytes.
 */
static series *series_of(const p4d_metrics_call *call)
{
	enum { TRIES = 64 };
	series *rest = &all.verdict[SERIES + call->hook];

	for (uint64_t at = hash_of(call), tries = 0; tries < TRIES; at++, tries++) {
		series *s = &all.verdict[at % SERIES];
		if (!s->count)
			s->of = *call;
		if (is_same(&s->of, call))
			return s;
	}
	rest->of = (p4d_metrics_call){.hook = call->hook, .verdict = OTHERS, .partition = OTHERS};
	return rest;
}

void p4d_metrics_count(const p4d_metrics_call *call, double seconds)
{
	const p4d_outcome outcome = p4d_outcome_named(call->verdict);
	int bound = 0;

	while (bound < BOUNDS && seconds > bounds[bound])
		bound++;
	pthread_mutex_lock(&lock);
	all.calls++;
	all.hook[call->hook].count[bound]++;
	all.hook[call->hook].seconds += seconds;
	if (call->rehearsed && outcome < P4D_OUTCOMES)
		all.rehearsed[outcome]++;
	series_of(call)->count++;
	pthread_mutex_unlock(&lock);
}

uint64_t p4d_metrics_calls(void)
{
	pthread_mutex_lock(&lock);
	const uint64_t calls = all.calls;
	pthread_mutex_unlock(&lock);
	return calls;
}

static void put_head(p4d_text *text, const char *name, const char *type, const char *help)
{
	p4d_text_print(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Prints a label with its value, escaped, because names in p4d.conf may contain quotes. */
static void put_label(p4d_text *text, const char *name, const char *value)
{
	p4d_text_print(text, "%s=\"", name);
	for (; *value; value++)
		p4d_text_print(text, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
	p4d_text_add(text, "\"");
}

static void put_verdicts(p4d_text *text, const counters *c)
{
	put_head(text, "p4d_verdicts_total", "counter",
		 "Submissions and updates of jobs, by p4d's verdict; none: nothing to judge.");
	for (int i = 0; i < ALL_SERIES; i++) {
		const p4d_metrics_call *of = &c->verdict[i].of;
		if (!c->verdict[i].count)
			continue;
		p4d_text_print(text,
			       "p4d_verdicts_total{event=\"%s\",verdict=\"%s\",code=\"%s\",mode=\"%s\",",
			       hook_names[of->hook], of->verdict, of->code, of->mode);
		put_label(text, "partition", of->partition);
		p4d_text_print(text, "} %" PRIu64 "\n", c->verdict[i].count);
	}
}

static void put_latency(p4d_text *text, const char *hook, const latency *l)
{
	uint64_t sum = 0;

	for (int i = 0; i <= BOUNDS; i++) {
		sum += l->count[i];
		p4d_text_print(text, "p4d_hook_seconds_bucket{hook=\"%s\",le=\"", hook);
		if (i < BOUNDS)
			p4d_text_print(text, "%g", bounds[i]);
		else
			p4d_text_add(text, "+Inf");
		p4d_text_print(text, "\"} %" PRIu64 "\n", sum);
	}
	p4d_text_print(text,
		       "p4d_hook_seconds_sum{hook=\"%s\"} %.9g\n"
		       "p4d_hook_seconds_count{hook=\"%s\"} %" PRIu64 "\n",
		       hook, l->seconds, hook, sum);
}

static void put_state(p4d_text *text, const p4d_metrics_state *state)
{
	put_head(text, "p4d_info", "gauge",
		 "The release of p4d in slurmctld, and the usual mode of p4d.conf.");
	p4d_text_add(text, "p4d_info{");
	put_label(text, "release", state->release);
	p4d_text_print(text, ",mode=\"%s\"} 1\n", state->mode);
	put_head(text, "p4d_conf_valid", "gauge",
		 "1 if the present p4d.conf is in force, 0 if it has an error.");
	p4d_text_print(text, "p4d_conf_valid %d\n", state->conf_is_valid);
	put_head(text, "p4d_conf_loaded_seconds", "gauge",
		 "When the configuration in force was loaded, in seconds since 1970.");
	p4d_text_print(text, "p4d_conf_loaded_seconds %" PRIu64 "\n", state->loaded);
}

void p4d_metrics_text(p4d_text *text, const p4d_metrics_state *state)
{
	static counters now; /* a copy, so that the lock is held only briefly */

	pthread_mutex_lock(&lock);
	now = all;
	pthread_mutex_unlock(&lock);
	put_state(text, state);
	put_verdicts(text, &now);
	put_head(text, "p4d_rehearsals_total", "counter",
		 "Jobs whose program had been rehearsed, by p4d's verdict.");
	for (int i = 0; i < P4D_OUTCOMES; i++)
		p4d_text_print(text, "p4d_rehearsals_total{verdict=\"%s\"} %" PRIu64 "\n",
			       p4d_outcome_name((p4d_outcome)i), now.rehearsed[i]);
	put_head(text, "p4d_hook_seconds", "histogram", "Time that slurmctld spends in p4d for a job.");
	for (int i = 0; i < P4D_METRICS_HOOKS; i++)
		put_latency(text, hook_names[i], &now.hook[i]);
}
