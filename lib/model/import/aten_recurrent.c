/* aten_recurrent.c - functions of PyTorch that are recurrent networks: LSTM and GRU. */
#include "lib/model/import/aten.h"

/* ---- initial states ---- */

static bool is_zero(const struct gt_constant *c)
{
	int64_t index[GT_MAX_DIMS] = { 0 };

	if (gt_constant_count(c))
		do {
			if (*gt_constant_at(c, index) != 0)
				return false;
		} while (gt_constant_next(c->ndim, c->shape, index));
	return true;
}

/* Whether states [layers, batch, hidden] are the same for each sample. */
static bool repeats_samples(const struct gt_constant *c)
{
	int64_t index[GT_MAX_DIMS] = { 0 };

	do {
		const double *x = gt_constant_at(c, index);

		if (*x != x[-index[1] * c->stride[1]])
			return false;
	} while (gt_constant_next(c->ndim, c->shape, index));
	return true;
}

/* Constant states for a batch that was fixed at the export serve any batch, if they are the same
 * for each sample. */
static struct gt_value *expand_states(struct gt_import *im, const struct gt_constant *c)
{
	struct gt_constant one = *c;
	struct gt_value *v;

	if (c->ndim != 3 || !im->exported_batch || im->exported_batch == im->batch ||
	    c->shape[1] != im->exported_batch || !repeats_samples(c))
		return gt_import_value(im, c);
	one.shape[1] = 1;
	v = gt_import_value(im, &one);
	return gt_expand(im->g, v, 3, (int64_t[]){ c->shape[0], im->batch, c->shape[2] });
}

/* Return initial states; NULL for zeros, from which the op starts without an input. */
static struct gt_value *read_states(struct gt_import *im, const struct gt_binding *b)
{
	if (!b)
		return NULL;
	if (b->constant)
		return is_zero(b->constant) ? NULL : expand_states(im, b->constant);
	return b->value ? b->value
	                : gt_import_fail(im, "reads '%s', which has no elements", b->name);
}

/* ---- networks ---- */

/* Read the arguments that both functions have. The dropout is active in training, whatever `train`
 * was at the export. */
static bool read_recurrent(struct gt_import *im, struct gt_recurrent *r,
    struct gt_value *weights[GT_IMPORT_TENSORS], struct gt_value *h0, struct gt_value *c0)
{
	int count = gt_import_tensors(im, "params", weights);
	int64_t layers = gt_import_int(im, "num_layers", 1);

	*r = (struct gt_recurrent){ .x = gt_import_tensor(im, "input"),
		.h0 = h0,
		.c0 = c0,
		.weights = weights,
		.rng = im->train ? im->rng : NULL,
		.biases = gt_import_bool(im, "has_biases", true),
		.batch_first = gt_import_bool(im, "batch_first", false),
		.bidirectional = gt_import_bool(im, "bidirectional", false),
		.dropout = gt_import_float(im, "dropout", 0) };
	r->layers = layers > 0 && layers <= GT_IMPORT_TENSORS ? (int)layers : 0;
	if (!im->g->err.code && r->x->ndim != 3)
		gt_import_fail(im, "of a sequence without a batch");
	if (!im->g->err.code && count != gt_recurrent_weights(r))
		gt_import_fail(im,
		    "with %d weights, where %d layers have %d: proj_size is not known", count,
		    (int)layers, gt_recurrent_weights(r));
	return !im->g->err.code;
}

void gt_aten_lstm(struct gt_import *im)
{
	struct gt_value *weights[GT_IMPORT_TENSORS], *out[3], *states[2] = { NULL };
	struct gt_binding *list[GT_IMPORT_TENSORS];
	struct gt_recurrent r;

	if (gt_import_list(im, "hx", list) != 2)
		gt_import_fail(im, ": the argument 'hx' is not two tensors");
	for (int i = 0; i < 2 && !im->g->err.code; i++)
		states[i] = read_states(im, list[i]);
	if (!read_recurrent(im, &r, weights, states[0], states[1]))
		return;
	gt_lstm(im->g, &r, out);
	for (size_t i = 0; i < 3; i++)
		gt_import_output(im, i, out[i]);
}

void gt_aten_gru(struct gt_import *im)
{
	struct gt_value *weights[GT_IMPORT_TENSORS], *out[2];
	struct gt_recurrent r;

	gt_import_constant(im, "hx"); /* reads the elements of one in the archive */
	if (!read_recurrent(im, &r, weights, read_states(im, gt_import_binding(im, "hx")), NULL))
		return;
	gt_gru(im->g, &r, out);
	for (size_t i = 0; i < 2; i++)
		gt_import_output(im, i, out[i]);
}
