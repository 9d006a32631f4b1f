/* test_device_groups.c - collectives between simulated GPUs: their results and their order. */
#include "tests/cudasim/gpu_ranks.h"

#include <math.h>
#include <unistd.h>

#include "kernels/cuda/group/thread_peers.h"
#include "lib/base/half.h"
#include "lib/base/mem.h"

enum { LONG = 1000 };

static const struct site *site;

/* On each site, with 1 to MOST ranks, in `seeds` orders. */
static void run_all(int seeds, int least, int (*act)(struct rank *r))
{
	for (size_t i = 0; i < SITES; i++)
		for (int count = least; count <= MOST; count++)
			for (int seed = 1; seed <= seeds; seed++) {
				site = all_sites[i];
				cudasim_seed((uint64_t)(count + MOST * seed));
				run_well(site, count, act);
			}
}

/* ---- every collective, in every type ---- */

struct form {
	enum gt_collective_kind kind;
	bool in_place;
	int64_t count;
	enum gt_dtype dtype;
	enum gt_reduction reduction;
};

/* Whole numbers from -5 to 5, whose sums are exact in all types that are reduced. */
static int number_of(int rank, int64_t i)
{
	return (int)((i * 7 + rank * 3) % 11) - 5;
}

static double reduced(int ranks, enum gt_reduction reduction, bool whole, int64_t i)
{
	double sum = 0, max = -100;

	for (int rank = 0; rank < ranks; rank++) {
		sum += number_of(rank, i);
		max = fmax(max, number_of(rank, i));
	}
	if (reduction == GT_MAX)
		return max;
	if (reduction == GT_SUM)
		return sum;
	return whole ? trunc(sum / ranks) : sum / ranks;
}

static bool is_whole(enum gt_dtype dtype)
{
	return dtype != GT_F32 && dtype != GT_F64 && dtype != GT_F16 && dtype != GT_BF16;
}

/* Types whose elements only move hold the number in their first byte. */
static void put(void *p, enum gt_dtype dtype, int64_t i, double x)
{
	char *at = (char *)p + (size_t)i * gt_dtype_size(dtype);

	memset(at, 0, gt_dtype_size(dtype));
	if (dtype == GT_F32)
		*(float *)at = (float)x;
	else if (dtype == GT_F64)
		*(double *)at = x;
	else if (dtype == GT_F16)
		*(uint16_t *)at = gt_f16_of_float((float)x);
	else if (dtype == GT_BF16)
		*(uint16_t *)at = gt_bf16_of_float((float)x);
	else if (dtype == GT_I32)
		*(int32_t *)at = (int32_t)x;
	else if (dtype == GT_I64)
		*(int64_t *)at = (int64_t)x;
	else
		*(int8_t *)at = (int8_t)x;
}

static double get(const void *p, enum gt_dtype dtype, int64_t i)
{
	const char *at = (const char *)p + (size_t)i * gt_dtype_size(dtype);

	if (dtype == GT_F32)
		return *(const float *)at;
	if (dtype == GT_F64)
		return *(const double *)at;
	if (dtype == GT_F16)
		return gt_float_of_f16(*(const uint16_t *)at);
	if (dtype == GT_BF16)
		return gt_float_of_bf16(*(const uint16_t *)at);
	if (dtype == GT_I32)
		return *(const int32_t *)at;
	if (dtype == GT_I64)
		return (double)*(const int64_t *)at;
	return *(const int8_t *)at;
}

/* The expected element i of a rank's `out`; its old value if the collective does not write it. */
static double wanted_of(const struct rank *r, const struct form *f, int peer, int64_t i, double was)
{
	bool whole = is_whole(f->dtype);

	switch (f->kind) {
	case GT_ALL_REDUCE:
		return reduced(r->ranks, f->reduction, whole, i);
	case GT_REDUCE:
		return r->index == peer ? reduced(r->ranks, f->reduction, whole, i) : was;
	case GT_REDUCE_SCATTER:
		return reduced(r->ranks, f->reduction, whole, r->index * f->count + i);
	case GT_ALL_GATHER:
		return number_of((int)(i / f->count), i % f->count);
	case GT_BROADCAST:
		return number_of(peer, i);
	default:
		return r->index == peer ? number_of(1 - peer, i) : was;
	}
}

static int compare(
    struct rank *r, const struct form *f, int peer, const void *got, const void *was, int64_t outs)
{
	/* Shares of an average are rounded before they are added up. */
	double tolerance = f->reduction != GT_AVG || is_whole(f->dtype) ? 0
	                   : f->dtype == GT_BF16                        ? 0.1
	                   : f->dtype == GT_F16                         ? 0.01
	                                                                : 1e-6;

	for (int64_t i = 0; i < outs; i++) {
		double x = get(got, f->dtype, i);
		double wanted = wanted_of(r, f, peer, i, f->in_place ? get(was, f->dtype, i) : 0);

		if (!(fabs(x - wanted) <= tolerance))
			return gt_err_set(&r->err, GT_EINVAL,
			    "collective %d of %d %s, %d, rank %d: element %d is %g, not %g",
			    (int)f->kind, (int)f->count, gt_dtype_name(f->dtype), (int)f->reduction,
			    r->index, (int)i, x, wanted);
	}
	return 0;
}

/* `in` has parts of all ranks, or `out`. */
static int check_form(struct rank *r, const struct form *f)
{
	static _Thread_local char host[MOST * LONG * 16], got[MOST * LONG * 16];
	int64_t ins = f->kind == GT_REDUCE_SCATTER ? r->ranks * f->count : f->count;
	int64_t outs = f->kind == GT_ALL_GATHER ? r->ranks * f->count : f->count;
	size_t size = gt_dtype_size(f->dtype);
	size_t own = (size_t)(r->index * f->count) * size;
	char *in = allocate(r, (size_t)(ins > outs ? ins : outs) * size), *out = in;
	int peer = r->ranks > 1 ? 1 : 0, rc;
	struct gt_collective c = { .kind = f->kind,
		.count = f->count,
		.dtype = f->dtype,
		.reduction = f->reduction,
		.stream = r->d->compute };

	if (!f->in_place)
		out = allocate(r, (size_t)(ins > outs ? ins : outs) * size);
	c.in = f->in_place && f->kind == GT_ALL_GATHER ? in + own : in;
	c.out = f->in_place && f->kind == GT_REDUCE_SCATTER ? out + own : out;
	for (int64_t i = 0; i < ins; i++)
		put(host, f->dtype, i, number_of(r->index, i));
	if (f->kind == GT_SEND && r->index == peer)
		c.kind = GT_RECV;
	c.peer = f->kind == GT_SEND ? 1 - r->index : peer;
	rc = gt_device_write(r->d, (char *)c.in, host, (size_t)ins * size, &r->err);
	if (!rc && !(f->kind == GT_SEND && r->index > 1))
		rc = gt_group_run(r->group, &c, &r->err);
	if (!rc)
		rc = gt_device_read(r->d, got, c.out, (size_t)outs * size, &r->err);
	if (!rc)
		rc = compare(r, f, peer, got, host, outs);
	if (out != in)
		gt_group_release(r->group, out);
	gt_group_release(r->group, in);
	return rc;
}

static bool reduces(enum gt_collective_kind kind)
{
	return kind == GT_ALL_REDUCE || kind == GT_REDUCE || kind == GT_REDUCE_SCATTER;
}

static int check_type(struct rank *r, enum gt_dtype dtype, bool reducible)
{
	static const enum gt_collective_kind kinds[] = { GT_ALL_REDUCE, GT_REDUCE,
		GT_REDUCE_SCATTER, GT_ALL_GATHER, GT_BROADCAST, GT_SEND };
	static const int64_t counts[] = { 17, 0, 1, LONG };
	int rc = 0;

	for (size_t k = 0; k < 6; k++) {
		if ((reduces(kinds[k]) && !reducible) || (kinds[k] == GT_SEND && r->ranks < 2))
			continue;
		for (int way = 0; !rc && way < 2; way++)
			for (int i = 0; !rc && i < (dtype == GT_F32 ? 4 : 1); i++)
				for (int red = 0; !rc && red < (reduces(kinds[k]) ? 3 : 1); red++)
					rc = check_form(r, &(struct form){ kinds[k], way, counts[i],
					                       dtype, (enum gt_reduction)red });
	}
	return rc;
}

static int check_all(struct rank *r)
{
	static const struct {
		enum gt_dtype dtype;
		bool reducible;
	} types[] = { { GT_F32, true }, { GT_F64, true }, { GT_F16, true }, { GT_BF16, true },
		{ GT_I32, true }, { GT_I64, true }, { GT_U8, false }, { GT_C128, false } };
	int rc = 0;

	if (strcmp(r->group->ops->name, r->ranks > 1 ? site->way->name : "staged") != 0)
		return stop_with(r, r->group->ops->name);
	for (size_t i = 0; !rc && i < sizeof(types) / sizeof(*types); i++)
		rc = check_type(r, types[i].dtype, types[i].reducible);
	return rc ? rc
	          : gt_group_run(r->group,
	                &(struct gt_collective){ .kind = GT_BARRIER, .stream = r->d->compute },
	                &r->err);
}

/* Ranks part in good order: no communicator is aborted. */
static void every_collective_gives_its_result(void **state)
{
	(void)state;
	cudasim_nccl.destroyed = cudasim_nccl.aborted = 0;
	run_all(1, 1, check_all);
	assert_int_equal(cudasim_nccl.destroyed, 2 + 3 + 4);
	assert_int_equal(cudasim_nccl.aborted, 0);
}

/* ---- in the background ---- */

enum { ROUNDS = 3 };

static int add(struct rank *r, float *x, const float *y)
{
	return r->d->backend->ranges()->add(r->d->compute, x, y, ELEMENTS, &r->err);
}

static int expect_all(struct rank *r, const float *x, float wanted)
{
	float got[ELEMENTS];
	int rc = gt_device_read(r->d, got, x, sizeof(got), &r->err);

	for (int i = 0; !rc && i < ELEMENTS; i++)
		if (got[i] != wanted)
			rc = gt_err_set(&r->err, GT_EINVAL, "element %d is %g, not %g", i,
			    (double)got[i], (double)wanted);
	return rc;
}

/* Of two buffers, each is summed over the ranks while the other is added to: x = ranks (x + 1), and
 * so with y. */
static int train_two(struct rank *r)
{
	float ones[ELEMENTS], wanted = 0;
	float *x = allocate(r, sizeof(ones)), *y = allocate(r, sizeof(ones)),
	      *one = allocate(r, sizeof(ones));
	uint64_t of_x = 0, of_y = 0;
	int rc;

	for (int i = 0; i < ELEMENTS; i++)
		ones[i] = 1;
	rc = gt_device_write(r->d, one, ones, sizeof(ones), &r->err);
	for (int i = 0; !rc && i < ROUNDS; i++) {
		rc = gt_group_await(r->group, of_x, r->d->compute, &r->err) || add(r, x, one) ||
		     start_sum(r, x, ELEMENTS, "x", &of_x) ||
		     gt_group_await(r->group, of_y, r->d->compute, &r->err) || add(r, y, one) ||
		     start_sum(r, y, ELEMENTS, "y", &of_y);
		wanted = (wanted + 1) * (float)r->ranks;
	}
	if (!rc)
		rc = gt_group_wait(r->group, of_y, &r->err);
	if (!rc)
		rc = expect_all(r, x, wanted) || expect_all(r, y, wanted);
	return rc ? r->err.code : 0;
}

/* More of them than there are places, all of them different; rank 0 is ahead of the others. */
static int start_many(struct rank *r)
{
	float *x = allocate(r, ELEMENTS * sizeof(float));
	uint64_t ticket = 0;
	int rc = 0;

	if (r->index)
		usleep(100000);
	for (int i = 0; !rc && i < 2 * GT_GROUP_STARTED + 10; i++)
		rc =
		    gt_group_await(r->group, ticket, r->d->compute, &r->err) ||
		    start_sum(r, x, 1 + i % (site->way == &by_ring ? 20 : ELEMENTS), NULL, &ticket);
	for (uint64_t t = 1; !rc && t <= ticket; t += 50)
		rc = gt_group_await(r->group, t, r->d->compute, &r->err) ||
		     gt_group_wait(r->group, t, &r->err);
	if (!rc)
		rc = gt_group_wait(r->group, GT_GROUP_ALL, &r->err);
	if (!rc && ticket != 2 * GT_GROUP_STARTED + 10)
		rc = stop_with(r, "a wrong ticket");
	return rc ? r->err.code : expect_all(r, x, 0);
}

static void collectives_go_on_in_the_background(void **state)
{
	(void)state;
	run_all(2, 1, train_two);
	run_well(&nccl_of_threads, 2, start_many);
	run_well(&nccl_of_processes, 2, start_many);
	run_well(&ring_of_gpus, 2, start_many);
}

/* ---- ranks of one process ---- */

static atomic_int calls; /* of all ranks: collectives, or messages received */

/* Rank 0 calls first, and is not ahead of the others when it has queued the collective. */
static int sum_together(struct rank *r)
{
	float *x = allocate(r, ELEMENTS * sizeof(float));
	int rc = 0;

	for (int i = 1; !rc && i <= 3; i++) {
		if (r->index)
			usleep(20000);
		atomic_fetch_add(&calls, 1);
		rc = start_sum(r, x, ELEMENTS, NULL, NULL);
		if (!rc && calls < i * r->ranks)
			rc = stop_with(r, "ahead of a collective");
	}
	return rc ? r->err.code : gt_group_wait(r->group, GT_GROUP_ALL, &r->err);
}

/* A message may be queued before it is received, if the one before it was received. */
static int send_together(struct rank *r)
{
	struct gt_collective c = { .kind = r->index ? GT_RECV : GT_SEND,
		.count = ELEMENTS,
		.dtype = GT_F32,
		.peer = 1 - r->index,
		.stream = r->d->compute };
	int rc = 0;

	c.in = c.out = allocate(r, ELEMENTS * sizeof(float));
	for (int i = 1; !rc && i <= 3; i++) {
		if (r->index)
			usleep(20000);
		atomic_fetch_add(&calls, r->index);
		rc = gt_group_start(r->group, &c, NULL, &r->err);
		if (!rc && calls < i - 1)
			rc = stop_with(r, "ahead of a message");
	}
	return rc ? r->err.code : gt_group_wait(r->group, GT_GROUP_ALL, &r->err);
}

/* Ranks 1 and 2 send so much that CUDA could not hold it; rank 0 takes it from one after the
 * other. */
static int gather_long(struct rank *r)
{
	const size_t count = 60000; /* 469 chunks of 512 bytes */
	struct gt_collective c = { .kind = r->index ? GT_SEND : GT_RECV,
		.count = count,
		.dtype = GT_F32,
		.stream = r->d->compute };
	float *x = allocate(r, count * sizeof(float)),
	      *host = gt_calloc(count, sizeof(float), &r->err);
	int rc = r->err.code;

	for (size_t i = 0; !rc && i < count; i++)
		host[i] = (float)(i + (size_t)r->index);
	if (!rc)
		rc = gt_device_write(r->d, x, host, count * sizeof(float), &r->err);
	c.in = c.out = x;
	for (int peer = r->index ? 0 : 1; !rc && peer < (r->index ? 1 : r->ranks); peer++) {
		c.peer = peer;
		rc = gt_group_run(r->group, &c, &r->err);
		if (!rc && !r->index)
			rc = gt_device_read(r->d, host, x, count * sizeof(float), &r->err);
		for (size_t i = 0; !rc && !r->index && i < count; i++)
			if (host[i] != (float)(i + (size_t)peer))
				rc = stop_with(r, "a wrong number in a long message");
	}
	free(host);
	if (!rc)
		rc = gt_group_wait(r->group, GT_GROUP_ALL, &r->err);
	pthread_barrier_wait(r->barrier); /* a rank that leaves early may seem lost */
	return rc;
}

static atomic_int acts[MOST];

/* Within a collective: each rank is now and then later than the others. */
static int act_together(struct rank *r)
{
	const int most = GT_CUDA_THREAD_PEERS_ACTS / r->ranks * 3 / 2;
	int rc = 0;

	atomic_store(&acts[r->index], 0);
	pthread_barrier_wait(r->barrier);
	for (int i = 1; !rc && i <= 400; i++) {
		if (i / 100 == r->index)
			usleep(100);
		rc = gt_cuda_thread_peers_within((void *)r->group, (uint32_t)i, &r->err);
		atomic_store(&acts[r->index], i);
		for (int other = 0; !rc && other < r->ranks; other++)
			if (i - acts[other] > most)
				rc = stop_with(r, "ahead within a collective");
	}
	pthread_barrier_wait(r->barrier);
	return rc ? rc : sum_together(r);
}

static void ranks_of_a_process_stay_together(void **state)
{
	static const struct {
		int ranks;
		int (*act)(struct rank *r);
	} cases[] = { { 2, sum_together }, { 3, sum_together }, { 2, send_together },
		{ 2, act_together }, { 4, act_together }, { 3, gather_long } };

	(void)state;
	for (size_t i = 0; i < SITES * sizeof(cases) / sizeof(*cases); i++) {
		calls = 0;
		if (!all_sites[i % SITES]->processes)
			run_well(
			    all_sites[i % SITES], cases[i / SITES].ranks, cases[i / SITES].act);
	}
}

/* ---- messages that go together ---- */

/* So few that a ring sends them before they are received. */
enum { FEW = 100 };

/* Each rank sends to the next one, and then receives from the one before; the last to the first. */
static int send_around(struct rank *r)
{
	float *x = allocate(r, FEW * sizeof(float)), *y = allocate(r, FEW * sizeof(float));
	float host[FEW];
	int before = (r->index + r->ranks - 1) % r->ranks;
	struct gt_collective pair[] = { { .kind = GT_SEND,
		                            .in = x,
		                            .count = FEW,
		                            .dtype = GT_F32,
		                            .peer = (r->index + 1) % r->ranks,
		                            .stream = r->d->compute },
		{ .kind = GT_RECV,
		    .out = y,
		    .count = FEW,
		    .dtype = GT_F32,
		    .peer = before,
		    .stream = r->d->compute } };
	const struct gt_collective reversed[] = { pair[1], pair[0] };
	uint64_t ticket = 0;
	int rc;

	if (gt_group_exchange(r->group, reversed, 2, &ticket, &r->err) != GT_EINVAL)
		return stop_with(r, "a receive before a send");
	r->err = (struct gt_err)GT_ERR_INIT;
	for (int i = 0; i < FEW; i++)
		host[i] = (float)(r->index * FEW + i);
	rc = gt_device_write(r->d, x, host, sizeof(host), &r->err) ||
	     gt_group_exchange(r->group, pair, 2, &ticket, &r->err) ||
	     gt_group_await(r->group, ticket, r->d->compute, &r->err) ||
	     gt_device_read(r->d, host, y, sizeof(host), &r->err);
	for (int i = 0; !rc && i < FEW; i++)
		if (host[i] != (float)(before * FEW + i))
			rc = stop_with(r, "a wrong number in an exchange");
	if (!rc && !ticket)
		rc = stop_with(r, "no ticket");
	pthread_barrier_wait(r->barrier); /* a rank that leaves early may seem lost */
	return rc ? r->err.code : 0;
}

/* Over NCCL all messages of a rank are one launch. */
static void messages_go_together(void **state)
{
	(void)state;
	run_all(1, 2, send_around);
	cudasim_nccl.calls = cudasim_nccl.launches = 0;
	run_well(&nccl_of_threads, 3, send_around);
	assert_int_equal(cudasim_nccl.calls, 6);
	assert_int_equal(cudasim_nccl.launches, 3);
}

/* ---- sub-groups ---- */

/* Odd and even ranks apart, in reverse; then those but rank 0, and that of one rank alone. */
static int split_all(struct rank *r)
{
	float *x = allocate(r, ELEMENTS * sizeof(float)), one[ELEMENTS];
	struct gt_group *parity = NULL, *rest = NULL, *whole = r->group;
	uint64_t ticket = 0;
	int rc;

	for (int i = 0; i < ELEMENTS; i++)
		one[i] = 1;
	rc = gt_device_write(r->d, x, one, sizeof(one), &r->err) ||
	     start_sum(r, x, ELEMENTS, "all", &ticket) ||
	     gt_group_split(&parity, r->group, r->index % 2, -r->index, &r->err) ||
	     gt_group_split(&rest, r->group, r->index ? 7 : -1, 0, &r->err);
	if (!rc && (!rest) != (!r->index))
		rc = stop_with(r, "in a wrong group");
	if (!rc) {
		r->group = parity;
		rc = start_sum(r, x, ELEMENTS, "parity", &ticket) ||
		     gt_group_wait(parity, ticket, &r->err) ||
		     expect_all(r, x, (float)(r->ranks * parity->size));
		r->group = whole;
	}
	gt_group_free(rest);
	gt_group_free(parity);
	return rc ? r->err.code : 0;
}

/* Without access between GPUs, NCCL itself moves data through the host. */
static void gpus_need_not_reach_each_other(void **state)
{
	(void)state;
	setenv("CUDASIM_PEERS", "no", 1);
	run_well(&nccl_of_threads, 2, train_two);
	run_well(&nccl_of_processes, 2, train_two);
	unsetenv("CUDASIM_PEERS");
}

static void groups_are_split(void **state)
{
	(void)state;
	run_all(1, 2, split_all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_collective_gives_its_result),
		cmocka_unit_test(collectives_go_on_in_the_background),
		cmocka_unit_test(gpus_need_not_reach_each_other),
		cmocka_unit_test(ranks_of_a_process_stay_together),
		cmocka_unit_test(messages_go_together),
		cmocka_unit_test(groups_are_split),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
