/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The ranks of a job in one process, with random layouts. The values of optimizer states follow from the
 * tensors' names. Include after support.h. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "checkpoint/checkpoint_internal.h"
#include "plan/plan_line.h"
#include "request/defaults.h"
#include "support/token_files.h"

enum { MOST_RANKS = 16, MESSAGE = 2048 };

/* A meeting of all ranks. It implements p4d_checkpoint_peers.gather. */
typedef struct meeting {
	pthread_barrier_t barrier;
	uint32_t world;
	uint8_t room[MOST_RANKS * MESSAGE];
} meeting;

typedef struct test_rank {
	p4d_layout *layout;
	p4d_checkpoint_storage storage;
	p4d_weights weights;
	float *state[P4D_MOST_STATES]; /* this rank's shards, one after the other */
	uint64_t elements;
	bool read_fails;
	p4d_checkpoint_peers peers;
	meeting *all;
} test_rank;

typedef struct test_job {
	char plan[P4D_PLAN_MAX];
	p4d_layout layout;
	uint64_t vocab;
	uint32_t world;
	test_rank rank[MOST_RANKS];
	meeting all;
} test_job;

static inline uint64_t mix(uint64_t x)
{
	return next_random(&x);
}

static inline uint64_t hash_of(const char *name)
{
	uint64_t h = 0;

	for (; *name; name++)
		h = mix(h ^ (uint64_t)(uint8_t)*name);
	return h;
}

/* The value of an element in the tensor whose name has this hash. It is never zero, so that zero can mark
 * padding. */
static inline float value_of(uint64_t name, uint64_t element, int state, uint64_t salt)
{
	uint64_t h = mix(mix(name ^ element) ^ (uint64_t)state << 32 ^ salt);
	return (float)(int32_t)((h >> 40) + 1) * (h & 1 ? 0x1p-20f : -0x1p-20f);
}

static inline float *shard_at(test_rank *rank, uint32_t segment, int state, uint64_t *first, uint64_t *count)
{
	float *at = rank->state[state];

	for (uint32_t i = 0;; i++) {
		p4d_weights_shard_of(rank->layout, &rank->weights.segment[i], rank->storage.place, first,
				     count);
		if (i == segment)
			return at;
		at += *count;
	}
}

static inline int read_shard(void *context, uint32_t segment, p4d_state state, float *to, p4d_error *err)
{
	test_rank *rank = context;
	uint64_t first, count;

	if (rank->read_fails)
		return p4d_fail(err, P4D_E_RANK, "the device is lost");
	const float *from = shard_at(rank, segment, (int)state, &first, &count);
	memcpy(to, from, count * sizeof(*to));
	return 0;
}

static inline int write_shard(void *context, uint32_t segment, p4d_state state, const float *from,
			      p4d_error *err)
{
	uint64_t first, count;

	(void)err;
	float *to = shard_at(context, segment, (int)state, &first, &count);
	memcpy(to, from, count * sizeof(*to));
	return 0;
}

static inline int meet(void *context, void *all, const void *mine, uint64_t size, p4d_error *err)
{
	test_rank *rank = context;

	if (size > MESSAGE)
		return p4d_fail(err, P4D_E_VALUE, "a message of %d bytes", (int)size);
	memcpy(rank->all->room + rank->peers.rank * size, mine, size);
	pthread_barrier_wait(&rank->all->barrier);
	memcpy(all, rank->all->room, rank->all->world * size);
	pthread_barrier_wait(&rank->all->barrier);
	return 0;
}

static inline void open_rank(test_job *job, uint32_t number)
{
	test_rank *rank = &job->rank[number];
	p4d_error err;

	rank->layout = &job->layout;
	rank->all = &job->all;
	rank->peers =
	    (p4d_checkpoint_peers){.rank = number, .world = job->world, .gather = meet, .context = rank};
	p4d_place place = p4d_place_of(&job->layout, number);
	if (p4d_weights_open(&rank->weights, &job->layout, place.pp, &err) < 0)
		fail_msg("%s", err.text);
	rank->elements = p4d_checkpoint__shard_elements(&job->layout, &rank->weights, place);
	for (p4d_state state = 0; state < P4D_MOST_STATES; state++) {
		rank->state[state] = calloc(rank->elements + 1, sizeof(float));
		assert_non_null(rank->state[state]);
	}
	rank->storage = (p4d_checkpoint_storage){.layout = &job->layout,
						 .vocab = job->vocab,
						 .weights = &rank->weights,
						 .place = place,
						 .read = read_shard,
						 .write = write_shard,
						 .context = rank};
}

static inline void close_job(test_job *job)
{
	for (uint32_t i = 0; i < job->world; i++) {
		p4d_weights_close(&job->rank[i].weights);
		for (p4d_state state = 0; state < P4D_MOST_STATES; state++)
			free(job->rank[i].state[state]);
	}
	pthread_barrier_destroy(&job->all.barrier);
	free(job);
}

/* Opens a job, which the caller closes. NULL: p4d refuses the layout. */
static inline test_job *open_job(const char *model, const char *options, uint32_t world)
{
	test_job *job = calloc(1, sizeof(*job));
	p4d_request r;
	p4d_error err;

	assert_non_null(job);
	memset(&r, 0, sizeof(r));
	set_all(&r, model);
	set_all(&r, options);
	p4d_plan_place(&r, 1, world, NULL);
	p4d_request_complete(&r, 0, world);
	if (world > MOST_RANKS || p4d_layout_build(&r, 1, world, &job->layout, &err) < 0) {
		free(job);
		return NULL;
	}
	if (p4d_plan_write(&r, job->plan, sizeof(job->plan), &err) < 0)
		fail_msg("%s", err.text);
	job->vocab = (uint64_t)r.value[P4D_VOCAB];
	job->world = job->all.world = world;
	pthread_barrier_init(&job->all.barrier, NULL, world);
	for (uint32_t i = 0; i < world; i++)
		open_rank(job, i);
	return job;
}

static uint64_t layouts_state = 20250101;

static inline uint32_t below(uint32_t n)
{
	return (uint32_t)(next_random(&layouts_state) >> 33) % n;
}

static inline const char *one_of(const char *const *list, uint32_t count)
{
	return list[below(count)];
}

/* A random layout of up to MOST_RANKS ranks. */
static inline test_job *random_job(const char *model)
{
	static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "zb1p", "zbv", "v-half"};
	static const char *const vocabularies[] = {"off", "off", "vocab-1", "vocab-2"};
	static const char *const splits[] = {"pipeline-split=5,7 ", "pipeline-split=2,6,4 ", "", ""};
	static const char *const sharding[] = {"off", "states", "gradients", "parameters",
					       "parameters shard-degree=2"};
	static const uint32_t degrees[] = {1, 1, 2, 2, 3, 4};

	for (;;) {
		const char *schedule = one_of(schedules, 6);
		uint32_t tp = 1 << below(3), cp = 1 + below(2), pp = degrees[below(6)], dp = 1 + below(3);
		bool deep = !strcmp(schedule, "interleaved"), v = schedule[0] == 'v' || schedule[2] == 'v';
		char options[400];
		snprintf(options, sizeof(options),
			 "tp=%u cp=%u pp=%u vpp=%u schedule=%s vocab-parallel=%s optimizer-sharding=%s "
			 "%sseq-len=64 micro-batch=1 global-batch=%u device=cpu framework=p4d",
			 tp, cp, pp,
			 deep ? 2 + below(2)
			 : v  ? 2
			      : 1,
			 schedule, one_of(vocabularies, 4), one_of(sharding, 5), one_of(splits, 4), 12 * dp);
		test_job *job =
		    tp * cp * pp * dp <= MOST_RANKS ? open_job(model, options, tp * cp * pp * dp) : NULL;
		if (job)
			return job;
	}
}

/* A small model of twelve layers. Its vocabulary is a prime, so it does not divide evenly. */
#define SMALL_MODEL \
	"model=custom layers=12 hidden=16 ffn=24 heads=4 kv-heads=4 head-dim=8 vocab=37 norm=rmsnorm " \
	"glu=on " \
	"positions=rope max-seq-len=64 "

#define ADAPTERS SMALL_MODEL "tied=on bias=none qk-norm=on finetune=lora lora-rank=3"

static inline const char *random_model(void)
{
	static const char *const models[] = {
	    SMALL_MODEL "tied=off bias=none qk-norm=off", SMALL_MODEL "tied=on bias=none qk-norm=off",
	    SMALL_MODEL "tied=off bias=qkv qk-norm=on", SMALL_MODEL "tied=on bias=qkv qk-norm=on"};

	return one_of(models, 4);
}

/* Called for each element of a rank's shards that belongs to a tensor. */
typedef void (*visit_element)(void *context, float *element, uint64_t name, uint64_t index, int state);

static inline void visit_slice(const p4d_weight_slice *slice, uint64_t name, float *shard, uint64_t first,
			       uint64_t count, int state, visit_element visit, void *context)
{
	uint64_t width = slice->tensor_columns ? slice->columns : 1;
	uint64_t whole = slice->tensor_columns ? slice->tensor_columns : 1;

	for (uint64_t row = 0; row < slice->rows; row++)
		for (uint64_t column = 0; column < width; column++) {
			uint64_t at = slice->offset + row * width + column;
			uint64_t left = slice->tensor_columns ? slice->first_column : 0;
			if (at >= first && at - first < count)
				visit(context, &shard[at - first], name,
				      (slice->first_row + row) * whole + left + column, state);
		}
}

static inline void visit_rank(test_rank *rank, visit_element visit, void *context)
{
	p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT];
	uint64_t first, count;

	for (p4d_state state = 0; state < P4D_MOST_STATES; state++)
		for (uint32_t i = 0; i < rank->weights.segments; i++) {
			const p4d_segment *segment = &rank->weights.segment[i];
			float *shard = shard_at(rank, i, state, &first, &count);
			for (uint32_t w = 0; w < segment->weights; w++) {
				unsigned n = p4d_weight_slices_of(
				    rank->layout, rank->storage.place, rank->storage.vocab,
				    &rank->weights.weight[segment->first_weight + w], slices);
				for (unsigned j = 0; j < n; j++)
					visit_slice(&slices[j],
						    hash_of(p4d_checkpoint__tensor_name(rank->layout,
											slices[j].name)),
						    shard, first, count, state, visit, context);
			}
		}
}

static inline void set_element(void *context, float *element, uint64_t name, uint64_t index, int state)
{
	*element = value_of(name, index, state, *(const uint64_t *)context);
}

/* Fills padding with a value that no rank may load. */
static inline void fill_job(test_job *job, uint64_t salt)
{
	for (uint32_t i = 0; i < job->world; i++) {
		for (p4d_state state = 0; state < P4D_MOST_STATES; state++)
			for (uint64_t k = 0; k < job->rank[i].elements; k++)
				job->rank[i].state[state][k] = -12345.0f;
		visit_rank(&job->rank[i], set_element, &salt);
	}
}

typedef struct comparison {
	uint64_t salt, equal, wrong;
} comparison;

/* Sets each compared element to zero, so that only padding has other values afterwards. */
static inline void compare_element(void *context, float *element, uint64_t name, uint64_t index, int state)
{
	comparison *c = context;

	if (*element == value_of(name, index, state, c->salt))
		c->equal++;
	else
		c->wrong++;
	*element = 0;
}

/* Compares a rank's elements and clears them. Returns the number of elements that are wrong. *equal grows
 * by the number of the others. */
static inline uint64_t compare_rank(test_rank *rank, uint64_t salt, uint64_t *equal)
{
	comparison c = {.salt = salt};

	visit_rank(rank, compare_element, &c);
	for (p4d_state state = 0; state < P4D_MOST_STATES; state++)
		for (uint64_t k = 0; k < rank->elements; k++)
			c.wrong += rank->state[state][k] != 0;
	*equal += c.equal;
	return c.wrong;
}

static inline p4d_checkpoint_info info_of(const test_job *job, uint64_t step)
{
	p4d_checkpoint_info info = {.step = step,
				    .consumed = step * 96,
				    .seed = UINT64_MAX - step,
				    .document_mask = step & 1,
				    .samples = (UINT64_MAX - step) ^ 1,
				    .data = "0.3 a/\"b\" 0.7 c"};

	memcpy(info.plan, job->plan, sizeof(info.plan));
	return info;
}

/* Saves a checkpoint as p4d_checkpoint_saver does, for one rank after another. */
static inline void save_job(test_job *job, const char *dir, uint64_t step)
{
	p4d_checkpoint_info info = info_of(job, step);
	p4d_checkpoint_rank_file files[MOST_RANKS];
	char partial[P4D_PATH];
	uint32_t count = 0;
	p4d_error err;
	int rc = p4d_checkpoint__make_directory(dir, &err);

	if (rc == 0)
		rc = p4d_checkpoint__partial_path(dir, step, partial, &err);
	if (rc == 0)
		rc = p4d_checkpoint__make_directory(partial, &err);
	for (uint32_t i = 0; rc == 0 && i < job->world; i++) {
		test_rank *rank = &job->rank[i];
		if (!p4d_checkpoint__owns_shards(&job->layout, rank->storage.place))
			continue;
		float *staged = malloc(P4D_MOST_STATES * rank->elements * sizeof(*staged));
		assert_non_null(staged);
		rc = p4d_checkpoint__stage_shards(&rank->storage, staged, &err);
		if (rc == 0)
			rc = p4d_checkpoint__write_rank_file(partial, i, &info,
							     p4d_optimizer_of(&job->layout), staged,
							     rank->elements, NULL, &files[count++], &err);
		free(staged);
	}
	if (rc == 0)
		rc = p4d_checkpoint_manifest__write(partial, &info, files, count, &err);
	if (rc == 0)
		rc = p4d_checkpoint__publish(dir, step, &err);
	if (rc < 0)
		fail_msg("%s", err.text);
}

/* Calls work for all ranks at the same time, each in its own thread. work must not assert. */
typedef struct rank_work {
	void (*work)(test_rank *rank, void *context);
	test_rank *rank;
	void *context;
} rank_work;

static inline void *run_rank(void *context)
{
	rank_work *w = context;

	w->work(w->rank, w->context);
	return NULL;
}

static inline void run_job(test_job *job, void (*work)(test_rank *rank, void *context), void *context)
{
	pthread_t thread[MOST_RANKS];
	rank_work arguments[MOST_RANKS];

	for (uint32_t i = 0; i < job->world; i++) {
		arguments[i] = (rank_work){work, &job->rank[i], context};
		if (pthread_create(&thread[i], NULL, run_rank, &arguments[i]) != 0)
			abort();
	}
	for (uint32_t i = 0; i < job->world; i++)
		pthread_join(thread[i], NULL);
}

/* A model of one or two layers, so small that a test can try every byte of its checkpoint. */
#define TINY_MODEL \
	"model=custom layers=2 hidden=4 ffn=4 heads=2 kv-heads=2 head-dim=2 vocab=5 norm=rmsnorm glu=on " \
	"positions=rope max-seq-len=64 tied=off bias=none qk-norm=off "
#define TWO_RANKS TINY_MODEL, "tp=2 seq-len=64 global-batch=2 device=cpu framework=p4d", 2
#define FOUR_RANKS \
	SMALL_MODEL "tied=off bias=none qk-norm=off", \
	    "tp=2 cp=1 pp=1 seq-len=64 global-batch=4 device=cpu framework=p4d", 4

static inline test_job *open_or_fail(const char *model, const char *options, uint32_t world)
{
	test_job *job = open_job(model, options, world);

	assert_non_null(job);
	return job;
}

typedef struct whole_file {
	uint8_t *data;
	size_t size;
} whole_file;

static inline whole_file read_whole(const char *path)
{
	whole_file file = {NULL, 0};
	struct stat status;
	FILE *in = fopen(path, "rb");

	assert_non_null(in);
	assert_int_equal(fstat(fileno(in), &status), 0);
	file.size = (size_t)status.st_size;
	file.data = malloc(file.size + 1);
	assert_non_null(file.data);
	assert_int_equal(fread(file.data, 1, file.size, in), file.size);
	fclose(in);
	return file;
}

/* Overwrites a byte in place: the file keeps its size and inode. */
static inline void poke(const char *path, size_t at, uint8_t value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &value, 1, (off_t)at), 1);
	close(fd);
}
