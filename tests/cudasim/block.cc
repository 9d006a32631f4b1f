/* block.cc - the threads of a block as fibers: switches, barriers, shuffles, shared memory. */
#include "tests/cudasim/inside.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

/*
 * This file is compiled without sanitizers: it moves from stack to stack behind their backs, and
 * says so by the functions below, which are there if the program has a sanitizer. A fiber runs
 * thread after thread until one of them waits; then the next thread begins on another fiber. So a
 * kernel without barriers never switches.
 *
 * The thread sanitizer tells threads apart by their fibers. With it each thread of a block has a
 * fiber of its own, and another one in every second block. It is told of the order that CUDA
 * promises and of no other: a grid comes after all that the host did before, __syncthreads()
 * orders the threads of a block, __syncwarp() lanes. Shuffles, votes and blocks order nothing.
 */
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void **, const void *, size_t);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void *, const void **, size_t *);
__attribute__((weak)) void __asan_poison_memory_region(const volatile void *, size_t);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *, size_t);
__attribute__((weak)) void *__tsan_get_current_fiber();
__attribute__((weak)) void *__tsan_create_fiber(unsigned);
__attribute__((weak)) void __tsan_destroy_fiber(void *);
__attribute__((weak)) void __tsan_switch_to_fiber(void *, unsigned);
__attribute__((weak)) void __tsan_acquire(void *);
__attribute__((weak)) void __tsan_release(void *);
__attribute__((weak)) void AnnotateIgnoreReadsBegin(const char *, int);
__attribute__((weak)) void AnnotateIgnoreReadsEnd(const char *, int);
__attribute__((weak)) void AnnotateIgnoreWritesBegin(const char *, int);
__attribute__((weak)) void AnnotateIgnoreWritesEnd(const char *, int);
}

enum { STACK = 128 << 10, GUARD = 4096, MAX_THREADS = 1024, LANES = 32, SHARED = 32, ALIGN = 128 };

struct fiber {
	void *sp;    /* where it goes on; NULL: it has not begun */
	char *stack; /* lowest address */
	void *fake;  /* the address sanitizer's */
	void *tsan;  /* the thread sanitizer's */
	unsigned thread;
	/* Where it waits, at a barrier or for lanes. */
	const char *file;
	int line;
	cudasim_meeting kind;
	unsigned mask, source;
	uint64_t value, result;
};

struct list {
	fiber *at[MAX_THREADS];
	unsigned count;
};

struct shared_block {
	const void *key;
	char *p;
	size_t bytes;
};

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

static fiber fibers[2 * MAX_THREADS];
static unsigned fiber_count;
static fiber host_side, *current; /* host_side: the stack that runs the grid */
static const void *host_stack;
static size_t host_stack_bytes;
static bool from_host;

static const cudasim_grid *grid;
static unsigned order[MAX_THREADS], threads, begun, alive, turn; /* turn: of blocks, 0 or 1 */
static uint64_t draws;
static list idle, ready, barrier;
static fiber *lanes[MAX_THREADS / LANES][LANES]; /* that wait for lanes */
static shared_block shared[SHARED];
static int shared_count;
static bool at_fault;
static char fault[400];
/* Places that the thread sanitizer is told of: a thread that acquires one comes after all that were
 * released there. Those that meet release `arrived`; the last one passes them on to `met`. */
enum { ARRIVED, MET };
static char began, ended, at_barrier[2], at_lanes[MAX_THREADS / LANES][2];

/* ---- orders ---- */

uint64_t cudasim_mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9e3779b97f4a7c15u + b; /* splitmix64 */

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static void draw_order(unsigned *to, unsigned n, uint64_t key)
{
	for (unsigned i = 0; i < n; i++)
		to[i] = key % 3 == 1 ? n - 1 - i : i;
	for (unsigned i = n; key % 3 == 2 && i > 1; i--) {
		unsigned j = (unsigned)(cudasim_mix(key, i) % i), old = to[i - 1];

		to[i - 1] = to[j];
		to[j] = old;
	}
}

/* ---- the thread sanitizer ---- */

static void acquire(char *place)
{
	if (__tsan_acquire)
		__tsan_acquire(place);
}

static void release(char *place)
{
	if (__tsan_release)
		__tsan_release(place);
}

static void pass_on(char *place)
{
	acquire(place + ARRIVED);
	release(place + MET);
}

/*
 * The simulator's own accesses in a thread's place do not count as the thread's, and memory
 * allocated meanwhile is new to all threads.
 */
static void look_away(bool away)
{
	if (!AnnotateIgnoreReadsBegin)
		return;
	(away ? AnnotateIgnoreReadsBegin : AnnotateIgnoreReadsEnd)(__FILE__, __LINE__);
	(away ? AnnotateIgnoreWritesBegin : AnnotateIgnoreWritesEnd)(__FILE__, __LINE__);
}

/* ---- switches ---- */

/* Save the registers that a call must keep, change stacks, and restore. */
extern "C" void cudasim_switch(void **from, void *to);
#if defined(__x86_64__)
asm(".text\n"
    ".globl cudasim_switch\n"
    ".type cudasim_switch,@function\n"
    "cudasim_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\n"
    "mov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\n"
    "ret\n"
    ".size cudasim_switch,.-cudasim_switch\n");

static void *first_frame(char *top, void (*begin)())
{
	void **sp = (void **)top;

	*--sp = nullptr; /* begin() finds the stack as after a call */
	*--sp = (void *)begin;
	for (int i = 0; i < 6; i++)
		*--sp = nullptr;
	return sp;
}
#elif defined(__aarch64__)
asm(".text\n"
    ".globl cudasim_switch\n"
    ".type cudasim_switch,@function\n"
    "cudasim_switch:\n"
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\n"
    "stp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
    "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\n"
    "stp d14, d15, [sp, #144]\n"
    "mov x2, sp\nstr x2, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\n"
    "ldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
    "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\n"
    "ldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\nret\n"
    ".size cudasim_switch,.-cudasim_switch\n");

static void *first_frame(char *top, void (*begin)())
{
	void **sp = (void **)top - 20;

	for (int i = 0; i < 20; i++)
		sp[i] = nullptr;
	sp[11] = (void *)begin; /* the link register */
	return sp;
}
#else
#error "cudasim: no switch of stacks for this processor"
#endif

static void announce_arrival(fiber *self)
{
	if (!__sanitizer_finish_switch_fiber)
		return;
	if (from_host)
		__sanitizer_finish_switch_fiber(self->fake, &host_stack, &host_stack_bytes);
	else
		__sanitizer_finish_switch_fiber(self->fake, nullptr, nullptr);
}

static void place(fiber *f)
{
	unsigned t = f->thread;

	threadIdx = { t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y) };
	current = f;
}

static void run_threads();

static void switch_to(fiber *to)
{
	fiber *self = current;

	if (__sanitizer_start_switch_fiber) {
		if (to == &host_side)
			__sanitizer_start_switch_fiber(&self->fake, host_stack, host_stack_bytes);
		else
			__sanitizer_start_switch_fiber(&self->fake, to->stack, STACK);
	}
	if (!to->sp)
		to->sp = first_frame(to->stack + STACK, run_threads);
	from_host = self == &host_side;
	place(to);
	if (__tsan_switch_to_fiber)
		__tsan_switch_to_fiber(to->tsan, 1); /* 1: without order */
	cudasim_switch(&self->sp, to->sp);
	announce_arrival(self);
	place(self);
}

/* ---- which thread is next ---- */

static void add(list *l, fiber *f)
{
	l->at[l->count++] = f;
}

static fiber *take(list *l)
{
	unsigned i = draws % 3 == 0 ? 0 : l->count - 1;
	fiber *f;

	if (draws % 3 == 2)
		i = (unsigned)(cudasim_mix(draws, l->count) % l->count);
	f = l->at[i];
	l->at[i] = l->at[--l->count];
	return f;
}

static fiber *new_fiber()
{
	fiber *f = &fibers[fiber_count++];
	char *p = (char *)mmap(nullptr, STACK + GUARD, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED || mprotect(p, GUARD, PROT_NONE)) {
		perror("cudasim: a stack");
		abort();
	}
	f->stack = p + GUARD;
	if (__tsan_create_fiber)
		f->tsan = __tsan_create_fiber(0);
	return f;
}

static fiber *idle_fiber(unsigned thread)
{
	if (!__tsan_create_fiber)
		return idle.count ? idle.at[--idle.count] : new_fiber();
	while (fiber_count <= 2 * thread + turn)
		new_fiber();
	return &fibers[2 * thread + turn];
}

/* Threads that have not begun come first: so all of a block run up to the first barrier. */
static fiber *next_fiber()
{
	if (begun < threads) {
		unsigned t = order[begun++];
		fiber *f = idle_fiber(t);

		f->thread = t;
		return f;
	}
	return ready.count ? take(&ready) : nullptr;
}

static void set_fault(const char *text, const fiber *f, const char *more, const fiber *g)
{
	int n;

	look_away(true);
	n = snprintf(fault, sizeof(fault), "%s: block (%u, %u, %u), thread %u at %s:%d", text,
	    blockIdx.x, blockIdx.y, blockIdx.z, f->thread, f->file, f->line);
	if (g && n > 0 && (size_t)n < sizeof(fault))
		snprintf(fault + n, sizeof(fault) - (size_t)n, "%s%u at %s:%d", more, g->thread,
		    g->file, g->line);
	look_away(false);
	at_fault = true;
}

/* The first of those that wait, beginning with those at the barrier. */
static const fiber *find_waiting(const fiber *but)
{
	if (barrier.count && barrier.at[0] != but)
		return barrier.at[0];
	for (unsigned i = 0; i < MAX_THREADS; i++)
		if (lanes[i / LANES][i % LANES] && lanes[i / LANES][i % LANES] != but)
			return lanes[i / LANES][i % LANES];
	return nullptr;
}

/*
 * Go on with another thread; with the host's side when there is none or something is wrong. This
 * thread may be given up then, so the host is ordered after the thread's accesses so far.
 */
static void leave()
{
	fiber *to = at_fault ? nullptr : next_fiber();

	if (!to && alive && !at_fault) {
		const fiber *f = find_waiting(nullptr);

		set_fault("deadlock: threads wait for others that do not come", f, ", and thread ",
		    find_waiting(f));
	}
	release(&ended);
	if (to != current)
		switch_to(to ? to : &host_side);
}

static void open_barrier()
{
	pass_on(at_barrier);
	while (barrier.count)
		add(&ready, barrier.at[--barrier.count]);
}

static void end_thread()
{
	alive--;
	if (barrier.count && barrier.count == alive)
		open_barrier();
}

/* A fiber's life: thread after thread. */
static void run_threads()
{
	fiber *self = current;

	announce_arrival(self);
	for (;;) {
		acquire(&began);
		grid->call(grid->closure);
		end_thread();
		if (begun < threads && !__tsan_create_fiber) {
			self->thread = order[begun++];
			place(self);
			continue;
		}
		if (!__tsan_create_fiber)
			add(&idle, self);
		leave();
	}
}

/* ---- barriers, shuffles, votes ---- */

void cudasim_barrier(const char *file, int line)
{
	fiber *self = current;

	self->file = file;
	self->line = line;
	release(at_barrier + ARRIVED);
	if (barrier.count && (barrier.at[0]->line != line || barrier.at[0]->file != file)) {
		set_fault("threads of a block wait at different barriers", self, ", thread ",
		    barrier.at[0]);
		leave();
	}
	if (barrier.count + 1 == alive) {
		open_barrier();
	} else {
		add(&barrier, self);
		leave();
	}
	acquire(at_barrier + MET);
}

unsigned cudasim_lane()
{
	return current->thread % LANES;
}

static bool all_there(fiber *const *warp, const fiber *self)
{
	for (unsigned l = 0; l < LANES; l++)
		if (self->mask >> l & 1 &&
		    (!warp[l] || warp[l]->mask != self->mask || warp[l]->kind != self->kind))
			return false;
	return true;
}

/* All lanes of the mask are there: each gets its result and goes on. */
static void exchange(fiber **warp, fiber *self)
{
	uint64_t votes = 0;

	for (unsigned l = 0; l < LANES; l++)
		if (self->mask >> l & 1 && warp[l]->value)
			votes |= (uint64_t)1 << l;
	for (unsigned l = 0; l < LANES; l++) {
		fiber *f = self->mask >> l & 1 ? warp[l] : nullptr;

		if (!f)
			continue;
		if (f->kind == CUDASIM_SHUFFLE && !(f->source < LANES && f->mask >> f->source & 1))
			set_fault("a shuffle from a lane outside of the mask", f, "", nullptr);
		else
			f->result = f->kind == CUDASIM_VOTE      ? votes
			            : f->kind == CUDASIM_SHUFFLE ? warp[f->source]->value
			                                         : 0;
		if (f != self)
			add(&ready, f);
	}
	for (unsigned l = 0; l < LANES; l++)
		if (self->mask >> l & 1)
			warp[l] = nullptr;
}

uint64_t cudasim_meet(cudasim_meeting kind, unsigned mask, uint64_t value, unsigned source,
    const char *file, int line)
{
	fiber *self = current, **warp = lanes[self->thread / LANES];
	char *place = at_lanes[self->thread / LANES];

	self->kind = kind;
	self->mask = mask;
	self->value = value;
	self->source = source;
	self->file = file;
	self->line = line;
	if (!(mask >> cudasim_lane() & 1)) {
		set_fault("a lane that is not in its own mask", self, "", nullptr);
		leave();
	}
	warp[cudasim_lane()] = self;
	if (kind == CUDASIM_SYNC)
		release(place + ARRIVED);
	if (all_there(warp, self)) {
		exchange(warp, self);
		if (kind == CUDASIM_SYNC)
			pass_on(place);
	}
	if (at_fault || warp[cudasim_lane()])
		leave();
	if (kind == CUDASIM_SYNC)
		acquire(place + MET);
	return self->result;
}

/* ---- shared memory ---- */

void cudasim_poison(const void *p, size_t bytes)
{
	if (__asan_poison_memory_region)
		__asan_poison_memory_region(p, bytes);
}

void cudasim_unpoison(const void *p, size_t bytes)
{
	if (__asan_unpoison_memory_region)
		__asan_unpoison_memory_region(p, bytes);
}

bool cudasim_has_asan()
{
	return __asan_poison_memory_region;
}

static size_t whole(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

void *cudasim_shared(const void *key, size_t bytes)
{
	shared_block *s = shared;

	while (s < shared + shared_count && s->key != key)
		s++;
	if (s < shared + shared_count)
		return s->p;
	if (!key)
		bytes = grid->dynamic_bytes;
	look_away(true);
	if (shared_count == SHARED || !(s->p = (char *)aligned_alloc(ALIGN, whole(bytes + 1)))) {
		fprintf(stderr, "cudasim: no room for shared memory\n");
		abort();
	}
	shared_count++;
	s->key = key;
	s->bytes = bytes;
	memset(s->p, 0xff, bytes);
	cudasim_poison(s->p + bytes, whole(bytes + 1) - bytes);
	look_away(false);
	return s->p;
}

static void free_shared()
{
	look_away(true);
	while (shared_count) {
		shared_block *s = &shared[--shared_count];

		cudasim_unpoison(s->p, whole(s->bytes + 1));
		free(s->p);
	}
	look_away(false);
}

/* A block finds nothing of the one before in shared memory. */
static void spoil_shared()
{
	if (__tsan_create_fiber)
		free_shared();
	for (int i = 0; i < shared_count; i++)
		memset(shared[i].p, 0xff, shared[i].bytes);
}

/* ---- blocks ---- */

/* After a fault: fibers that stand in the middle of a kernel are given up. */
static void reset_fibers()
{
	idle.count = ready.count = barrier.count = 0;
	memset(lanes, 0, sizeof(lanes));
	for (unsigned i = 0; i < fiber_count; i++) {
		fibers[i].sp = fibers[i].fake = nullptr;
		if (__tsan_destroy_fiber) {
			__tsan_destroy_fiber(fibers[i].tsan);
			fibers[i].tsan = __tsan_create_fiber(0);
		}
		cudasim_unpoison(fibers[i].stack, STACK);
		if (!__tsan_create_fiber)
			add(&idle, &fibers[i]);
	}
}

static void run_block(uint64_t key)
{
	draws = key;
	begun = 0;
	turn ^= 1;
	alive = threads;
	draw_order(order, threads, key);
	spoil_shared();
	current = &host_side;
	switch_to(next_fiber());
}

const char *cudasim_run_grid(const cudasim_grid *g, uint64_t key)
{
	unsigned blocks = g->blocks.x * g->blocks.y * g->blocks.z, x = g->blocks.x, y = g->blocks.y;
	unsigned *places = (unsigned *)calloc(blocks, sizeof(*places));

	if (!places)
		abort();
	grid = g;
	gridDim = g->blocks;
	blockDim = g->threads;
	threads = blockDim.x * blockDim.y * blockDim.z;
	at_fault = false;
	if (__tsan_get_current_fiber)
		host_side.tsan = __tsan_get_current_fiber();
	release(&began);
	draw_order(places, blocks, key);
	for (unsigned i = 0; i < blocks && !at_fault; i++) {
		unsigned b = places[i];

		blockIdx = { b % x, b / x % y, b / (x * y) };
		run_block(cudasim_mix(key, i));
	}
	acquire(&ended);
	free(places);
	free_shared();
	if (at_fault)
		reset_fibers();
	return at_fault ? fault : nullptr;
}
