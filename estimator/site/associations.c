/* SPDX-License-Identifier: Apache-2.0 */
#include "site/associations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/grow.h"
#include "base/choice.h"
#include "base/text.h"

/* Texts are offsets into one block of memory; offset 0 is "". */
typedef struct association_row {
	uint32_t user, account, partition; /* the sort key */
	uint32_t parent, qos, qoses, uid, most[P4D_LIMITS];
	bool is_default; /* default QOS, which has priority over the partition's */
} association_row;

typedef struct association_table {
	association_row *at;
	size_t count, room;
} association_table;

struct p4d_associations {
	p4d_text text;
	association_table associations; /* sorted by user, account and partition; an account is a row
					 * without a user */
	association_table users;        /* by uid */
	association_table partitions;   /* by name; only those with a QOS */
	association_table qoses;        /* by name; only those with a limit */
};

p4d_associations *p4d_associations_new(void)
{
	p4d_associations *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	all->text.grows = true;
	p4d_text_add_bytes(&all->text, "", 1);
	if (!all->text.truncated)
		return all;
	p4d_associations_free(all);
	return NULL;
}

void p4d_associations_free(p4d_associations *all)
{
	if (!all)
		return;
	free(all->text.at);
	free(all->associations.at);
	free(all->users.at);
	free(all->partitions.at);
	free(all->qoses.at);
	free(all);
}

static const char *text_of(const p4d_associations *all, uint32_t offset)
{
	return all->text.at + offset;
}

static uint32_t keep(p4d_associations *all, const char *text)
{
	const size_t at = all->text.length;

	if (!text || !*text)
		return 0;
	p4d_text_add_bytes(&all->text, text, strlen(text) + 1);
	return (uint32_t)at;
}

static int add(const p4d_associations *all, association_table *to, association_row one, p4d_error *err)
{
	if (to->count == P4D_ASSOCIATIONS || all->text.length > UINT32_MAX / 2)
		return p4d_fail(err, P4D_E_VALUE, "more than %d associations in Slurm's accounting",
				P4D_ASSOCIATIONS);
	if (!p4d_grow(&to->at, &to->room, to->count + 1, sizeof(*to->at)) || all->text.truncated)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu associations", to->count + 1);
	to->at[to->count++] = one;
	return 0;
}

int p4d_associations_add_user(p4d_associations *all, uint32_t uid, const char *user, p4d_error *err)
{
	return add(all, &all->users, (association_row){.uid = uid, .user = keep(all, user)}, err);
}

int p4d_associations_add(p4d_associations *all, const p4d_association *one, p4d_error *err)
{
	association_row added = {.user = keep(all, one->user),
				 .account = keep(all, one->account),
				 .partition = keep(all, one->partition),
				 .parent = keep(all, one->parent),
				 .qos = keep(all, one->qos),
				 .qoses = keep(all, one->qoses),
				 .uid = one->uid,
				 .is_default = one->is_default};

	memcpy(added.most, one->most, sizeof(added.most));
	if (add(all, &all->associations, added, err) < 0)
		return -1;
	return added.user ? add(all, &all->users, added, err) : 0;
}

int p4d_associations_add_partition(p4d_associations *all, const char *partition, const char *qos,
				   p4d_error *err)
{
	return add(all, &all->partitions,
		   (association_row){.partition = keep(all, partition), .qos = keep(all, qos)}, err);
}

int p4d_associations_add_qos(p4d_associations *all, const char *qos, const uint32_t most[P4D_LIMITS],
			     bool first, p4d_error *err)
{
	association_row added = {.partition = keep(all, qos), .is_default = first};

	memcpy(added.most, most, sizeof(added.most));
	return add(all, &all->qoses, added, err);
}

/* Compares by Slurm's own rules: the case of account names is ignored. */
static int compare_associations(const void *left, const void *right, void *all)
{
	const association_row *a = left, *b = right;
	int order = strcmp(text_of(all, a->user), text_of(all, b->user));

	if (!order)
		order = strcasecmp(text_of(all, a->account), text_of(all, b->account));
	return order ? order : strcmp(text_of(all, a->partition), text_of(all, b->partition));
}

static int compare_users(const void *left, const void *right, void *all)
{
	const association_row *a = left, *b = right;

	(void)all;
	return (a->uid > b->uid) - (a->uid < b->uid);
}

static int compare_partitions(const void *left, const void *right, void *all)
{
	const association_row *a = left, *b = right;

	return strcmp(text_of(all, a->partition), text_of(all, b->partition));
}

static void sort(p4d_associations *all, association_table *rows,
		 int (*compare)(const void *, const void *, void *))
{
	if (rows->count)
		qsort_r(rows->at, rows->count, sizeof(*rows->at), compare, all);
}

void p4d_associations_ready(p4d_associations *all)
{
	sort(all, &all->associations, compare_associations);
	sort(all, &all->users, compare_users);
	sort(all, &all->partitions, compare_partitions);
	sort(all, &all->qoses, compare_partitions);
}

static const char *or_null(const p4d_associations *all, uint32_t offset)
{
	return offset ? text_of(all, offset) : NULL;
}

/* The key that a search looks for. */
typedef struct wanted {
	const p4d_associations *all;
	const char *user, *account;
	uint32_t uid;
	const char *partition;
	size_t length;
} wanted;

/* The first row that is not less than the key; the end if there is none. */
static const association_row *lower_bound(const association_table *rows, const wanted *what,
					  int (*compare)(const association_row *, const wanted *))
{
	size_t from = 0, to = rows->count;

	while (from < to) {
		const size_t middle = from + (to - from) / 2;
		if (compare(&rows->at[middle], what) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return rows->at + from;
}

static const association_row *end_of(const association_table *rows)
{
	return rows->at + rows->count;
}

static int to_uid(const association_row *one, const wanted *what)
{
	return (one->uid > what->uid) - (one->uid < what->uid);
}

static int to_user(const association_row *one, const wanted *what)
{
	return strcmp(text_of(what->all, one->user), what->user);
}

static int to_account(const association_row *one, const wanted *what)
{
	const int order = to_user(one, what);

	return order ? order : strcasecmp(text_of(what->all, one->account), what->account);
}

static int to_partition(const association_row *one, const wanted *what)
{
	const char *name = text_of(what->all, one->partition);
	const int order = strncmp(name, what->partition, what->length);

	return order ? order : name[what->length] != '\0';
}

bool p4d_associations_known(const p4d_associations *all)
{
	return all && all->associations.count;
}

const char *p4d_associations_user(const p4d_associations *all, uint32_t uid)
{
	if (!all)
		return NULL;
	const association_row *one = lower_bound(&all->users, &(wanted){.all = all, .uid = uid}, to_uid);
	return one < end_of(&all->users) && one->uid == uid ? or_null(all, one->user) : NULL;
}

/* The rows of an account, one for each partition; NULL: none. user "": rows of the account itself. */
static const association_row *find(const p4d_associations *all, const wanted *what)
{
	if (!all || !what->user || !what->account)
		return NULL;
	const association_row *one = lower_bound(&all->associations, what, to_account);
	return one < end_of(&all->associations) && !to_account(one, what) ? one : NULL;
}

bool p4d_associations_has(const p4d_associations *all, const char *user, const char *account)
{
	return find(all, &(wanted){.all = all, .user = user, .account = account});
}

const char *p4d_associations_default_account(const p4d_associations *all, const char *user)
{
	const wanted what = {.all = all, .user = user};

	if (!all || !user)
		return NULL;
	for (const association_row *one = lower_bound(&all->associations, &what, to_user);
	     one < end_of(&all->associations) && !to_user(one, &what); one++)
		if (one->is_default)
			return or_null(all, one->account);
	return NULL;
}

/* As in slurmctld: the association with the partition or, if there is none, the one without a partition. */
const char *p4d_associations_default_qos(const p4d_associations *all, const char *user, const char *account,
					 const char *partition, size_t length)
{
	const wanted what = {
	    .all = all, .user = user, .account = account, .partition = partition, .length = length};
	const association_row *first = find(all, &what), *best = first && !first->partition ? first : NULL;

	for (const association_row *one = first;
	     one && one < end_of(&all->associations) && !to_account(one, &what); one++)
		if (partition && one->partition && !to_partition(one, &what))
			best = one;
	return best ? or_null(all, best->qos) : NULL;
}

bool p4d_associations_may_have(const p4d_associations *all, const char *user, const char *account,
			       const char *qos)
{
	const wanted what = {.all = all, .user = user, .account = account};
	const association_row *first = find(all, &what);

	for (const association_row *one = first;
	     one && one < end_of(&all->associations) && !to_account(one, &what); one++)
		if (!one->qoses || p4d_choice_index(text_of(all, one->qoses), ',', qos, strlen(qos)) >= 0)
			return true;
	return !first && !p4d_associations_known(all);
}

const char *p4d_associations_parent(const p4d_associations *all, const char *account)
{
	const association_row *one = find(all, &(wanted){.all = all, .user = "", .account = account});

	return one ? or_null(all, one->parent) : NULL;
}

const char *p4d_associations_partition_qos(const p4d_associations *all, const char *partition, size_t length)
{
	if (!all || !partition)
		return NULL;
	const wanted what = {.all = all, .partition = partition, .length = length};
	const association_row *one = lower_bound(&all->partitions, &what, to_partition);
	return one < end_of(&all->partitions) && !to_partition(one, &what) ? or_null(all, one->qos) : NULL;
}

/* The QOS's row, if it has such a limit; otherwise NULL. */
static const association_row *limit_of(const p4d_associations *all, p4d_limit of, const char *qos)
{
	if (!qos)
		return NULL;
	const wanted what = {.all = all, .partition = qos, .length = strlen(qos)};
	const association_row *one = lower_bound(&all->qoses, &what, to_partition);
	return one < end_of(&all->qoses) && !to_partition(one, &what) && one->most[of] ? one : NULL;
}

/* The limit of the association in a partition, or of the accounts above it. */
static uint32_t most_of_accounts(const p4d_associations *all, p4d_limit of, const wanted *what)
{
	enum { DEPTH = 64 };
	const association_row *first = find(all, what);
	const char *account = what->account;
	uint32_t most = 0;

	for (const association_row *one = first;
	     one && one < end_of(&all->associations) && !to_account(one, what); one++)
		if (!one->partition || !to_partition(one, what))
			most = one->partition || !most ? p4d_association_limit(one->most[of], most) : most;
	for (int i = 0; account && i < DEPTH; i++) {
		const association_row *above =
		    find(all, &(wanted){.all = all, .user = "", .account = account});
		most = above ? p4d_association_limit(most, above->most[of]) : most;
		account = above ? or_null(all, above->parent) : NULL;
	}
	return most;
}

uint32_t p4d_associations_most(const p4d_associations *all, p4d_limit of, const char *user,
			       const char *account, const char *partition, const char *qos)
{
	const char *name = partition ? partition : "";
	const size_t length = strlen(name);

	if (!all)
		return 0;
	if (user && (!account || !p4d_associations_has(all, user, account)))
		account = p4d_associations_default_account(all, user);
	if (!qos)
		qos = p4d_associations_default_qos(all, user, account, name, length);
	const association_row *of_job = limit_of(all, of, qos),
			      *of_partition =
				  limit_of(all, of, p4d_associations_partition_qos(all, name, length));
	if (of_job && (of_job->is_default || !of_partition))
		return of_job->most[of];
	if (of_partition)
		return of_partition->most[of];
	return most_of_accounts(
	    all, of,
	    &(wanted){.all = all, .user = user, .account = account, .partition = name, .length = length});
}
