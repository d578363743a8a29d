/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint_internal.h"

/* State of this rank's part of a checkpoint. Only rank 0 gets to PUBLISHING and PUBLISHED. */
typedef enum progress { IDLE, WRITING, WRITTEN, PUBLISHING, PUBLISHED, FAILED } progress;

/* What ranks tell each other in a poll. */
typedef struct report {
	uint32_t progress;
	uint32_t owner;
	p4d_checkpoint_rank_file file;
	uint32_t code;
	char text[480];
} report;

struct p4d_checkpoint_saver {
	char dir[P4D_PATH];
	uint32_t keep;
	p4d_checkpoint_storage storage;
	p4d_checkpoint_peers peers;
	float *staged;
	int lock_fd;       /* rank 0: lock of the directory; -1: none */
	uint64_t elements; /* number of elements that this rank saves; 0: none */
	bool active;       /* a checkpoint is in progress; equal on all ranks */
	report *all;       /* (world) the ranks' reports */
	p4d_checkpoint_rank_file *files;

	pthread_t thread;
	pthread_mutex_t lock; /* protects the members below */
	pthread_cond_t changed;
	bool quit;
	report mine;
	p4d_checkpoint_info info;
	atomic_bool stop;
};

static int write_partial(p4d_checkpoint_saver *saver, p4d_checkpoint_rank_file *file, p4d_error *err)
{
	char partial[P4D_PATH];

	if (p4d_checkpoint__make_partial(saver->dir, saver->info.step, partial, err) < 0)
		return -1;
	return p4d_checkpoint__write_rank_file(partial, saver->peers.rank, &saver->info,
					       p4d_optimizer_of(saver->storage.layout), saver->staged,
					       saver->elements, &saver->stop, file, err);
}

static int publish(p4d_checkpoint_saver *saver, p4d_error *err)
{
	char partial[P4D_PATH];
	uint32_t count = 0;

	for (uint32_t i = 0; i < saver->peers.world; i++)
		if (saver->all[i].owner)
			saver->files[count++] = saver->all[i].file;
	if (p4d_checkpoint__partial_path(saver->dir, saver->info.step, partial, err) < 0 ||
	    p4d_checkpoint_manifest__write(partial, &saver->info, saver->files, count, err) < 0 ||
	    p4d_checkpoint__publish(saver->dir, saver->info.step, err) < 0 ||
	    (saver->info.best && p4d_checkpoint__name_best(saver->dir, saver->info.step, err) < 0))
		return -1;
	return p4d_checkpoint__remove_old(saver->dir, saver->keep, err);
}

/* Does the work of WRITING or PUBLISHING. Meanwhile only this thread uses saver->info, staged and all. */
static void work(p4d_checkpoint_saver *saver, progress state)
{
	p4d_checkpoint_rank_file file = {.rank = saver->peers.rank};
	p4d_error why = {.code = P4D_OK};
	int rc;

	if (state == WRITING)
		rc = write_partial(saver, &file, &why);
	else
		rc = publish(saver, &why);
	pthread_mutex_lock(&saver->lock);
	if (state == WRITING)
		saver->mine.file = file;
	saver->mine.progress = rc < 0 ? FAILED : state == WRITING ? WRITTEN : PUBLISHED;
	saver->mine.code = (uint32_t)why.code;
	snprintf(saver->mine.text, sizeof(saver->mine.text), "%s", rc < 0 ? why.text : "");
	pthread_cond_broadcast(&saver->changed);
	pthread_mutex_unlock(&saver->lock);
}

static bool is_busy(const p4d_checkpoint_saver *saver)
{
	return saver->mine.progress == WRITING || saver->mine.progress == PUBLISHING;
}

static void *run(void *context)
{
	p4d_checkpoint_saver *saver = context;

	pthread_mutex_lock(&saver->lock);
	for (;;) {
		while (!is_busy(saver) && !saver->quit)
			pthread_cond_wait(&saver->changed, &saver->lock);
		if (saver->quit)
			break;
		progress state = (progress)saver->mine.progress;
		pthread_mutex_unlock(&saver->lock);
		work(saver, state);
		pthread_mutex_lock(&saver->lock);
	}
	pthread_mutex_unlock(&saver->lock);
	return NULL;
}

static void set_progress(p4d_checkpoint_saver *saver, progress state)
{
	pthread_mutex_lock(&saver->lock);
	saver->mine.progress = state;
	pthread_cond_broadcast(&saver->changed);
	pthread_mutex_unlock(&saver->lock);
}

static report current(p4d_checkpoint_saver *saver, bool wait)
{
	pthread_mutex_lock(&saver->lock);
	while (wait && is_busy(saver))
		pthread_cond_wait(&saver->changed, &saver->lock);
	report mine = saver->mine;
	pthread_mutex_unlock(&saver->lock);
	return mine;
}

/*
 * Exchanges reports. While rank 0 publishes, its thread reads saver->all, so later reports need another
 * array.
 */
static int exchange(const p4d_checkpoint_saver *saver, const report *mine, report *all, p4d_error *err)
{
	if (saver->peers.world > 1)
		return saver->peers.gather(saver->peers.context, all, mine, sizeof(*mine), err);
	all[0] = *mine;
	return 0;
}

static int start_thread(p4d_checkpoint_saver *saver, p4d_error *err)
{
	if (pthread_mutex_init(&saver->lock, NULL) != 0)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to save checkpoints");
	if (pthread_cond_init(&saver->changed, NULL) != 0) {
		pthread_mutex_destroy(&saver->lock);
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to save checkpoints");
	}
	if (pthread_create(&saver->thread, NULL, run, saver) == 0)
		return 0;
	pthread_cond_destroy(&saver->changed);
	pthread_mutex_destroy(&saver->lock);
	return p4d_fail(err, P4D_E_NO_MEMORY, "no thread to save checkpoints");
}

static int prepare(p4d_checkpoint_saver *saver, const char *dir, p4d_error *err)
{
	const p4d_checkpoint_storage *storage = &saver->storage;
	uint64_t bytes = p4d_checkpoint_staging_bytes(storage->layout, storage->weights, storage->place);

	saver->elements = bytes / (p4d_optimizer_stored(p4d_optimizer_of(storage->layout)) * sizeof(float));
	saver->staged = malloc(bytes + 1);
	/* two arrays: the reports that rank 0 publishes, and later reports */
	saver->all = calloc(2 * (size_t)saver->peers.world, sizeof(*saver->all));
	saver->files = calloc(saver->peers.world, sizeof(*saver->files));
	if (!saver->staged || !saver->all || !saver->files)
		return p4d_fail(err, P4D_E_NO_MEMORY,
				"no memory for a %" PRIu64 "-byte staging copy for checkpoints", bytes);
	if (p4d_checkpoint__is_one(dir))
		return p4d_fail(
		    err, P4D_E_CHECKPOINT,
		    "%.255s: is a single checkpoint; give the directory of the run, which contains it", dir);
	if (p4d_checkpoint__join_path(saver->dir, err, "%s", dir) < 0 ||
	    p4d_checkpoint__make_directory(dir, err) < 0)
		return -1;
	if (saver->peers.rank != 0)
		return 0;
	if (p4d_checkpoint__lock(dir, &saver->lock_fd, err) < 0)
		return -1;
	p4d_checkpoint__remove_leftovers(dir);
	return 0;
}

/*
 * Exchanges the first errors of all ranks. This is also a barrier: after it, no rank removes leftovers of
 * killed processes.
 */
static int agree(p4d_checkpoint_saver *saver, int rc, const p4d_error *why, p4d_error *err)
{
	report mine = {.progress = rc < 0 ? FAILED : IDLE, .code = rc < 0 ? (uint32_t)why->code : P4D_OK};

	snprintf(mine.text, sizeof(mine.text), "%s", rc < 0 ? why->text : "");
	if (!saver->all)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to save checkpoints");
	if (exchange(saver, &mine, saver->all, err) < 0)
		return -1;
	for (uint32_t i = 0; i < saver->peers.world; i++)
		if (saver->all[i].progress == FAILED)
			return i == saver->peers.rank
				   ? p4d_fail(err, (p4d_code)saver->all[i].code, "%s", saver->all[i].text)
				   : p4d_fail(err, (p4d_code)saver->all[i].code, "rank %" PRIu32 ": %.440s",
					      i, saver->all[i].text);
	return 0;
}

static void release(p4d_checkpoint_saver *saver)
{
	free(saver->staged);
	free(saver->all);
	free(saver->files);
	p4d_checkpoint__unlock(saver->dir, saver->lock_fd);
	free(saver);
}

int p4d_checkpoint_saver_open(p4d_checkpoint_saver **result, const char *dir, uint32_t keep,
			      const p4d_checkpoint_storage *storage, const p4d_checkpoint_peers *peers,
			      p4d_error *err)
{
	p4d_checkpoint_saver *saver = calloc(1, sizeof(*saver));
	p4d_error why = {.code = P4D_OK};

	if (!saver)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to save checkpoints");
	saver->keep = keep;
	saver->lock_fd = -1;
	saver->storage = *storage;
	saver->peers = *peers;
	int rc = prepare(saver, dir, &why);
	rc = agree(saver, rc, &why, err);
	if (rc == 0)
		rc = start_thread(saver, err);
	if (rc < 0) {
		release(saver);
		return -1;
	}
	*result = saver;
	return 0;
}

int p4d_checkpoint_saver_begin(p4d_checkpoint_saver *saver, const p4d_checkpoint_info *info, p4d_error *err)
{
	if (p4d_checkpoint_saver_poll(saver, true, NULL, err) < 0)
		return -1;
	pthread_mutex_lock(&saver->lock);
	saver->info = *info;
	saver->mine = (report){.file = {.rank = saver->peers.rank}, .owner = saver->elements > 0};
	pthread_mutex_unlock(&saver->lock);
	saver->active = true;
	if (!saver->elements) {
		set_progress(saver, WRITTEN);
		return 0;
	}
	p4d_error why = {.code = P4D_OK};
	if (p4d_checkpoint__stage_shards(&saver->storage, saver->staged, &why) == 0) {
		set_progress(saver, WRITING);
		return 0;
	}
	/* the other ranks learn of the failure at the next poll */
	pthread_mutex_lock(&saver->lock);
	saver->mine.progress = FAILED;
	saver->mine.code = (uint32_t)why.code;
	snprintf(saver->mine.text, sizeof(saver->mine.text), "%s", why.text);
	pthread_mutex_unlock(&saver->lock);
	return 0;
}

static const report *first_failure(const report *all, uint32_t world)
{
	for (uint32_t i = 0; i < world; i++)
		if (all[i].progress == FAILED)
			return &all[i];
	return NULL;
}

static bool all_written(const report *all, uint32_t world)
{
	for (uint32_t i = 0; i < world; i++)
		if (all[i].progress == WRITING)
			return false;
	return true;
}

/*
 * Gives up a checkpoint. When the threads of all ranks have stopped, removes the files that they wrote,
 * because the disk may be full.
 */
static void give_up(p4d_checkpoint_saver *saver)
{
	saver->stop = true;
	report mine = current(saver, true);
	saver->stop = false;
	saver->active = false;
	set_progress(saver, IDLE);
	if (exchange(saver, &mine, saver->all, NULL) == 0 && saver->peers.rank == 0)
		p4d_checkpoint__remove_leftovers(saver->dir);
}

/* Exchanges reports once. *again: rank 0 has just begun to publish, so the caller should poll again. */
static int poll_once(p4d_checkpoint_saver *saver, bool wait, bool *again, bool *done, p4d_error *err)
{
	const uint32_t world = saver->peers.world;
	report *all = saver->all + world, mine = current(saver, wait);

	*again = false;
	if (exchange(saver, &mine, all, err) < 0)
		return -1;
	const report *bad = first_failure(all, world);
	if (bad) {
		report why = *bad;
		uint32_t rank = (uint32_t)(bad - all);
		give_up(saver);
		return p4d_fail(err, (p4d_code)why.code,
				"checkpoint of step %" PRIu64 ", rank %" PRIu32 ": %.400s", saver->info.step,
				rank, why.text);
	}
	if (!all_written(all, world))
		return 0;
	if (all[0].progress == PUBLISHED) {
		saver->active = false;
		set_progress(saver, IDLE);
		if (done)
			*done = true;
		return 0;
	}
	*again = true;
	if (saver->peers.rank == 0 && all[0].progress == WRITTEN) {
		memcpy(saver->all, all, world * sizeof(*all));
		set_progress(saver, PUBLISHING);
	}
	return 0;
}

int p4d_checkpoint_saver_poll(p4d_checkpoint_saver *saver, bool wait, bool *done, p4d_error *err)
{
	bool again = false;

	if (done)
		*done = false;
	if (!saver->active)
		return 0;
	do
		if (poll_once(saver, wait, &again, done, err) < 0)
			return -1;
	while (wait && again);
	return 0;
}

void p4d_checkpoint_saver_close(p4d_checkpoint_saver *saver)
{
	if (!saver)
		return;
	saver->stop = true;
	pthread_mutex_lock(&saver->lock);
	saver->quit = true;
	pthread_cond_broadcast(&saver->changed);
	pthread_mutex_unlock(&saver->lock);
	pthread_join(saver->thread, NULL);
	pthread_cond_destroy(&saver->changed);
	pthread_mutex_destroy(&saver->lock);
	release(saver);
}
