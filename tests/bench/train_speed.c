/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how well p4d-train uses the processors: one rank compared with the rate of matmuls, and four
 * ranks on two cores compared with one rank. Both run in turn, because the machine's speed changes during
 * the test. Prints medians over rounds. A long time is no failure. comm_speed measures the all-reduce. If
 * other processes use the machine, start the benchmark with chrt -f 50 (as root), which gives it priority.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/products.h"

static const double PRODUCT_SECONDS = 0.1;

enum {
	ROUNDS = 3,
	FEW_STEPS = 1, /* the first steps, which are not counted */
	STEPS = 5,
	CORES = 2,
	MOST_ARGUMENTS = 64,
	LAYERS = 4,
	HIDDEN = 256,
	FFN = 896,
	VOCABULARY = 257,
	LENGTH = 256,  /* tokens of a sequence; a micro-batch has one sequence */
	TOKENS = 2048, /* tokens of a step */
};

static const char model[] =
    "--device cpu --model custom --layers 4 --hidden 256 --ffn 896 --heads 4 --kv-heads 4 --head-dim 64 "
    "--vocab 257 --max-seq-len 256 --norm rmsnorm --glu on --tied off --positions rope --bias none "
    "--qk-norm off --seq-len 256 --micro-batch 1 --global-batch 8 --data text --log log";

/* All layouts are compared with the first one. */
static const struct {
	const char *name, *options;
} layouts[] = {
    {"1 rank", "--local-ranks 1"},
    {"tp 2, pp 2", "--local-ranks 4 --tp 2 --pp 2"},
    {"pp 4", "--local-ranks 4 --pp 4"},
    {"dp 4", "--local-ranks 4"},
};
enum { LAYOUTS = sizeof(layouts) / sizeof(*layouts) };

/* The measurements of one round. */
typedef struct sample {
	double seconds, cpu_seconds; /* elapsed time; processor time of all ranks together */
	double flop;                 /* FLOPs that the program counted */
	double products;             /* FLOP/s of large matmuls before and after the program */
	double shapes;               /* FLOP/s of matmuls with the model's shapes */
} sample;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "train_speed: %s: %s\n", what, errno ? strerror(errno) : "failed");
	exit(1);
}

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *x, size_t count)
{
	qsort(x, count, sizeof(*x), ascending);
	return count % 2 ? x[count / 2] : (x[count / 2 - 1] + x[count / 2]) / 2;
}

/* CPU seconds of the command and of all processes that it waited for. */
static double spend(const char *program, const char *options)
{
	const char *build = getenv("P4D_TEST_BUILDDIR");
	char path[4096], words[2048], *arguments[MOST_ARGUMENTS] = {path}, *save = NULL;
	struct rusage used;
	int status, count = 1;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/%s", build ? build : ".", program);
	snprintf(words, sizeof(words), "%s", options);
	for (char *word = strtok_r(words, " ", &save); word && count < MOST_ARGUMENTS - 1;
	     word = strtok_r(NULL, " ", &save))
		arguments[count++] = word;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		/* error messages of the program stay visible */
		dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
		execv(path, arguments);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &used) != pid)
		fail(program);
	errno = 0;
	if (status)
		fail(path);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	       1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static double field_of(const char *line, const char *name)
{
	const char *at = strstr(line, name);

	return at ? strtod(at + strlen(name), NULL) : 0;
}

/* Reads the median step from the log. */
static void read_log(sample *s)
{
	FILE *log = fopen("log", "r");
	double seconds[STEPS];
	char line[2048];
	size_t count = 0;

	if (!log)
		fail("log");
	while (fgets(line, sizeof(line), log)) {
		if (!strstr(line, "\"event\":\"step\"") || field_of(line, "\"step\":") <= FEW_STEPS ||
		    count == STEPS)
			continue;
		seconds[count] = field_of(line, "\"seconds\":");
		s->flop = 1e12 * field_of(line, "\"model_tflops\":") * seconds[count];
		count++;
	}
	fclose(log);
	if (count != STEPS - FEW_STEPS || !(s->flop > 0))
		fail("the log has not all steps");
	s->seconds = median(seconds, count);
}

static double train(const char *options, int steps)
{
	char all[2048];

	unlink("log");
	snprintf(all, sizeof(all), "%s --steps %d %s", model, steps, options);
	return spend("p4d-train", all);
}

/* Runs the matmuls of a layer, forward and backward, and of the head. */
static void run_shapes(const products *p, double *flop, double *seconds)
{
	static const uint64_t shapes[][3] = {{LAYERS, 3 * HIDDEN, HIDDEN},
					     {LAYERS, HIDDEN, HIDDEN},
					     {LAYERS, 2 * FFN, HIDDEN},
					     {LAYERS, HIDDEN, FFN},
					     {1, VOCABULARY, HIDDEN}};
	const double start = thread_seconds();
	p4d_device *d = p->device;

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		const uint64_t times = shapes[i][0], out = shapes[i][1], in = shapes[i][2];
		for (uint64_t k = 0; k < times; k++) {
			d->linear(d, p->type, p->y, NULL, p->x, p->w, LENGTH, out, in);
			d->linear_input(d, p->type, p->y, p->x, p->w, LENGTH, out, in, false);
			d->linear_weight(d, p->type, p->y, p->x, p->w, LENGTH, out, in, true);
		}
		*flop += 6 * (double)(times * LENGTH * out * in);
	}
	*seconds += thread_seconds() - start;
}

/* FLOP/s of matmuls in this process while a second process also computes matmuls. */
static double crowded_rate(const products *p)
{
	const pid_t pid = fork();
	double flop = 0, seconds = 0;

	if (pid < 0)
		fail("fork");
	products_run(p, PRODUCT_SECONDS, &flop, &seconds);
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	return flop / seconds;
}

static sample measure(const products *p, const char *options)
{
	double flop[2] = {0, 0}, seconds[2] = {0, 0}, start;
	sample s = {0};

	for (int after = 0; after < 2; after++) {
		products_run(p, PRODUCT_SECONDS, &flop[0], &seconds[0]);
		while (seconds[1] < seconds[0])
			run_shapes(p, &flop[1], &seconds[1]);
		if (after)
			break;
		start = train(options, FEW_STEPS);
		s.cpu_seconds = (train(options, STEPS) - start) / (STEPS - FEW_STEPS);
		read_log(&s);
	}
	s.products = flop[0] / seconds[0];
	s.shapes = flop[1] / seconds[1];
	return s;
}

/* Restricts this process and its children to at most CORES of the processors that they may use. */
static int take_cores(void)
{
	cpu_set_t allowed, taken;
	int count = 0;

	CPU_ZERO(&taken);
	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		fail("affinity");
	for (int i = 0; i < CPU_SETSIZE && count < CORES; i++)
		if (CPU_ISSET(i, &allowed)) {
			CPU_SET(i, &taken);
			count++;
		}
	if (sched_setaffinity(0, sizeof(taken), &taken) < 0)
		fail("affinity");
	return count;
}

typedef enum figure { SECONDS, CPU_SECONDS, PRODUCTS, SHAPES, OF_PRODUCTS, OF_SHAPES, PER_CORE, WORK } figure;

/* first: the sample of the first layout (one rank) in the same round. cores: number of cores that the
 * ranks use. */
static double figure_of(const sample *s, const sample *first, int cores, figure which)
{
	switch (which) {
	case SECONDS:
		return s->seconds;
	case CPU_SECONDS:
		return s->cpu_seconds;
	case PRODUCTS:
		return s->products;
	case SHAPES:
		return s->shapes;
	case OF_PRODUCTS:
		return s->flop / s->cpu_seconds / s->products;
	case OF_SHAPES:
		return s->flop / s->cpu_seconds / s->shapes;
	case PER_CORE:
		return first->seconds / s->seconds / cores;
	case WORK:
		break;
	}
	return s->cpu_seconds / first->cpu_seconds;
}

static sample samples[ROUNDS][LAYOUTS];

static double of_rounds(size_t layout, int cores, figure which)
{
	double x[ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		x[i] = figure_of(&samples[i][layout], &samples[i][0], cores, which);
	return median(x, ROUNDS);
}

static void report(int cores, double *crowded)
{
	const double flop = samples[0][0].flop;
	const double cpu_seconds = of_rounds(0, 1, CPU_SECONDS);

	printf(
	    "train_speed: products of %d x %d %.1f GFLOP/s, of the model's shapes %.1f; on %d cores at once "
	    "%.1f each\n",
	    PRODUCT_SIZE, PRODUCT_SIZE, of_rounds(0, 1, PRODUCTS) / 1e9, of_rounds(0, 1, SHAPES) / 1e9, cores,
	    median(crowded, ROUNDS) / 1e9);
	printf("train_speed: %s: %.0f ms a step of %d tokens, %.0f of the processor: %.1f GFLOP/s, %.2f of "
	       "products (target 0.60), %.2f of those of its shapes\n",
	       layouts[0].name, 1e3 * of_rounds(0, 1, SECONDS), TOKENS, 1e3 * cpu_seconds,
	       flop / cpu_seconds / 1e9, of_rounds(0, 1, OF_PRODUCTS), of_rounds(0, 1, OF_SHAPES));
	for (size_t i = 1; i < LAYOUTS; i++)
		printf("train_speed: %s on %d cores: %.0f ms a step, per core %.2f of one rank%s; processor "
		       "time "
		       "%.2f of one rank's\n",
		       layouts[i].name, cores, 1e3 * of_rounds(i, cores, SECONDS),
		       of_rounds(i, cores, PER_CORE), i == 1 ? " (target 0.60)" : "",
		       of_rounds(i, cores, WORK));
}

static char work[] = "/tmp/p4d-train-speed-XXXXXX";

static int drop(const char *path, const struct stat *status, int kind, struct FTW *at)
{
	(void)status, (void)kind, (void)at;
	return remove(path);
}

static void clean_up(void)
{
	nftw(work, drop, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
	const char *sources = getenv("P4D_TEST_SRCDIR"), *data = getenv("P4D_TEST_DATADIR");
	char text[8192];
	const int cores = take_cores();
	double crowded[ROUNDS];
	p4d_device device;
	p4d_error err;

	if (!sources || !data || !getenv("P4D_TEST_BUILDDIR"))
		fail("run it as make bench does");
	setenv("P4D_DATADIR", data, 1);
	if (p4d_device_cpu_open(&device, &err) < 0 || !mkdtemp(work) || atexit(clean_up) || chdir(work) < 0)
		fail(work);
	snprintf(text, sizeof(text), "data -o text %s/LICENSE %s/README.md", sources, sources);
	spend("p4d", text);
	products p = products_make(&device, P4D_DT_FP32);
	for (int i = 0; i < ROUNDS; i++) {
		crowded[i] = crowded_rate(&p);
		for (size_t k = 0; k < LAYOUTS; k++)
			samples[i][k] = measure(&p, layouts[k].options);
	}
	report(cores, crowded);
	products_free(&p);
	device.close(&device);
	return 0;
}
