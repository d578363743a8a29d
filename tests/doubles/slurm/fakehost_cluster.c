/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of Slurm's library about the cluster and its accounting. */
#include "doubles/slurm/fakehost.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <slurm/slurm_version.h>
#include <slurm/slurmdb.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the data of accounting */

/* ---- the live cluster: partition `live` has a node with h100 and one with a100, `bare` has no GPUs ---- */

int slurm_load_partitions(time_t since, partition_info_msg_t **reply, uint16_t flags)
{
	static int32_t live[] = {0, 1, -1}, bare[] = {2, 2, -1};

	(void)since;
	(void)flags;
	*reply = fakehost_alloc(sizeof(**reply));
	(*reply)->record_count = 2;
	(*reply)->partition_array = fakehost_alloc(2 * sizeof(partition_info_t));
	(*reply)->partition_array[0].name = slurm_xstrdup("live");
	(*reply)->partition_array[0].node_inx = live;
	(*reply)->partition_array[1].name = slurm_xstrdup("bare");
	(*reply)->partition_array[1].qos_char = (char *)"large";
	(*reply)->partition_array[1].node_inx = bare;
	return 0;
}

void slurm_free_partition_info_msg(partition_info_msg_t *reply)
{
	for (uint32_t i = 0; i < reply->record_count; i++)
		slurm_xfree((void **)&reply->partition_array[i].name);
	slurm_xfree((void **)&reply->partition_array);
	slurm_xfree((void **)&reply);
}

int slurm_load_node(time_t since, node_info_msg_t **reply, uint16_t flags)
{
	static const char *const gres[] = {"gpu:h100:8(S:0,1),lustre:1", "gpu:a100:8", NULL};
	static const char *const names[] = {"h1", "a1", "c1"};

	(void)since;
	(void)flags;
	*reply = fakehost_alloc(sizeof(**reply));
	(*reply)->record_count = 3;
	(*reply)->node_array = fakehost_alloc(3 * sizeof(node_info_t));
	for (int i = 0; i < 3; i++) {
		(*reply)->node_array[i].name = slurm_xstrdup(names[i]);
		(*reply)->node_array[i].gres = slurm_xstrdup(gres[i]);
		(*reply)->node_array[i].real_memory = 2000000;
	}
	return 0;
}

void slurm_free_node_info_msg(node_info_msg_t *reply)
{
	for (uint32_t i = 0; i < reply->record_count; i++) {
		slurm_xfree((void **)&reply->node_array[i].name);
		slurm_xfree((void **)&reply->node_array[i].gres);
	}
	slurm_xfree((void **)&reply->node_array);
	slurm_xfree((void **)&reply);
}

/* ---- accounting ---- */

enum { ACCOUNTS = 16 };

typedef __typeof__(((assoc_mgr_info_msg_t *)0)->assoc_list) record_list;
typedef __typeof__(slurm_list_iterator_create(NULL)) iterator;

static slurmdb_assoc_rec_t association[ACCOUNTS];
static slurmdb_qos_rec_t qos[] = {{.id = 1, .name = (char *)"normal"}, {.id = 2, .name = (char *)"large"}};
static size_t associated;

void fakehost_account(const char *user, uint32_t uid, const char *account, const char *parent,
		      uint32_t qos_id, bool is_default)
{
	pthread_mutex_lock(&lock);
	if (account)
		association[associated++] = (slurmdb_assoc_rec_t){.user = (char *)user,
								  .uid = uid,
								  .acct = (char *)account,
								  .parent_acct = (char *)parent,
								  .def_qos_id = qos_id,
								  .is_def = is_default};
	else
		associated = 0;
	pthread_mutex_unlock(&lock);
}

/* A list of records, in place of Slurm's list. */
typedef struct records {
	size_t count, size, next;
	char *at;
} records;

static void *records_of(const void *from, size_t count, size_t size)
{
	records *all = fakehost_alloc(sizeof(*all));

	*all = (records){.count = count, .size = size, .at = fakehost_alloc(count * size + 1)};
	memcpy(all->at, from, count * size);
	return all;
}

iterator slurm_list_iterator_create(record_list all)
{
	((records *)all)->next = 0;
	return (void *)all;
}

void *slurm_list_next(iterator at)
{
	records *all = (void *)at;

	return all->next < all->count ? all->at + all->size * all->next++ : NULL;
}

void slurm_list_iterator_destroy(iterator at)
{
	(void)at;
}

int slurm_load_assoc_mgr_info(assoc_mgr_info_request_msg_t *request, assoc_mgr_info_msg_t **reply)
{
	(void)request;
	pthread_mutex_lock(&lock);
	*reply = fakehost_alloc(sizeof(**reply));
	(*reply)->assoc_list = records_of(association, associated, sizeof(association[0]));
	(*reply)->qos_list = records_of(qos, 2, sizeof(qos[0]));
	pthread_mutex_unlock(&lock);
	return 0;
}

static void free_records(void *list)
{
	records *all = list;

	slurm_xfree((void **)&all->at);
	slurm_xfree(&list);
}

void slurm_free_assoc_mgr_info_msg(assoc_mgr_info_msg_t *reply)
{
	free_records(reply->assoc_list);
	free_records(reply->qos_list);
	slurm_xfree((void **)&reply);
}

/* A host list is only its text here. Lists are never folded to ranges. */
__typeof__(slurm_hostlist_create(NULL)) slurm_hostlist_create(const char *text)
{
	return (__typeof__(slurm_hostlist_create(NULL)))slurm_xstrdup(text);
}

char *slurm_hostlist_ranged_string_xmalloc(__typeof__(slurm_hostlist_create(NULL)) list)
{
	return slurm_xstrdup((const char *)list);
}

void slurm_hostlist_destroy(__typeof__(slurm_hostlist_create(NULL)) list)
{
	char *text = (char *)list;

	slurm_xfree((void **)&text);
}
