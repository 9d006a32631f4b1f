/* model_ranks.c - ranks as threads of a test that train a model on samples made up. */
#include "tests/common/model_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/shm/shm.h"
#include "tests/common/device.h"

enum { MOST_RANKS = 8 };

static int seats(const struct model_rank *r)
{
	return gt_parallel_axis(r->parallel, GT_AXIS_DATA)->size;
}

static int seat(const struct model_rank *r)
{
	return gt_parallel_seat(r->parallel, GT_AXIS_DATA);
}

static int rank_of(const struct model_rank *r)
{
	return r->group ? r->group->rank : 0;
}

static int micro_batches(const struct model_rank *r)
{
	return r->micro_batches ? r->micro_batches : 1;
}

/* ---- open ---- */

/* Where ranks hold parts, each draws its own. Otherwise rank 0 alone has the right weights to begin
 * with. */
static int init_weights(struct model_rank *r)
{
	const struct gt_parallel_options *o = &r->options;
	int rc;

	if (r->group && (o->tensor > 1 || o->stages > 1 || o->kind == GT_PARALLEL_ZERO3))
		rc = gt_parallel_init(r->parallel, 1, &r->err);
	else
		rc = gt_store_init(r->store, r->group && r->group->rank ? 99 : 1, &r->err);
	return rc || !r->group ? rc : gt_parallel_begin(r->parallel, &r->err);
}

/* ResNets take images of any size: the smallest, as a convolution takes long under valgrind. */
static void describe_input(struct model_rank *r)
{
	gt_model_preferred_input(r->model, &r->in);
	if (!strncmp(r->spec, "resnet", strlen("resnet")))
		r->in.form.height = r->in.form.width = 8;
	for (int i = 0; i < r->in.form.channels; i++)
		r->in.form.std[i] = 1;
}

static int open_store(struct model_rank *r)
{
	static const struct gt_optim_options sgd = { .kind = GT_SGD };
	static const struct gt_parallel_options alone = { .ranks = 1 };
	struct gt_err *err = &r->err;
	int rc = gt_model_open(&r->model, r->spec, err);

	if (rc)
		return rc;
	describe_input(r);
	if (r->optimizer)
		r->options.optimizer = r->optimizer->kind;
	rc = gt_parallel_new(&r->parallel, r->group ? &r->options : &alone, r->group, err);
	if (!rc)
		rc = gt_program_store(
		    &r->store, r->model, &r->in, test_device(rank_of(r)), true, r->parallel, err);
	if (!rc)
		rc = gt_store_alloc(r->store, err);
	if (!rc)
		rc = init_weights(r);
	return rc ? rc : gt_optim_new(&r->optim, r->store, r->optimizer ? r->optimizer : &sgd, err);
}

static int open_program(struct model_rank *r)
{
	struct gt_program_options options = { .model = r->model,
		.input = &r->in,
		.purpose = r->evaluates ? GT_MODEL_EVAL : GT_MODEL_TRAIN,
		.store = r->store,
		.accumulate = r->accumulate || micro_batches(r) > 1,
		.parallel = r->parallel,
		.precision = r->options.precision };
	struct gt_err *err = &r->err;
	void *scalars = NULL;
	int rc;

	options.precision.scaled = gt_optim_scaler(r->optim)->growth_interval;
	rc = gt_program_init(&r->program, &options, r->samples / seats(r) / micro_batches(r), err);
	if (!rc)
		rc = gt_device_alloc(
		    r->store->device, gt_plan_arena_bytes(r->program.plan), &r->arena, err);
	if (!rc)
		rc = gt_device_alloc(r->store->device, sizeof(*r->scalars), &scalars, err);
	r->scalars = scalars;
	return rc ? rc : gt_program_bind(&r->program, r->arena, err);
}

/* ---- a step ---- */

/* Fields of whole numbers below 2, which each table of embeddings has; a mask hides the end. */
static void make_fields(const struct gt_sample_form *form, int i, unsigned char *input)
{
	for (int f = 0; f < form->field_count; f++) {
		int32_t *out = (int32_t *)(input + gt_sample_field_at(form, f));
		bool mask = gt_field_meaning(&form->fields[f]) == GT_FIELD_MASK;
		int count = (int)gt_field_values(&form->fields[f]);

		for (int k = 0; k < count; k++)
			out[k] = mask ? k < count - i % 3 : (k * 7 + i * 13 + k * k % 11) % 17 % 2;
	}
}

/* Sample i of the whole batch: small whole numbers, which stand for tokens, bytes and floats; some
 * samples are of larger ones, and some targets do not count. */
static void make_sample(const struct model_rank *r, int i, unsigned char *input, int32_t *target)
{
	const struct gt_program *p = &r->program;
	enum gt_dtype dtype = p->io.input->dtype;
	size_t values = p->input_bytes / (size_t)p->batch / gt_dtype_size(dtype);
	size_t targets = p->target_bytes / (size_t)p->batch / sizeof(*target);

	make_fields(&r->in.form, i, input);
	for (size_t k = 0; k < values && !r->in.form.field_count; k++) {
		int x = (int)((k * 7 + (size_t)i * 13 + k * k % 11) % 17);

		if (dtype == GT_F32)
			((float *)input)[k] = (float)x / 8 - 1;
		else if (dtype == GT_I32)
			((int32_t *)input)[k] = x % r->in.form.classes;
		else
			input[k] = (unsigned char)(x * (4 + i % 3 * 5));
	}
	for (size_t k = 0; k < targets; k++) {
		int x = (int)k + i * 3;

		target[k] = x % 7 == 5 ? GT_DATA_IGNORE : x % r->in.form.classes;
	}
}

/* Of this rank's samples, from `first` of the whole batch on. */
static int feed(struct model_rank *r, int first)
{
	struct gt_program *p = &r->program;
	unsigned char *input = calloc(1, p->input_bytes);
	int32_t *target = calloc(1, p->target_bytes);
	struct gt_batch batch = { .count = p->batch, .input = input, .target = target };
	size_t one_input = p->input_bytes / (size_t)p->batch;
	size_t one_target = p->target_bytes / (size_t)p->batch / sizeof(*target);
	int rc;

	for (int i = 0; i < p->batch; i++)
		make_sample(r, first + i * seats(r) + seat(r), input + (size_t)i * one_input,
		    target + (size_t)i * one_target);
	rc = gt_program_feed(p, &batch, &r->err);
	free(input);
	free(target);
	return rc;
}

static int run_program(struct model_rank *r, int first, unsigned runs, float scale)
{
	struct gt_program *p = &r->program;
	size_t targets = p->target_bytes / (size_t)p->batch / sizeof(int32_t);
	const int64_t rng[GT_RNG_FIELDS] = {
		[GT_RNG_SEED] = 7, [GT_RNG_FIRST] = first + seat(r), [GT_RNG_STRIDE] = seats(r)
	};
	int rc = feed(r, first);

	if (!rc && !r->evaluates)
		rc = gt_program_set(p, scale / (float)((size_t)r->samples * targets), rng, &r->err);
	if (!rc)
		rc = gt_program_set_scale(p, gt_optim_scalars(r->optim), &r->err);
	if (!rc)
		rc = gt_plan_run_as(p->plan, runs, &r->err);
	if (!rc && r->evaluates)
		return gt_plan_read(p->plan, p->io.stats, r->stats, sizeof(r->stats), &r->err);
	return rc ? rc : gt_program_add_loss(p, r->scalars, &r->err);
}

int model_rank_step(struct model_rank *r, float scale)
{
	const struct gt_device *d = r->store->device;
	int count = micro_batches(r);
	int rc = d->backend->steps()->begin_step(d->compute, r->scalars, &r->err);

	if (!rc && count > 1)
		rc = gt_optim_zero_grad(r->optim, &r->err);
	for (int i = 0; !rc && i < count; i++) {
		bool last = i + 1 == count && !r->goes_on;
		unsigned runs = (i ? 0 : GT_RUN_FIRST) | (last ? GT_RUN_LAST : 0);

		rc = run_program(r, i * r->samples / count, runs, scale);
	}
	return rc ? rc
	          : gt_device_read(d, &r->loss, &r->scalars->result.loss, sizeof(r->loss), &r->err);
}

int model_rank_update(struct model_rank *r, double lr)
{
	int rc;

	if (!r->group)
		return gt_optim_step(r->optim, lr, &r->norm, &r->err);
	rc = gt_optim_begin(r->optim, lr, false, &r->err);
	if (!rc)
		rc = gt_parallel_update(r->parallel, r->optim, &r->err);
	if (!rc)
		rc = gt_optim_end(r->optim, &r->err);
	if (!rc)
		rc = gt_optim_result(r->optim, &r->result, &r->err);
	if (!rc)
		r->norm = r->result.grad_norm;
	return rc;
}

/* In two windows. */
static int collect_slot(
    struct model_rank *r, const struct gt_plane *plane, const struct gt_slot *slot, void **out)
{
	int64_t first = slot->count / 3;
	size_t size = gt_dtype_size(slot->dtype);
	char *whole = NULL;
	int rc;

	if (!r->group || !r->group->rank)
		*out = whole = calloc(1, gt_slot_bytes(slot));
	rc = gt_parallel_gather_slot(r->parallel, plane, slot, 0, first, whole, &r->err);
	if (whole)
		whole += (size_t)first * size;
	return rc ? rc
	          : gt_parallel_gather_slot(
	                r->parallel, plane, slot, first, slot->count - first, whole, &r->err);
}

int model_rank_collect(struct model_rank *r, int which, const struct gt_plane *plane)
{
	const struct gt_store *s = r->store;
	void **whole = calloc(s->slot_count, sizeof(*whole));
	int rc = 0;

	r->whole[which] = whole;
	for (size_t i = 0; !rc && i < s->slot_count; i++)
		if (gt_plane_holds(s, plane, &s->slots[i]))
			rc = collect_slot(r, plane, &s->slots[i], &whole[i]);
	return rc;
}

const struct gt_plane *model_rank_state(
    const struct model_rank *r, const struct gt_slot *slot, int state)
{
	const struct gt_store *s = r->store;

	for (size_t i = 0; i < s->plane_count; i++)
		if (s->planes[i]->saved == GT_SAVED_STATE &&
		    gt_plane_holds(s, s->planes[i], slot) && !state--)
			return s->planes[i];
	return NULL;
}

int model_rank_collect_state(struct model_rank *r, int which, int state)
{
	const struct gt_store *s = r->store;
	void **whole = calloc(s->slot_count, sizeof(*whole));
	int rc = 0;

	r->whole[which] = whole;
	for (size_t i = 0; !rc && i < s->slot_count; i++) {
		const struct gt_plane *plane = model_rank_state(r, &s->slots[i], state);

		if (plane)
			rc = collect_slot(r, plane, &s->slots[i], &whole[i]);
	}
	return rc;
}

/* ---- ranks ---- */

struct job {
	struct model_rank *rank;
	int (*then)(struct model_rank *r);
	bool opened;
};

static void *do_job(void *self)
{
	struct job *j = self;

	omp_set_num_threads(1); /* kernels take memory for each */
	if (j->rank->enter)
		j->rank->enter(j->rank);
	j->opened = !open_store(j->rank) && !open_program(j->rank);
	if (j->opened && j->then)
		j->then(j->rank);
	return NULL;
}

/* The reason why ranks could not open: their GPU had too few queues. "" if none. The streams of
 * these ranks stay, and so do the errors of ranks that waited for them. So all later runs of the
 * program are skipped. */
static char too_few[400];

static void skip_if_too_few(void)
{
	if (!*too_few)
		return;
	print_message("%s\n", too_few);
	skip();
}

void model_ranks_run(struct model_rank *ranks, int count, const struct model_rank *like,
    int (*then)(struct model_rank *r))
{
	static const struct gt_shm_options patience = { .timeout_s = 60 };
	struct gt_group *groups[MOST_RANKS] = { NULL };
	pthread_t threads[MOST_RANKS];
	struct job jobs[MOST_RANKS] = { 0 };
	struct gt_err err = GT_ERR_INIT;
	int n = count ? count : 1;

	skip_if_too_few();
	assert_true(n <= MOST_RANKS);
	if (count)
		assert_int_equal(gt_shm_of_threads(groups, count, &patience, &err), 0);
	for (int i = 0; i < n; i++) {
		ranks[i] = *like;
		ranks[i].group = groups[i];
		jobs[i] = (struct job){ &ranks[i], then, false };
		assert_int_equal(pthread_create(&threads[i], NULL, do_job, &jobs[i]), 0);
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	/* Simulated GPUs are as many as the ranks; a machine may have fewer. */
	for (int i = 0; i < n; i++)
		if (!jobs[i].opened && strstr(ranks[i].err.text, "streams of the ranks share"))
			snprintf(too_few, sizeof(too_few),
			    "skipped: GPUs: too few for %d ranks: %s", n, ranks[i].err.text);
	skip_if_too_few();
	for (int i = 0; i < n; i++)
		if (!jobs[i].opened)
			fail_msg("%s, rank %d: %s", like->spec, i, ranks[i].err.text);
}

static void free_whole(void **tensors, size_t count)
{
	for (size_t i = 0; tensors && i < count; i++)
		free(tensors[i]);
	free(tensors);
}

void model_ranks_close(struct model_rank *ranks, int count)
{
	for (int i = 0; i < (count ? count : 1); i++) {
		struct model_rank *r = &ranks[i];

		for (int k = 0; k < MODEL_RANK_WHOLES; k++)
			free_whole(r->whole[k], r->store->slot_count);
		(void)gt_device_sync(r->store->device, GT_ERR_IGNORED);
		gt_parallel_stop(r->parallel);
		gt_optim_free(r->optim);
		gt_device_free(r->store->device, r->scalars, sizeof(*r->scalars));
		gt_device_free(r->store->device, r->arena, gt_plan_arena_bytes(r->program.plan));
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

void *model_rank_copy(const struct model_rank *r, const void *p, size_t bytes)
{
	struct gt_err err = GT_ERR_INIT;
	void *host = calloc(1, bytes ? bytes : 1);

	assert_non_null(host);
	test_device(rank_of(r));
	if (gt_device_read(r->store->device, host, p, bytes, &err))
		fail_msg("%s", err.text);
	return host;
}

void model_ranks_expect_same(const struct model_rank *x, const void *a, const struct model_rank *y,
    const void *b, size_t bytes)
{
	void *one = model_rank_copy(x, a, bytes), *other = model_rank_copy(y, b, bytes);

	assert_memory_equal(one, other, bytes);
	free(one);
	free(other);
}

double model_ranks_apart(const struct model_rank *x, const void *a, const struct model_rank *y,
    const void *b, int64_t count)
{
	size_t bytes = (size_t)count * sizeof(float);
	float *one = model_rank_copy(x, a, bytes), *other = model_rank_copy(y, b, bytes);
	double far = 0, largest = 0;

	for (int64_t i = 0; i < count; i++) {
		far = fmax(far, fabs((double)one[i] - (double)other[i]));
		largest = fmax(largest, fabs((double)other[i]));
	}
	free(one);
	free(other);
	return far / largest;
}
