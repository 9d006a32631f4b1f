/* snapshot_place.c - where the run of a training checkpoint stands, and its options. */
#include <math.h>

#include "lib/ckpt/ckpt.h"
#include "lib/train/checkpoint/snapshot_layout.h"
#include "lib/train/option_table.h"
#include "lib/train/run/resume.h"

/* The samples of a step; ranks that share a model take the same ones. 0 where a number is missing
 * or none of samples; options that an older file lacks were 1. */
static int64_t step_samples(const struct gt_tree *config)
{
	static const char *const factors[] = { "batch", "accumulate", "nproc" };
	static const char *const divisors[] = { "pipeline-parallel", "tensor-parallel" };
	int64_t samples = 1, factor;

	if (!gt_tree_get(config, "batch"))
		return 0;
	for (int i = 0; i < 3; i++)
		if (gt_tree_as_int(gt_tree_get(config, factors[i]), &factor) &&
		    (factor < 1 || __builtin_mul_overflow(samples, factor, &samples)))
			return 0;
	for (int i = 0; i < 2; i++)
		if (gt_tree_as_int(gt_tree_get(config, divisors[i]), &factor) && factor > 1)
			samples /= factor;
	return samples;
}

static json_t *json_of(const struct gt_tree *value);

static json_t *json_list(const struct gt_tree *list)
{
	json_t *array = json_array();

	for (size_t i = 0; i < list->seq.count; i++)
		json_array_append_new(array, json_of(list->seq.items[i].value));
	return array;
}

/* The value of an option; NULL where the file has none. */
static json_t *json_of(const struct gt_tree *value)
{
	switch (value->kind) {
	case GT_TREE_BOOL:
		return json_boolean(value->boolean);
	case GT_TREE_INT:
		return json_integer(value->integer);
	case GT_TREE_FLOAT:
		return json_real(value->real);
	case GT_TREE_STRING:
		return json_string(value->string.bytes);
	case GT_TREE_NONE:
		return json_null();
	case GT_TREE_LIST:
		return json_list(value);
	default:
		return NULL;
	}
}

/* Return the options that have a rule about a change. */
static json_t *options_of(const struct gt_tree *config)
{
	json_t *options = json_object();

	for (const struct gt_opt *row = gt_train_option_table(); row->type != GT_OPT_END; row++) {
		const struct gt_tree *value =
		    row->resume.kind ? gt_tree_get(config, row->name) : NULL;

		if (value)
			json_object_set_new(options, row->name, json_of(value));
	}
	return options;
}

static int read_counts(
    struct gt_snapshot_progress *p, const struct gt_tree *root, struct gt_err *err)
{
	const struct {
		const char *key;
		int64_t *value;
	} counts[] = { { "epoch", &p->epoch }, { "epoch_samples", &p->samples },
		{ "data_samples", &p->data_samples } };

	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		int rc = gt_tree_read_int(gt_tree_get(root, counts[i].key), counts[i].value, err);

		if (rc < 0)
			return gt_err_prefix(err, "'%s'", counts[i].key);
		if (rc > 0 && *counts[i].value < 0)
			return gt_err_set(err, GT_EFORMAT, "'%s' is %lld", counts[i].key,
			    (long long)*counts[i].value);
	}
	return 0;
}

/* The learning rate of the last step. */
static double last_rate(const struct gt_saved *saved)
{
	const struct gt_tree *rates = gt_tree_get(saved->scheduler, "_last_lr");
	double lr = NAN;

	if (rates && rates->kind == GT_TREE_LIST && rates->seq.count)
		gt_tree_as_float(rates->seq.items[0].value, &lr);
	return lr;
}

/* The learning rate of all groups of another program's file. */
static double other_program_rate(const struct gt_saved *saved)
{
	const struct gt_tree *group;
	double lr = NAN, other;

	for (size_t i = 0; (group = gt_saved_param_group(saved, i)); i++) {
		if (!gt_tree_as_float(gt_tree_get(group, "lr"), &other) || (i && other != lr))
			return NAN;
		lr = other;
	}
	return lr;
}

/* Another program's epochs may be parts: 1.28 of them. */
static void read_other_program(struct gt_snapshot_progress *p, const struct gt_saved *saved)
{
	p->other_program = true;
	p->step = saved->step;
	p->lr = other_program_rate(saved);
	p->epoch = saved->epoch < 0 ? -1 : (int64_t)saved->epoch;
}

int gt_snapshot_read_progress(
    struct gt_snapshot_progress *out, const struct gt_saved *saved, struct gt_err *err)
{
	struct gt_snapshot s = { 0 };
	int rc;

	*out = (struct gt_snapshot_progress){ .samples = -1, .lr = NAN };
	if (saved->other_program) {
		read_other_program(out, saved);
		return 0;
	}
	rc = gt_snapshot_load_position(&s, saved->root, err);
	if (!rc)
		rc = read_counts(out, saved->root, err);
	if (rc)
		return rc;
	out->step = s.step;
	out->step_samples = step_samples(saved->config);
	out->lr = last_rate(saved);
	out->config = options_of(saved->config);
	return 0;
}

void gt_snapshot_progress_release(struct gt_snapshot_progress *progress)
{
	json_decref(progress->config);
	progress->config = NULL;
}
