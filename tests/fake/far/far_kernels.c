/* far_kernels.c - the CPU's kernels, queued on the streams of the far device. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "tests/fake/far/far_inside.h"

enum { TABLES = 64 };

/* The far rows, table by table, as the CPU's are. */
static struct gt_kernel *rows[TABLES];
static size_t row_counts[TABLES];
static const struct gt_kernel *tables[TABLES + 1];
static pthread_once_t rows_once = PTHREAD_ONCE_INIT;

/* A call as the CPU's row sees it: with the addresses that kernels may use. */
struct far_call {
	const struct gt_kernel *cpu;
	struct gt_call near;
};

static const struct gt_kernel *cpu_row(const struct gt_call *call)
{
	for (int t = 0; t < TABLES && rows[t]; t++)
		if (call->kernel >= rows[t] && call->kernel < rows[t] + row_counts[t])
			return &gt_cpu_backend.kernels()[t][call->kernel - rows[t]];
	return NULL;
}

static bool accepts(const struct gt_call *call)
{
	const struct gt_kernel *cpu = cpu_row(call);
	struct gt_call near = *call;

	near.kernel = cpu;
	return !cpu->accepts || cpu->accepts(&near);
}

static int prepare(struct gt_call *call, struct gt_err *err)
{
	struct far_call *c = gt_calloc(1, sizeof(*c), err);
	int rc = 0;

	if (!c)
		return GT_ENOMEM;
	c->cpu = cpu_row(call);
	c->near = *call;
	c->near.kernel = c->cpu;
	if (c->cpu->prepare)
		rc = c->cpu->prepare(&c->near, err);
	if (rc) {
		free(c);
		return rc;
	}
	call->workspace_bytes = c->near.workspace_bytes;
	call->state = c;
	return 0;
}

static int bind(struct gt_call *call, struct gt_err *err)
{
	struct far_call *c = call->state;

	for (int i = 0; i < call->inputs; i++)
		c->near.in[i].data = far_near(call->in[i].data);
	for (int i = 0; i < call->outputs; i++)
		c->near.out[i].data = far_near(call->out[i].data);
	c->near.workspace = far_near(call->workspace);
	return c->cpu->bind ? c->cpu->bind(&c->near, err) : 0;
}

static int run_kernel(struct far_item *item, struct gt_err *err)
{
	struct far_call *c = item->call->state;

	return c->cpu->run(&c->near, err);
}

static void add_tensor(struct far_item *item, const struct gt_tensor *t, bool write)
{
	if (t->present)
		far_add_access(
		    item, t->data, (size_t)gt_tensor_elements(t) * gt_dtype_size(t->dtype), write);
}

static int run(struct gt_call *call, struct gt_err *err)
{
	struct far_item item = { .name = call->kernel->op, .run = run_kernel, .call = call };

	for (int i = 0; i < call->inputs; i++)
		add_tensor(&item, &call->in[i], call->writes >> i & 1);
	for (int i = 0; i < call->outputs; i++)
		add_tensor(&item, &call->out[i], true);
	far_add_access(&item, call->workspace, call->workspace_bytes, true);
	return far_queue(call->stream, &item, err);
}

static void release(struct gt_call *call)
{
	struct far_call *c = call->state;

	if (c && c->cpu->release)
		c->cpu->release(&c->near);
	free(c);
	call->state = NULL;
}

static void make_rows(void)
{
	const struct gt_kernel *const *cpu = gt_cpu_backend.kernels();

	for (int t = 0; t < TABLES && cpu[t]; t++) {
		size_t count = 0;

		while (cpu[t][count].op)
			count++;
		row_counts[t] = count;
		rows[t] = calloc(count + 1, sizeof(*rows[t]));
		for (size_t i = 0; rows[t] && i < count; i++)
			rows[t][i] = (struct gt_kernel){ .op = cpu[t][i].op,
				.dtype = cpu[t][i].dtype,
				.accepts = accepts,
				.prepare = prepare,
				.bind = bind,
				.run = run,
				.release = release };
		tables[t] = rows[t];
	}
}

const struct gt_kernel *const *far_kernels(void)
{
	pthread_once(&rows_once, make_rows);
	return tables;
}

/* ---- ranges ---- */

static const struct gt_range_kernels *cpu(void)
{
	return gt_cpu_backend.ranges();
}

static const struct gt_step_kernels *cpu_steps(void)
{
	return gt_cpu_backend.steps();
}

static size_t floats(int64_t count)
{
	return (size_t)count * sizeof(float);
}

static int run_add(struct far_item *item, struct gt_err *err)
{
	return cpu()->add(NULL, item->args.a, item->args.in, item->args.count, err);
}

static int add(
    struct gt_stream *stream, float *x, const float *y, int64_t count, struct gt_err *err)
{
	struct far_item item = { .name = "add range",
		.run = run_add,
		.args = { .a = far_near(x), .in = far_near(y), .count = count } };

	far_add_access(&item, x, floats(count), true);
	far_add_access(&item, y, floats(count), false);
	return far_queue(stream, &item, err);
}

static int run_begin_step(struct far_item *item, struct gt_err *err)
{
	return cpu_steps()->begin_step(NULL, item->args.a, err);
}

static int begin_step(struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err)
{
	struct far_item item = {
		.name = "begin_step", .run = run_begin_step, .args = { .a = far_near(s) }
	};

	far_add_access(&item, s, sizeof(*s), true);
	return far_queue(stream, &item, err);
}

static int run_add_losses(struct far_item *item, struct gt_err *err)
{
	return cpu_steps()->add_losses(NULL, item->args.a, item->args.in, item->args.count, err);
}

static int add_losses(struct gt_stream *stream, struct gt_step_scalars *s, const float *losses,
    int64_t count, struct gt_err *err)
{
	struct far_item item = { .name = "add_losses",
		.run = run_add_losses,
		.args = { .a = far_near(s), .in = far_near(losses), .count = count } };

	far_add_access(&item, s, sizeof(*s), true);
	far_add_access(&item, losses, floats(count), false);
	return far_queue(stream, &item, err);
}

static int run_squares(struct far_item *item, struct gt_err *err)
{
	return cpu_steps()->squares(NULL, item->args.in, item->args.count, item->args.a, err);
}

static int squares(struct gt_stream *stream, const float *g, int64_t count,
    struct gt_step_scalars *s, struct gt_err *err)
{
	struct far_item item = { .name = "squares",
		.run = run_squares,
		.args = { .a = far_near(s), .in = far_near(g), .count = count } };

	far_add_access(&item, g, floats(count), false);
	far_add_access(&item, s, sizeof(*s), true);
	return far_queue(stream, &item, err);
}

static int run_begin_update(struct far_item *item, struct gt_err *err)
{
	return cpu_steps()->begin_update(NULL, item->args.a, err);
}

static int begin_update(struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err)
{
	struct far_item item = {
		.name = "begin_update", .run = run_begin_update, .args = { .a = far_near(s) }
	};

	far_add_access(&item, s, sizeof(*s), true);
	return far_queue(stream, &item, err);
}

static struct gt_update_options near_options(const struct gt_update_options *o)
{
	struct gt_update_options near = *o;

	near.copy = far_near(o->copy);
	return near;
}

static int run_update(struct far_item *item, struct gt_err *err)
{
	struct far_args *a = &item->args;
	const struct gt_update update = { .ranges = &a->range,
		.n = 1,
		.rows = a->rows,
		.cols = a->cols,
		.phase = a->phase,
		.work = a->c };

	a->range.o = &a->update;
	return cpu_steps()->updates[a->kind]->run(NULL, &update, a->scalars, err);
}

static int queue_range(struct gt_stream *stream, enum gt_update_kind kind, const char *name,
    const struct gt_update *u, const struct gt_update_range *r, const struct gt_step_scalars *s,
    struct gt_err *err)
{
	struct far_item item = { .name = name,
		.run = run_update,
		.args = { .kind = kind,
		    .range = { .p = far_near(r->p), .g = far_near(r->g), .count = r->count },
		    .rows = u->rows,
		    .cols = u->cols,
		    .phase = u->phase,
		    .c = far_near(u->work),
		    .update = near_options(r->o),
		    .scalars = far_near(s) } };

	far_add_access(&item, r->p, floats(r->count), true);
	far_add_access(&item, r->o->copy, (size_t)r->count * sizeof(*r->o->copy), true);
	far_add_access(&item, r->g, floats(r->count), false);
	for (int i = 0; i < GT_RANGE_STATES; i++) {
		item.args.range.states[i] = far_near(r->states[i]);
		far_add_access(&item, r->states[i], floats(r->count), true);
	}
	if (u->rows)
		far_add_access(&item, u->work, floats(gt_muon_work(u->rows, u->cols)), true);
	far_add_access(&item, s, sizeof(*s), false);
	return far_queue(stream, &item, err);
}

/* An item of its own for each range. */
static int queue_update(struct gt_stream *stream, enum gt_update_kind kind, const char *name,
    const struct gt_update *u, const struct gt_step_scalars *s, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < u->n; i++)
		rc = queue_range(stream, kind, name, u, &u->ranges[i], s, err);
	return rc;
}

#define FAR_UPDATE(NAME, name)                                                                     \
	static int update_##name(struct gt_stream *stream, const struct gt_update *u,              \
	    const struct gt_step_scalars *s, struct gt_err *err)                                   \
	{                                                                                          \
		return queue_update(stream, GT_UPDATE_##NAME, #name, u, s, err);                   \
	}                                                                                          \
	static const struct gt_update_kernel far_##name = { .run = update_##name };
GT_UPDATES(FAR_UPDATE)

static int run_lerp(struct far_item *item, struct gt_err *err)
{
	struct far_args *a = &item->args;

	return cpu()->lerp(NULL, a->a, a->in, a->count, a->weight, err);
}

static int lerp(struct gt_stream *stream, float *y, const float *x, int64_t count, float weight,
    struct gt_err *err)
{
	struct far_item item = { .name = "lerp",
		.run = run_lerp,
		.args = { .a = far_near(y), .in = far_near(x), .count = count, .weight = weight } };

	far_add_access(&item, y, floats(count), true);
	far_add_access(&item, x, floats(count), false);
	return far_queue(stream, &item, err);
}

static int run_swap(struct far_item *item, struct gt_err *err)
{
	struct far_args *a = &item->args;

	return cpu()->swap(NULL, a->a, a->b, a->count, err);
}

static int swap(struct gt_stream *stream, float *x, float *y, int64_t count, struct gt_err *err)
{
	struct far_item item = { .name = "swap",
		.run = run_swap,
		.args = { .a = far_near(x), .b = far_near(y), .count = count } };

	far_add_access(&item, x, floats(count), true);
	far_add_access(&item, y, floats(count), true);
	return far_queue(stream, &item, err);
}

static int run_narrow(struct far_item *item, struct gt_err *err)
{
	struct far_args *a = &item->args;

	return cpu()->narrow(NULL, a->a, a->in, a->count, a->dtype, err);
}

static int narrow(struct gt_stream *stream, uint16_t *half, const float *x, int64_t count,
    enum gt_dtype dtype, struct gt_err *err)
{
	struct far_item item = { .name = "narrow",
		.run = run_narrow,
		.args = {
		    .a = far_near(half), .in = far_near(x), .count = count, .dtype = dtype } };

	far_add_access(&item, half, (size_t)count * sizeof(*half), true);
	far_add_access(&item, x, floats(count), false);
	return far_queue(stream, &item, err);
}

static int run_widen(struct far_item *item, struct gt_err *err)
{
	struct far_args *a = &item->args;

	return cpu()->widen(NULL, a->a, a->in, a->count, a->dtype, err);
}

static int widen(struct gt_stream *stream, float *x, const uint16_t *half, int64_t count,
    enum gt_dtype dtype, struct gt_err *err)
{
	struct far_item item = { .name = "widen",
		.run = run_widen,
		.args = {
		    .a = far_near(x), .in = far_near(half), .count = count, .dtype = dtype } };

	far_add_access(&item, x, floats(count), true);
	far_add_access(&item, half, (size_t)count * sizeof(*half), false);
	return far_queue(stream, &item, err);
}

static int run_find_nonfinite(struct far_item *item, struct gt_err *err)
{
	struct far_args *a = &item->args;

	return cpu()->find_nonfinite(NULL, a->a, a->in, a->count, a->dtype, err);
}

static int find_nonfinite(struct gt_stream *stream, int64_t *first, const void *x, int64_t count,
    enum gt_dtype dtype, struct gt_err *err)
{
	struct far_item item = { .name = "find_nonfinite",
		.run = run_find_nonfinite,
		.args = {
		    .a = far_near(first), .in = far_near(x), .count = count, .dtype = dtype } };

	far_add_access(&item, first, sizeof(*first), true);
	far_add_access(&item, x, (size_t)count * gt_dtype_size(dtype), false);
	return far_queue(stream, &item, err);
}

static const struct gt_range_kernels ranges = {
	.add = add,
	.lerp = lerp,
	.swap = swap,
	.narrow = narrow,
	.widen = widen,
	.find_nonfinite = find_nonfinite,
};

const struct gt_range_kernels *far_ranges(void)
{
	return &ranges;
}

static int run_copy_rows(struct far_item *item, struct gt_err *err)
{
	struct far_args *a = &item->args;

	return cpu_steps()->copy_rows(
	    NULL, a->a, a->to_stride, a->in, a->from_stride, a->cols, a->rows, err);
}

static int copy_rows(struct gt_stream *stream, float *to, int64_t to_stride, const float *from,
    int64_t from_stride, int64_t length, int64_t n, struct gt_err *err)
{
	struct far_item item = { .name = "copy_rows",
		.run = run_copy_rows,
		.args = { .a = far_near(to),
		    .in = far_near(from),
		    .to_stride = to_stride,
		    .from_stride = from_stride,
		    .rows = n,
		    .cols = length } };

	if (!n || !length)
		return 0;
	far_add_access(&item, to, floats((n - 1) * to_stride + length), true);
	far_add_access(&item, from, floats((n - 1) * from_stride + length), false);
	return far_queue(stream, &item, err);
}

static const struct gt_step_kernels steps = {
	.begin_step = begin_step,
	.add_losses = add_losses,
	.squares = squares,
	.begin_update = begin_update,
	.copy_rows = copy_rows,
#define FAR_ROW(NAME, name) [GT_UPDATE_##NAME] = &far_##name,
	.updates = { GT_UPDATES(FAR_ROW) },
};

const struct gt_step_kernels *far_steps(void)
{
	return &steps;
}
