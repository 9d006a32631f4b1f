/* model_ranks.c - ranks as threads of a test that train a model on samples made up. */
#include "tests/common/model_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/ring.h"

enum { MOST_RANKS = 8 };

static int ranks_of(const struct model_rank *r)
{
	return r->group ? r->group->size : 1;
}

static int open_program(struct model_rank *r)
{
	const struct gt_program_options options = { .model = r->model,
		.input = &r->in,
		.purpose = GT_MODEL_TRAIN,
		.store = r->store,
		.accumulate = r->accumulate,
		.parallel = r->parallel };
	const struct gt_optim_options sgd = { .kind = GT_SGD };
	struct gt_err *err = &r->err;
	int rc = gt_program_init(&r->program, &options, r->samples / ranks_of(r), err);

	if (!rc)
		rc = gt_cpu_backend.alloc(0, gt_plan_arena_bytes(r->program.plan), &r->arena, err);
	if (!rc)
		rc = gt_plan_bind(r->program.plan, r->arena, err);
	return rc ? rc : gt_optim_new(&r->optim, r->store, &sgd, err);
}

static int open_rank(struct model_rank *r)
{
	struct gt_err *err = &r->err;
	int rc = gt_model_open(&r->model, r->spec, err);

	if (rc)
		return rc;
	gt_model_wishes(r->model, &r->in);
	for (int i = 0; i < r->in.channels; i++)
		r->in.std[i] = 1;
	if (r->group)
		rc = gt_parallel_new(&r->parallel, &r->options, r->group, err);
	if (!rc)
		rc = gt_program_store(
		    &r->store, r->model, &r->in, &gt_cpu_backend, 0, true, r->parallel, err);
	if (!rc)
		rc = gt_store_alloc(r->store, err);
	/* Rank 0 alone has the right weights to begin with. */
	if (!rc && r->options.tensor > 1)
		rc = gt_parallel_init(r->parallel, 1, err);
	else if (!rc)
		rc = gt_store_init(r->store, r->group && r->group->rank ? 99 : 1, err);
	if (!rc && r->parallel)
		rc = gt_parallel_begin(r->parallel, err);
	return rc ? rc : open_program(r);
}

/* Sample i of the whole batch: small whole numbers, which stand for tokens, bytes and floats; some
 * samples are of larger ones. */
static void make_sample(const struct model_rank *r, int i, unsigned char *input, int32_t *target)
{
	size_t values = (size_t)gt_value_elements(r->program.io.input) / (size_t)r->program.batch;
	size_t targets = (size_t)gt_value_elements(r->program.io.target) / (size_t)r->program.batch;
	enum gt_dtype dtype = r->program.io.input->dtype;

	for (size_t k = 0; k < values; k++) {
		int x = (int)((k * 7 + (size_t)i * 13 + k * k % 11) % 17);

		if (dtype == GT_F32)
			((float *)input)[k] = (float)x / 8 - 1;
		else if (dtype == GT_I32)
			((int32_t *)input)[k] = x;
		else
			input[k] = (unsigned char)(x * (4 + i % 3 * 5));
	}
	for (size_t k = 0; k < targets; k++)
		target[k] = (int32_t)((k + (size_t)i * 3) % 10);
}

int model_rank_step(struct model_rank *r, float scale)
{
	const struct gt_program *p = &r->program;
	unsigned char *input = calloc(1, p->input_bytes);
	int32_t *target = calloc(1, p->target_bytes);
	struct gt_batch batch = { .count = p->batch, .input = input, .target = target };
	size_t one_input = p->input_bytes / (size_t)p->batch;
	size_t one_target = p->target_bytes / (size_t)p->batch / sizeof(*target);
	float weight = scale / (float)((size_t)r->samples * one_target);
	int64_t rng[GT_RNG_FIELDS] = { 0 };
	int rc;

	for (int i = 0; i < p->batch; i++)
		make_sample(r, r->group ? i * r->group->size + r->group->rank : i,
		    input + (size_t)i * one_input, target + (size_t)i * one_target);
	rc = gt_program_feed(&r->program, &batch, &r->err);
	if (!rc)
		rc = gt_plan_write(p->plan, p->io.weight, &weight, sizeof(weight), &r->err);
	if (!rc && p->io.rng)
		rc = gt_plan_write(p->plan, p->io.rng, rng, sizeof(rng), &r->err);
	if (!rc)
		rc = gt_plan_run(p->plan, &r->err);
	free(input);
	free(target);
	return rc;
}

int model_rank_update(struct model_rank *r, double lr)
{
	float norm;

	return r->parallel ? gt_parallel_update(r->parallel, r->optim, lr, &norm, &r->err)
	                   : gt_optim_step(r->optim, lr, &norm, &r->err);
}

struct job {
	struct model_rank *rank;
	int (*then)(struct model_rank *r);
	bool opened;
};

static void *do_job(void *self)
{
	struct job *j = self;

	j->opened = !open_rank(j->rank);
	if (j->opened)
		j->then(j->rank);
	return NULL;
}

void model_ranks_run(struct model_rank *ranks, int count, const struct model_rank *like,
    int (*then)(struct model_rank *r))
{
	static const struct gt_ring_options patience = { .timeout_s = 60 };
	struct gt_group *groups[MOST_RANKS] = { NULL };
	pthread_t threads[MOST_RANKS];
	struct job jobs[MOST_RANKS] = { 0 };
	struct gt_err err = GT_ERR_INIT;
	int n = count ? count : 1;

	assert_true(n <= MOST_RANKS);
	if (count)
		assert_int_equal(gt_ring_of_threads(groups, count, &patience, &err), 0);
	for (int i = 0; i < n; i++) {
		ranks[i] = *like;
		ranks[i].group = groups[i];
		jobs[i] = (struct job){ &ranks[i], then, false };
		assert_int_equal(pthread_create(&threads[i], NULL, do_job, &jobs[i]), 0);
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < n; i++)
		if (!jobs[i].opened)
			fail_msg("%s, rank %d: %s", like->spec, i, ranks[i].err.text);
}

void model_ranks_close(struct model_rank *ranks, int count)
{
	for (int i = 0; i < (count ? count : 1); i++) {
		struct model_rank *r = &ranks[i];

		gt_optim_free(r->optim);
		gt_cpu_backend.free(0, r->arena, gt_plan_arena_bytes(r->program.plan));
		gt_program_release(&r->program);
		gt_store_free(r->store);
		gt_parallel_free(r->parallel);
		gt_model_close(r->model);
		if (r->group)
			gt_group_free(r->group);
	}
}

void model_ranks_expect_well(const struct model_rank *ranks, int count)
{
	for (int i = 0; i < (count ? count : 1); i++)
		if (ranks[i].err.code)
			fail_msg("%s, rank %d: %s", ranks[i].spec, i, ranks[i].err.text);
}

double model_ranks_apart(const void *a, const void *b, int64_t count)
{
	const float *x = a, *y = b;
	double far = 0, largest = 0;

	for (int64_t i = 0; i < count; i++) {
		far = fmax(far, fabs((double)x[i] - (double)y[i]));
		largest = fmax(largest, fabs((double)y[i]));
	}
	return far / largest;
}
