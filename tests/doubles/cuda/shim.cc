/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the threads of a block as fibers. */
#include "doubles/cuda/shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

enum {
	WARP = 32,
	MOST_THREADS = 1024,
	STACK_BYTES = 256 << 10,
	MOST_SHARED = 99 << 10 /* as GPUs of sm_86, 89 and 120 */
};

enum state { READY, AT_BARRIER, AT_EXCHANGE, ENDED };

/* A stack and where to resume it. swapcontext alone would be enough, but makes a system call each time. */
typedef struct place {
	ucontext_t context; /* the context in which it starts */
	void *jump[5];      /* the place where it resumes, for __builtin_setjmp */
	const void *stack;  /* the stack, for the address sanitizer, with the sanitizer's own data */
	size_t bytes;
	void *kept;
} place;

typedef struct fiber {
	place at;
	bool begun; /* the stack is in use, also between blocks */
	state now;
	int line;
	uint64_t post;
	bool vote;
} fiber;

p4d_shim_thread p4d_shim;
const char *p4d_shim_kernel = "";

static fiber fibers[MOST_THREADS];
static uint64_t visible[MOST_THREADS]; /* the values that the lanes of each warp posted last */
static bool voted;                     /* the result of the last barrier's vote */
static place scheduler;
static const std::function<void()> *body;
static p4d_shim_order order;

extern "C" void p4d_shim_set_order(enum p4d_shim_order wanted)
{
	order = wanted;
}

[[noreturn]] static void complain(const char *what, unsigned thread)
{
	fprintf(stderr, "cuda shim: %s: block %u,%u, thread %u, line %d\n", what, p4d_shim.block.x,
		p4d_shim.block.y, thread, fibers[thread].line);
	abort();
}

/*
 * Tells the address sanitizer which stack is in use. Otherwise it clears its shadow of a stack on every
 * switch, which takes longer than most kernels between two barriers.
 */
static void leave(place *from, const place *to)
{
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_start_switch_fiber(&from->kept, to->stack, to->bytes);
#else
	(void)from, (void)to;
#endif
}

static void arrive(place *at, place *from)
{
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_finish_switch_fiber(at->kept, &from->stack, &from->bytes);
#else
	(void)at, (void)from;
#endif
}

/* Uses the compiler's jumps, because at the C library's longjmp the sanitizer also clears the stack's
 * shadow. */
__attribute__((no_sanitize_address)) static void go(place *from, place *to, bool begun)
{
	leave(from, to);
	if (!__builtin_setjmp(from->jump)) {
		if (begun)
			__builtin_longjmp(to->jump, 1);
		setcontext(&to->context);
	}
	arrive(from, to);
}

static void wait_as(state now, int line)
{
	fiber *self = &fibers[p4d_shim.thread.x];

	self->now = now;
	self->line = line;
	go(&self->at, &scheduler, true);
}

bool p4d_shim_barrier(int line, bool vote)
{
	fibers[p4d_shim.thread.x].vote = vote;
	wait_as(AT_BARRIER, line);
	return voted;
}

uint64_t p4d_shim_exchange(int line, uint64_t post, unsigned from)
{
	fibers[p4d_shim.thread.x].post = post;
	wait_as(AT_EXCHANGE, line);
	return visible[p4d_shim.thread.x / WARP * WARP + from];
}

void p4d_shim_all(int line, unsigned mask)
{
	fibers[p4d_shim.thread.x].line = line;
	if (mask != 0xffffffff)
		complain("a shuffle or vote of a partial warp", p4d_shim.thread.x);
}

unsigned p4d_shim_ballot(int line, bool vote)
{
	unsigned bits = 0;

	p4d_shim_exchange(line, vote, 0);
	for (unsigned lane = 0; lane < WARP; lane++)
		bits |= (unsigned)visible[p4d_shim.thread.x / WARP * WARP + lane] << lane;
	return bits;
}

/* Runs one thread of block after block. */
static void begin()
{
	arrive(&fibers[p4d_shim.thread.x].at, &scheduler);
	for (;;) {
		(*body)();
		wait_as(ENDED, 0);
	}
}

static void prepare(unsigned threads)
{
	static char *stacks;

	if (!stacks) {
		stacks = (char *)mmap(NULL, (size_t)MOST_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (stacks == MAP_FAILED)
			complain("no memory for the stacks", 0);
	}
	for (unsigned i = 0; i < threads; i++) {
		fiber *f = &fibers[i];
		f->now = READY;
		f->line = 0;
		if (f->begun)
			continue;
		getcontext(&f->at.context);
		f->at.stack = f->at.context.uc_stack.ss_sp = stacks + (size_t)i * STACK_BYTES;
		f->at.bytes = f->at.context.uc_stack.ss_size = STACK_BYTES;
		makecontext(&f->at.context, begin, 0);
	}
}

/* Resumes threads [from, to) if all of them wait in the state `what` at the same line. */
static bool release(unsigned from, unsigned to, state what)
{
	for (unsigned i = from; i < to; i++) {
		if (fibers[i].now != what)
			return false;
		if (fibers[i].line != fibers[from].line)
			complain("threads wait at different lines", i);
	}
	for (unsigned i = from; i < to; i++)
		fibers[i].now = READY;
	return true;
}

static void run_thread(unsigned which)
{
	const bool begun = fibers[which].begun;

	fibers[which].begun = true;
	p4d_shim.thread = dim3(which);
	go(&scheduler, &fibers[which].at, begun);
}

/* Completes an exchange. False: not all lanes of the warp wait for it. */
static bool exchange(unsigned from)
{
	if (!release(from, from + WARP, AT_EXCHANGE))
		return false;
	for (unsigned i = from; i < from + WARP; i++)
		visible[i] = fibers[i].post;
	return true;
}

/*
 * Runs a warp as far as possible without other warps, past exchanges. If a barrier is missing, other warps
 * then see what this warp writes too early.
 */
static void run_warp(unsigned from)
{
	do {
		for (unsigned i = 0; i < WARP; i++) {
			const unsigned which = from + (order == P4D_SHIM_FORWARD ? i : WARP - 1 - i);
			if (fibers[which].now == READY)
				run_thread(which);
		}
	} while (exchange(from));
}

/* Passes a barrier. False: all threads have ended. */
static bool pass_barrier(unsigned threads)
{
	unsigned ended = 0;

	for (unsigned i = 0; i < threads; i++)
		ended += fibers[i].now == ENDED;
	if (ended == threads)
		return false;
	const bool passed = release(0, threads, AT_BARRIER);
	for (unsigned i = 0; !passed && i < threads; i++)
		if (fibers[i].now != ENDED)
			complain(ended ? "a thread waits for one that has ended"
				       : "threads wait for each other",
				 i);
	voted = false;
	for (unsigned i = 0; i < threads; i++)
		voted = voted || fibers[i].vote;
	return true;
}

/* Runs all warps in turn, from one barrier to the next. */
static void run_block(unsigned threads)
{
	prepare(threads);
	do {
		for (unsigned i = 0; i < threads; i += WARP)
			run_warp(order == P4D_SHIM_FORWARD ? i : threads - WARP - i);
	} while (pass_barrier(threads));
}

void p4d_shim_run(dim3 blocks, unsigned threads, size_t shared, const std::function<void()> &kernel)
{
	if (threads == 0 || threads > MOST_THREADS || threads % WARP || blocks.x > INT32_MAX ||
	    blocks.y > 65535 || shared > MOST_SHARED)
		complain("launch configuration beyond the limits of any GPU", 0);
	p4d_shim_gpu.launches++;
	if (p4d_shim_gpu.dry)
		return;
	p4d_shim_enter();
	body = &kernel;
	p4d_shim.threads = dim3(threads);
	p4d_shim.blocks = blocks;
	for (uint64_t i = 0; i < (uint64_t)blocks.x * blocks.y; i++) {
		const uint64_t which = order == P4D_SHIM_FORWARD ? i : (uint64_t)blocks.x * blocks.y - 1 - i;
		p4d_shim.block = dim3((unsigned)(which % blocks.x), (unsigned)(which / blocks.x));
		p4d_shim.shared = (unsigned char *)malloc(shared ? shared : 1);
		if (!p4d_shim.shared)
			complain("no memory for shared memory", 0);
		memset(p4d_shim.shared, 0xff, shared);
		run_block(threads);
		free(p4d_shim.shared);
	}
	p4d_shim_leave();
}
