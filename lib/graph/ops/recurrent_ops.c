/* recurrent_ops.c - a layer of an LSTM or GRU in one direction, over all steps of time. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

enum { LSTM_GATES = 4, GRU_GATES = 3 };

/* The inputs that the forward ops have in common. */
enum { IN_X, IN_WEIGHT, IN_BIAS, IN_STATE, IN_CELL };

static int infer_state(
    const struct gt_value *s, const char *what, const struct gt_value *y, struct gt_err *err)
{
	if (s && (s->dtype != y->dtype || s->ndim != 2 || s->shape[0] != y->shape[0] ||
	             s->shape[1] != y->shape[2]))
		return gt_err_set(err, GT_EINVAL, "%s is %s %s, %s [%lld, %lld] wanted", what,
		    gt_dtype_name(s->dtype), gt_shape_text(s).s, gt_dtype_name(y->dtype),
		    (long long)y->shape[0], (long long)y->shape[2]);
	return 0;
}

/* Check the inputs but the cell, and infer the outputs. */
static int infer_layer(struct gt_node *n, int64_t gates, struct gt_err *err)
{
	const struct gt_value *x = n->in[IN_X], *w = n->in[IN_WEIGHT];

	if (gt_infer_float(x, "the input's product", 3, err) ||
	    gt_infer_float(w, "the recurrent weight", 2, err))
		return err->code;
	if (w->shape[0] != gates * w->shape[1] || w->shape[0] != x->shape[2] ||
	    w->dtype != x->dtype)
		return gt_err_set(err, GT_EINVAL,
		    "a recurrent weight %s %s does not fit %lld gates of %s %s",
		    gt_dtype_name(w->dtype), gt_shape_text(w).s, (long long)gates,
		    gt_dtype_name(x->dtype), gt_shape_text(x).s);
	gt_infer_like(n->out[0], x);
	n->out[0]->shape[2] = w->shape[1];
	gt_infer_like(n->out[1], n->out[0]);
	gt_infer_like(n->out[2], x);
	n->out[1]->dtype = n->out[2]->dtype = gt_dtype_wide(x->dtype);
	if (gt_infer_vector(n->in[IN_BIAS], "the recurrent bias", x->dtype, w->shape[0], err))
		return err->code;
	return infer_state(n->in[IN_STATE], "the initial state", n->out[0], err);
}

/* Each step multiplies the states, or their gradients, by the weight. */
static double product_flops(const struct gt_value *y, const struct gt_value *w)
{
	return 2.0 * (double)gt_value_rows(y) * (double)gt_value_elements(w);
}

static double recurrent_flops(const struct gt_node *n)
{
	return product_flops(n->out[0], n->in[IN_WEIGHT]);
}

static void recurrent_print(const struct gt_node *n, FILE *f)
{
	fprintf(f, "%s%s", n->attrs.recurrent.reverse ? " reverse" : "",
	    n->attrs.recurrent.tf32 ? " tf32" : "");
}

/* ---- gradients of the weight and the bias, by one product over all steps ---- */

/* Return the state before each step: y, moved by a step behind the initial state or zeros. */
static struct gt_value *states_before(struct gt_graph *g, const struct gt_node *n)
{
	struct gt_value *y = n->out[0], *state = n->in[IN_STATE], *parts[2];
	int64_t batch = y->shape[0], steps = y->shape[1], hidden = y->shape[2];
	bool reverse = n->attrs.recurrent.reverse;
	const int64_t by = reverse ? -1 : 1, forward[3] = { 0, by, 0 }, back[3] = { 0, -by, 0 };

	if (!state)
		return steps == 1 ? gt_fill(g, y->dtype, y->ndim, y->shape, 0)
		                  : gt_pad(g, y, forward, back);
	state = gt_reshape(g, state, 3, (int64_t[]){ batch, 1, hidden });
	if (steps == 1)
		return state;
	parts[reverse] = state;
	parts[!reverse] = gt_slice_dim(g, y, 1, reverse, reverse ? steps : steps - 1, 1);
	return gt_cat(g, 2, parts, 1);
}

/* `d` is the gradient of the recurrent product. */
static void weight_grads(struct gt_graph *g, const struct gt_node *n, struct gt_value *d,
    const bool *wanted, struct gt_value **d_in)
{
	if (wanted[IN_WEIGHT])
		d_in[IN_WEIGHT] = gt_matmul(g, d, states_before(g, n), NULL, true, false);
	if (wanted[IN_BIAS])
		d_in[IN_BIAS] = gt_bias_grad(g, d);
}

/* Check the weight and the gates of a gradient op. Infer outputs by the input, as many as `first`,
 * and then by initial states. */
static int infer_layer_grad(struct gt_node *n, int first, struct gt_err *err)
{
	const struct gt_value *w = n->in[0], *gates = n->in[1];

	if (gt_infer_float(gates, "the gates", 3, err) ||
	    gt_infer_float(w, "the recurrent weight", 2, err))
		return err->code;
	if (w->shape[0] != gates->shape[2] || gates->dtype != gt_dtype_wide(w->dtype))
		return gt_err_set(err, GT_EINVAL, "a recurrent weight %s %s does not fit %s %s",
		    gt_dtype_name(w->dtype), gt_shape_text(w).s, gt_dtype_name(gates->dtype),
		    gt_shape_text(gates).s);
	for (int i = 0; i < n->outputs; i++)
		if (i < first)
			gt_infer_shape(n->out[i], w->dtype, 3, gates->shape);
		else if (n->attrs.recurrent.initial)
			gt_infer_shape(
			    n->out[i], w->dtype, 2, (int64_t[]){ gates->shape[0], w->shape[1] });
		else
			n->out[i] = NULL;
	return 0;
}

/* ---- LSTM ---- */

static int lstm_infer(struct gt_node *n, struct gt_err *err)
{
	if (infer_layer(n, LSTM_GATES, err))
		return err->code;
	return infer_state(n->in[IN_CELL], "the initial cell", n->out[0], err);
}

static void lstm_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	union gt_attrs attrs = n->attrs;
	struct gt_node *d;

	attrs.recurrent.initial = wanted[IN_STATE] || wanted[IN_CELL];
	d = gt_emit(g, &gt_op_lstm_grad, &attrs, 6,
	    (struct gt_value *[]){
	        n->in[IN_WEIGHT], n->out[2], n->out[1], d_out[0], d_out[1], n->in[IN_CELL] });
	if (!d)
		return;
	d_in[IN_X] = d->out[0];
	d_in[IN_STATE] = d->out[1];
	d_in[IN_CELL] = d->out[2];
	weight_grads(g, n, d->out[0], wanted, d_in);
}

/*
 * lstm: one direction of a layer of torch.nn.LSTM over T steps of time.
 *   in   x F [B, T, 4 * H]: the input's product with w_ih, plus b_ih, of all steps;  w_hh
 *        F [4 * H, H];  b_hh F [4 * H], optional (0);  h0, c0 F [B, H], optional (0)
 *   out  y F [B, T, H]: the states h;  c W [B, T, H]: the cells;  gates W [B, T, 4 * H], may
 *        overwrite x
 *   With h and c of the step before, at first h0 and c0, each step computes
 *     i, f, g, o = the four blocks of H columns of x_t + h * w_hh^T + b_hh
 *     i, f, o = sigmoid(.);  g = tanh(g);  c = f * c + i * g;  h = o * tanh(c)
 *   `gates` are i, f, g, o after their functions. With attrs.recurrent.reverse, the steps go from
 *   the last to the first; y, c and gates are at the places of their steps.
 * lstm_grad:  in w_hh, gates, c, dy F (optional (0)), dc W (optional (0)), c0 (optional (0))
 *             out dx F, may overwrite gates;  dh0, dc0 F [B, H] if attrs.recurrent.initial is set
 * dx is also the gradient of h * w_hh^T + b_hh, so the gradient of w_hh is one product over all
 * steps. Kernels compute gates and cells in W. They are kept in W, because the derivatives of gates
 * near 1 are differences from 1, of which rounded gates would leave few digits. torch.autocast on
 * the CPU computes these products in the low type: PyTorch 1.13 with float32 results, PyTorch 2 by
 * a layer of oneDNN, whose results have the low type, as here.
 */
const struct gt_op gt_op_lstm = {
	.name = "lstm",
	.min_inputs = 2,
	.max_inputs = 5,
	.outputs = 3,
	.infer = lstm_infer,
	.print = recurrent_print,
	.grad = lstm_grad,
	.flops = recurrent_flops,
	.product = true,
	.inplace_last = 1u << IN_X,
	.shard = &gt_shard_whole,
	.autocast = GT_AUTOCAST_LOW,
};

static int lstm_grad_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *c = n->in[2], *dy = n->in[3];

	if (infer_layer_grad(n, 1, err))
		return err->code;
	if (dy && gt_value_elements(dy) != gt_value_elements(c))
		return gt_err_set(err, GT_EINVAL, "a gradient %s of states %s", gt_shape_text(dy).s,
		    gt_shape_text(c).s);
	return n->in[4] ? gt_infer_same(c, n->in[4], "the gradient of the cells", err) : 0;
}

/* Both gradient ops have w_hh first, and then values of all steps. */
static double recurrent_grad_flops(const struct gt_node *n)
{
	return product_flops(n->in[1], n->in[0]);
}

const struct gt_op gt_op_lstm_grad = {
	.name = "lstm_grad",
	.min_inputs = 3,
	.max_inputs = 6,
	.outputs = 3,
	.infer = lstm_grad_infer,
	.print = recurrent_print,
	.flops = recurrent_grad_flops,
	.product = true,
	.inplace = 1u << 1,
};

/* ---- GRU ---- */

static int gru_infer(struct gt_node *n, struct gt_err *err)
{
	return infer_layer(n, GRU_GATES, err);
}

static void gru_grad(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	union gt_attrs attrs = n->attrs;
	struct gt_node *d;

	attrs.recurrent.initial = wanted[IN_STATE];
	d = gt_emit(g, &gt_op_gru_grad, &attrs, 6,
	    (struct gt_value *[]){
	        n->in[IN_WEIGHT], n->out[2], n->out[1], n->out[0], d_out[0], n->in[IN_STATE] });
	if (!d)
		return;
	d_in[IN_X] = d->out[0];
	d_in[IN_STATE] = d->out[2];
	weight_grads(g, n, d->out[1], wanted, d_in);
}

/*
 * gru: one direction of a layer of torch.nn.GRU over T steps of time.
 *   in   x F [B, T, 3 * H]: the input's product with w_ih, plus b_ih, of all steps;  w_hh
 *        F [3 * H, H];  b_hh F [3 * H], optional (0);  h0 F [B, H], optional (0)
 *   out  y F [B, T, H]: the states h;  sums W [B, T, H]: s of each step;  gates W [B, T, 3 * H],
 *        may overwrite x
 *   With h of the step before, at first h0, each step computes
 *     a, b, s = the three blocks of H columns of h * w_hh^T + b_hh;  p, q, n likewise of x_t
 *     r = sigmoid(p + a);  z = sigmoid(q + b);  n = tanh(n + r * s);  h = (1 - z) * n + z * h
 *   `gates` are r, z, n. attrs.recurrent.reverse is as for lstm.
 * gru_grad:  in w_hh, gates, sums, y, dy, h0 (optional (0))
 *            out dx F, may overwrite gates;  d_hidden like dx, the gradient of h * w_hh^T + b_hh;
 *                dh0 F [B, H] if attrs.recurrent.initial is set
 */
const struct gt_op gt_op_gru = {
	.name = "gru",
	.min_inputs = 2,
	.max_inputs = 4,
	.outputs = 3,
	.infer = gru_infer,
	.print = recurrent_print,
	.grad = gru_grad,
	.flops = recurrent_flops,
	.product = true,
	.inplace_last = 1u << IN_X,
	.shard = &gt_shard_whole,
	.autocast = GT_AUTOCAST_LOW,
};

static int gru_grad_infer(struct gt_node *n, struct gt_err *err)
{
	const struct gt_value *y = n->in[3];

	if (infer_layer_grad(n, 2, err) || gt_infer_same(y, n->in[4], "the gradient", err))
		return err->code;
	return infer_state(n->in[5], "the initial state", y, err);
}

const struct gt_op gt_op_gru_grad = {
	.name = "gru_grad",
	.min_inputs = 5,
	.max_inputs = 6,
	.outputs = 3,
	.infer = gru_grad_infer,
	.print = recurrent_print,
	.flops = recurrent_grad_flops,
	.product = true,
	.inplace = 1u << 1,
};
