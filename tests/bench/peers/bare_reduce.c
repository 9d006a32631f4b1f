/* bare_reduce.c - the speed that memory allows an all-reduce: RANKS BYTES ... */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * Each rank adds up its slice of all buffers, which lie in memory that all see, and writes the sum
 * back to all of them. There is nothing else: no calls to compare, no errors to tell, ranks that
 * wait by looking. It reads and writes each byte once, which is the least that there is to move.
 * Lines of bytes, seconds of that, and seconds of its reading alone.
 *
 * Reading alone is the same without writing: no all-reduce takes much less, whatever its loop is,
 * unless caches keep more of the buffers from one call to the next.
 */

enum { RANKS_MAX = 16, ROUNDS = 5, PAGE = 4096 };

typedef float line __attribute__((vector_size(64)));

struct shared {
	_Alignas(64) atomic_long met;
	_Alignas(64) atomic_long calls;
};

static struct shared *shared;
static line *buffers[RANKS_MAX];
static int size, rank;
static long meetings;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void meet(void)
{
	long all = ++meetings * size;

	atomic_fetch_add(&shared->met, 1);
	for (long i = 0; atomic_load(&shared->met) < all; i++)
		if (i > 1000)
			sched_yield(); /* where there are fewer processors than ranks */
}

static void reduce(size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		line sum = buffers[0][i];

		for (int r = 1; r < size; r++)
			sum += buffers[r][i];
		for (int r = 0; r < size; r++)
			buffers[r][i] = sum;
	}
}

/* A word of each line, as all of it comes with that, and the line of the page behind, which a
 * processor's own prefetching does not reach. */
static void only_read(size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		for (int r = 0; r < size; r++) {
			__builtin_prefetch((const char *)&buffers[r][i] + PAGE);
			(void)*(const volatile float *)&buffers[r][i];
		}
}

static double time_calls(void (*work)(size_t from, size_t to), size_t bytes, long calls)
{
	size_t lines = bytes / 64, from = lines * (size_t)rank / (size_t)size,
	       to = lines * (size_t)(rank + 1) / (size_t)size;
	double start;

	meet();
	start = now();
	for (long i = 0; i < calls; i++) {
		work(from, to);
		meet();
	}
	return (now() - start) / (double)calls;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(void (*work)(size_t from, size_t to), size_t bytes)
{
	double times[ROUNDS], each;

	time_calls(work, bytes, 2);
	each = time_calls(work, bytes, 3);
	if (!rank)
		atomic_store(&shared->calls, (long)(0.04 / each) + 1);
	meet();
	for (int k = 0; k < ROUNDS; k++)
		times[k] = time_calls(work, bytes, atomic_load(&shared->calls));
	qsort(times, ROUNDS, sizeof(*times), by_size);
	return times[ROUNDS / 2];
}

static void measure(size_t bytes)
{
	double whole = median(reduce, bytes), reading = median(only_read, bytes);

	if (!rank)
		printf("%zu %.9f %.9f\n", bytes, whole, reading);
	fflush(stdout);
}

/* Buffers that are 256 MiB apart would push each other's lines out of the caches of AMD's
 * processors: see part_bytes() of lib/comm/shm/segment.c. */
enum { APART = 2 << 20 };

static void *share(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

int main(int argc, char **argv)
{
	size_t max = 0;

	size = argc > 1 ? atoi(argv[1]) : 0;
	if (size < 1 || size > RANKS_MAX)
		return 2;
	for (int i = 2; i < argc; i++)
		max = strtoul(argv[i], NULL, 10) > max ? strtoul(argv[i], NULL, 10) : max;
	shared = share(sizeof(*shared));
	for (int r = 0; r < size; r++)
		buffers[r] = share(max + APART);
	for (int r = 1; r < size && !rank; r++)
		rank = fork() ? 0 : r;
	memset(buffers[rank], 0, max);
	for (int i = 2; i < argc; i++)
		measure(strtoul(argv[i], NULL, 10));
	while (!rank && wait(NULL) > 0)
		;
	return 0;
}
