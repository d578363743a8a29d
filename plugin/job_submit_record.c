/* SPDX-License-Identifier: Apache-2.0 */
#include "job_submit_record.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "approval.h"
#include "base/text.h"

extern slurm_conf_t slurm_conf;

/* Slurm refuses jobs with a longer Extra. AdminComment has no such limit. */
enum { EXTRA_BYTES = 1024 };

void p4d_record_name(p4d_verdict_record *record)
{
	static atomic_uint serial;
	static atomic_uint_fast64_t start;
	uint_fast64_t none = 0;

	atomic_compare_exchange_strong(&start, &none, (uint_fast64_t)time(NULL));
	snprintf(record->id, sizeof(record->id), "%llx-%x", (unsigned long long)atomic_load(&start),
		 atomic_fetch_add(&serial, 1) + 1);
}

/*
 * Replaces p4d's words in one of Slurm's fields. If the field would then have `most` characters or more, it
 * adds no new words. It always removes the old ones, because a user may have written them.
 */
static void put_words(char **field, const char *words, size_t most)
{
	char *text = p4d_approval_write(*field, words);

	if (text && strlen(text) >= most) {
		free(text);
		text = p4d_approval_write(*field, "");
	}
	if (!text)
		return;
	slurm_xfree((void **)field);
	if (*text)
		*field = slurm_xstrdup(text);
	free(text);
}

#if P4D_HAS_EXTRA
/* Whether Slurm interprets --extra as a constraint. */
static bool has_constraints(const char *scheduler_parameters)
{
	return scheduler_parameters && strstr(scheduler_parameters, "extra_constraints");
}

/* Whether p4d keeps records in Extra and protects its words there. Call it under slurmctld's configuration
 * lock. */
static bool owns_extra(const p4d_site *site)
{
	return p4d_site_record(site) == P4D_RECORD_EXTRA && !has_constraints(slurm_conf.sched_params);
}

/*
 * Whether p4d itself wrote this Extra into the update, for a previous task of the same array or component of
 * the same job: it then has the record with this id.
 */
static bool is_copied(const char *extra, const char *id)
{
	p4d_verdict_record record;

	return *id && p4d_verdict_record_read(extra, &record) && !strcmp(record.id, id);
}

static void put_extra(char **extra, const p4d_verdict_record *record)
{
	p4d_verdict_record apart = *record;
	char word[P4D_VERDICT_RECORD] = "";

	apart.approved = false;
	if (record->verdict[0])
		p4d_verdict_record_write(&apart, word);
	if (*word || *extra)
		put_words(extra, word, EXTRA_BYTES);
}
#endif

static void put_admin_comment(const p4d_site *site, char **comment, const p4d_verdict *verdict,
			      const p4d_verdict_record *record)
{
	const p4d_admin_comment kind = p4d_site_admin_comment(site);
	char words[P4D_PLAN_MAX + P4D_VERDICT_RECORD], word[P4D_VERDICT_RECORD];
	p4d_text text = p4d_text_in(words, sizeof(words));
	p4d_verdict_record apart = *record;
	bool kept = p4d_site_record(site) != P4D_RECORD_ADMIN_COMMENT || !record->verdict[0];

	if (record->approved && kind == P4D_ADMIN_COMMENT_PLAN)
		p4d_text_add(&text, verdict->plan);
	if (record->approved && kind == P4D_ADMIN_COMMENT_DIGEST) {
		p4d_text_add(&text, p4d_verdict_record_write(record, word));
		kept = true;
	}
	apart.approved = false;
	if (!kept)
		p4d_text_entry(&text, " ", "%s", p4d_verdict_record_write(&apart, word));
	if (text.length || *comment)
		put_words(comment, words, SIZE_MAX);
}

void p4d_record_keep(const p4d_site *site, job_desc_msg_t *desc, const p4d_verdict *verdict,
		     const p4d_verdict_record *record)
{
	put_admin_comment(site, &desc->admin_comment, verdict, record);
#if P4D_HAS_EXTRA
	if (owns_extra(site))
		put_extra(&desc->extra, record);
#endif
}

bool p4d_record_is_given(const job_desc_msg_t *update)
{
#if P4D_HAS_EXTRA
	return update->extra;
#else
	(void)update;
	return false;
#endif
}

void p4d_record_renew(const p4d_site *site, job_desc_msg_t *update, const job_desc_msg_t *current,
		      const p4d_verdict_record *record)
{
#if P4D_HAS_EXTRA
	static char copied[sizeof(record->id)]; /* slurmctld updates one job at a time */
	p4d_verdict_record kept = record ? *record : (p4d_verdict_record){.approved = false};

	if (!owns_extra(site))
		return;
	/* slurmctld passes the same description to the plugin for each task of an array and each component */
	if (is_copied(update->extra, copied))
		slurm_xfree((void **)&update->extra);
	if (!update->extra && !kept.verdict[0])
		return;
	if (!update->extra) {
		update->extra = current->extra ? slurm_xstrdup(current->extra) : NULL;
		memcpy(copied, kept.id, sizeof(copied));
	}
	if (!kept.verdict[0])
		p4d_verdict_record_read(current->extra, &kept);
	put_extra(&update->extra, &kept);
	if (!update->extra) /* the user removes Extra */
		update->extra = slurm_xstrdup("");
#else
	(void)site, (void)update, (void)current, (void)record;
#endif
}

const char *p4d_record_fault(const p4d_site *site)
{
	if (p4d_site_record(site) != P4D_RECORD_EXTRA)
		return NULL;
#if P4D_HAS_EXTRA
	slurm_conf_lock();
	const bool constraints = has_constraints(slurm_conf.sched_params);
	slurm_conf_unlock();
	return constraints ? "SchedulerParameters=extra_constraints reads Extra as a constraint" : NULL;
#else
	return "Slurm has Extra from release 23.02 on";
#endif
}
