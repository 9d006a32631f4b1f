/* test_comm_ring.c - groups that are rings: the other groups' tests, late ranks, late copies. */
#include "tests/unit/comm_fixture.h"

#include <stdint.h>

#include "lib/comm/ring/host_ring.h"
#include "lib/comm/shm/segment.h"
#include "lib/comm/world/world.h"

/* ---- the tests of groups ---- */

static void test_as_other_groups(void **state)
{
	(void)state;
	run_tests_on("ring");
}

/* ---- late ranks ---- */

/* Rank 2 comes to the collective and goes no further. Rank 0 waits for it, and rank 1, which gives
 * up first, waits for rank 0. */
static void late_body(struct seat_of *s)
{
	static const float in[5000];
	float *out = calloc(5000, sizeof(*out));
	struct gt_collective c = { GT_ALL_REDUCE, in, out, 5000, .dtype = GT_F32 };
	struct gt_err err = GT_ERR_INIT;
	const struct gt_ring *ring;

	if (!out || gt_ring_of_shm(&s->g, &err)) {
		fail_rank(s, "%s", err.text);
		return;
	}
	ring = (const struct gt_ring *)s->g;
	if (s->rank == 1)
		((struct gt_shm *)ring->below)->timeout_s = 0.3;
	if (s->rank == 2)
		expect_rank(s, !ring->seat.peers->enter(ring->seat.self, &c, &err));
	else if (gt_group_run(s->g, &c, &err) != GT_EIO ||
	         !strstr(err.text, "rank 2 is late in all-reduce (number 1), which it has begun"))
		fail_rank(s, "%s", err.text);
	rally(s);
	free(out);
}

static void test_the_late_rank_is_named(void **state)
{
	static const struct gt_shm_options options = { .timeout_s = 60 };

	(void)state;
	for (int processes = 0; processes < 2; processes++)
		run_ranks(processes, 3, &options, late_body, NULL);
}

/* ---- partial sums ---- */

/* The ranks of a partial sum, as the text of its tree. */
struct sum {
	char s[64];
};

static struct sum tree_of(int first, int n)
{
	struct sum a, b, all;
	int left = 1;

	if (n == 1) {
		snprintf(all.s, sizeof(all.s), "%d", first);
		return all;
	}
	while (2 * left < n)
		left *= 2;
	a = tree_of(first, left);
	b = tree_of(first + left, n - left);
	snprintf(all.s, sizeof(all.s), "(%.25s+%.25s)", a.s, b.s);
	return all;
}

/* The smaller number first: the order of two does not matter to a sum. */
static struct sum join(const struct sum *a, const struct sum *b)
{
	struct sum all;
	int of_a = atoi(a->s + strspn(a->s, "(")), of_b = atoi(b->s + strspn(b->s, "("));

	snprintf(all.s, sizeof(all.s), "(%.25s+%.25s)", of_a < of_b ? a->s : b->s,
	    of_a < of_b ? b->s : a->s);
	return all;
}

/* Wherever a ring begins, it ends with the tree, and no rank sends more than is said. */
static void test_a_ring_adds_up_as_a_tree(void **state)
{
	(void)state;
	assert_int_equal(gt_ring_most_partials(2), 1);
	assert_int_equal(gt_ring_most_partials(4), 2);
	for (int n = 2; n <= 9; n++)
		for (int first = 0; first < n; first++) {
			struct sum sums[GT_RING_PARTIALS], next[GT_RING_PARTIALS];
			int count = 0;

			for (int k = 0; k < n; k++) {
				const struct gt_ring_hop hop = gt_ring_hop_of(n, first, k);

				assert_int_equal(hop.received, count);
				assert_true(k == n - 1 || hop.sent <= gt_ring_most_partials(n));
				for (int i = 0; i < hop.kept_count; i++)
					next[i] = sums[hop.kept[i]];
				next[hop.kept_count] = tree_of((first + k) % n, 1);
				for (int i = 0; i < hop.added_count; i++)
					next[hop.kept_count] =
					    join(&next[hop.kept_count], &sums[hop.added[i]]);
				count = hop.sent;
				memcpy(sums, next, sizeof(sums));
			}
			assert_int_equal(count, 1);
			assert_string_equal(sums[0].s, tree_of(0, n).s);
		}
	for (int n = 1; n <= GT_WORLD_MAX_RANKS; n = 2 * n + 1)
		assert_true(gt_ring_most_partials(n) <= GT_RING_PARTIALS);
}

/* ---- copies that are made later ---- */

/*
 * Peer copies as a device does them: each call is put on its rank's stream and returns, and nothing
 * is done before all ranks have made all their calls. Until then no memory can be touched. Then
 * streams go on one by one, where they need not wait for each other.
 */
enum { LATE_RANKS = 8, MOST_CALLS = 16384, MOST_COUNT = 40000, CHUNK_BYTES = 4096 };

struct late_call {
	enum { FREE_SLOT, SIGNAL, ARRIVED, CONSUME, COPY, REDUCE } what;
	void *dst[2];
	int dsts;
	const void *src;
	size_t bytes;
	struct gt_reduce_step step;
};

struct stream {
	unsigned char *inbox;      /* [GT_RING_SLOTS][CHUNK_BYTES] */
	unsigned queued[2];        /* chunks that calls have sent and received */
	unsigned filled, consumed; /* chunks that have been, in `inbox` */
	struct stream *next;
	struct late_call calls[MOST_CALLS];
	int count, done;
};

static struct late_call *put(void *self)
{
	struct stream *s = self;

	assert_true(s->count < MOST_CALLS);
	return &s->calls[s->count++];
}

static int late_enter(void *self, const struct gt_collective *c, struct gt_err *err)
{
	(void)self;
	(void)c;
	(void)err;
	return 0;
}

static int late_free_slot(void *self, void **slot, struct gt_err *err)
{
	struct stream *s = self;

	(void)err;
	put(s)->what = FREE_SLOT;
	*slot = s->next->inbox + s->queued[0]++ % GT_RING_SLOTS * CHUNK_BYTES;
	return 0;
}

static int late_signal(void *self, struct gt_err *err)
{
	(void)err;
	put(self)->what = SIGNAL;
	return 0;
}

static int late_arrived(void *self, const void **slot, struct gt_err *err)
{
	struct stream *s = self;

	(void)err;
	put(s)->what = ARRIVED;
	*slot = s->inbox + s->queued[1]++ % GT_RING_SLOTS * CHUNK_BYTES;
	return 0;
}

static int late_consume(void *self, struct gt_err *err)
{
	(void)err;
	put(self)->what = CONSUME;
	return 0;
}

static int late_copy(
    void *self, void *const *dst, int dsts, const void *src, size_t bytes, struct gt_err *err)
{
	struct late_call *c = put(self);

	(void)err;
	*c = (struct late_call){ .what = COPY, .dsts = dsts, .src = src, .bytes = bytes };
	for (int d = 0; d < dsts; d++)
		c->dst[d] = dst[d];
	return 0;
}

static int late_reduce(void *self, const struct gt_reduce_step *step, struct gt_err *err)
{
	struct late_call *c = put(self);

	(void)err;
	*c = (struct late_call){ .what = REDUCE, .step = *step };
	return 0;
}

static const struct gt_ring_peers late = { .enter = late_enter,
	.free_slot = late_free_slot,
	.signal = late_signal,
	.arrived = late_arrived,
	.consume = late_consume,
	.copy = late_copy,
	.reduce = late_reduce };

/* The next call of a stream; false: it has to wait, or there is none. */
static bool go_on(struct stream *s)
{
	const struct late_call *c = &s->calls[s->done];

	if (s->done == s->count)
		return false;
	switch (c->what) {
	case FREE_SLOT:
		if (s->next->filled - s->next->consumed == GT_RING_SLOTS)
			return false;
		break;
	case SIGNAL:
		s->next->filled++;
		break;
	case ARRIVED:
		if (s->filled == s->consumed)
			return false;
		break;
	case CONSUME: /* and nobody reads it again */
		memset(s->inbox + s->consumed++ % GT_RING_SLOTS * CHUNK_BYTES, 0xee, CHUNK_BYTES);
		break;
	case COPY:
		for (int d = 0; d < c->dsts; d++)
			gt_copy_bytes(c->dst[d], c->src, c->bytes);
		break;
	case REDUCE:
		gt_reduce_step(&c->step);
	}
	s->done++;
	return true;
}

enum policy { IN_TURN, AS_FAR_AS_CAN_BE, LAST_FIRST, POLICIES };

static void run_streams(struct stream *streams, int size, enum policy policy)
{
	for (bool any = true; any;) {
		any = false;
		for (int i = 0; i < size; i++) {
			struct stream *s = &streams[policy == LAST_FIRST ? size - 1 - i : i];
			bool went = go_on(s);

			any = any || went;
			while (policy != IN_TURN && went)
				went = go_on(s);
		}
	}
	for (int r = 0; r < size; r++)
		if (streams[r].done < streams[r].count)
			fail_msg("rank %d of %d waits for ever in call %d of %d", r, size,
			    streams[r].done, streams[r].count);
}

/* ---- results ---- */

struct device {
	struct stream streams[LATE_RANKS];
	unsigned char *memory; /* inboxes, then in and out of each rank */
	size_t bytes;
	int32_t *in[LATE_RANKS], *out[LATE_RANKS]; /* [MOST_COUNT] */
};

static void open_device(struct device *d)
{
	const size_t inbox = GT_RING_SLOTS * CHUNK_BYTES, buffer = MOST_COUNT * sizeof(int32_t);

	d->bytes = LATE_RANKS * (inbox + 2 * buffer);
	d->memory =
	    mmap(NULL, d->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(d->memory, MAP_FAILED);
	for (int r = 0; r < LATE_RANKS; r++) {
		d->streams[r].inbox = d->memory + (size_t)r * inbox;
		d->in[r] = (int32_t *)(d->memory + LATE_RANKS * inbox + (size_t)(2 * r) * buffer);
		d->out[r] = d->in[r] + MOST_COUNT;
	}
}

static int32_t number(int rank, int64_t i)
{
	return (int32_t)(i % 1009) * (rank + 1) + rank;
}

/* Of element i in the result of rank `rank`. */
static int32_t wanted(const struct gt_collective *c, int rank, int size, int64_t i)
{
	int64_t at = c->kind == GT_REDUCE_SCATTER ? rank * c->count + i : i;
	int32_t sum = 0;

	if (c->kind == GT_ALL_GATHER)
		return number((int)(i / c->count), i % c->count);
	if (c->kind == GT_BROADCAST)
		return number(c->peer, i);
	for (int r = 0; r < size; r++)
		sum += number(r, at);
	return sum;
}

static void expect_result(
    const struct device *d, const struct gt_collective *c, int size, bool in_place)
{
	for (int r = 0; r < size; r++) {
		const int32_t *out = d->out[r];
		int64_t count = c->kind == GT_ALL_GATHER ? size * c->count : c->count;

		if (in_place)
			out = d->in[r] + (c->kind == GT_REDUCE_SCATTER ? r * c->count : 0);
		if (c->kind == GT_REDUCE && r != c->peer)
			continue;
		for (int64_t i = 0; i < count; i++)
			if (out[i] != wanted(c, r, size, i))
				fail_msg("kind %d of %lld on %d ranks%s: rank %d has %d at %lld, "
				         "not %d",
				    c->kind, (long long)c->count, size,
				    in_place ? ", in place" : "", r, out[i], (long long)i,
				    wanted(c, r, size, i));
	}
}

static void queue_calls(
    struct device *d, const struct gt_collective *like, int rank, int size, bool in_place)
{
	struct stream *s = &d->streams[rank];
	const struct gt_ring_seat ring = { .rank = rank,
		.size = size,
		.peers = &late,
		.self = s,
		.chunk_bytes = CHUNK_BYTES,
		.partials = gt_ring_most_partials(size) };
	struct gt_collective c = *like;
	struct gt_err err = GT_ERR_INIT;

	c.in = d->in[rank];
	c.out = in_place ? d->in[rank] : d->out[rank];
	if (in_place && c.kind == GT_REDUCE_SCATTER)
		c.out = d->in[rank] + rank * c.count;
	if (in_place && c.kind == GT_ALL_GATHER)
		c.in = d->in[rank] + rank * c.count;
	s->next = &d->streams[(rank + 1) % size];
	s->count = s->done = 0;
	s->filled = s->consumed = s->queued[0] = s->queued[1] = 0;
	assert_int_equal(gt_ring_collect(&ring, &c, &err), 0);
}

static void collect_late(
    struct device *d, const struct gt_collective *c, int size, bool in_place, enum policy policy)
{
	for (int r = 0; r < size; r++) {
		int64_t parts = c->kind == GT_REDUCE_SCATTER ? size : 1;
		int64_t skip = in_place && c->kind == GT_ALL_GATHER ? r * c->count : 0;

		for (int64_t i = 0; i < parts * c->count; i++)
			d->in[r][skip + i] = number(r, i);
	}
	assert_int_equal(mprotect(d->memory, d->bytes, PROT_NONE), 0);
	for (int r = 0; r < size; r++)
		queue_calls(d, c, r, size, in_place);
	assert_int_equal(mprotect(d->memory, d->bytes, PROT_READ | PROT_WRITE), 0);
	run_streams(d->streams, size, policy);
	expect_result(d, c, size, in_place);
}

static void test_copies_may_be_made_later(void **state)
{
	static const enum gt_collective_kind kinds[] = { GT_ALL_REDUCE, GT_REDUCE,
		GT_REDUCE_SCATTER, GT_ALL_GATHER, GT_BROADCAST };
	static const int64_t counts[] = { 0, 1, 5, 2100, 4999 };
	struct device *d = calloc(1, sizeof(*d));

	(void)state;
	assert_non_null(d);
	open_device(d);
	for (int size = 2; size <= LATE_RANKS; size++)
		for (size_t k = 0; k < 5; k++)
			for (size_t i = 0; i < 5; i++)
				for (int way = 0; way < 2 * POLICIES; way++) {
					struct gt_collective c = { .kind = kinds[k],
						.count = counts[i],
						.dtype = GT_I32,
						.reduction = GT_SUM,
						.peer = (int)i % size };

					if (c.kind == GT_ALL_REDUCE && i == 4)
						c.count = MOST_COUNT;
					collect_late(d, &c, size, way % 2, (enum policy)(way / 2));
				}
	munmap(d->memory, d->bytes);
	free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_other_groups),
		cmocka_unit_test(test_the_late_rank_is_named),
		cmocka_unit_test(test_a_ring_adds_up_as_a_tree),
		cmocka_unit_test(test_copies_may_be_made_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
