/* work.c - list the work of a rank in a step, from the plan that it would run. */
#include "lib/train/report/work.h"

#include <math.h>

#include "lib/graph/op.h"
#include "lib/graph/ops/ops.h"
#include "lib/train/state.h"

/* ---- lists ---- */

/* Items outside of plans: a few for each collective and each part of an update. */
enum { OUTSIDE = 5 * GT_STEP_TRAFFIC + 4 };

static struct gt_work *add_item(struct gt_work_list *w, const char *op)
{
	struct gt_work *item = &w->list[w->count++];

	*item =
	    (struct gt_work){ .op = op, .traffic = { .ranks = 1, .apart = 1 }, .dtype = GT_F32 };
	return item;
}

static void add_step_traffic(
    struct gt_work_list *w, const struct gt_parallel *p, enum gt_traffic_time time)
{
	struct gt_traffic list[GT_STEP_TRAFFIC];
	int count = gt_parallel_step_traffic(list, p, time);

	for (int i = 0; i < count; i++)
		add_item(w, "step")->traffic = list[i];
}

static void add_pass(struct gt_work_list *w, const char *op, double bytes)
{
	struct gt_work *item = add_item(w, op);

	item->bytes = bytes;
	item->launches = 1;
	item->update = true;
}

/* The first operand's type is that of a product. */
static enum gt_dtype type_of(const struct gt_node *n)
{
	if (n->inputs && n->in[0])
		return n->in[0]->dtype;
	return n->outputs && n->out[0] ? n->out[0]->dtype : GT_F32;
}

/* Return the shorter side of a matrix, which is a tensor that has `rows` rows. */
static double shorter_side(const struct gt_value *v, int64_t rows)
{
	return fmin((double)rows, (double)gt_value_elements(v) / (double)rows);
}

/* Return the weights of a convolution, or their gradient; NULL: n is no convolution. */
static const struct gt_value *weights_of(const struct gt_node *n)
{
	if (n->op == &gt_op_conv2d_weight_grad)
		return n->out[0];
	return n->op == &gt_op_conv2d || n->op == &gt_op_conv2d_input_grad ? n->in[1] : NULL;
}

/* Return the smallest of two operands and a result that are matrices; NULL: there is none. */
static const struct gt_value *smallest_matrix(const struct gt_node *n)
{
	const struct gt_value *const values[] = { n->in[0], n->in[1], n->out[0] }, *least = NULL;

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		if (values[i] && values[i]->ndim > 1 &&
		    (!least || gt_value_elements(values[i]) < gt_value_elements(least)))
			least = values[i];
	return least;
}

/*
 * Return the shorter side of the smallest matrix of a product (struct gt_work). A convolution is a
 * product of its weights, with a row for each channel of the output, and of the windows of images,
 * which are many even in a small batch. Of a tensor of several matrices, each one counts.
 */
static double width_of(const struct gt_node *n)
{
	const struct gt_value *v = weights_of(n);

	if (v)
		return shorter_side(v, v->shape[0]);
	v = smallest_matrix(n);
	if (v && n->op == &gt_op_batched_matmul)
		return fmin((double)v->shape[v->ndim - 1], (double)v->shape[v->ndim - 2]);
	return v ? shorter_side(v, v->shape[v->ndim - 1]) : 0;
}

static int add_step(struct gt_work_list *w, const struct gt_parallel *p, const struct gt_step *step,
    struct gt_err *err)
{
	const struct gt_node *n = step->node;
	struct gt_work *item = add_item(w, n->op->name);
	struct gt_cost cost = { 0 };

	gt_step_add_cost(step, &cost);
	item->runs = n->runs;
	item->dtype = type_of(n);
	if (gt_parallel_traffic(&item->traffic, p, n, err))
		return err->code;
	if (item->traffic.role != GT_TRAFFIC_NONE)
		return 0;
	item->flops = cost.flops;
	item->bytes = cost.bytes_read + cost.bytes_written;
	item->launches = step->call.launches;
	item->product = n->op->product;
	item->width = item->product ? width_of(n) : 0;
	return 0;
}

/* ---- the update ---- */

/* Return whether each rank of the data axis updates its shard alone. */
static bool divides_update(const struct gt_train *t)
{
	return gt_session_data_world(&t->s) > 1 && t->o.parallel.kind >= GT_PARALLEL_ZERO1;
}

/*
 * The update reads each gradient, parameter and state that this rank owns, and writes parameters
 * and states. Before that the norm reads the gradients. With mixed precision, working copies of all
 * parameters are written.
 */
static void find_update_bytes(double *norm, double *update, const struct gt_train *t)
{
	double held = (double)gt_store_flat_bytes(t->s.store);
	struct gt_session_memory m;

	gt_session_memory(&m, &t->s);
	*norm = divides_update(t) ? held / gt_session_data_world(&t->s) : held;
	*update = 3 * *norm + 2 * (double)m.optimizer;
	if (t->s.store->copies)
		*update += (double)gt_plane_bytes(t->s.store, t->s.store->copies);
}

double gt_train_update_bytes(const struct gt_train *t)
{
	double norm, update;

	find_update_bytes(&norm, &update, t);
	return norm + update;
}

static void add_update(struct gt_work_list *w, const struct gt_train *t)
{
	const struct gt_parallel *p = t->s.parallel;
	double norm, update;

	find_update_bytes(&norm, &update, t);
	add_step_traffic(w, p, GT_TRAFFIC_AGREE);
	add_pass(w, "norm", norm);
	add_step_traffic(w, p, GT_TRAFFIC_NORM);
	add_step_traffic(w, p, GT_TRAFFIC_UPDATE);
	add_pass(w, "update", update);
	add_step_traffic(w, p, GT_TRAFFIC_UPDATED);
}

static int list_work(struct gt_work_list *w, const struct gt_train *t,
    const struct gt_program_pair *pair, struct gt_err *err)
{
	size_t count;
	const struct gt_step *steps = gt_plan_steps(pair->full.plan, &count);
	int rc = 0;

	w->list = gt_calloc(count + OUTSIDE, sizeof(*w->list), err);
	if (!w->list)
		return GT_ENOMEM;
	w->runs = t->runs;
	w->tf32 = t->s.precision.tf32;
	add_step_traffic(w, t->s.parallel, GT_TRAFFIC_BEFORE);
	if (pair->accumulates || gt_parallel_adds(t->s.parallel))
		add_pass(w, GT_PROFILE_ZEROING,
		    (double)gt_plane_bytes(t->s.store, t->s.store->gradients));
	w->first = w->count;
	for (size_t i = 0; !rc && i < count; i++)
		rc = add_step(w, t->s.parallel, &steps[i], err);
	w->last = w->count;
	if (!rc)
		add_update(w, t);
	return rc;
}

/* ---- stages ---- */

static void outline_run(struct gt_train_outline *o, const struct gt_train *t)
{
	const struct gt_parallel_options *p = &t->o.parallel;
	const struct gt_sample_form *form = &t->s.input.form;
	int virtual_ranks = gt_train_virtual_ranks(t);

	*o = (struct gt_train_outline){ .ranks = gt_train_world(t),
		.stages = p->stages > 1 ? p->stages : 1,
		.tensor = p->tensor > 1 ? p->tensor : 1,
		.data = gt_session_data_world(&t->s),
		.chunks = gt_parallel_chunks(t->s.parallel, t->batch),
		.step_samples =
		    (int64_t)t->sampler.batch * (t->sampler.world / virtual_ranks) * t->runs,
		.tokens_per_sample =
		    form->kind == GT_SAMPLE_TOKENS ? (int)gt_dataset_info(t->data)->targets : 0,
		.parameters = t->s.store->parameter_count + t->s.store->frozen_count };
}

static int check_samples(
    const struct gt_train *t, const struct gt_train_outline *o, struct gt_err *err)
{
	if (t->steps.full.plan && o->step_samples <= t->sampler.samples)
		return 0;
	gt_err_set(err, GT_EINVAL, "{data} has %lld samples, too few for a step of %lld",
	    (long long)t->sampler.samples, (long long)o->step_samples);
	return gt_err_hint(err,
	    "{data} random,samples=%lld has enough, in the form that the model takes",
	    (long long)o->step_samples);
}

int gt_train_stage_work(struct gt_train_stage *out, struct gt_train_outline *outline,
    const struct gt_train *t, const struct gt_train_options *options, int index, struct gt_err *err)
{
	const struct gt_recompute *blocks;
	struct gt_plan_summary summary;
	struct gt_train stage;
	int stages = options->parallel.stages > 1 ? options->parallel.stages : 1;
	int rc = gt_train_plan_as(&stage, t, options, index * (gt_train_world(t) / stages), err);

	*out = (struct gt_train_stage){ 0 };
	if (!rc) {
		outline_run(outline, &stage);
		rc = check_samples(&stage, outline, err);
	}
	if (!rc)
		rc = list_work(&out->work, &stage, &stage.steps, err);
	if (!rc) {
		blocks = gt_train_recomputed(&stage);
		gt_plan_summarize(stage.steps.full.plan, &summary);
		gt_train_memory(&out->memory, &stage);
		out->flops = summary.cost.flops * stage.runs;
		out->blocks = blocks->blocks;
		out->recomputed = blocks->done;
	}
	gt_session_plan_close(&stage.s);
	return rc;
}
