/* SPDX-License-Identifier: Apache-2.0 */
#include "accounting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <slurm/slurmdb.h>

#include "base/text.h"
#include "slurm_compat.h"

/* The number of a QOS must be below this. Slurm numbers QOSes from 1. */
enum { QOSES = 4096 };

/* Slurm's name of the default QOS, if nothing else names one. */
static const char usual_qos[] = "normal";

/* Slurm's names of the resources whose limits p4d uses. */
static const char *const limited[P4D_LIMITS] = {[P4D_LIMIT_NODES] = "node", [P4D_LIMIT_GPUS] = "gres/gpu"};

/* Positions of these resources in Slurm's lists of limits. */
typedef struct limit_places {
	uint32_t at[P4D_LIMITS], count;
} limit_places;

static limit_places find_limits(const assoc_mgr_info_msg_t *reply)
{
	limit_places places = {.count = reply->tres_names ? reply->tres_cnt : 0};

	for (p4d_limit of = 0; of < P4D_LIMITS; of++) {
		uint32_t *at = &places.at[of];
		while (*at < places.count &&
		       (!reply->tres_names[*at] || strcmp(reply->tres_names[*at], limited[of])))
			++*at;
	}
	return places;
}

/* Makes limits stricter by those of a list, which may be NULL. */
static void take_limits(uint32_t most[P4D_LIMITS], const limit_places *places, const uint64_t *list)
{
	for (p4d_limit of = 0; list && of < P4D_LIMITS; of++)
		if (places->at[of] < places->count && list[places->at[of]] < NO_VAL)
			most[of] = p4d_association_limit(most[of], (uint32_t)list[places->at[of]]);
}

static int add_limits(p4d_associations *all, const limit_places *places, void *list, p4d_error *err)
{
	void *at = list ? slurm_list_iterator_create(list) : NULL;
	int rc = 0;

	for (const slurmdb_qos_rec_t *qos; !rc && at && (qos = slurm_list_next(at));) {
		uint32_t most[P4D_LIMITS] = {0};
		take_limits(most, places, qos->max_tres_pj_ctld);
		take_limits(most, places, qos->grp_tres_ctld);
		if (qos->name)
			rc = p4d_associations_add_qos(all, qos->name, most,
						      qos->flags & QOS_FLAG_OVER_PART_QOS, err);
	}
	if (at)
		slurm_list_iterator_destroy(at);
	return rc;
}

/* Collects the names of the QOSes in the reply, by number. */
static void name_qoses(void *list, const char *name[QOSES], bool *usual)
{
	void *at = list ? slurm_list_iterator_create(list) : NULL;

	for (const slurmdb_qos_rec_t *qos; at && (qos = slurm_list_next(at));) {
		if (qos->id < QOSES)
			name[qos->id] = qos->name;
		*usual = *usual || (qos->name && !strcmp(qos->name, usual_qos));
	}
	if (at)
		slurm_list_iterator_destroy(at);
}

/* Makes the text "normal,large" from a list of QOS numbers; the caller frees it. NULL: unknown. */
static char *names_of(void *numbers, const char *const name[QOSES])
{
	void *at = numbers ? slurm_list_iterator_create(numbers) : NULL;
	p4d_text list = {.grows = true};

	for (const char *number; at && (number = slurm_list_next(at));) {
		const unsigned long id = strtoul(number, NULL, 10);
		if (id < QOSES && name[id])
			p4d_text_entry(&list, ",", "%s", name[id]);
	}
	if (at)
		slurm_list_iterator_destroy(at);
	return list.at;
}

static int add_associations(p4d_associations *all, const limit_places *places,
			    const assoc_mgr_info_msg_t *reply, p4d_error *err)
{
	const char *qos[QOSES] = {NULL};
	bool usual = false;
	void *at = reply->assoc_list ? slurm_list_iterator_create(reply->assoc_list) : NULL;
	int rc = 0;

	name_qoses(reply->qos_list, qos, &usual);
	for (const slurmdb_assoc_rec_t *from; !rc && at && (from = slurm_list_next(at));) {
		char *qoses = names_of(from->qos_list, qos);
		p4d_association one = {.user = from->user,
				       .uid = from->uid,
				       .account = from->acct,
				       .parent = from->user ? NULL : from->parent_acct,
				       .partition = from->partition,
				       .qos = from->def_qos_id && from->def_qos_id < QOSES
						  ? qos[from->def_qos_id]
					      : usual ? usual_qos
						      : NULL,
				       .qoses = qoses,
				       .is_default = from->is_def};
		/* Limits of one job, and of all jobs together. If a user has no limit of the former kind,
		 * the user inherits it from the accounts above (slurmdbd copies it). Limits of the latter
		 * kind are not inherited. */
		if (from->user)
			take_limits(one.most, places, from->max_tres_ctld);
		take_limits(one.most, places, from->grp_tres_ctld);
		rc = p4d_associations_add(all, &one, err);
		free(qoses);
	}
	if (at)
		slurm_list_iterator_destroy(at);
	return rc;
}

static int add_partitions(p4d_associations *all, const partition_info_msg_t *reply, p4d_error *err)
{
	for (uint32_t i = 0; i < reply->record_count; i++) {
		const partition_info_t *from = &reply->partition_array[i];
		if (from->name && from->qos_char && *from->qos_char &&
		    p4d_associations_add_partition(all, from->name, from->qos_char, err) < 0)
			return -1;
	}
	return 0;
}

static int add_replies(p4d_associations *all, const assoc_mgr_info_msg_t *accounting,
		       const partition_info_msg_t *partitions, p4d_error *err)
{
	const limit_places places = find_limits(accounting);

	if (add_associations(all, &places, accounting, err) < 0 ||
	    add_limits(all, &places, accounting->qos_list, err) < 0)
		return -1;
	return add_partitions(all, partitions, err);
}

p4d_associations *p4d_accounting_load(p4d_error *err)
{
	assoc_mgr_info_request_msg_t request = {.flags = ASSOC_MGR_INFO_FLAG_ASSOC | ASSOC_MGR_INFO_FLAG_QOS};
	assoc_mgr_info_msg_t *accounting = NULL;
	partition_info_msg_t *partitions = NULL;
	p4d_associations *all = p4d_associations_new();
	int rc;

	if (!all)
		rc = p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the users and accounts of the cluster");
	else if (slurm_load_assoc_mgr_info(&request, &accounting) ||
		 slurm_load_partitions(0, &partitions, SHOW_ALL))
		rc = p4d_fail(err, P4D_E_IO, "cannot get users and accounts from slurmctld: %s",
			      slurm_strerror(errno));
	else
		rc = add_replies(all, accounting, partitions, err);
	if (accounting)
		slurm_free_assoc_mgr_info_msg(accounting);
	if (partitions)
		slurm_free_partition_info_msg(partitions);
	if (rc == 0) {
		p4d_associations_ready(all);
		return all;
	}
	p4d_associations_free(all);
	return NULL;
}
