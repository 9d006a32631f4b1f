/* ring.c - how fast the ranks of a ring reduce: time and bandwidth by size. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/comm/ring.h"

/*
 * bench_ring [RANKS [KIND [MOST_BYTES [PIECE_BYTES]]]]: forks RANKS processes (default 2), each on
 * a processor of its own if there are enough, and prints a line for each size from 1 KiB to
 * MOST_BYTES (default 256 MiB), in memory of the group's and in plain memory. KIND is a number of
 * enum gt_collective_kind, 0 to 3 (default all-reduce). Floats, sum.
 *
 * Times are the best of some rounds, each the mean of some calls. Bandwidths are as nccl-tests
 * defines them: algbw is size over time, size being the larger of a rank's buffers; busbw is algbw
 * times 2 (n-1) / n for all-reduce, (n-1) / n for its two halves, and 1 for broadcast.
 */
enum { RANKS_MAX = 64, ROUNDS = 7, EXCHANGED = 256 };

struct bench {
	int rank, ranks;
	enum gt_collective_kind kind;
	size_t most;
	struct gt_group *g;
	struct shared {
		pthread_barrier_t barrier;
		char data[RANKS_MAX][EXCHANGED];
	} * shared;
};

static void die(const char *what)
{
	fprintf(stderr, "bench_ring: %s\n", what);
	exit(1);
}

static int exchange(void *self, const void *mine, size_t bytes, void *all, struct gt_err *err)
{
	struct bench *b = self;

	if (bytes > EXCHANGED)
		return gt_err_set(err, GT_EINVAL, "%zu bytes are too many", bytes);
	memcpy(b->shared->data[b->rank], mine, bytes);
	pthread_barrier_wait(&b->shared->barrier);
	for (int r = 0; r < b->ranks; r++)
		memcpy((char *)all + (size_t)r * bytes, b->shared->data[r], bytes);
	pthread_barrier_wait(&b->shared->barrier);
	return 0;
}

static void call(struct bench *b, float *buffer, size_t bytes)
{
	size_t whole = bytes / sizeof(float), part = whole / (size_t)b->ranks;
	float *mine = buffer + part * (size_t)b->rank;
	struct gt_collective c = { b->kind, buffer, buffer, (int64_t)whole, GT_F32, GT_SUM, 0,
		NULL };
	struct gt_err err = GT_ERR_INIT;

	if (b->kind == GT_REDUCE_SCATTER || b->kind == GT_ALL_GATHER) {
		c.count = (int64_t)part;
		*(b->kind == GT_ALL_GATHER ? (void **)&c.in : &c.out) = mine;
	}
	if (gt_group_run(b->g, &c, &err))
		die(err.text);
}

/* Elements that are not what they should be, over all ranks, after one all-reduce. */
static int64_t count_wrong(struct bench *b, float *buffer, size_t bytes)
{
	size_t n = bytes / sizeof(float);
	struct gt_err err = GT_ERR_INIT;
	int64_t wrong = 0;
	int all = b->ranks * (b->ranks - 1) / 2;

	for (size_t i = 0; i < n; i++)
		buffer[i] = (float)((int)(i % 1000) + b->rank);
	call(b, buffer, bytes);
	for (size_t i = 0; i < n && b->kind == GT_ALL_REDUCE; i++)
		wrong += buffer[i] != (float)(b->ranks * (int)(i % 1000) + all);
	if (gt_all_reduce(b->g, &wrong, 1, GT_I64, GT_SUM, &err))
		die(err.text);
	return wrong;
}

static double bus_factor(const struct bench *b)
{
	double n = b->ranks;

	if (b->kind == GT_BROADCAST)
		return 1;
	return (b->kind == GT_ALL_REDUCE ? 2 : 1) * (n - 1) / n;
}

static double best_time(struct bench *b, float *buffer, size_t bytes)
{
	int calls = (int)((8 << 20) / bytes) + 1;
	double best = 1e9, from, seconds;

	calls = calls > 2000 ? 2000 : calls;
	memset(buffer, 0, bytes);
	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&b->shared->barrier);
		from = gt_clock_s();
		for (int i = 0; i < calls; i++)
			call(b, buffer, bytes);
		seconds = (gt_clock_s() - from) / calls;
		best = seconds < best ? seconds : best;
	}
	return best;
}

static void row(struct bench *b, float *group_memory, float *plain, size_t bytes)
{
	float *const buffers[2] = { group_memory, plain };

	if (!b->rank)
		printf("%10zu", bytes);
	for (int i = 0; i < 2; i++) {
		int64_t wrong = count_wrong(b, buffers[i], bytes);
		double seconds = best_time(b, buffers[i], bytes);
		double algbw = 1e-9 * (double)bytes / seconds;

		if (!b->rank)
			printf("  %12.2f %8.2f %8.2f %6lld", 1e6 * seconds, algbw,
			    algbw * bus_factor(b), (long long)wrong);
	}
	if (!b->rank) {
		putchar('\n');
		fflush(stdout);
	}
}

/* A processor for each rank, where there are enough, as OpenMPI does with two. */
static void pin(const struct bench *b)
{
	cpu_set_t all, one;
	int nth = b->rank;

	if (sched_getaffinity(0, sizeof(all), &all) || CPU_COUNT(&all) < b->ranks)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && !nth--) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			sched_setaffinity(0, sizeof(one), &one);
		}
}

static void run(struct bench *b, const struct gt_ring_options *options)
{
	struct gt_exchange by_table = { exchange, b };
	struct gt_err err = GT_ERR_INIT;
	void *memory, *plain;

	pin(b);
	plain = aligned_alloc(64, b->most);
	if (!plain)
		die("no memory");
	if (gt_ring_of_processes(&b->g, b->rank, b->ranks, &by_table, options, &err) ||
	    gt_group_alloc(b->g, b->most, &memory, &err))
		die(err.text);
	if (!b->rank)
		printf("%10s  %12s %8s %8s %6s  %12s %8s %8s %6s\n", "bytes", "group's us", "algbw",
		    "busbw", "wrong", "plain us", "algbw", "busbw", "wrong");
	for (size_t bytes = 1024; bytes <= b->most; bytes *= 4)
		row(b, memory, plain, bytes);
	gt_group_release(b->g, memory);
	gt_group_free(b->g);
	free(plain);
}

int main(int argc, char **argv)
{
	struct bench b = { .ranks = argc > 1 ? atoi(argv[1]) : 2, .most = (size_t)256 << 20 };
	struct gt_ring_options options = { .timeout_s = 60 };
	pthread_barrierattr_t attr;
	int status, bad = 0;

	b.kind = argc > 2 ? (enum gt_collective_kind)atoi(argv[2]) : GT_ALL_REDUCE;
	b.most = argc > 3 ? strtoull(argv[3], NULL, 0) : b.most;
	options.staging_bytes = argc > 4 ? 3 * strtoull(argv[4], NULL, 0) : 0;
	if (b.ranks < 1 || b.ranks > RANKS_MAX || (unsigned)b.kind > GT_BROADCAST)
		die("usage: bench_ring [RANKS [KIND [MOST_BYTES [PIECE_BYTES]]]]");
	b.shared = mmap(
	    NULL, sizeof(*b.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b.shared == MAP_FAILED)
		die("no memory");
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&b.shared->barrier, &attr, (unsigned)b.ranks);
	for (b.rank = 0; b.rank < b.ranks; b.rank++)
		if (!fork()) {
			run(&b, &options);
			exit(0);
		}
	while (wait(&status) > 0)
		bad |= status;
	return bad != 0;
}
