/* test_ring.c - rings of simulated GPUs: processes, ranks that are killed, waits that are lost. */
#include "tests/unit/comm_fixture.h"

#include "kernels/cuda/ring/ring.h"
#include "lib/base/clock.h"
#include "tests/cudasim/cudasim.h"

enum { COUNT = 3001, SUMS = 4 };

/* ---- a rank with a GPU ---- */

/* Slots so short that a sum goes around many times. */
static int connect_short(struct gt_cuda_group *g, struct gt_err *err)
{
	return gt_cuda_ring_connect_by(g, 512, 512, err);
}

/* Take the group for host memory; NULL after an error, which is the rank's. */
static struct gt_group *ring_of(struct seat_of *s, struct gt_device **d)
{
	static struct gt_cuda_links links;
	struct gt_err err = GT_ERR_INIT;
	int devices = gt_cuda_backend.count();

	links = gt_cuda_ring_links;
	links.connect = connect_short;
	*d = NULL;
	if (!gt_device_open(d, &gt_cuda_backend, s->rank % devices, &err) &&
	    !gt_cuda_ring_groups.check(s->g, *d, &err) &&
	    !gt_cuda_group_new(&s->g, *d, &links, false, &err))
		return s->g;
	fail_rank(s, "%s", err.text);
	gt_device_close(*d);
	return NULL;
}

static void leave(struct seat_of *s, struct gt_device *d)
{
	gt_group_free(s->g);
	s->g = NULL;
	gt_device_close(d);
}

/* Whole numbers, whose sums are exact, and others in each sum. */
static float number_of(int rank, int sum, int i)
{
	return (float)((i * 7 + rank * 3 + sum * 5) % 101);
}

static int start_sum(struct seat_of *s, const struct gt_device *d, float *in, float *out,
    const char *what, struct gt_err *err)
{
	const struct gt_collective c = { .kind = GT_ALL_REDUCE,
		.in = in,
		.out = out,
		.count = COUNT,
		.dtype = GT_F32,
		.what = what,
		.stream = d->compute };

	return gt_group_start(s->g, &c, NULL, err);
}

/* All are queued before the first has a result; returns the wrong numbers of all sums, or -1. */
static int count_wrong(struct seat_of *s, struct gt_device *d, struct gt_err *err)
{
	static float host[SUMS * COUNT];
	void *in, *out;
	int wrong = 0, rc;

	for (int i = 0; i < SUMS * COUNT; i++)
		host[i] = number_of(s->rank, i / COUNT, i % COUNT);
	if (gt_group_alloc(s->g, sizeof(host), &in, err) ||
	    gt_group_alloc(s->g, sizeof(host), &out, err) ||
	    gt_device_write(d, in, host, sizeof(host), err))
		return -1;
	rc = gt_device_sync(d, err);
	for (int k = 0; !rc && k < SUMS; k++)
		rc = start_sum(s, d, (float *)in + k * COUNT, (float *)out + k * COUNT, NULL, err);
	/* The simulator works while a host waits for a GPU. Rank 0 may leave that to its watch,
	 * which looks at the GPU from time to time: so it is later than the others. */
	if (!rc && (s->rank || !s->arg))
		rc = gt_group_await(s->g, GT_GROUP_ALL, d->compute, err) || gt_device_sync(d, err);
	if (!rc)
		rc = gt_group_wait(s->g, GT_GROUP_ALL, err);
	if (rc || gt_device_read(d, host, out, sizeof(host), err))
		return -1;
	for (int i = 0; i < SUMS * COUNT; i++) {
		float sum = 0;

		for (int r = 0; r < s->size; r++)
			sum += number_of(r, i / COUNT, i % COUNT);
		wrong += host[i] != sum;
	}
	return wrong;
}

/* ---- sums ---- */

static void sum_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *d;
	int wrong;

	if (!ring_of(s, &d))
		return;
	wrong = count_wrong(s, d, &err);
	if (wrong)
		fail_rank(s, "%d wrong numbers, '%s'", wrong, err.text);
	leave(s, d);
	for (int i = 0; i < gt_cuda_backend.count(); i++)
		if (cudasim_fault(i))
			fail_rank(s, "GPU %d: %s", i, cudasim_fault(i));
	if (cudasim_peers())
		fail_rank(s, "%d contexts on other GPUs", cudasim_peers());
	if (!cudasim_flushed() != !getenv("CUDASIM_FLUSH"))
		fail_rank(s, "%ld waits flush writes", cudasim_flushed());
}

/* Rank 0 sees its own GPU alone, so it does not know that of rank 1. */
static void hidden_body(struct seat_of *s)
{
	setenv("CUDASIM_DEVICES", s->rank ? "2" : "1", 1);
	sum_body(s);
}

static void processes_add_up(void **state)
{
	static const struct gt_shm_options patience = { .timeout_s = 60 };

	(void)state;
	for (int gpus = 1; gpus <= 4; gpus += 3)
		for (int size = 2; size <= 4; size++) {
			setenv("CUDASIM_DEVICES", gpus == 1 ? "1" : "4", 1);
			run_ranks(true, size, &patience, sum_body, NULL);
		}
	setenv("CUDASIM_FLUSH", "yes", 1);
	run_ranks(true, 2, &patience, sum_body, NULL);
	unsetenv("CUDASIM_FLUSH");
	run_ranks(true, 2, &patience, hidden_body, NULL);
}

/* ---- a planted fault: a wait that is lost ---- */

/*
 * Rank 1 of two first sends 4 chunks, for which there is room: waits 1 to 4. Then it waits for room
 * and for a chunk in turn: wait FIRST is the first for a chunk, and rank 0 has not begun. For the
 * chunks behind it rank 1 comes too early as often as not.
 */
enum { FIRST = 6, LAST = 16, LEAST_SEEN = 2 };

/* All ranks report their findings together. */
struct losses {
	int lost; /* which wait rank 1 loses; 0: none */
	atomic_int wrong;
};

/* Rank 0 is late, so data that rank 1 does not wait for is missing. */
static void lose_body(struct seat_of *s)
{
	struct losses *l = s->arg;
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *d;
	int wrong;

	if (!ring_of(s, &d))
		return;
	cudasim_lose_wait(s->rank ? l->lost : 0);
	if (!s->rank)
		usleep(l->lost == FIRST ? 1000000 : 20000);
	wrong = count_wrong(s, d, &err);
	atomic_fetch_add(&l->wrong, wrong != 0);
	leave(s, d);
}

static void a_lost_wait_is_seen(void **state)
{
	static const struct gt_shm_options soon = { .timeout_s = 20 };
	struct losses *l =
	    mmap(NULL, sizeof(*l), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int seen = 0;

	(void)state;
	assert_ptr_not_equal(l, MAP_FAILED);
	setenv("CUDASIM_DEVICES", "1", 1);
	for (l->lost = 0; l->lost <= LAST; l->lost += l->lost ? 1 : FIRST) {
		l->wrong = 0;
		run_ranks(true, 2, &soon, lose_body, l);
		if (!l->lost)
			assert_int_equal(l->wrong, 0);
		if (l->lost == FIRST)
			assert_true(l->wrong > 0);
		seen += l->wrong > 0;
	}
	if (seen < LEAST_SEEN)
		fail_msg("%d lost waits are seen", seen);
	munmap(l, sizeof(*l));
}

/* ---- ranks that die ---- */

static void die_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *d;
	float *x;
	void *p;
	double from;

	if (!ring_of(s, &d))
		return;
	expect_rank(s, !count_wrong(s, d, &err));
	rally(s);
	if (s->rank == 1)
		raise(SIGKILL);
	from = gt_clock_s();
	expect_rank(s, !gt_group_alloc(s->g, 2 * COUNT * sizeof(*x), &p, &err));
	x = p;
	if (!start_sum(s, d, x, x + COUNT, "bucket 3", &err))
		gt_group_wait(s->g, GT_GROUP_ALL, &err);
	if (err.code != GT_EIO || !strstr(err.text, "rank 1") ||
	    !strstr(err.text, "all-reduce 'bucket 3'"))
		fail_rank(s, "%d, '%s'", err.code, err.text);
	gt_group_free(s->g);
	s->g = NULL;
	if (gt_clock_s() - from > 10)
		fail_rank(s, "%g s", gt_clock_s() - from);
	gt_device_sync(d, GT_ERR_IGNORED);
	gt_device_close(d);
}

static void a_killed_rank_is_named(void **state)
{
	static const struct gt_shm_options patience = { .timeout_s = 60 };

	(void)state;
	for (int size = 2; size <= 4; size++) {
		setenv("CUDASIM_DEVICES", size == 3 ? "4" : "1", 1);
		run_ranks(true, size, &patience, die_body, NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_add_up),
		cmocka_unit_test(a_lost_wait_is_seen),
		cmocka_unit_test(a_killed_rank_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
