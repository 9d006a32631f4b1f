/* test_comm_shm.c - results of collectives, by threads and by processes, from any memory. */
#include "tests/unit/comm_fixture.h"

#include <math.h>
#include <stdint.h>
#include <time.h>

/* Small staging, so that few elements are many pieces. */
static const struct gt_shm_options options = { .timeout_s = 60, .staging_bytes = 3 * 4096 };

/* Of a buffer, for the longest case and the most ranks. */
enum { MOST_COUNT = 9001, MOST_SIZE = 4, MOST_BYTES = MOST_COUNT * MOST_SIZE * 8 };

/* ---- elements ---- */

static double half(uint16_t h, int exponent_bits)
{
	int fraction_bits = 15 - exponent_bits, top = (1 << exponent_bits) - 1;
	int exponent = h >> fraction_bits & top, fraction = h & ((1 << fraction_bits) - 1);
	int bias = top / 2;
	double m;

	if (exponent == top)
		m = fraction ? NAN : INFINITY;
	else if (exponent)
		m = ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
	else
		m = ldexp(fraction, 1 - bias - fraction_bits);
	return h >> 15 ? -m : m;
}

static double get(const void *p, size_t i, enum gt_dtype dtype)
{
	switch (dtype) {
	case GT_F32:
		return ((const float *)p)[i];
	case GT_F64:
		return ((const double *)p)[i];
	case GT_I32:
		return ((const int32_t *)p)[i];
	case GT_I64:
		return (double)((const int64_t *)p)[i];
	case GT_F16:
		return half(((const uint16_t *)p)[i], 5);
	case GT_BF16:
		return half(((const uint16_t *)p)[i], 8);
	default:
		return ((const uint8_t *)p)[i];
	}
}

/* Numbers that all types hold, and whose sums they hold. */
static void put(void *p, size_t i, enum gt_dtype dtype, int v)
{
	static const uint16_t f16[] = { 0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700 };
	static const uint16_t bf16[] = { 0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0,
		0x40e0 };
	uint16_t sign = v < 0 ? 0x8000 : 0;

	switch (dtype) {
	case GT_F32:
		((float *)p)[i] = (float)v * 0.1f;
		break;
	case GT_F64:
		((double *)p)[i] = v * 0.1;
		break;
	case GT_I32:
		((int32_t *)p)[i] = v;
		break;
	case GT_I64:
		((int64_t *)p)[i] = v * 10000000000;
		break;
	case GT_F16:
		((uint16_t *)p)[i] = f16[abs(v)] | sign;
		break;
	case GT_BF16:
		((uint16_t *)p)[i] = bf16[abs(v)] | sign;
		break;
	default:
		((uint8_t *)p)[i] = (uint8_t)(v + 7);
	}
}

static int value(int rank, size_t i, unsigned salt)
{
	return (int)((i * 13 + (size_t)rank * 5 + salt + i / 15) % 15) - 7;
}

/* ---- cases ---- */

struct one_case {
	enum gt_collective_kind kind;
	enum gt_dtype dtype;
	enum gt_reduction reduction;
	size_t count;
	int root;
	bool in_place;
	unsigned salt;
};

struct buffers {
	unsigned char *in, *out; /* [MOST_BYTES] */
};

static bool reduces(const struct one_case *c)
{
	return c->kind == GT_ALL_REDUCE || c->kind == GT_REDUCE || c->kind == GT_REDUCE_SCATTER;
}

static size_t in_count(const struct one_case *c, int size)
{
	return c->kind == GT_REDUCE_SCATTER ? c->count * (size_t)size : c->count;
}

static size_t out_count(const struct one_case *c, int size)
{
	return c->kind == GT_ALL_GATHER ? c->count * (size_t)size : c->count;
}

/* The order of a sum over `size` ranks: that of an ordered group, or from rank to rank, beginning
 * with `first`. */
struct order {
	bool tree;
	int first, size;
};

static double element(const struct one_case *c, int rank, size_t i)
{
	unsigned char x[8];

	put(x, 0, c->dtype, value(rank, i, c->salt));
	return get(x, 0, c->dtype);
}

/* Of the n ranks from `first` on, as group.h has it: in float32, and in float64. */
static float tree_f32(const struct one_case *c, int first, int n, size_t i)
{
	int left = 1;

	if (n == 1)
		return (float)element(c, first, i);
	while (2 * left < n)
		left *= 2;
	return tree_f32(c, first, left, i) + tree_f32(c, first + left, n - left, i);
}

static double tree_f64(const struct one_case *c, int first, int n, size_t i)
{
	int left = 1;

	if (n == 1)
		return element(c, first, i);
	while (2 * left < n)
		left *= 2;
	return tree_f64(c, first, left, i) + tree_f64(c, first + left, n - left, i);
}

static float sum_f32(const struct one_case *c, const struct order *o, size_t i)
{
	float sum = (float)element(c, o->first, i);

	if (o->tree)
		return tree_f32(c, 0, o->size, i);
	for (int k = 1; k < o->size; k++)
		sum += (float)element(c, (o->first + k) % o->size, i);
	return sum;
}

static double sum_f64(const struct one_case *c, const struct order *o, size_t i)
{
	double sum = element(c, o->first, i);

	if (o->tree)
		return tree_f64(c, 0, o->size, i);
	for (int k = 1; k < o->size; k++)
		sum += element(c, (o->first + k) % o->size, i);
	return sum;
}

/* In the precision in which sums are promised. */
static double reduced(const struct one_case *c, const struct order *o, size_t i)
{
	int size = o->size;
	double max = -INFINITY;

	for (int r = 0; r < size; r++)
		max = fmax(max, element(c, r, i));
	if (c->reduction == GT_MAX)
		return max;
	if (c->dtype == GT_F32)
		return c->reduction == GT_SUM ? sum_f32(c, o, i)
		       : (size & (size - 1))  ? sum_f32(c, o, i) / (float)size
		                              : sum_f32(c, o, i) * (1 / (float)size);
	if (c->reduction == GT_SUM)
		return sum_f64(c, o, i);
	return c->dtype == GT_I32 || c->dtype == GT_I64 ? trunc(sum_f64(c, o, i) / size)
	                                                : sum_f64(c, o, i) / size;
}

/* Half a unit in the last place, where the quotient is not a number of the type. */
static double allowed(const struct one_case *c, double want)
{
	if (c->reduction != GT_AVG)
		return 0;
	return fabs(want) * (c->dtype == GT_F16 ? 0x1p-11 : c->dtype == GT_BF16 ? 0x1p-8 : 0);
}

static double wanted(
    const struct seat_of *s, const struct one_case *c, const struct order *o, size_t i)
{
	int from = c->kind == GT_BROADCAST ? c->root : c->count ? (int)(i / c->count) : 0;
	size_t at = c->kind == GT_BROADCAST || !c->count ? i : i % c->count;

	if (c->kind == GT_ALL_REDUCE || (c->kind == GT_REDUCE && s->rank == c->root))
		return reduced(c, o, i);
	if (c->kind == GT_REDUCE) /* left alone */
		from = s->rank;
	if (c->kind == GT_REDUCE_SCATTER)
		return reduced(c, o, (size_t)s->rank * c->count + i);
	return element(c, from, at);
}

/* Where the group is not ordered, any rank may be the first. */
static bool is_right(const struct seat_of *s, const struct one_case *c, double got, size_t i)
{
	struct order o = { .tree = s->g->ops->ordered, .size = s->size };

	for (; o.first < (o.tree ? 1 : s->size); o.first++) {
		double want = wanted(s, c, &o, i);

		if (fabs(got - want) <= allowed(c, want))
			return true;
	}
	return false;
}

static void check_out(struct seat_of *s, const struct one_case *c, const unsigned char *out)
{
	const struct order tree = { .tree = true, .size = s->size };

	for (size_t i = 0; i < out_count(c, s->size); i++) {
		double got = get(out, i, c->dtype);

		if (!is_right(s, c, got, i)) {
			fail_rank(s, "kind %d of %zu %s, reduction %d%s: [%zu] is %g, not %g",
			    c->kind, c->count, gt_dtype_name(c->dtype), c->reduction,
			    c->in_place ? ", in place" : "", i, got, wanted(s, c, &tree, i));
			return;
		}
	}
}

static uint64_t hash(const unsigned char *p, size_t n)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 1099511628211u;
	return h;
}

static void same_bits(struct seat_of *s, const unsigned char *out, size_t bytes)
{
	uint64_t mine = hash(out, bytes), all[MOST_RANKS];
	struct gt_collective c = { GT_ALL_GATHER, &mine, all, 1, .dtype = GT_U64 };
	struct gt_err err = GT_ERR_INIT;

	if (gt_group_run(s->g, &c, &err))
		fail_rank(s, "%s", err.text);
	for (int r = 0; r < s->size; r++)
		expect_rank(s, all[r] == mine);
}

/* In place, a part is where it belongs in the whole. */
static void do_case(struct seat_of *s, const struct one_case *c, const struct buffers *b)
{
	size_t part = c->count * gt_dtype_size(c->dtype), skip = part * (size_t)s->rank;
	unsigned char *in = b->in, *out = b->out;
	struct gt_collective call = { .kind = c->kind,
		.count = (int64_t)c->count,
		.dtype = c->dtype,
		.reduction = c->reduction,
		.peer = c->root,
		.what = "a case" };
	struct gt_err err = GT_ERR_INIT;

	if (c->in_place)
		out = c->kind == GT_REDUCE_SCATTER ? in + skip : in;
	if (c->in_place && c->kind == GT_ALL_GATHER)
		in += skip;
	for (size_t i = 0; i < in_count(c, s->size); i++)
		put(in, i, c->dtype, value(s->rank, i, c->salt));
	if (c->kind == GT_REDUCE && !c->in_place)
		memcpy(out, in, part);
	call.in = in;
	call.out = out;
	if (gt_group_run(s->g, &call, &err))
		fail_rank(s, "%s", err.text);
	check_out(s, c, out);
	if (c->kind == GT_ALL_REDUCE)
		same_bits(s, out, part);
}

static void do_cases_of(struct seat_of *s, const struct buffers *b, size_t count, bool all_types)
{
	static const enum gt_dtype dtypes[] = { GT_F32, GT_BF16, GT_F16, GT_F64, GT_I32, GT_I64,
		GT_U8 };
	static const enum gt_collective_kind kinds[] = { GT_ALL_REDUCE, GT_REDUCE,
		GT_REDUCE_SCATTER, GT_ALL_GATHER, GT_BROADCAST };
	unsigned salt = 0;

	for (size_t d = 0; d < (all_types ? sizeof(dtypes) / sizeof(*dtypes) : 2); d++)
		for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
			for (int reduction = GT_SUM; reduction <= GT_MAX; reduction++)
				for (int in_place = 0; in_place < 2; in_place++, salt++) {
					struct one_case c = { kinds[k], dtypes[d],
						(enum gt_reduction)reduction, count,
						(int)salt % s->size, in_place, salt };

					if (reduces(&c) ? c.dtype != GT_U8 : reduction == GT_SUM)
						do_case(s, &c, b);
				}
}

/* Registered memory, other memory, and one of each: the same kinds on all ranks. */
static void collectives_body(struct seat_of *s)
{
	static const size_t small[] = { 0, 1, 3, 500, 1031 };
	unsigned char *plain = malloc(2 * MOST_BYTES);
	struct gt_err err = GT_ERR_INIT;
	void *region = NULL;

	if (!plain || gt_group_alloc(s->g, 2 * MOST_BYTES, &region, &err))
		fail_rank(s, "%s", err.text);
	for (int where = 0; where < 3 && region; where++) {
		unsigned char *a = where ? region : plain;
		unsigned char *b = where == 1 ? a : plain;
		struct buffers buffers = { .in = a, .out = b + MOST_BYTES };

		for (size_t i = 0; i < sizeof(small) / sizeof(*small); i++)
			do_cases_of(s, &buffers, small[i], true);
		do_cases_of(s, &buffers, MOST_COUNT, false);
	}
	gt_group_release(s->g, region);
	free(plain);
}

static void test_collectives(void **state)
{
	(void)state;
	for (int size = 1; size <= MOST_SIZE; size++)
		for (int processes = 0; processes < 2; processes++)
			run_ranks(processes, size, &options, collectives_body, NULL);
}

/* More than there are processors, mostly; few elements, so that it does not take long. */
static void many_body(struct seat_of *s)
{
	unsigned char *plain = malloc(2 * MOST_BYTES);
	struct buffers buffers = { .in = plain, .out = plain + MOST_BYTES };

	if (plain) {
		do_cases_of(s, &buffers, 5, false);
		do_cases_of(s, &buffers, 1031, false);
	}
	free(plain);
}

static void test_many_ranks(void **state)
{
	(void)state;
	for (int size = MOST_SIZE + 1; size <= MOST_RANKS; size++)
		run_ranks(size % 2, size, &options, many_body, NULL);
}

/* ---- rounding ---- */

/* Of all sums of two halves: the nearest, ties to the even one. */
static void round_body(struct seat_of *s)
{
	const int exponent_bits = *(int *)s->arg;
	const enum gt_dtype dtype = exponent_bits == 5 ? GT_F16 : GT_BF16;
	static const uint16_t others[] = { 0x0000, 0x0001, 0x83ff, 0x3c01, 0x3f81, 0x7bff, 0x7f7f,
		0xfc00 };
	uint16_t *x = malloc(65536 * sizeof(*x));
	struct gt_err err = GT_ERR_INIT;

	for (size_t k = 0; x && k < sizeof(others) / sizeof(*others); k++) {
		for (size_t i = 0; i < 65536; i++)
			x[i] = s->rank ? others[k] : (uint16_t)i;
		if (gt_all_reduce(s->g, x, 65536, dtype, GT_SUM, &err))
			fail_rank(s, "%s", err.text);
		for (size_t i = 0; i < 65536; i++) {
			double want =
			    half((uint16_t)i, exponent_bits) + half(others[k], exponent_bits);
			double got = half(x[i], exponent_bits);
			double up = half(x[i] + 1, exponent_bits),
			       down = half(x[i] - 1, exponent_bits);

			if (isnan(want) || isinf(want)) {
				expect_rank(s, isnan(want) ? isnan(got) : got == want);
				continue;
			}
			if (isinf(got)) { /* past the largest by half a step or more */
				expect_rank(s, fabs(want - down) * 2 >=
				                   fabs(down - half(x[i] - 2, exponent_bits)));
				continue;
			}
			if (got == 0) {
				expect_rank(s, fabs(want) <= half(1, exponent_bits) / 2);
				continue;
			}
			expect_rank(s, isinf(up) || fabs(got - want) <= fabs(up - want));
			expect_rank(s, fabs(got - want) <= fabs(down - want));
			expect_rank(s, fabs(got - want) < fabs(down - want) || !(x[i] & 1));
			expect_rank(
			    s, isinf(up) || fabs(got - want) < fabs(up - want) || !(x[i] & 1));
		}
	}
	free(x);
}

static void test_rounding(void **state)
{
	static const struct gt_shm_options defaults = { .timeout_s = 60 };
	int exponent_bits;

	(void)state;
	for (exponent_bits = 5; exponent_bits <= 8; exponent_bits += 3)
		run_ranks(false, 2, &defaults, round_body, &exponent_bits);
}

/* 1 is less than half a step of the first rank's number, so that every rounding before the last one
 * would lose it. */
static void once_body(struct seat_of *s)
{
	static const struct {
		enum gt_dtype dtype;
		uint16_t large, one, want; /* want: large + 2 */
	} rows[] = { { GT_BF16, 0x4380, 0x3f80, 0x4381 }, { GT_F16, 0x6800, 0x3c00, 0x6801 } };
	enum { COUNT = 3001 };
	struct gt_err err = GT_ERR_INIT;
	uint16_t x[COUNT];

	for (size_t k = 0; k < 2; k++)
		for (int large = 0; large < s->size; large++) {
			for (int i = 0; i < COUNT; i++)
				x[i] = s->rank == large ? rows[k].large : rows[k].one;
			if (gt_all_reduce(s->g, x, COUNT, rows[k].dtype, GT_SUM, &err))
				fail_rank(s, "%s", err.text);
			for (int i = 0; i < COUNT; i++)
				expect_rank(s, x[i] == rows[k].want);
		}
}

static void test_sums_are_rounded_once(void **state)
{
	(void)state;
	run_ranks(false, 3, &options, once_body, NULL);
}

/* A NaN of any rank is the maximum: within vectors, and among the elements behind the last one. */
static void nan_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;

	for (int r = 0; r < s->size; r++) {
		float x[37];

		for (int i = 0; i < 37; i++)
			x[i] = s->rank == r && i % 2 ? NAN : (float)s->rank;
		gt_all_reduce(s->g, x, 37, GT_F32, GT_MAX, &err);
		for (int i = 0; i < 37; i++)
			expect_rank(s, i % 2 ? isnan(x[i]) : x[i] == (float)(s->size - 1));
	}
}

static void test_maximum_keeps_nan(void **state)
{
	(void)state;
	for (int size = 2; size <= 3; size++)
		run_ranks(false, size, &options, nan_body, NULL);
}

/* ---- messages ---- */

/* Around, each to the next, in sizes from nothing to several pieces; rank 0 sends first. */
static void messages_body(struct seat_of *s)
{
	static const size_t counts[] = { 0, 1, 1000, 200003, 5 };
	int next = (s->rank + 1) % s->size, before = (s->rank + s->size - 1) % s->size;
	unsigned char *in = malloc(200003), *out = malloc(200003);
	struct gt_err err = GT_ERR_INIT;

	for (size_t k = 0; in && out && k < sizeof(counts) / sizeof(*counts); k++) {
		int64_t n = (int64_t)counts[k];
		struct gt_collective send = { GT_SEND, in, NULL, n, GT_U8, .peer = next };
		struct gt_collective receive = { GT_RECV, NULL, out, n, GT_U8, .peer = before };

		for (size_t i = 0; i < counts[k]; i++)
			in[i] = (unsigned char)(i * 7 + (size_t)s->rank + k);
		if (gt_group_run(s->g, s->rank ? &receive : &send, &err) ||
		    gt_group_run(s->g, s->rank ? &send : &receive, &err))
			fail_rank(s, "%s", err.text);
		for (size_t i = 0; i < counts[k]; i++)
			expect_rank(s, out[i] == (unsigned char)(i * 7 + (size_t)before + k));
	}
	free(in);
	free(out);
}

static void test_messages(void **state)
{
	(void)state;
	for (int processes = 0; processes < 2; processes++)
		for (int size = 2; size <= 3; size++)
			run_ranks(processes, size, &options, messages_body, NULL);
}

/* Short ones are sent though nobody looks. */
static void short_body(struct seat_of *s)
{
	static const int sizes[] = { 10, 500, 3500, 10000 };
	unsigned char in[10000], out[10000] = { 0 };
	struct gt_err err = GT_ERR_INIT;

	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		struct gt_collective c = { GT_SEND, in, out, sizes[k], GT_U8, .peer = 1 - s->rank };

		memset(in, 100 * (int)k + s->rank, sizeof(in));
		if (gt_group_run(s->g, &c, &err))
			fail_rank(s, "%s", err.text);
		memset(in, 7, sizeof(in));
		rally(s);
		c.kind = GT_RECV;
		if (gt_group_run(s->g, &c, &err))
			fail_rank(s, "%s", err.text);
		memset(in, 100 * (int)k + 1 - s->rank, sizeof(in));
		expect_rank(s, !memcmp(in, out, (size_t)sizes[k]));
	}
}

static void test_short_messages_do_not_wait(void **state)
{
	(void)state;
	run_ranks(true, 2, &options, short_body, NULL);
	run_ranks(false, 2, &options, short_body, NULL);
}

static void exchange_at(
    struct seat_of *s, enum gt_collective_kind kind, unsigned char *x, int64_t n)
{
	struct gt_collective c = { kind, x, x, n, GT_U8, .peer = 1 - s->rank };
	struct gt_err err = GT_ERR_INIT;

	if (gt_group_run(s->g, &c, &err))
		fail_rank(s, "%s", err.text);
}

/* Between two ranks, messages that fill 16 MiB together are sent though nobody looks. Longer ones
 * are sent while they are received. Other groups do not hold so much. */
static void pair_of_long_body(struct seat_of *s)
{
	enum { LONGEST = 40000001 };
	static const int64_t sizes[] = { 3 << 20, 100, (5 << 20) + 1, (8 << 20) - (2 << 16) };
	unsigned char *in = malloc(LONGEST), *out = malloc(LONGEST);

	if (!in || !out)
		fail_rank(s, "out of memory");
	for (int round = 0; in && out && round < 3 && !strcmp(s->g->ops->name, "shm"); round++) {
		for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
			memset(in, 50 * round + 2 * (int)k + s->rank, LONGEST);
			exchange_at(s, GT_SEND, in, sizes[k]);
		}
		rally(s);
		for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
			memset(in, 50 * round + 2 * (int)k + 1 - s->rank, LONGEST);
			exchange_at(s, GT_RECV, out, sizes[k]);
			expect_rank(s, !memcmp(in, out, (size_t)sizes[k]));
		}
		for (size_t i = 0; i < LONGEST; i++)
			in[i] = (unsigned char)(i * 7 + i / 65537);
		if (s->rank == round % 2) {
			exchange_at(s, GT_SEND, in, LONGEST);
		} else {
			exchange_at(s, GT_RECV, out, LONGEST);
			expect_rank(s, !memcmp(in, out, LONGEST));
		}
	}
	free(in);
	free(out);
}

static void test_pairs_hold_long_messages(void **state)
{
	(void)state;
	run_ranks(true, 2, &options, pair_of_long_body, NULL);
	run_ranks(false, 2, &options, pair_of_long_body, NULL);
}

/* The third of three has no part in it. */
static void pair_body(struct seat_of *s)
{
	struct gt_err err = GT_ERR_INIT;
	float x = (float)s->rank;
	struct gt_collective c = { s->rank ? GT_RECV : GT_SEND, &x, &x, 1, GT_F32,
		.peer = 1 - s->rank };

	if (s->rank < 2)
		expect_rank(s, !gt_group_run(s->g, &c, &err) && x == 0);
	rally(s);
}

static void test_messages_leave_others_alone(void **state)
{
	(void)state;
	run_ranks(true, 3, &options, pair_body, NULL);
}

/* Every rank knows how long each has waited; a ring does not. */
static void late_body(struct seat_of *s)
{
	const struct timespec late = { .tv_nsec = 200000000 };
	struct gt_err err = GT_ERR_INIT;
	double waited[3];

	rally(s);
	if (s->rank == 1)
		nanosleep(&late, NULL);
	expect_rank(s, !gt_barrier(s->g, &err));
	rally(s);
	for (int r = 0; r < 3; r++)
		waited[r] = gt_group_waited_s(s->g, r);
	if (strcmp(s->g->ops->name, "shm") != 0) {
		expect_rank(s, isnan(waited[0]));
		return;
	}
	expect_rank(s, waited[0] > 0.05 && waited[0] > waited[1]);
	expect_rank(s, waited[2] > 0.05 && waited[2] > waited[1]);
}

static void test_waiting_is_counted(void **state)
{
	(void)state;
	run_ranks(true, 3, &options, late_body, NULL);
	run_ranks(false, 3, &options, late_body, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_collectives),
		cmocka_unit_test(test_many_ranks),
		cmocka_unit_test(test_rounding),
		cmocka_unit_test(test_sums_are_rounded_once),
		cmocka_unit_test(test_maximum_keeps_nan),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_short_messages_do_not_wait),
		cmocka_unit_test(test_pairs_hold_long_messages),
		cmocka_unit_test(test_messages_leave_others_alone),
		cmocka_unit_test(test_waiting_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
