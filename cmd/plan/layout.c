/* layout.c - plan all stages of a run, and simulate them. */
#include <math.h>
#include <stdlib.h>

#include "cmd/plan/plan.h"

/* ---- figures ---- */

/* The peak of products of the type that most of them have. */
static double peak_of(const struct gt_cluster_device *d, const struct gt_train_options *o)
{
	const struct gt_precision p = gt_amp_precision(o->amp, o->tf32);
	enum gt_product_type type = p.tf32 ? GT_PRODUCT_TF32 : GT_PRODUCT_F32;

	if (p.low == GT_BF16)
		type = GT_PRODUCT_BF16;
	else if (p.low == GT_F16)
		type = GT_PRODUCT_F16;
	return d->peak[type];
}

static void sum_up(
    struct gt_plan_layout *l, const struct gt_work_list *work, const struct gt_cluster *cluster)
{
	const struct gt_train_outline *o = &l->outline;
	double peak = peak_of(&cluster->device, &l->options), step_s;

	l->slowest = gt_plan_slowest(l->times, o->stages);
	step_s = l->times[l->slowest].step_s;
	for (int i = 0; i < o->stages; i++) {
		uint64_t bytes = l->stages[i].memory.total;

		l->flops += l->stages[i].flops * (o->ranks / o->stages);
		if (bytes > l->memory_bytes)
			l->memory_bytes = bytes;
	}
	for (int axis = 0; axis < GT_AXES; axis++)
		l->sent[axis] = gt_work_sent(&work[l->slowest], (enum gt_axis)axis);
	l->fits = (double)l->memory_bytes <= cluster->device.memory_bytes;
	l->samples_per_s = (double)o->step_samples / step_s;
	l->peak_share = peak > 0 ? l->flops / (step_s * peak * o->ranks) : 0;
}

/* ---- planning ---- */

/* Plan the stages from `first` to before `end`. */
static int plan_stages(struct gt_plan_layout *l, struct gt_work_list *work,
    const struct gt_train *t, int first, int end, struct gt_err *err)
{
	int rc = 0;

	for (int i = first; !rc && i < end; i++) {
		rc = gt_train_stage_work(&l->stages[i], &l->outline, t, &l->options, i, err);
		work[i] = l->stages[i].work;
		l->stages[i].work = (struct gt_work_list){ 0 };
	}
	return rc;
}

/* Let the second stage stand for all between the first and the last. Its order of messages differs
 * from theirs, and in a long pipeline the stages may then wait for each other for ever: in this
 * case all are planned. */
static int simulate_quickly(struct gt_plan_layout *l, struct gt_work_list *work, int stages,
    const struct gt_train *t, const struct gt_cluster *cluster, struct gt_err *err)
{
	struct gt_err why = GT_ERR_INIT;
	int rc = plan_stages(l, work, t, 0, 2, err);

	if (!rc)
		rc = plan_stages(l, work, t, stages - 1, stages, err);
	if (rc)
		return rc;
	for (int i = 2; i < stages - 1; i++) {
		l->stages[i] = l->stages[1];
		work[i] = work[1];
	}
	rc = gt_plan_simulate(l->times, cluster, work, stages, &why);
	if (rc != GT_EINVAL) {
		if (rc)
			*err = why;
		return rc;
	}
	for (int i = 2; i < stages - 1; i++)
		work[i] = (struct gt_work_list){ 0 };
	rc = plan_stages(l, work, t, 2, stages - 1, err);
	return rc ? rc : gt_plan_simulate(l->times, cluster, work, stages, err);
}

int gt_plan_layout(struct gt_plan_layout *out, const struct gt_train *t,
    const struct gt_train_options *options, const struct gt_cluster *cluster, bool quick,
    struct gt_err *err)
{
	int stages = options->parallel.stages > 1 ? options->parallel.stages : 1, rc = 0;
	struct gt_work_list *work = gt_calloc((size_t)stages, sizeof(*work), err);

	*out = (struct gt_plan_layout){ .options = *options };
	out->stages = gt_calloc((size_t)stages, sizeof(*out->stages), err);
	out->times = gt_calloc((size_t)stages, sizeof(*out->times), err);
	if (!work || !out->stages || !out->times)
		rc = GT_ENOMEM;
	if (!rc && quick && stages > 3) {
		rc = simulate_quickly(out, work, stages, t, cluster, err);
	} else if (!rc) {
		rc = plan_stages(out, work, t, 0, stages, err);
		if (!rc)
			rc = gt_plan_simulate(out->times, cluster, work, stages, err);
	}
	if (!rc)
		sum_up(out, work, cluster);
	for (int i = stages - 1; work && i >= 0; i--)
		if (!i || work[i].list != work[i - 1].list)
			gt_work_release(&work[i]);
	free(work);
	return rc;
}

void gt_plan_layout_release(struct gt_plan_layout *l)
{
	free(l->stages);
	free(l->times);
	*l = (struct gt_plan_layout){ 0 };
}

/* ---- the limit ---- */

static void consider(
    struct gt_plan_limit *most, double seconds, double step_s, const char *what, const char *advice)
{
	if (seconds / step_s > most->part)
		*most = (struct gt_plan_limit){ what, advice, seconds / step_s };
}

void gt_plan_find_limit(
    struct gt_plan_limit *out, const struct gt_plan_layout *l, const struct gt_cluster *cluster)
{
	const struct gt_step_times *t = &l->times[l->slowest];
	bool narrow = l->options.amp != GT_AMP_OFF || cluster->device.host;
	double step_s = t->step_s;

	*out = (struct gt_plan_limit){ "nothing", "", 0 };
	consider(out, t->bound_s[GT_BOUND_PRODUCTS], step_s, "matrix products",
	    narrow ? "" : "--amp bf16");
	consider(out, t->bound_s[GT_BOUND_VECTOR], step_s, "arithmetic of other ops", "");
	consider(out, t->bound_s[GT_BOUND_MEMORY], step_s, "the memory's bandwidth",
	    narrow ? "" : "--amp bf16");
	consider(out, t->bound_s[GT_BOUND_LAUNCH], step_s, "launching kernels", "a larger --batch");
	consider(out, t->exposed_s[GT_AXIS_DATA], step_s,
	    "communication between data-parallel ranks", "a larger --batch or --accumulate");
	consider(out, t->exposed_s[GT_AXIS_TENSOR], step_s,
	    "communication between tensor-parallel ranks", "a smaller --tensor-parallel");
	consider(
	    out, t->exposed_s[GT_AXIS_PIPELINE], step_s, "messages between stages", "fewer stages");
	consider(out, t->bubble_s, step_s, "waiting for other stages", "more --chunks");
	consider(out, t->update_s, step_s, "the optimizer",
	    l->options.parallel.kind >= GT_PARALLEL_ZERO1 || l->outline.data == 1
	        ? "a larger --accumulate"
	        : "--parallel zero1");
}
