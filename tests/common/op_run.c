/* op_run.c - a case of the table as graph, passes, store and plan, and numbers in and out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/half.h"
#include "lib/base/mixed_target.h"
#include "lib/base/normals.h"
#include "lib/base/philox.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "tests/common/device.h"
#include "tests/common/op_table.h"

/* ---- numbers ---- */

static uint64_t key_of(const struct op_case *c)
{
	uint64_t h = 1469598103934665603u; /* FNV-1a */

	for (const char *s = c->op; *s; s++)
		h = (h ^ (unsigned char)*s) * 1099511628211u;
	for (const char *s = c->label; *s; s++)
		h = (h ^ (unsigned char)*s) * 1099511628211u;
	return h;
}

static double normal(uint64_t key, uint32_t stream, int64_t i)
{
	float x;

	gt_draw_normals(&(struct gt_philox_draw){ key, (uint32_t)i, stream, 0 }, 1, &x);
	return x;
}

/* The numbers 1/8 apart around zero in a random order, none closer to it than 1/16. */
static void fill_apart(double *x, int64_t n, uint64_t key, uint32_t stream)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = (double)(i - n / 2) / 8 + 1.0 / 16;
	for (int64_t i = n - 1; i > 0; i--) {
		int64_t j = (int64_t)gt_philox_below(
		    gt_philox_u64(key, (uint64_t)i, stream, 0), (uint64_t)i + 1);
		double t = x[i];

		x[i] = x[j];
		x[j] = t;
	}
}

/*
 * Element i of the vector that ranks exchange for a batch normalisation: so many values, means,
 * squares.
 */
static double draw_sums(const struct op_arg *a, uint64_t key, uint32_t stream, int64_t i)
{
	int64_t wide = a->shape[a->ndim - 1], at = i % wide;
	double count = (double)(6 + 5 * (i / wide));

	if (!at)
		return count;
	if (at <= wide / 2)
		return normal(key, stream, i);
	return count * (0.5 + gt_philox_double(gt_philox_u64(key, (uint64_t)i, stream, 0)));
}

/* Word i of the targets of mixtures. Of some rows, one class does not count, of one row both. */
static double draw_mixed(const struct op_arg *a, uint64_t bits, int64_t i)
{
	int64_t row = i / GT_MIXED_TARGET_WORDS, k = i % GT_MIXED_TARGET_WORDS;

	if (k == 2)
		return (int32_t)gt_float_bits(gt_philox_float((uint32_t)bits));
	if (row == 6 || (2 * row + k) % 5 == 4)
		return -100;
	return (double)gt_philox_below(bits, (uint64_t)a->limit);
}

static double draw(const struct op_arg *a, uint64_t key, uint32_t stream, int64_t i)
{
	static const double rng[] = { 1234567, 3, 2, 3 }; /* seed, step, first, stride */
	uint64_t bits = gt_philox_u64(key, (uint64_t)i, stream, 0);

	switch (a->kind) {
	case ARG_POSITIVE:
		return (float)(0.5 + gt_philox_double(bits));
	case ARG_COUNTER:
		return 7;
	case ARG_DOUBLE:
		return 0.5 + 4 * gt_philox_double(bits);
	case ARG_SUMS:
		return draw_sums(a, key, stream, i);
	case ARG_PAST:
		return a->limit;
	case ARG_IDS:
		return (double)gt_philox_below(bits, (uint64_t)a->limit);
	case ARG_TARGETS:
		return i % 5 == 4 ? -100 : (double)gt_philox_below(bits, (uint64_t)a->limit);
	case ARG_MIXED:
		return draw_mixed(a, bits, i);
	case ARG_BYTES:
		return (double)(bits & 255);
	case ARG_BLOCKS:
		return (double)(bits & (i % a->limit == 1 ? 63 : 255));
	case ARG_RNG:
		return rng[i];
	default:
		return normal(key, stream, i);
	}
}

static double *numbers(const struct op_arg *a, uint64_t key, uint32_t stream, int64_t n)
{
	double *x = malloc((size_t)n * sizeof(*x));

	for (int64_t i = 0; x && i < n; i++)
		x[i] = draw(a, key, stream, i);
	if (x && a->kind == ARG_APART)
		fill_apart(x, n, key, stream);
	return x;
}

static void to_device_type(void *to, const double *from, int64_t n, enum gt_dtype dtype)
{
	for (int64_t i = 0; i < n; i++) {
		if (dtype == GT_F64)
			((double *)to)[i] = from[i];
		else if (dtype == GT_F32)
			((float *)to)[i] = (float)from[i];
		else if (dtype == GT_BF16)
			((uint16_t *)to)[i] = gt_bf16_of_float((float)from[i]);
		else if (dtype == GT_F16)
			((uint16_t *)to)[i] = gt_f16_of_float((float)from[i]);
		else if (dtype == GT_I64)
			((int64_t *)to)[i] = (int64_t)from[i];
		else if (dtype == GT_I32)
			((int32_t *)to)[i] = (int32_t)from[i];
		else
			((uint8_t *)to)[i] = (uint8_t)from[i];
	}
}

/* ---- the graph ---- */

/* Of an argument as the op takes it. */
static enum gt_dtype dtype_of(const struct op_run *r, const struct op_arg *a)
{
	const struct gt_op *op = op_of(r->c);
	bool vector = a->ndim <= 1 && op->autocast == GT_AUTOCAST_KEEP;
	bool wide = vector || op == &gt_op_image_normalize;

	switch (a->kind) {
	case ARG_IDS:
	case ARG_TARGETS:
	case ARG_MIXED:
	case ARG_PAST:
		return GT_I32;
	case ARG_COUNTER:
	case ARG_RNG:
		return GT_I64;
	case ARG_BYTES:
	case ARG_BLOCKS:
		return GT_U8;
	case ARG_SUMS:
	case ARG_DOUBLE:
		return GT_F64;
	default:
		return wide ? gt_dtype_wide(r->dtype) : r->dtype;
	}
}

static struct gt_value *declare(struct op_run *r, int i)
{
	static const struct gt_init zeros = { GT_INIT_ZEROS, 0 };
	const struct op_arg *a = &r->c->in[i];
	enum gt_dtype dtype = dtype_of(r, a), stored = gt_dtype_wide(dtype);
	char name[16];

	snprintf(name, sizeof(name), "in%d", i);
	switch (a->kind) {
	case ARG_NONE:
		return NULL;
	case ARG_REAL:
	case ARG_APART:
		return gt_parameter(r->graph, name, stored, a->ndim, a->shape, zeros, false);
	case ARG_RUNNING:
	case ARG_POSITIVE:
	case ARG_COUNTER:
		return gt_buffer(r->graph, name, stored, a->ndim, a->shape, zeros);
	default:
		return gt_input(r->graph, name, dtype, a->ndim, a->shape);
	}
}

/* out . projection, a scalar. */
static struct gt_value *project(struct op_run *r, struct gt_value *out)
{
	struct gt_value *row;
	int64_t n;

	if (!out)
		return NULL;
	n = gt_value_elements(out);
	r->projection = gt_input(r->graph, "projection", out->dtype, 2, (int64_t[]){ n, 1 });
	row = gt_reshape(r->graph, out, 2, (int64_t[]){ 1, n });
	row = gt_matmul(r->graph, row, r->projection, NULL, false, false);
	return gt_output(r->graph, gt_reshape(r->graph, row, 0, NULL), "loss");
}

/* The inputs of cross_entropy_sharded that depend on its logits: its gradient is by the logits in
 * all three. */
static void make_rows(struct gt_graph *g, const union gt_attrs *attrs, struct gt_value **in)
{
	struct gt_value *of_pick[] = { in[0], in[1], in[5] };
	struct gt_node *lse = gt_emit(g, &gt_op_log_sum_exp, NULL, 1, in);
	struct gt_node *picked = gt_emit(g, &gt_op_pick, attrs, 3, of_pick);

	in[2] = lse ? lse->out[0] : NULL;
	in[3] = picked ? picked->out[0] : NULL;
}

static struct gt_node *emit(struct op_run *r, unsigned flags)
{
	const struct gt_op *op = op_of(r->c);
	struct gt_value *in[GT_MAX_INPUTS] = { NULL };
	union gt_attrs attrs = r->c->attrs;

	if (op == &gt_op_fill)
		attrs.fill.dtype = r->dtype;
	if (op == &gt_op_cast && gt_dtype_wide(r->dtype) != r->dtype)
		attrs.cast.to = GT_F32;
	if (op == &gt_op_decode)
		attrs.decode.to = r->dtype == GT_F64 ? GT_F32 : r->dtype;
	for (int i = 0; i < (r->c->build ? GT_MAX_INPUTS : op->max_inputs); i++) {
		in[i] = r->in[i] = declare(r, i);
		if (in[i] && in[i]->dtype == GT_F32)
			in[i] = gt_cast_to(r->graph, in[i], dtype_of(r, &r->c->in[i]));
		if (in[i] && r->in[i]->role == GT_PARAMETER && flags & OP_RUN_THROUGH_COPY)
			in[i] = gt_copy(r->graph, in[i]);
	}
	if (op == &gt_op_cross_entropy_sharded)
		make_rows(r->graph, &attrs, in);
	if (r->c->build) {
		struct gt_value *y = r->c->build(r->graph, in);

		return y ? y->producer : NULL;
	}
	return gt_emit(r->graph, op, &attrs, op->max_inputs, in);
}

static int build(struct op_run *r, unsigned flags, struct gt_err *err)
{
	struct gt_pass_options options = { .accumulate = flags & OP_RUN_ACCUMULATE,
		.images = test_device(0)->backend->image_layout };
	struct gt_node *n = emit(r, flags);

	for (int i = 0; n && i < n->outputs; i++) {
		struct gt_value *v = n->out[i];
		char name[16];

		snprintf(name, sizeof(name), "out%d", i);
		if (v && gt_dtype_is_real(v->dtype))
			gt_output(r->graph, v, name);
		r->outputs = i + 1;
	}
	if (n && op_case_differentiates(r->c))
		options.loss = project(r, n->out[0]);
	if (gt_graph_status(r->graph, err))
		return err->code;
	return gt_passes_run(r->graph, &options, err);
}

int op_run_open(struct op_run *r, const struct op_case *c, enum gt_dtype dtype, unsigned flags,
    struct gt_err *err)
{
	uint64_t key = key_of(c);
	size_t bytes;

	*r = (struct op_run){ .c = c, .dtype = dtype };
	if (gt_graph_new(&r->graph, err) || build(r, flags, err) ||
	    gt_store_new(&r->store, r->graph, test_device(0), true, err) ||
	    gt_store_alloc(r->store, err) || gt_plan_new(&r->plan, r->graph, r->store, NULL, err))
		goto out;
	bytes = gt_plan_arena_bytes(r->plan);
	if (gt_device_alloc(test_device(0), bytes, &r->arena, err))
		goto out;
	test_device_ruin(r->arena, bytes); /* nothing is read before it is written */
	if (gt_plan_bind(r->plan, r->arena, err))
		goto out;
	for (int i = 0; i < GT_MAX_INPUTS; i++)
		if (r->in[i])
			r->host[i] =
			    numbers(&c->in[i], key, (uint32_t)i, gt_value_elements(r->in[i]));
	if (r->projection)
		r->projection_host = numbers(&(struct op_arg){ .kind = ARG_FIXED }, key, 99,
		    gt_value_elements(r->projection));
	if (gt_dtype_wide(dtype) != dtype)
		op_run_round(r, dtype);
	return 0;
out:
	op_run_close(r);
	return err->code;
}

void op_run_close(struct op_run *r)
{
	if (r->arena)
		gt_device_free(test_device(0), r->arena, gt_plan_arena_bytes(r->plan));
	gt_plan_free(r->plan);
	gt_store_free(r->store);
	gt_graph_free(r->graph);
	for (int i = 0; i < GT_MAX_INPUTS; i++)
		free(r->host[i]);
	free(r->projection_host);
	*r = (struct op_run){ 0 };
}

static void round_all(double *x, int64_t n, enum gt_dtype dtype)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = (double)(dtype == GT_BF16 ? gt_float_of_bf16(gt_bf16_of_float((float)x[i]))
		                                 : gt_float_of_f16(gt_f16_of_float((float)x[i])));
}

void op_run_round(struct op_run *r, enum gt_dtype dtype)
{
	for (int i = 0; i < GT_MAX_INPUTS; i++)
		if (r->host[i] && gt_dtype_is_real(r->in[i]->dtype))
			round_all(r->host[i], gt_value_elements(r->in[i]), dtype);
	if (r->projection)
		round_all(r->projection_host, gt_value_elements(r->projection), dtype);
}

/* ---- running ---- */

static int hand_over(
    struct op_run *r, const struct gt_value *v, const double *host, struct gt_err *err)
{
	size_t bytes = gt_value_bytes(v);
	void *typed = malloc(bytes);
	int rc;

	if (!typed)
		return gt_err_set(err, GT_ENOMEM, "no memory");
	to_device_type(typed, host, gt_value_elements(v), v->dtype);
	if (v->role == GT_INPUT)
		rc = gt_plan_write(r->plan, v, typed, bytes, err);
	else
		rc = gt_device_write(test_device(0),
		    gt_store_data(r->store, gt_store_find(r->store, v->name)), typed, bytes, err);
	free(typed);
	return rc;
}

int op_run_go(struct op_run *r, struct gt_err *err)
{
	for (int i = 0; i < GT_MAX_INPUTS; i++)
		if (r->in[i] && hand_over(r, r->in[i], r->host[i], err))
			return err->code;
	if (r->projection && hand_over(r, r->projection, r->projection_host, err))
		return err->code;
	return gt_plan_run(r->plan, err);
}

static double *as_doubles(const void *typed, int64_t n, enum gt_dtype dtype)
{
	double *x = malloc((size_t)(n ? n : 1) * sizeof(*x));

	for (int64_t i = 0; x && i < n; i++)
		if (dtype == GT_F64)
			x[i] = ((const double *)typed)[i];
		else if (dtype == GT_BF16)
			x[i] = gt_float_of_bf16(((const uint16_t *)typed)[i]);
		else if (dtype == GT_F16)
			x[i] = gt_float_of_f16(((const uint16_t *)typed)[i]);
		else
			x[i] = ((const float *)typed)[i];
	return x;
}

double *op_run_output(struct op_run *r, const char *name, int64_t *count)
{
	const struct gt_value *v = gt_graph_find(r->graph, name);
	struct gt_err err;
	double *x = NULL;
	void *typed;

	if (!v || v->role != GT_OUTPUT)
		return NULL;
	typed = malloc(gt_value_bytes(v));
	*count = gt_value_elements(v);
	if (typed && !gt_plan_read(r->plan, v, typed, gt_value_bytes(v), &err))
		x = as_doubles(typed, *count, v->dtype);
	free(typed);
	return x;
}

static double *read_doubles(const void *device, const struct gt_slot *slot)
{
	void *typed = malloc(gt_slot_bytes(slot));
	struct gt_err err = GT_ERR_INIT;
	double *x = NULL;

	if (typed && !gt_device_read(test_device(0), typed, device, gt_slot_bytes(slot), &err))
		x = as_doubles(typed, slot->count, slot->dtype);
	free(typed);
	return x;
}

double *op_run_gradient(struct op_run *r, int i, int64_t *count)
{
	const struct gt_slot *slot = gt_store_find(r->store, r->in[i]->name);

	*count = slot->count;
	return read_doubles(gt_slot_address(r->store->gradients, slot), slot);
}
