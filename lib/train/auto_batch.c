/* auto_batch.c - the largest batch whose plan fits into memory, for {batch} auto. */
#include <stdlib.h>

#include "lib/base/text.h"
#include "lib/comm/place.h"
#include "lib/train/state.h"

/*
 * A dry run with the smallest batch opens the data and the model; then batches are planned with the
 * options of the run, and their memory is compared with the memory that is there. More samples need
 * more memory, so the search doubles the batch until it does not fit, and halves the rest.
 */

/* The batches that the ranks can divide, in ascending order. */
struct sizes {
	int *list; /* [count] */
	int count;
};

/* The samples of a step on all ranks bound those of a rank in a micro-batch. */
static int most_samples(const struct gt_train_options *o, int ranks)
{
	const int readers = gt_parallel_data_ranks(&o->parallel, ranks);
	const int64_t each = o->global_batch / (readers < 1 ? 1 : readers);

	return o->global_batch && each < GT_TRAIN_MAX_BATCHES ? (int)each : GT_TRAIN_MAX_BATCHES;
}

static int list_sizes(
    struct sizes *out, const struct gt_train_options *o, int ranks, struct gt_err *err)
{
	const int most = most_samples(o, ranks);

	out->list = gt_calloc((size_t)most + 1, sizeof(*out->list), err);
	if (!out->list)
		return GT_ENOMEM;
	for (int batch = 1; batch <= most; batch++)
		if (!gt_train_check_batch(o, ranks, batch, GT_ERR_IGNORED))
			out->list[out->count++] = batch;
	/* The error for one sample tells why there is none. */
	return out->count ? 0 : gt_train_check_batch(o, ranks, 1, err);
}

int gt_train_check_auto_batch(const struct gt_train_options *o, int ranks, struct gt_err *err)
{
	struct sizes sizes = { 0 };
	int rc;

	if (o->recompute == GT_RECOMPUTE_AUTO) {
		gt_err_set(err, GT_EINVAL, "{batch} auto cannot be combined with {recompute} auto");
		return gt_err_hint(
		    err, "give one of them a value, as in {recompute} all or {batch} 8");
	}
	rc = list_sizes(&sizes, o, ranks, err);
	free(sizes.list);
	return rc;
}

/* Leave out batches with which a step would have more samples than an epoch. */
static void leave_out_large(struct sizes *sizes, const struct gt_train *t)
{
	const int64_t rank_samples = t->sampler.samples / gt_session_data_world(&t->s);

	while (sizes->count > 1 &&
	       (int64_t)sizes->list[sizes->count - 1] * (t->o.global_batch ? 1 : t->o.accumulate) >
	           rank_samples)
		sizes->count--;
}

/* Set *bytes to the memory of a rank with this batch: of the stage that needs most. */
static int find_need(uint64_t *bytes, const struct gt_train *t, int batch, struct gt_err *err)
{
	const int stages = t->o.parallel.stages > 1 ? t->o.parallel.stages : 1;
	struct gt_train_options options = t->o;
	int rc;

	*bytes = 0;
	options.batch = batch;
	rc = gt_train_resolve_accumulate(&options, gt_train_world(t), err);
	for (int i = 0; !rc && i < stages; i++) {
		struct gt_session_memory m;
		struct gt_train stage;

		rc = gt_train_plan_as(&stage, t, &options, i * (gt_train_world(t) / stages), err);
		if (!rc)
			gt_train_memory(&m, &stage);
		if (!rc && m.total > *bytes)
			*bytes = m.total;
		gt_session_plan_close(&stage.s);
	}
	return rc;
}

/* The result of a search: the number of sizes that fit, and the memory that the largest of them
 * needs, or the smallest of all if none fits. */
struct found {
	int count;
	uint64_t bytes;
};

static int search_sizes(struct found *out, const struct sizes *sizes, const struct gt_train *t,
    uint64_t free_bytes, struct gt_err *err)
{
	/* sizes below `fits` fit, those from `large` on do not */
	int fits = 0, large = sizes->count, step = 1;

	while (fits < large) {
		int next = large < sizes->count ? (fits + large) / 2 : fits + step - 1;
		uint64_t bytes;
		struct gt_err why = GT_ERR_INIT;

		if (next >= large)
			next = large - 1;
		/* A plan of too many samples may be impossible for a kernel. */
		if (find_need(&bytes, t, sizes->list[next], &why) &&
		    (!next || why.code == GT_ENOMEM)) {
			*err = why;
			return err->code;
		}
		if (!why.code && bytes <= free_bytes) {
			fits = next + 1;
			step *= 2;
		} else {
			large = next;
		}
		if (fits == next + 1 || !next)
			out->bytes = bytes;
	}
	out->count = fits;
	return 0;
}

/* A part of a host's memory stays free for libraries, threads and pages of files, which the plan
 * does not count. */
static int find_free_of_rank(uint64_t *bytes, const struct gt_train *t, struct gt_err *err)
{
	int rc = gt_train_free_memory(t, bytes, err);

	if (!rc && !t->o.where.described_bytes && t->s.device->backend->host_memory)
		*bytes -= *bytes / 16;
	return rc;
}

/* The least memory that any rank may take: all take the same batch. */
static int find_free(uint64_t *bytes, struct gt_train *t, struct gt_err *err)
{
	struct gt_group *group = t->o.where.group;
	int64_t place, least;
	int rc = 0;

	if (!group || group->size == 1)
		return find_free_of_rank(bytes, t, err);
	if (!t->s.device->backend->host_memory)
		rc = gt_place_of(&place, t->s.device, err);
	if (!rc && !t->s.device->backend->host_memory)
		rc = gt_place_count(&t->s.sharing, place, group, err);
	/* All have opened their device, and none has taken memory for its run. */
	if (!rc)
		rc = gt_barrier(group, err);
	if (!rc)
		rc = find_free_of_rank(bytes, t, err);
	least = *bytes < INT64_MAX ? -(int64_t)*bytes : -INT64_MAX;
	if (!rc)
		rc = gt_all_reduce(group, &least, 1, GT_I64, GT_MAX, err);
	*bytes = (uint64_t)-least;
	return rc;
}

static int fail_smallest(
    const struct gt_train *t, int batch, uint64_t need, uint64_t have, struct gt_err *err)
{
	const bool shards =
	    gt_session_data_world(&t->s) > 1 && t->o.parallel.kind != GT_PARALLEL_ZERO3;
	char a[GT_TEXT_SIZE], b[GT_TEXT_SIZE];

	gt_err_set(err, GT_ENOMEM, "{batch} auto: %d sample%s need%s %s, and a device has %s",
	    batch, batch == 1 ? "" : "s", batch == 1 ? "s" : "", gt_text_bytes(a, need),
	    gt_text_bytes(b, have));
	if (t->o.recompute)
		return gt_err_hint(err,
		    shards ? "use {parallel} zero3 or a smaller model" : "use a smaller model");
	return gt_err_hint(err, shards ? "use {recompute}, {parallel} zero3 or a smaller model"
	                               : "use {recompute} or a smaller model");
}

static void log_choice(struct gt_log *log, const struct gt_train *t, const struct sizes *sizes,
    const struct found *found, uint64_t have)
{
	char a[GT_TEXT_SIZE], b[GT_TEXT_SIZE];
	const int batch = sizes->list[found->count - 1];

	if (gt_train_rank(t))
		return;
	gt_text_bytes(a, found->bytes);
	gt_text_bytes(b, have);
	if (found->count < sizes->count)
		gt_log_info(log, "{batch} auto: %d per device (%s of %s)", batch, a, b);
	else if (t->o.global_batch)
		gt_log_info(log,
		    "{batch} auto: %d per device, as many as {global-batch} has (%s of %s)", batch,
		    a, b);
	else
		gt_log_info(log, "{batch} auto: %d per device, as many as an epoch has (%s of %s)",
		    batch, a, b);
}

/* Keep the batch of the run that is resumed: another one would be another training. If it does not
 * fit, gt_session_open() refuses it with the options that do. */
static int keep_resumed(struct gt_train *t, int batch, struct gt_log *log, struct gt_err *err)
{
	char a[GT_TEXT_SIZE], b[GT_TEXT_SIZE];
	uint64_t need, have;

	if (find_need(&need, t, batch, err) || find_free(&have, t, err))
		return err->code;
	if (gt_train_rank(t))
		return 0;
	gt_text_bytes(a, need);
	gt_text_bytes(b, have);
	if (need <= have)
		gt_log_info(log, "{batch} auto: %d per device, as before (%s of %s)", batch, a, b);
	else
		gt_log_warn(log,
		    "{batch} auto: %d per device, as before, needs %s, and a device has %s: a "
		    "smaller {batch} with more {accumulate} trains with as many samples in a step",
		    batch, a, b);
	return 0;
}

/* Return the batch of the run that is resumed if it is one of the sizes, or 0. */
static int find_resumed(const struct gt_train *t, const struct sizes *sizes)
{
	const json_int_t batch =
	    t->resumes ? json_integer_value(json_object_get(t->resumed.config, "batch")) : 0;

	for (int i = 0; batch && i < sizes->count; i++)
		if (sizes->list[i] == batch)
			return (int)batch;
	return 0;
}

static int choose(
    int *batch, struct gt_train *t, struct sizes *sizes, struct gt_log *log, struct gt_err *err)
{
	struct found found = { 0 };
	uint64_t free_bytes = 0;
	int rc;

	if (gt_dataset_is_memory(t->data)) {
		gt_err_set(
		    err, GT_EINVAL, "{batch} auto cannot be combined with samples in memory");
		return gt_err_hint(err, "give the number of samples that a step takes");
	}
	*batch = find_resumed(t, sizes);
	if (*batch)
		return keep_resumed(t, *batch, log, err);
	leave_out_large(sizes, t);
	rc = find_free(&free_bytes, t, err);
	if (!rc)
		rc = search_sizes(&found, sizes, t, free_bytes, err);
	if (rc)
		return rc;
	if (!found.count)
		return fail_smallest(t, sizes->list[0], found.bytes, free_bytes, err);
	*batch = sizes->list[found.count - 1];
	log_choice(log, t, sizes, &found, free_bytes);
	return 0;
}

int gt_train_choose_batch(struct gt_train_options *o, struct gt_log *log, struct gt_err *err)
{
	const int ranks = o->where.group ? o->where.group->size : o->nproc > 1 ? o->nproc : 1;
	struct gt_train_options smallest = *o;
	struct gt_log quiet = { 0 }; /* the run itself logs the notes about its data */
	struct sizes sizes = { 0 };
	struct gt_train *t = NULL;
	int rc = gt_train_check_auto_batch(o, ranks, err);

	if (!rc)
		rc = list_sizes(&sizes, o, ranks, err);
	if (!rc) {
		smallest.batch = sizes.list[0];
		rc = gt_train_open(&t, &smallest, true, &quiet, err);
	}
	if (!rc)
		rc = choose(&o->batch, t, &sizes, log, err);
	gt_train_close(t);
	free(sizes.list);
	return rc;
}
