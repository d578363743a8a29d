/* SPDX-License-Identifier: Apache-2.0 */
#include "accounting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <slurm/slurmdb.h>

#include "base/number.h"
#include "base/text.h"
#include "slurm_compat.h"

/* QOSes are numbered from 1. */
enum { QOSES = 4096 };

/* Slurm's name of the QOS that jobs get where nothing else says which. */
static const char usual_qos[] = "normal";

/* TRES are numbered; nodes are one of those that all clusters have. */
enum { TRES_OF_NODES = 4 };

/* Nodes of "1=64,4=2,1001=8"; 0: none. */
static uint32_t nodes_of(const char *tres)
{
	uint64_t id, count;

	for (const char *at = tres; at && *at; at = strchr(at, ',')) {
		at += *at == ',';
		at = p4d_number_digits(at, &id);
		if (!at || *at != '=' || !(at = p4d_number_digits(at + 1, &count)))
			return 0;
		if (id == TRES_OF_NODES)
			return count < UINT32_MAX ? (uint32_t)count : 0;
	}
	return 0;
}

/*
 * Of a job, and of all jobs together. Users have the former of accounts above them where they have none of
 * their own (slurmdbd sees to that), and not where they do.
 */
static uint32_t most_of(const slurmdb_assoc_rec_t *one)
{
	return p4d_association_limit(one->user ? nodes_of(one->max_tres_pj) : 0, nodes_of(one->grp_tres));
}

static int add_limits(p4d_associations *all, void *list, p4d_error *err)
{
	void *at = list ? slurm_list_iterator_create(list) : NULL;
	int rc = 0;

	for (const slurmdb_qos_rec_t *qos; !rc && at && (qos = slurm_list_next(at));) {
		const uint32_t most =
		    p4d_association_limit(nodes_of(qos->max_tres_pj), nodes_of(qos->grp_tres));
		if (qos->name && most)
			rc = p4d_associations_add_qos(all, qos->name, most,
						      qos->flags & QOS_FLAG_OVER_PART_QOS, err);
	}
	if (at)
		slurm_list_iterator_destroy(at);
	return rc;
}

/* Names by number; those of the reply. */
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

/* "normal,large" of a list of numbers; the caller frees it. NULL: not known. */
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

static int add_associations(p4d_associations *all, const assoc_mgr_info_msg_t *reply, p4d_error *err)
{
	const char *qos[QOSES] = {NULL};
	bool usual = false;
	void *at = reply->assoc_list ? slurm_list_iterator_create(reply->assoc_list) : NULL;
	int rc = 0;

	name_qoses(reply->qos_list, qos, &usual);
	for (const slurmdb_assoc_rec_t *from; !rc && at && (from = slurm_list_next(at));) {
		char *qoses = names_of(from->qos_list, qos);
		rc = p4d_associations_add(
		    all,
		    &(p4d_association){.user = from->user,
				       .uid = from->uid,
				       .account = from->acct,
				       .parent = from->user ? NULL : from->parent_acct,
				       .partition = from->partition,
				       .qos = from->def_qos_id && from->def_qos_id < QOSES
						  ? qos[from->def_qos_id]
					      : usual ? usual_qos
						      : NULL,
				       .qoses = qoses,
				       .is_default = from->is_def,
				       .most_nodes = most_of(from)},
		    err);
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
	else if (!(rc = add_associations(all, accounting, err)) &&
		 !(rc = add_limits(all, accounting->qos_list, err)))
		rc = add_partitions(all, partitions, err);
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
