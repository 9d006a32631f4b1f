/* test_far_ranks.c - ranks that share a model, on devices whose memory the host cannot touch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/device.h"
#include "tests/common/model_ranks.h"
#include "tests/fake/far/far.h"

/*
 * Groups of host memory, for ranks on far devices: a collective reads its input from the device,
 * and writes its output there. So a node of lib/parallel has to queue all other work on the memory
 * of its values.
 */

/* ---- groups ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gt_group_ops real, staged; /* the same for all groups */
static _Thread_local const struct gt_device *device;

static size_t bytes_of(const struct gt_group *g, const struct gt_collective *c, bool out)
{
	enum gt_collective_kind whole = out ? GT_ALL_GATHER : GT_REDUCE_SCATTER;

	return (size_t)(c->kind == whole ? g->size * c->count : c->count) * gt_dtype_size(c->dtype);
}

static void *host_bytes(size_t bytes)
{
	void *p = malloc(bytes ? bytes : 1);

	assert_non_null(p);
	return p;
}

static int run(struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	struct gt_collective near = *c;
	void *in = NULL, *out = NULL;
	int rc = 0;

	if (far_is_far(c->in)) {
		near.in = in = host_bytes(bytes_of(g, c, false));
		rc = gt_device_read(device, in, c->in, bytes_of(g, c, false), err);
	}
	if (far_is_far(c->out)) {
		near.out = out = host_bytes(bytes_of(g, c, true));
		if (!rc) /* elements that the collective does not write stay */
			rc = gt_device_read(device, out, c->out, bytes_of(g, c, true), err);
	}
	if (!rc)
		rc = real.run(g, &near, err);
	if (!rc && out)
		rc = gt_device_write(device, c->out, out, bytes_of(g, c, true), err);
	free(in);
	free(out);
	return rc;
}

/* Done at once; the messages of these models are short enough to end without their receiver. */
static int start(
    struct gt_group *g, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	if (ticket)
		*ticket = 0;
	return run(g, c, err);
}

static int wait_for_nothing(struct gt_group *g, uint64_t ticket, struct gt_err *err)
{
	(void)g;
	(void)ticket;
	(void)err;
	return 0;
}

static struct lent {
	void *p;
	size_t bytes;
	const struct gt_device *device;
	struct lent *next;
} * all_lent;

static int take(struct gt_group *g, size_t bytes, void **out, struct gt_err *err)
{
	struct lent *one = calloc(1, sizeof(*one));
	int rc = gt_device_alloc(device, bytes, out, err);

	(void)g;
	assert_non_null(one);
	*one = (struct lent){ *out, bytes, device, NULL };
	pthread_mutex_lock(&lock);
	one->next = all_lent;
	all_lent = one;
	pthread_mutex_unlock(&lock);
	return rc;
}

static void give_back(struct gt_group *g, void *p)
{
	(void)g;
	pthread_mutex_lock(&lock);
	for (struct lent **at = &all_lent; *at; at = &(*at)->next)
		if ((*at)->p == p) {
			struct lent *one = *at;

			*at = one->next;
			gt_device_free(one->device, p, one->bytes);
			free(one);
			break;
		}
	pthread_mutex_unlock(&lock);
}

static int split(struct gt_group **out, struct gt_group *g, int color, int key, struct gt_err *err)
{
	int rc = real.split(out, g, color, key, err);

	if (!rc && *out)
		(*out)->ops = g->ops;
	return rc;
}

static void enter(struct model_rank *r)
{
	if (!test_device_is_far() || !r->group)
		return;
	device = test_device(r->group->rank);
	pthread_mutex_lock(&lock);
	if (!staged.run) { /* the others read it without the lock */
		real = staged = *r->group->ops;
		staged.run = run;
		staged.start = start;
		staged.wait = wait_for_nothing;
		staged.alloc = take;
		staged.release = give_back;
		staged.split = split;
	}
	pthread_mutex_unlock(&lock);
	r->group->ops = &staged;
}

/* ---- training and evaluation ---- */

enum { STEPS = 3, MOST = 4 };

struct course {
	double loss[STEPS], stats[MODEL_RANK_STATS];
	float norm[STEPS];
};

static int train(struct model_rank *r)
{
	struct course *c = (struct course *)r->user + r->group->rank;
	int rc = 0;

	for (int i = 0; !rc && i < STEPS; i++) {
		rc = r->accumulate ? gt_optim_zero_grad(r->optim, &r->err) : 0;
		if (!rc)
			rc = model_rank_step(r, 1);
		c->loss[i] = r->loss;
		memcpy(c->stats, r->stats, sizeof(c->stats));
		if (!rc && !r->evaluates)
			rc = model_rank_update(r, 0.01);
		c->norm[i] = r->norm;
	}
	return rc || r->evaluates ? rc
	                          : model_rank_collect(r, 0, GT_HELD_DATA, r->store->parameters);
}

struct ranks {
	struct model_rank rank[MOST];
	struct course course[MOST];
};

static void run_ranks(
    struct ranks *all, const struct model_rank *like, int count, const char *backend)
{
	struct model_rank mine = *like;

	memset(all, 0, sizeof(*all));
	mine.user = all->course;
	mine.enter = enter;
	setenv("GTRAIN_TEST_BACKEND", backend, 1);
	model_ranks_run(all->rank, count, &mine, train);
	model_ranks_expect_well(all->rank, count);
}

static void compare(const struct ranks *near, const struct ranks *far, const char *what)
{
	const struct gt_store *s = near->rank[0].store;

	if (memcmp(near->course, far->course, sizeof(near->course)))
		fail_msg("%s: losses, norms or counts differ", what);
	for (size_t i = 0; near->rank[0].whole[0] && i < s->slot_count; i++)
		if (near->rank[0].whole[0][i] &&
		    memcmp(near->rank[0].whole[0][i], far->rank[0].whole[0][i],
		        gt_slot_bytes(&s->slots[i])))
			fail_msg("%s: '%s' differs", what, s->slots[i].name);
}

#define GPT "gpt:layers=2,heads=2,width=8,block=4,vocab=13,dropout=0.1"

static const struct {
	const char *what;
	int count;
	struct model_rank like;
} cases[] = {
	{ "tensor, mlp", 2, { .spec = "mlp:20,30,10", .options = { .tensor = 2 } } },
	{ "tensor, gpt", 2, { .spec = GPT, .options = { .tensor = 2 } } },
	{ "tensor, evaluation", 2, { .spec = GPT, .options = { .tensor = 2 }, .evaluates = true } },
	{ "tensor and data", 4, { .spec = GPT, .options = { .tensor = 2 } } },
	{ "pipeline", 2,
	    { .spec = "mlp:20,30,10", .options = { .stages = 2 }, .accumulate = true } },
	{ "tensor and pipeline", 4,
	    { .spec = GPT, .options = { .tensor = 2, .stages = 2 }, .accumulate = true } },
	{ "tensor and zero1", 4,
	    { .spec = GPT, .options = { .kind = GT_PARALLEL_ZERO1, .tensor = 2 } } },
	{ "pipeline and zero1", 4,
	    { .spec = GPT,
	        .options = { .kind = GT_PARALLEL_ZERO1, .stages = 2 },
	        .accumulate = true } },
	{ "tensor, float16", 2, { .spec = GPT, .options = { .tensor = 2, .low = GT_F16 } } },
	{ "pipeline, float16", 2,
	    { .spec = GPT, .options = { .stages = 2, .low = GT_F16 }, .accumulate = true } },
	{ "tensor and pipeline, float16", 4,
	    { .spec = GPT,
	        .options = { .tensor = 2, .stages = 2, .low = GT_F16 },
	        .accumulate = true } },
};

/* The host's losses, norms, counts and weights, bit by bit. */
static void far_ranks_have_the_bits_of_near_ones(void **state)
{
	static const struct gt_optim_options adamw = {
		.kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .clip = 0.1
	};
	struct gt_optim_options scaled = adamw;

	(void)state;
	scaled.scaler = gt_scaler_default;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct model_rank like = cases[i].like;
		struct ranks near, far;

		like.samples = 4;
		like.optimizer = like.options.low == GT_F16 ? &scaled : &adamw;
		like.options.bucket_bytes = 4096;
		run_ranks(&near, &like, cases[i].count, "cpu");
		run_ranks(&far, &like, cases[i].count, "far");
		compare(&near, &far, cases[i].what);
		assert_true(like.evaluates ? near.course->stats[1] > 0
		                           : near.course->norm[0] != near.course->norm[1]);
		model_ranks_close(near.rank, cases[i].count);
		model_ranks_close(far.rank, cases[i].count);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(far_ranks_have_the_bits_of_near_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
