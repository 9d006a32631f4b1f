/* test_nccl.c - the simulated NCCL: rules of its manual for order, groups and waiting kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/nccl/api.h"
#include "lib/base/clock.h"
#include "lib/device/backend.h"
#include "tests/cudasim/cudasim.h"

enum { RANKS = 2, COMMS = 2, COUNT = 1000, PAUSE_US = 200, AT_MOST = 100 };

/* How calls end: their streams are idle; they wait after `patience_s`; the GPU has a fault; NCCL
 * returns an error. */
enum outcome { ENDS, WAITS, FAULT, REFUSED };
static const char *const names[] = { "ends", "waits", "fault", "refused" };
static const double patience_s = 0.1;

/*
 * Two ranks, with a GPU and two communicators each. A script is what a rank calls:
 *
 *   A B   an all-reduce on the first or second communicator, each of which has a stream
 *   S R   a message to or from the other rank, on the first communicator
 *   ( )   the calls between them are a group
 *   <     the stream of the next call waits for the call before
 *   |     the host waits for the call before
 *   .     the GPU goes on until all it has has begun
 *   k     a kernel, on a third stream
 *   !     the status of the call before is not asked for; after all other calls it is, until the
 *         call is queued
 */
struct rank {
	pthread_t thread;
	pthread_barrier_t *together;
	const char *script;
	struct gt_nccl_id *ids;
	int index, blocks;
	void *comm[COMMS];
	cudaStream_t stream[COMMS + 1];
	cudaEvent_t called;
	float *buffer[COMMS + 1][2];
	struct gt_device *d;
	enum outcome outcome;
};

/* ---- a rank ---- */

static int status_of(void *comm)
{
	int status = GT_NCCL_SUCCESS;

	return gt_nccl->CommGetAsyncError(comm, &status) ? GT_NCCL_INVALID_USAGE : status;
}

/* Ask until it is not in progress; false: it still is, or there was an error. */
static bool await_status(struct rank *r, void *comm)
{
	double until = gt_clock_s() + patience_s;
	int status;

	while ((status = status_of(comm)) == GT_NCCL_IN_PROGRESS && gt_clock_s() < until)
		usleep(PAUSE_US);
	if (status != GT_NCCL_SUCCESS)
		r->outcome = status == GT_NCCL_IN_PROGRESS ? WAITS : REFUSED;
	return status == GT_NCCL_SUCCESS;
}

static void connect_rank(struct rank *r)
{
	struct gt_nccl_config config = { .size = sizeof(config),
		.magic = gt_nccl_magic,
		.version = GT_NCCL_CONFIG,
		.cluster_size = GT_NCCL_UNSET,
		.min_blocks = GT_NCCL_UNSET,
		.max_blocks = r->blocks };
	struct gt_err err = GT_ERR_INIT;

	if (gt_device_open(&r->d, &gt_cuda_backend, r->index, &err))
		abort();
	for (int i = 0; i <= COMMS; i++) {
		if (cudaStreamCreateWithFlags(&r->stream[i], cudaStreamNonBlocking))
			abort();
		for (int k = 0; k < 2; k++)
			if (gt_device_alloc(
			        r->d, COUNT * sizeof(float), (void **)&r->buffer[i][k], &err))
				abort();
	}
	cudaEventCreateWithFlags(&r->called, cudaEventDisableTiming);
	for (int i = 0; i < COMMS; i++) {
		if (gt_nccl->CommInitRankConfig(&r->comm[i], RANKS, r->ids[i], r->index, &config) !=
		    GT_NCCL_IN_PROGRESS)
			abort();
		while (status_of(r->comm[i]) == GT_NCCL_IN_PROGRESS)
			usleep(PAUSE_US);
	}
}

/* An aborted communicator's kernels end, so the streams do. */
static void disconnect(struct rank *r)
{
	for (int i = 0; i < COMMS; i++)
		gt_nccl->CommAbort(r->comm[i]);
	for (int i = 0; i <= COMMS; i++) {
		cudaStreamSynchronize(r->stream[i]);
		cudaStreamDestroy(r->stream[i]);
		for (int k = 0; k < 2; k++)
			gt_device_free(r->d, r->buffer[i][k], COUNT * sizeof(float));
	}
	cudaEventDestroy(r->called);
	cudaGetLastError();
	gt_device_close(r->d);
}

static int call(struct rank *r, char what, int i)
{
	float *in = r->buffer[i][0], *out = r->buffer[i][1];
	cudaStream_t stream = r->stream[i];
	int other = 1 - r->index;

	if (what == 'S')
		return gt_nccl->Send(in, COUNT, GT_NCCL_F32, other, r->comm[i], stream);
	if (what == 'R')
		return gt_nccl->Recv(out, COUNT, GT_NCCL_F32, other, r->comm[i], stream);
	return gt_nccl->AllReduce(in, out, COUNT, GT_NCCL_F32, GT_NCCL_SUM, r->comm[i], stream);
}

static void add(struct rank *r)
{
	struct gt_stream stream = *r->d->compute;
	struct gt_err err = GT_ERR_INIT;

	stream.queue = r->stream[COMMS];
	if (gt_cuda_backend.ranges()->add(
	        &stream, r->buffer[COMMS][0], r->buffer[COMMS][1], COUNT, &err))
		abort();
}

/* Whether the call was queued. `depth`: of groups. */
static bool act(struct rank *r, const char *at, int depth)
{
	int i = *at == 'B', status;

	switch (*at) {
	case '(':
		status = gt_nccl->GroupStart();
		break;
	case ')':
		status = gt_nccl->GroupEnd();
		break;
	case '<':
		cudaEventRecord(r->called, r->stream[at[-1] == 'B']);
		cudaStreamWaitEvent(r->stream[at[1] == 'B'], r->called, 0);
		return true;
	case '|':
		cudaStreamSynchronize(r->stream[at[-1] == 'B']);
		return true;
	case '.':
		for (int n = 0; n < AT_MOST; n++)
			cudaStreamQuery(r->stream[0]);
		cudaGetLastError();
		return true;
	case 'k':
		add(r);
		return true;
	case '!':
		return true;
	default:
		status = call(r, *at, i);
	}
	if (status != GT_NCCL_SUCCESS && status != GT_NCCL_IN_PROGRESS)
		r->outcome = REFUSED;
	return r->outcome != REFUSED && (depth || at[1] == '!' || await_status(r, r->comm[i]));
}

/* In a script with a kernel, only the end of that kernel counts. */
static void await_streams(struct rank *r)
{
	double until = gt_clock_s() + patience_s;
	int busy;

	do {
		usleep(PAUSE_US);
		busy = 0;
		for (int i = strchr(r->script, 'k') ? COMMS : 0; i <= COMMS; i++)
			busy += cudaStreamQuery(r->stream[i]) == cudaErrorNotReady;
		cudaGetLastError();
	} while (busy && gt_clock_s() < until);
	r->outcome = cudasim_fault(r->index) ? FAULT : busy ? WAITS : ENDS;
}

static void *live(void *self)
{
	struct rank *r = self;
	int depth = 0;
	bool queued = true;

	connect_rank(r);
	pthread_barrier_wait(r->together);
	for (const char *at = r->script; *at && queued; at++) {
		depth += (*at == '(') - (*at == ')');
		queued = act(r, at, depth);
	}
	pthread_barrier_wait(r->together);
	if (queued)
		await_streams(r);
	pthread_barrier_wait(r->together);
	disconnect(r);
	return NULL;
}

static void run(enum outcome outcomes[RANKS], const char *const scripts[RANKS], int blocks)
{
	struct gt_nccl_id ids[COMMS];
	struct rank ranks[RANKS] = { 0 };
	pthread_barrier_t together;

	for (int i = 0; i < COMMS; i++)
		assert_int_equal(gt_nccl->GetUniqueId(&ids[i]), GT_NCCL_SUCCESS);
	pthread_barrier_init(&together, NULL, RANKS);
	for (int i = 0; i < RANKS; i++) {
		ranks[i].together = &together;
		ranks[i].ids = ids;
		ranks[i].index = i;
		ranks[i].script = scripts[i];
		ranks[i].blocks = blocks ? blocks : GT_NCCL_UNSET;
		pthread_create(&ranks[i].thread, NULL, live, &ranks[i]);
	}
	for (int i = 0; i < RANKS; i++) {
		pthread_join(ranks[i].thread, NULL);
		outcomes[i] = ranks[i].outcome;
		cudasim_forget(i);
	}
	pthread_barrier_destroy(&together);
}

/* ---- the rules ---- */

struct rule {
	const char *scripts[RANKS];
	enum outcome outcomes[RANKS];
	const char *implicit; /* NCCL_LAUNCH_ORDER_IMPLICIT; or NULL */
	int version;          /* 0: the newest */
	bool serial;          /* as with a driver older than CUDA 12.3 */
	int blocks;           /* most blocks of a kernel; 0: the default */
};

static void expect(const struct rule *rule, uint64_t seed)
{
	enum outcome outcomes[RANKS];

	cudasim_seed(seed);
	cudasim_nccl.version = rule->version;
	if (rule->implicit)
		setenv("NCCL_LAUNCH_ORDER_IMPLICIT", rule->implicit, 1);
	cudasim_nccl.serial = rule->serial;
	run(outcomes, rule->scripts, rule->blocks);
	unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
	cudasim_nccl.serial = false;
	cudasim_nccl.version = 0;
	for (int i = 0; i < RANKS; i++)
		if (outcomes[i] != rule->outcomes[i])
			fail_msg("%s beside %s: rank %d %s, not %s", rule->scripts[0],
			    rule->scripts[1], i, names[outcomes[i]], names[rule->outcomes[i]]);
}

static void expect_all(const struct rule *rules, size_t count)
{
	for (size_t i = 0; i < count; i++)
		expect(&rules[i], i + 1);
}

static void communicators_need_an_order(void **state)
{
	static const struct rule rules[] = {
		{ { "AB", "AB" }, { FAULT, FAULT }, NULL, 0, false, 0 },
		{ { "A<B", "AB" }, { WAITS, FAULT }, NULL, 0, false, 0 },
		{ { "A<B", "A<B" }, { ENDS, ENDS }, NULL, 0, false, 0 },
		{ { "A<B<A", "A<B<A" }, { ENDS, ENDS }, NULL, 0, false, 0 },
		{ { "A<BA", "A<B<A" }, { FAULT, WAITS }, NULL, 0, false, 0 },
		{ { "A|B", "A|B" }, { ENDS, ENDS }, NULL, 0, false, 0 },
		{ { "A<B", "B<A" }, { WAITS, WAITS }, NULL, 0, false, 0 },
		/* the order of the host */
		{ { "AB", "AB" }, { ENDS, ENDS }, "1", 0, false, 0 },
		{ { "AB", "AB" }, { FAULT, FAULT }, "0", 0, false, 0 },
		{ { "AB", "AB" }, { FAULT, FAULT }, "1", 22509, false, 0 },
		{ { "AB", "BA" }, { WAITS, WAITS }, "1", 0, true, 0 },
	};

	(void)state;
	expect_all(rules, sizeof(rules) / sizeof(*rules));
}

static void messages_that_go_on_together_are_a_group(void **state)
{
	static const struct rule rules[] = {
		{ { "(SR)", "(SR)" }, { ENDS, ENDS }, NULL, 0, false, 0 },
		{ { "(SR)SR", "(SR)RS" }, { ENDS, ENDS }, NULL, 0, false, 0 },
		{ { "(SR)SR", "(SR)SR" }, { WAITS, WAITS }, NULL, 0, false, 0 },
		{ { "(SR)", "RS" }, { ENDS, ENDS }, NULL, 0, false, 0 },
	};

	(void)state;
	expect_all(rules, sizeof(rules) / sizeof(*rules));
}

static void a_communicator_takes_one_call_at_a_time(void **state)
{
	static const struct rule rules[] = {
		{ { "A!A", "A" }, { REFUSED, WAITS }, NULL, 0, false, 0 },
		{ { "AA", "AA" }, { ENDS, ENDS }, NULL, 0, false, 0 },
	};

	(void)state;
	expect_all(rules, sizeof(rules) / sizeof(*rules));
}

/* Each launch is a thread of the real library. */
static void a_group_is_one_launch(void **state)
{
	static const struct rule rules[] = {
		{ { "(SR)", "(SR)" }, { ENDS, ENDS }, NULL, 0, false, 0 },
		{ { "SR", "RS" }, { ENDS, ENDS }, NULL, 0, false, 0 },
	};

	(void)state;
	for (int i = 0; i < 2; i++) {
		cudasim_nccl.launches = 0;
		expect(&rules[i], 1);
		assert_int_equal(cudasim_nccl.launches, RANKS * (i + 1));
	}
}

/* Two kernels that wait hold all places of the GPU, so that no other begins. */
static void kernels_that_wait_hold_the_gpu(void **state)
{
	static const struct rule rules[] = {
		{ { "ABABk", "ABAB" }, { ENDS, ENDS }, "1", 0, false, 0 },
		{ { "AB|AB.k", "AB|" }, { WAITS, ENDS }, "1", 0, false, 0 },
		{ { "AB|A.k", "AB|" }, { ENDS, ENDS }, "1", 0, false, 0 },
		/* no more than the communicator is allowed */
		{ { "AB|AB.k", "AB|" }, { ENDS, ENDS }, "1", 0, false, 4 },
	};

	(void)state;
	expect_all(rules, sizeof(rules) / sizeof(*rules));
}

static int open_library(void **state)
{
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	setenv("CUDASIM_DEVICES", "2", 1);
	setenv("CUDASIM_PEERS", "no", 1);
	return gt_nccl_open(NULL, &err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(communicators_need_an_order),
		cmocka_unit_test(messages_that_go_on_together_are_a_group),
		cmocka_unit_test(a_communicator_takes_one_call_at_a_time),
		cmocka_unit_test(a_group_is_one_launch),
		cmocka_unit_test(kernels_that_wait_hold_the_gpu),
	};

	return cmocka_run_group_tests(tests, open_library, NULL);
}
