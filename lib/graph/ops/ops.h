/* ops.h - all ops of the graph, and the functions that emit them. */
#ifndef GT_GRAPH_OPS_OPS_H
#define GT_GRAPH_OPS_OPS_H

#include "lib/graph/map_program.h"
#include "lib/graph/op.h"

/*
 * The inputs, outputs and formula of an op stand above its row (const struct gt_op) in the file
 * that is named here. Kernels follow these formulas, which have this notation:
 *   F         float32, float64, bfloat16 or float16; all F values of a node have the same type
 *   W         the type of statistics and of vectors over channels: float32 if F is bfloat16 or
 *             float16, else F
 *   I32, I64  integers of 32 and 64 bits
 *   U8        unsigned bytes
 *   F32, F64  float32, float64
 *   [B, T, C] a shape: B samples, T tokens, C channels; [] is a scalar
 *   ...       any number of leading dimensions, which the op treats as one dimension of rows
 *   rows      the product of these leading dimensions
 *   like x    the type and shape of x
 *   dx        the gradient of the loss with respect to x
 *   optional  the input or output may be missing (NULL)
 *   optional (0)       the input may be missing; 0 is used instead
 *   may overwrite x    the output may use the memory of x (gt_op.inplace, gt_op.inplace_last)
 *   attrs.OP.NAME      an attribute of the node (attrs.h)
 *
 * An op without a function is emitted by a pass (lib/graph/pass.h) or by another op's gradient
 * function (gt_op.grad). Each function below appends a node and returns its out[0], or NULL if a
 * required input is NULL or the graph has failed (graph.h).
 */

/* ---- matmul.c, matmul_fused.c ---- */

/* Matrix product op(a) * op(b) + bias (or NULL), where op is the identity or a transposition. */
struct gt_value *gt_matmul(struct gt_graph *g, struct gt_value *a, struct gt_value *b,
    struct gt_value *bias, bool trans_a, bool trans_b);

/* Add bias [N] to each row of x. */
struct gt_value *gt_bias_add(struct gt_graph *g, struct gt_value *x, struct gt_value *bias);

/* Sum dy for each channel: over dimension 1 of an image, else over the last dimension. */
struct gt_value *gt_bias_grad(struct gt_graph *g, struct gt_value *dy);

/* ---- batched_matmul.c ---- */

/*
 * Products op(a) * op(b) of the matrices in the last two dimensions, as torch.matmul. The
 * dimensions before them are broadcast as in NumPy; op transposes the two last dimensions, or does
 * nothing. Both have at least two dimensions. If all products share the second factor, and the
 * first one is not transposed, this is gt_matmul() of all rows.
 *
 *   scores of attention, [batch, heads, tokens, tokens]: gt_batched_matmul(g, q, k, false, true)
 */
struct gt_value *gt_batched_matmul(
    struct gt_graph *g, struct gt_value *a, struct gt_value *b, bool trans_a, bool trans_b);

/* ---- conv.c ---- */

/*
 * The form of a convolution; pairs are for height and width, in pixels. As in PyTorch, a stride, a
 * dilation and a number of groups that are left out (0) are 1. Example: kernels of 3 x 3 with
 * channels of their own (depthwise), which keep the size of the image:
 *
 *   gt_conv2d(g, x, w, NULL, (struct gt_conv_form){ .pad = { 1, 1 }, .groups = 32 })
 *
 * where x is [B, 32, H, W] and w is [32, 1, 3, 3].
 */
struct gt_conv_form {
	int stride[2], pad[2], dilation[2];
	int out_pad[2]; /* gt_conv_transpose2d() alone: rows and columns added at the end */
	int groups;     /* group i of the outputs sees group i of the inputs alone */
};

/* The usual form: one group, with this stride and padding in both dimensions. */
struct gt_conv_form gt_conv_square(int stride, int pad);

/* Two-dimensional convolution, as torch.nn.functional.conv2d. The kernel has the size of w [O,
 * C / groups, kh, kw]; bias may be NULL. */
struct gt_value *gt_conv2d(struct gt_graph *g, struct gt_value *x, struct gt_value *w,
    struct gt_value *bias, struct gt_conv_form form);

/* Transposed convolution, as torch.nn.functional.conv_transpose2d. w is [C, O / groups, kh, kw]
 * for an x of C channels; bias may be NULL. An output padding is less than the stride. */
struct gt_value *gt_conv_transpose2d(struct gt_graph *g, struct gt_value *x, struct gt_value *w,
    struct gt_value *bias, struct gt_conv_form form);

/* ---- length.c ---- */

/* The same over a length: x is [B, C, L], w is [O, C / groups, k], or for the transposed
 * convolution [C, O / groups, k]. Of each pair in a form the first number counts. */
struct gt_value *gt_conv1d(struct gt_graph *g, struct gt_value *x, struct gt_value *w,
    struct gt_value *bias, struct gt_conv_form form);
struct gt_value *gt_conv_transpose1d(struct gt_graph *g, struct gt_value *x, struct gt_value *w,
    struct gt_value *bias, struct gt_conv_form form);

/* ---- norm.c, norm_sync.c ---- */

/* Normalize each row over the last dimension; bias may be NULL. */
struct gt_value *gt_layer_norm(struct gt_graph *g, struct gt_value *x, struct gt_value *weight,
    struct gt_value *bias, double eps);

/* Normalize each channel with the statistics of the batch, and update the running statistics. */
struct gt_value *gt_batch_norm(struct gt_graph *g, struct gt_value *x, struct gt_value *weight,
    struct gt_value *bias, struct gt_value *running_mean, struct gt_value *running_var,
    struct gt_value *num_batches_tracked, double eps, double momentum);

/* Normalize each channel with the running statistics. The op has no gradient. */
struct gt_value *gt_batch_norm_eval(struct gt_graph *g, struct gt_value *x, struct gt_value *weight,
    struct gt_value *bias, struct gt_value *running_mean, struct gt_value *running_var, double eps);

/* ---- rms_norm.c ---- */

/* Divide each row by its root mean square, and multiply it by weight. */
struct gt_value *gt_rms_norm(
    struct gt_graph *g, struct gt_value *x, struct gt_value *weight, double eps);

/* ---- swiglu.c ---- */

/* SwiGLU: silu(gate) * up. */
struct gt_value *gt_swiglu(struct gt_graph *g, struct gt_value *gate, struct gt_value *up);

/* ---- rope.c ---- */

/* Rotate queries and keys by their positions, and pack q, k, v for attention. `past` and
 * `positions`, the places of tokens in documents, may be NULL. */
struct gt_value *gt_rope(struct gt_graph *g, struct gt_value *const qkv[3], struct gt_value *past,
    struct gt_value *positions, int heads, int kv_heads, double theta);

/* The same with other angles, which are copied, or other columns of each head. */
struct gt_value *gt_rope_by(struct gt_graph *g, struct gt_value *const qkv[3],
    struct gt_value *past, struct gt_value *positions, int heads, int kv_heads,
    const struct gt_rope_angles *angles);

/* ---- elementwise.c ---- */

/* a + b, where a and b have the same shape. */
struct gt_value *gt_add(struct gt_graph *g, struct gt_value *a, struct gt_value *b);

/* max(0, x); NaN stays NaN. */
struct gt_value *gt_relu(struct gt_graph *g, struct gt_value *x);

/* GELU in one of its two forms. */
struct gt_value *gt_gelu(struct gt_graph *g, struct gt_value *x, enum gt_gelu kind);

/* x / (1 - p) with probability 1 - p, else 0. */
struct gt_value *gt_dropout(struct gt_graph *g, struct gt_value *x, struct gt_value *rng, double p);

/* A tensor with the same constant in each element. */
struct gt_value *gt_fill(
    struct gt_graph *g, enum gt_dtype dtype, int ndim, const int64_t *shape, double value);

/* A tensor with these elements, in row-major order; they are copied. */
struct gt_value *gt_constant(
    struct gt_graph *g, enum gt_dtype dtype, int ndim, const int64_t *shape, const void *elements);

struct gt_value *gt_copy(struct gt_graph *g, struct gt_value *x);

/* x in another floating-point type, or from float32 in int32. Returns x itself if it already has
 * this type. */
struct gt_value *gt_cast_to(struct gt_graph *g, struct gt_value *x, enum gt_dtype to);
/* Return the rows of blocks of a matrix (struct gt_packing): the matrix, or if it is stored so, its
 * transpose. */
struct gt_value *gt_decode(struct gt_graph *g, struct gt_value *x, enum gt_dtype to);

/* acc += x, in place. */
void gt_accumulate(struct gt_graph *g, struct gt_value *acc, struct gt_value *x);

/* ---- map.c ---- */

struct gt_expr; /* lib/graph/expr.h */

/* The expression e, which has one output, for each element of the inputs, at most 8. Shapes are
 * broadcast as in NumPy. Floating-point inputs have one type, which is that of the result; other
 * inputs are integers or booleans. Without floating-point inputs, the result is float32. */
struct gt_value *gt_map_expr(
    struct gt_graph *g, const struct gt_expr *e, int inputs, struct gt_value *const *in);

/* An argument of gt_apply(): a value, or a number. */
struct gt_map_operand {
	bool is_number;
	double number;
	struct gt_value *value;
};

/* A function of lib/graph/ops/functions.inc, of as many operands as it has arguments. For 1 - x:
 *   gt_apply(g, GT_F_SUB, (struct gt_map_operand[]){ { true, 1 }, { .value = x } })
 */
struct gt_value *gt_apply(
    struct gt_graph *g, enum gt_function f, const struct gt_map_operand *operands);

/* The same for values alone. */
struct gt_value *gt_unary(struct gt_graph *g, enum gt_function f, struct gt_value *x);
struct gt_value *gt_binary(
    struct gt_graph *g, enum gt_function f, struct gt_value *a, struct gt_value *b);

/* x broadcast to a shape. */
struct gt_value *gt_expand(struct gt_graph *g, struct gt_value *x, int ndim, const int64_t *shape);

/* ---- activations.c: the functions of these names in torch.nn.functional ---- */

/* x between low and high, which may be infinite; as torch.clamp. */
struct gt_value *gt_clamp(struct gt_graph *g, struct gt_value *x, double low, double high);
struct gt_value *gt_hardtanh(struct gt_graph *g, struct gt_value *x, double low, double high);
struct gt_value *gt_hardsigmoid(struct gt_graph *g, struct gt_value *x);
struct gt_value *gt_leaky_relu(struct gt_graph *g, struct gt_value *x, double slope);
struct gt_value *gt_elu(struct gt_graph *g, struct gt_value *x, double alpha);
struct gt_value *gt_celu(struct gt_graph *g, struct gt_value *x, double alpha);
struct gt_value *gt_selu(struct gt_graph *g, struct gt_value *x);
struct gt_value *gt_softplus(struct gt_graph *g, struct gt_value *x, double beta, double threshold);
struct gt_value *gt_mish(struct gt_graph *g, struct gt_value *x);
struct gt_value *gt_log_sigmoid(struct gt_graph *g, struct gt_value *x);
struct gt_value *gt_hardshrink(struct gt_graph *g, struct gt_value *x, double lambda);
struct gt_value *gt_softshrink(struct gt_graph *g, struct gt_value *x, double lambda);
struct gt_value *gt_threshold(
    struct gt_graph *g, struct gt_value *x, double threshold, double value);

/* x where it is positive, else weight * x; the shapes are broadcast. */
struct gt_value *gt_prelu(struct gt_graph *g, struct gt_value *x, struct gt_value *weight);

/* The first half of x along a dimension, times the sigmoid of the second one. */
struct gt_value *gt_glu(struct gt_graph *g, struct gt_value *x, int dim);

/* ---- sum.c ---- */

/* The sum over the dimensions whose bit of `dims` is set; `keep`: they remain, with size 1. */
struct gt_value *gt_sum(struct gt_graph *g, struct gt_value *x, unsigned dims, bool keep);

/* ---- softmax.c ---- */

/* Softmax over one dimension, counted from 0, or its logarithm. A dimension other than the last one
 * is moved to the end, and back. */
struct gt_value *gt_softmax(struct gt_graph *g, struct gt_value *x, int dim, bool log);

/* ---- shape.c ---- */

/* A view of x with another shape. */
struct gt_value *gt_reshape(struct gt_graph *g, struct gt_value *x, int ndim, const int64_t *shape);

/* A view of the bytes of x as another type and shape, without a gradient. */
struct gt_value *gt_view_bytes(
    struct gt_graph *g, struct gt_value *x, enum gt_dtype dtype, int ndim, const int64_t *shape);

/* Return the value that v is a view of in another shape, or v. */
struct gt_value *gt_value_viewed(struct gt_value *v);

/* x in another layout; the shape does not change. */
struct gt_value *gt_reorder(struct gt_graph *g, struct gt_value *x, enum gt_layout to);

/* Keep every stride-th row and column of images, and add channels of zeros at both ends. */
struct gt_value *gt_subsample(
    struct gt_graph *g, struct gt_value *x, int stride, int64_t front, int64_t back);

/* The features of one token per sequence: x[b, at[b]], or the last one if `at` is NULL. */
struct gt_value *gt_last_position(struct gt_graph *g, struct gt_value *x, struct gt_value *at);

/* Convert images [B, H, W, C] to [B, C, H, W], each channel with its mean and deviation. */
struct gt_value *gt_image_normalize(
    struct gt_graph *g, struct gt_value *x, const float *mean, const float *std);

/* ---- arrange.c, move.c ---- */

struct gt_arrangement; /* lib/graph/arrangement.h */

/*
 * These copy elements to other places, and return x itself or a view of it (gt_reshape()) where its
 * bytes stay in order. Values may have any type. Dimensions are counted from 0. To split, chunk or
 * unbind, call gt_slice_dim() or gt_select() once per part.
 */

/* Copy pieces of the inputs to places of the output, as the arrangement says. */
struct gt_value *gt_arrange(
    struct gt_graph *g, int inputs, struct gt_value *const *in, const struct gt_arrangement *a);

/* a + b as one arrangement, if both are arrangements that fill different places; else NULL. The
 * gradients of the parts of a tensor are such values. */
struct gt_value *gt_arrange_sum(struct gt_graph *g, struct gt_value *a, struct gt_value *b);

/* Dimension i of the result is dimension order[i] of x. */
struct gt_value *gt_permute_dims(struct gt_graph *g, struct gt_value *x, const int *order);

/* The elements with the indices start, start + step, ... before `end` along one dimension. A
 * negative step goes down; the last index is then above `end`, which may be -1. There must be at
 * least one element. */
struct gt_value *gt_slice_dim(
    struct gt_graph *g, struct gt_value *x, int dim, int64_t start, int64_t end, int64_t step);

/* The elements with one index along a dimension; the result lacks this dimension. */
struct gt_value *gt_select(struct gt_graph *g, struct gt_value *x, int dim, int64_t index);

/* Add before[i] zeros before each row along dimension i, and after[i] after it. A negative number
 * removes elements; at least one must be left. */
struct gt_value *gt_pad(
    struct gt_graph *g, struct gt_value *x, const int64_t *before, const int64_t *after);

/* Reverse the order along dimension i for each bit i of `dims`. */
struct gt_value *gt_flip(struct gt_graph *g, struct gt_value *x, unsigned dims);

/* Move elements by shifts[i] indices along dimension i; those that pass the end come back at the
 * start. A negative number moves them the other way. */
struct gt_value *gt_roll(struct gt_graph *g, struct gt_value *x, const int64_t *shifts);

/* Join one or more values along a dimension, or along a new one. With more than 8 of them, some
 * elements are copied twice or more. */
struct gt_value *gt_cat(struct gt_graph *g, int count, struct gt_value *const *in, int dim);
struct gt_value *gt_stack(struct gt_graph *g, int count, struct gt_value *const *in, int dim);

/* ---- recurrent.c; the ops are in recurrent_ops.c ---- */

/* An LSTM or GRU of one or more layers, as torch.nn.LSTM and torch.nn.GRU. */
struct gt_recurrent {
	struct gt_value *x; /* [T, B, I]; with batch_first [B, T, I] */
	/* Initial states [layers * directions, B, H]; NULL: zeros. c0 is for an LSTM alone. */
	struct gt_value *h0, *c0;
	/* for each layer, and for each direction: w_ih, w_hh, then with `biases` b_ih, b_hh; as
	 * many as gt_recurrent_weights() returns */
	struct gt_value *const *weights;
	struct gt_value *rng; /* for a dropout; NULL: nothing is dropped */
	int layers;
	bool biases, batch_first;
	bool bidirectional; /* a second direction goes from the last step to the first */
	double dropout;     /* of the outputs of each layer but the last */
};

/* Return the number of weights. */
int gt_recurrent_weights(const struct gt_recurrent *r);

/* Emit the nodes. out[0] is the output of the last layer, both directions side by side, in the
 * layout of x; out[1] is each layer's and direction's last state h, as h0, and out[2] its last cell
 * c. Without a result, all are NULL, and the graph has failed or x is NULL. */
void gt_lstm(struct gt_graph *g, const struct gt_recurrent *r, struct gt_value *out[3]);
void gt_gru(struct gt_graph *g, const struct gt_recurrent *r, struct gt_value *out[2]);

/* ---- tokens.c ---- */

/* Turn an image of features into a class token and a token per pixel, and add positions. */
struct gt_value *gt_patch_tokens(
    struct gt_graph *g, struct gt_value *x, struct gt_value *token, struct gt_value *position);

/* ---- pool.c ---- */

/*
 * The form of a pooling; pairs are for height and width, in pixels. As in PyTorch, a stride that is
 * left out (0) is that of the kernel, and a dilation is 1.
 */
struct gt_pool_form {
	int kernel[2], stride[2], pad[2];
	int dilation[2];  /* gt_max_pool2d() alone */
	bool ceil_mode;   /* round the number of windows up */
	bool exclude_pad; /* gt_avg_pool2d() alone: not count_include_pad */
};

/* The usual form: these numbers in both dimensions. */
struct gt_pool_form gt_pool_square(int kernel, int stride, int pad);

/* The largest element of each window, as torch.nn.functional.max_pool2d. */
struct gt_value *gt_max_pool2d(struct gt_graph *g, struct gt_value *x, struct gt_pool_form form);

/* The mean of each window, as torch.nn.functional.avg_pool2d. */
struct gt_value *gt_avg_pool2d(struct gt_graph *g, struct gt_value *x, struct gt_pool_form form);

/* The means of height x width windows that divide the image, as
 * torch.nn.functional.adaptive_avg_pool2d; 1, 1 is the mean of the image. */
struct gt_value *gt_adaptive_avg_pool2d(
    struct gt_graph *g, struct gt_value *x, int height, int width);

/* The largest elements of such windows, as torch.nn.functional.adaptive_max_pool2d. */
struct gt_value *gt_adaptive_max_pool2d(
    struct gt_graph *g, struct gt_value *x, int height, int width);

/* ---- resample.c ---- */

/*
 * Images of another size, as torch.nn.functional.interpolate makes them in the modes nearest and,
 * with `linear`, bilinear. Pairs are for height and width. `size` is that of the result. Pixels of
 * the result are 1 / factor pixels of x apart, or size of x / size where `factor` is left out (0),
 * or with align_corners (size of x - 1) / (size - 1).
 */
struct gt_resample_form {
	int size[2];
	double factor[2]; /* PyTorch's scale_factor */
	bool linear, align_corners;
};

struct gt_value *gt_resample2d(
    struct gt_graph *g, struct gt_value *x, struct gt_resample_form form);

/* ---- length.c ---- */

/* Pooling over a length: x is [B, C, L]. Of each pair in a form the first number counts. */
struct gt_value *gt_max_pool1d(struct gt_graph *g, struct gt_value *x, struct gt_pool_form form);
struct gt_value *gt_avg_pool1d(struct gt_graph *g, struct gt_value *x, struct gt_pool_form form);
struct gt_value *gt_adaptive_avg_pool1d(struct gt_graph *g, struct gt_value *x, int length);
struct gt_value *gt_adaptive_max_pool1d(struct gt_graph *g, struct gt_value *x, int length);

/* Another length; of each pair in the form the first number counts. */
struct gt_value *gt_resample1d(
    struct gt_graph *g, struct gt_value *x, struct gt_resample_form form);

/* ---- embedding.c ---- */

/* The row of `table` for each id, plus that of `position` for its place; both last may be NULL. */
struct gt_value *gt_embedding(struct gt_graph *g, struct gt_value *table, struct gt_value *ids,
    struct gt_value *position, struct gt_value *past);

/* The row of `table` for each id, plus row places[b, t] of `position`. */
struct gt_value *gt_embedding_placed(struct gt_graph *g, struct gt_value *table,
    struct gt_value *ids, struct gt_value *position, struct gt_value *places);

/* The row of `table` for each id; the row `padding` has no gradient. */
struct gt_value *gt_embedding_padded(
    struct gt_graph *g, struct gt_value *table, struct gt_value *ids, int64_t padding);

/*
 * Entries of x by their indices along a dimension, as torch.index_select. `ids` is int32 of any
 * shape, whose dimensions take the place of `dim`: y[a, i, j, b] = x[a, ids[i, j], b] for dim = 1.
 * An index outside of the dimension is an error of the run. Gradients of an entry with several
 * indices are added in their order. This is an embedding of x, so x is floating point.
 */
struct gt_value *gt_index_select(
    struct gt_graph *g, struct gt_value *x, int dim, struct gt_value *ids);

/* ---- index.c: rows are those of the last dimension; `ids` is int32 ---- */

/* The `size` largest elements of each row, the largest first, or the smallest ones; *ids gets their
 * indices. */
struct gt_value *gt_topk(
    struct gt_graph *g, struct gt_value *x, int64_t size, bool smallest, struct gt_value **ids);

/* y[r, j] = x[r, ids[r, j]] */
struct gt_value *gt_index_gather(struct gt_graph *g, struct gt_value *x, struct gt_value *ids);

/* Rows of `size` elements: y[r, i] is the sum of x[r, j] over all j with ids[r, j] = i. `distinct`:
 * no row has an index twice. */
struct gt_value *gt_index_scatter(
    struct gt_graph *g, struct gt_value *x, struct gt_value *ids, int64_t size, bool distinct);

/* ---- grouped.c ---- */

/*
 * Products of groups of rows, each by a matrix of its own, as torch.nn.functional.grouped_mm: rows
 * ends[e - 1] to ends[e] of x [S, K] are multiplied by w[e], of w [E, K, N]; with trans_b by its
 * transpose, of w [E, N, K]. `ends` is int32 [E], ascending; rows from the last end on are 0.
 */
struct gt_value *gt_grouped_matmul(struct gt_graph *g, struct gt_value *x, struct gt_value *w,
    struct gt_value *ends, bool trans_b);

/* ---- attention.c ---- */

/* Causal self-attention over packed q, k, v. `positions` are the places of tokens in documents,
 * which do not see each other; NULL: a row is one document. rng may be NULL if p is 0. */
struct gt_value *gt_attention(struct gt_graph *g, struct gt_value *qkv, struct gt_value *positions,
    struct gt_value *rng, int heads, double p);

/* Self-attention that is not causal. */
struct gt_value *gt_attention_full(
    struct gt_graph *g, struct gt_value *qkv, struct gt_value *rng, int heads, double p);

/* Causal attention without dropout, whose keys may have fewer heads than its queries. */
struct gt_value *gt_attention_grouped(
    struct gt_graph *g, struct gt_value *qkv, struct gt_value *positions, int heads, int kv_heads);

/*
 * Attention of queries [B, heads, T, D] to keys and values [B, kv_heads, T, D], packed for the op.
 * The result has the shape of q. `scale` is a factor of the scores, 1 / sqrt(D) as a rule. The
 * caller sets the members of *attrs.attention, except for the numbers of heads.
 */
struct gt_value *gt_attention_of_heads(struct gt_graph *g, struct gt_value *q, struct gt_value *k,
    struct gt_value *v, double scale, struct gt_value *rng, union gt_attrs *attrs);

/* Causal attention for the next tokens of a text; appends their keys and values to the caches. The
 * caller sets the members `window` and `cap` of *attrs.attention; NULL: both are 0. */
struct gt_value *gt_attention_cached(struct gt_graph *g, struct gt_value *qkv,
    struct gt_value *past, struct gt_value *keys, struct gt_value *values, int heads, int kv_heads,
    const union gt_attrs *attrs);

/* ---- loss.c, linear_cross_entropy.c, loss_sharded.c ---- */

/* The loss of a classifier: weighted cross-entropy, summed over rows with target >= 0. */
struct gt_value *gt_cross_entropy(
    struct gt_graph *g, struct gt_value *logits, struct gt_value *target, struct gt_value *weight);

/* The same with factors of the classes, whose mean is 1 (NULL: all are 1), and a part of each
 * target, 0 to 1, that is spread over all classes. */
struct gt_value *gt_cross_entropy_smoothed(struct gt_graph *g, struct gt_value *logits,
    struct gt_value *target, struct gt_value *weight, struct gt_value *class_weight,
    double smoothing);

/* F [rows]: the loss of each row; 0 where target < 0. */
struct gt_value *gt_cross_entropy_each(
    struct gt_graph *g, struct gt_value *logits, struct gt_value *target);

/* Return whether `target` has the form for mixtures of two samples (lib/base/mixed_target.h). */
bool gt_targets_are_mixed(const struct gt_value *logits, const struct gt_value *target);

/* F64 [4] over rows with target >= 0: cross-entropy, number of rows, top-1 hits, top-5 hits. */
struct gt_value *gt_classify_stats(
    struct gt_graph *g, struct gt_value *logits, struct gt_value *target);

/* ---- regression_loss.c ---- */

/* A loss of numbers or labels: `weight` times the sum of its terms over targets that are not NaN.
 * `label_weight` may be NULL. */
struct gt_value *gt_regression_loss(struct gt_graph *g, const struct gt_regression *loss,
    struct gt_value *y, struct gt_value *target, struct gt_value *weight,
    struct gt_value *label_weight);

/* F64 [GT_REGRESS_STATS], sums over targets that are not NaN. */
struct gt_value *gt_regress_stats(struct gt_graph *g, const struct gt_regression *loss,
    struct gt_value *y, struct gt_value *target);

/* The rows of the op table, for passes and gradient functions. */
extern const struct gt_op gt_op_matmul, gt_op_bias_grad, gt_op_conv2d, gt_op_conv2d_input_grad,
    gt_op_conv2d_weight_grad, gt_op_layer_norm, gt_op_layer_norm_grad, gt_op_add_layer_norm,
    gt_op_add_layer_norm_grad, gt_op_batch_norm, gt_op_batch_norm_grad, gt_op_batch_norm_eval,
    gt_op_batch_norm_fold, gt_op_add, gt_op_relu, gt_op_relu_grad, gt_op_gelu, gt_op_gelu_grad,
    gt_op_dropout, gt_op_fill, gt_op_constant, gt_op_copy, gt_op_cast, gt_op_decode,
    gt_op_accumulate, gt_op_reshape, gt_op_reorder, gt_op_subsample, gt_op_subsample_grad,
    gt_op_image_normalize, gt_op_max_pool2d, gt_op_max_pool2d_grad, gt_op_avg_pool2d,
    gt_op_avg_pool2d_grad, gt_op_embedding, gt_op_embedding_grad, gt_op_position_grad,
    gt_op_attention, gt_op_attention_grad, gt_op_attention_cached, gt_op_last_position,
    gt_op_cross_entropy, gt_op_cross_entropy_grad, gt_op_classify_stats, gt_op_regression_loss,
    gt_op_regression_loss_grad, gt_op_regress_stats, gt_op_bias_add, gt_op_linear_cross_entropy;
extern const struct gt_op gt_op_view_bytes, gt_op_rms_norm, gt_op_rms_norm_grad, gt_op_swiglu,
    gt_op_swiglu_grad, gt_op_rope, gt_op_rope_grad;
extern const struct gt_op gt_op_arrange, gt_op_map, gt_op_sum, gt_op_softmax, gt_op_softmax_grad,
    gt_op_batched_matmul, gt_op_resample, gt_op_resample_grad;
extern const struct gt_op gt_op_topk, gt_op_index_gather, gt_op_index_scatter, gt_op_grouped_matmul,
    gt_op_grouped_matmul_grad;
extern const struct gt_op gt_op_lstm, gt_op_lstm_grad, gt_op_gru, gt_op_gru_grad;
extern const struct gt_op gt_op_patch_tokens, gt_op_patch_tokens_grad;
extern const struct gt_op gt_op_matmul_gelu, gt_op_matmul_gelu_grad, gt_op_weight_grad;
extern const struct gt_op gt_op_log_sum_exp, gt_op_exp_difference, gt_op_add_log, gt_op_pick,
    gt_op_count_before, gt_op_cross_entropy_sharded, gt_op_classify_stats_sharded;
extern const struct gt_op gt_op_batch_norm_moments, gt_op_batch_norm_combine,
    gt_op_batch_norm_apply, gt_op_batch_norm_grad_sums, gt_op_batch_norm_grad_apply;

#endif
