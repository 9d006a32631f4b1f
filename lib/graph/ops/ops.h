/* ops.h - the ops that models and passes emit, with shapes and formulas. */
#ifndef GT_GRAPH_OPS_OPS_H
#define GT_GRAPH_OPS_OPS_H

#include "lib/graph/op.h"

/*
 * F stands for float32, float64, bfloat16 or float16, the same for all floating-point values of a
 * node; W for the type that statistics and vectors of channels then have: float32 for bfloat16 and
 * float16, else F. "..." stands for any leading dimensions, which are treated as one. Every op is
 * documented here, and only here; kernels follow these formulas. Builders return out[0] and follow
 * the NULL rule of graph.h.
 */

/* ---- matmul.c ---- */

/*
 * matmul: y = op(a) op(b) + bias.
 *   in   a F [..., K], or [..., M] with trans_a   (seen as two-dimensional)
 *        b F [K, N] (leading dimensions seen as one), or [N, K] with trans_b
 *        bias F [N], optional
 *   out  y F [..., N]; with trans_a [M, N]
 * trans_a and trans_b exclude each other. In forward-only graphs a product may be relaxed: its
 * kernel may add the terms of a sum in another order. torch.nn.Linear is (x, weight, bias,
 * trans_b), Hugging Face's Conv1D (x, weight, bias). Products, convolutions, attention, their
 * gradients and linear_cross_entropy of float32 may be marked tf32: their kernels may round factors
 * to 10 bits of mantissa (the pass tf32).
 */
struct gt_value *gt_matmul(struct gt_graph *g, struct gt_value *a, struct gt_value *b,
    struct gt_value *bias, bool trans_a, bool trans_b);

/*
 * Products fused with other ops. The pass fuse_products makes them if the backend has kernels.
 * matmul_gelu: as matmul, and p is its y.
 *   out  y F = gelu(p), the tanh form;  p F like y (left out where nobody reads it)
 * matmul_gelu_grad:  in a, b as matmul, p F like y     out  y = op(a) op(b) times gelu'(p)
 * weight_grad: y = a^T b, and the gradient of a bias: the sums over the rows of a or of b.
 *   in   a F [..., M];  b F [..., N];  a again, optional: asks for its sums;  b again, optional:
 *        asks for its sums; at most one of the two
 *   out  y W [M, N];  sums W [M] or [N] (left out if neither is asked for)
 */

/* bias_add: y = x + bias; may overwrite x.     in   x F [..., N];  bias F [N]     out  y like x */
struct gt_value *gt_bias_add(struct gt_graph *g, struct gt_value *x, struct gt_value *bias);

/* bias_grad: sum over all dimensions but the channel: dimension 1 of four, the last otherwise.
 *   in   dy F [..., N] or [B, N, H, W]     out  F [N] */
struct gt_value *gt_bias_grad(struct gt_graph *g, struct gt_value *dy);

/* ---- conv.c ---- */

/*
 * conv2d: cross-correlation, as torch.nn.functional.conv2d; then + bias, + residual, max(0, .) if
 * relu.
 *   in   x F [B, C, H, W];  w F [O, C, k, k];  bias F [O], optional;  residual F [B, O, H', W'],
 *        optional
 *   out  y F [B, O, H', W'],  H' = (H + 2 pad - k) / stride + 1
 * residual and relu come from fusion in forward-only graphs and have no gradient. A residual's
 * memory may be overwritten by y. There a convolution may be relaxed, too: its kernel is free to
 * take an algorithm that rounds more often than a plain sum.
 * conv2d_input_grad:   in dy, w          out dx F [B, C, in_height, in_width]
 * conv2d_weight_grad:  in x, dy          out dw F [O, C, k, k]
 */
struct gt_value *gt_conv2d(struct gt_graph *g, struct gt_value *x, struct gt_value *w,
    struct gt_value *bias, int stride, int pad);

/* ---- norm.c ---- */

/*
 * layer_norm: over the last dimension C.
 *   in   x F [..., C];  weight W [C];  bias W [C], optional
 *   out  y F [..., C], or of the type attrs.norm.low;  mean W [rows];  rstd W [rows] =
 *        1 / sqrt(biased variance + eps)
 *   y = (x - mean) rstd weight + bias
 * layer_norm_grad:  in dy like y, x, weight, mean, rstd, acc like x (optional: 0), bias (optional:
 *   only tells that out 2 is wanted)
 *   out  dx = acc + the gradient, may overwrite acc;  dweight W [C];  dbias W [C] (left out without
 *        bias)
 */
struct gt_value *gt_layer_norm(struct gt_graph *g, struct gt_value *x, struct gt_value *weight,
    struct gt_value *bias, double eps);

/*
 * add_layer_norm: add and layer_norm in one pass over memory; a fusion pass makes it.
 *   in   x F [..., C];  residual F or W, like x;  weight W [C];  bias W [C], optional
 *   out  y F like x;  sum like residual = x + residual;  mean, rstd W [rows], of the sum
 *   y = (sum - mean) rstd weight + bias; may overwrite x
 * add_layer_norm_grad:  in dy, sum, weight, mean, rstd, dsum like sum (optional: 0), bias
 *   (optional: only tells that out 2 is wanted)
 *   out  d like sum, the gradient of both addends, may overwrite dsum;  dweight W [C];  dbias W [C]
 *        (left out without bias);  d in the type of dy (left out where the sum has it)
 */

/*
 * batch_norm: over B, H, W for each channel, with the batch's own statistics; updates the running
 * ones.
 *   in   x F [B, C, H, W];  weight, bias W [C];  running_mean, running_var W [C];
 *        num_batches_tracked I64 []
 *   out  y like x;  mean W [C];  rstd W [C] (of the biased variance)
 *   y = (x - mean) rstd weight + bias, then max(0, .) if attrs.norm.relu (set by a fusion pass)
 *   running = (1 - momentum) running + momentum batch, the variance unbiased (n - 1);
 *   num_batches_tracked += 1
 * batch_norm_grad:  in dy, x, weight, mean, rstd, y (optional: present with relu; dy counts where
 *   y > 0)
 *   out  dx;  dweight W [C];  dbias W [C].   dx may overwrite dy.
 * Source: Ioffe and Szegedy, ICML 2015; torch.nn.BatchNorm2d for the running statistics.
 */
struct gt_value *gt_batch_norm(struct gt_graph *g, struct gt_value *x, struct gt_value *weight,
    struct gt_value *bias, struct gt_value *running_mean, struct gt_value *running_var,
    struct gt_value *num_batches_tracked, double eps, double momentum);

/* batch_norm_eval: the same with the running statistics; no gradient.
 *   in   x, weight, bias, running_mean, running_var     out  y (relu as above; may overwrite x)
 * batch_norm_fold: the convolution that does both (fusion of forward-only graphs).
 *   in   w F [O, C, k, k]; weight, bias, running_mean, running_var F [O]; conv_bias F [O], optional
 *   out  w weight / sqrt(running_var + eps);  bias +
 *        (conv_bias - running_mean) weight / sqrt(running_var + eps) */
struct gt_value *gt_batch_norm_eval(struct gt_graph *g, struct gt_value *x, struct gt_value *weight,
    struct gt_value *bias, struct gt_value *running_mean, struct gt_value *running_var, double eps);

/* ---- rms_norm.c ---- */

/*
 * rms_norm: over the last dimension C.
 *   in   x F [..., C];  weight W [C]
 *   out  y F like x;  rstd W [rows] = 1 / sqrt(mean of x^2 + eps)
 *   y = x rstd weight
 * rms_norm_grad:  in dy like x, x, weight, rstd
 *   out  dx = rstd (dy weight - x rstd^2 mean(dy weight x));  dweight W [C]
 * Source: Zhang and Sennrich, "Root mean square layer normalization", NeurIPS 2019.
 */
struct gt_value *gt_rms_norm(
    struct gt_graph *g, struct gt_value *x, struct gt_value *weight, double eps);

/* ---- swiglu.c ---- */

/*
 * swiglu: y = a / (1 + e^-a) * b.     in   a F [...];  b like a     out  y like a
 * swiglu_grad:  in dy, a, b     out  da, db
 * Source: Shazeer, "GLU variants improve transformer", arXiv 2002.05202.
 */
struct gt_value *gt_swiglu(struct gt_graph *g, struct gt_value *gate, struct gt_value *up);

/* ---- rope.c ---- */

/*
 * rope: rotary positions of queries and keys, packed as attention takes them.
 *   in   q F [B, T, heads D];  k, v F [B, T, kv_heads D], D even;  past I32 [], optional (0)
 *   out  qkv F [B, T, (heads + 2 kv_heads) D]: q and k rotated, and v
 *   Of a head's columns, j < D / 2 and j + D / 2 are a pair (x1, x2), which becomes
 *   (x1 cos a - x2 sin a, x2 cos a + x1 sin a) with a = (past + t) theta^(-2 j / D).
 * Frequencies, angles and their functions are float32 whatever 16 bits the data has, as in Hugging
 * Face's LlamaRotaryEmbedding, whose halves these are; in float64 for float64.
 * rope_grad:  in dqkv     out  dq, dk, dv: rotated back
 * Source: Su et al., "RoFormer", arXiv 2104.09864.
 */
struct gt_value *gt_rope(struct gt_graph *g, struct gt_value *q, struct gt_value *k,
    struct gt_value *v, struct gt_value *past, int heads, int kv_heads, double theta);

/* ---- norm_sync.c ---- */

/*
 * batch_norm and batch_norm_grad in parts, between which ranks combine their statistics of the
 * batch (lib/parallel/data/sync_bn.h). n is the number of values of a channel: B H W, on one rank
 * or on all.
 *
 * batch_norm_moments:     in x
 *   out  F64 [1 + 2 C]: n, means [C], sums of squared deviations from them [C]
 * batch_norm_combine:     in running_mean, running_var, num_batches_tracked (all three updated, as
 *                            batch_norm does), moments F64 [R, 1 + 2 C]
 *   out  mean W [C];  rstd W [C], over the n of all R rows
 * batch_norm_apply:       in x, weight, bias, mean, rstd     out y (relu as above)
 * batch_norm_grad_sums:   in dy, x, mean, rstd, y (optional, as above)
 *   out  sums F64 [1 + 2 C]: n, sums of dy [C], of dy (x - mean) [C];  dweight, dbias W [C] of
 *        these samples
 * batch_norm_grad_apply:  in dy, x, weight, mean, rstd, sums F64 [1 + 2 C], y (optional)
 *   out  dx = weight rstd (dy - sum(dy) / n - (x - mean) rstd^2 sum(dy (x - mean)) / n); may
 *        overwrite dy
 * They have no gradient: a graph has them only when it has its backward pass.
 * Sources: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
 * sample variances", 1979, for the sums; torch.nn.SyncBatchNorm.
 */

/* ---- elementwise.c ---- */

/* add: y = a + b, same shapes; y may overwrite either. */
struct gt_value *gt_add(struct gt_graph *g, struct gt_value *a, struct gt_value *b);

/* relu: y = max(0, x), NaN stays NaN; may overwrite x.
 * relu_grad: in dy, y; out dx = dy where y > 0, may overwrite dy. */
struct gt_value *gt_relu(struct gt_graph *g, struct gt_value *x);

/*
 * gelu: y = x/2 (1 + erf(x / sqrt 2)), or with tanh x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
 * gelu_grad: in dy, x; out dx, may overwrite dy.
 * Source: Hendrycks and Gimpel, arXiv 1606.08415.
 */
struct gt_value *gt_gelu(struct gt_graph *g, struct gt_value *x, enum gt_gelu kind);

/*
 * dropout: y = x / (1 - p) with probability 1 - p, else 0; may overwrite x. Its gradient is itself
 * on dy.
 *   in   x F [B, ...];  rng I64 [4] (lib/graph/kernel.h)
 * The uniform of element e of sample i is word (c mod 4) of the Philox block at floor(c / 4), as
 * gt_philox_float(), with c = (first + i * stride) * (elements per sample) + e, e counted in the
 * order of the dimensions; it drops where below p. Where x has some rows of the samples,
 * attrs.dropout.first and sample say which, and each element draws the same number as in the whole.
 */
struct gt_value *gt_dropout(struct gt_graph *g, struct gt_value *x, struct gt_value *rng, double p);

/* fill: a constant.  out F shape.     copy: y = x.
 * cast: y = x, rounded to nearest even, in the floating-point type `to`; its gradient is a cast
 * back. gt_cast_to() returns x where it has that type.
 * accumulate: in acc, x; acc += x (written in place), no output. */
struct gt_value *gt_fill(
    struct gt_graph *g, enum gt_dtype dtype, int ndim, const int64_t *shape, double value);
struct gt_value *gt_copy(struct gt_graph *g, struct gt_value *x);
struct gt_value *gt_cast_to(struct gt_graph *g, struct gt_value *x, enum gt_dtype to);
void gt_accumulate(struct gt_graph *g, struct gt_value *acc, struct gt_value *x);

/* ---- shape.c ---- */

/* reshape: the same elements in row-major order under another shape: a view.
 * reorder: the same shape in another layout. */
struct gt_value *gt_reshape(struct gt_graph *g, struct gt_value *x, int ndim, const int64_t *shape);
struct gt_value *gt_reorder(struct gt_graph *g, struct gt_value *x, enum gt_layout to);

/*
 * subsample: every stride-th row and column, channels padded with zeros: the parameter-free "option
 * A" shortcut of He et al., CVPR 2016.
 *   in   x F [B, C, H, W]     out  y F [B, front + C + back, ceil(H / stride), ceil(W / stride)]
 * subsample_grad:  in dy     out  dx F [B, C, in_height, in_width], zero where nothing was taken
 */
struct gt_value *gt_subsample(
    struct gt_graph *g, struct gt_value *x, int stride, int64_t front, int64_t back);

/* last_position: y[b] = x[b, at[b]], or x[b, T - 1] without at; no gradient. Sequences of different
 * lengths have their last positions at different places; one outside counts as the nearest inside.
 *   in   x F [B, T, C], at I32 [B] or NULL     out  y F [B, C] */
struct gt_value *gt_last_position(struct gt_graph *g, struct gt_value *x, struct gt_value *at);

/* image_normalize: y = (x / 255 - mean[c]) / std[c].
 *   in   x U8 or F32 [B, H, W, C] (always row-major)     out  y F32 [B, C, H, W] */
struct gt_value *gt_image_normalize(
    struct gt_graph *g, struct gt_value *x, const float *mean, const float *std);

/* ---- tokens.c ---- */

/*
 * patch_tokens: the pixels of an image as rows behind a token of the model's own, plus positions.
 *   in   x F [B, C, H, W];  token F [1, 1, C];  position F [1, 1 + H W, C]
 *   out  y F [B, 1 + H W, C]:  y[b, 0] = token + position[0];
 *        y[b, 1 + h W + w] = x[b, :, h, w] + position[1 + h W + w]
 * patch_tokens_grad:  in dy     out dx;  dtoken, dposition: sums over b
 * Source: Dosovitskiy et al., "An image is worth 16x16 words", ICLR 2021, equation 1.
 *
 * first_position: y[b] = x[b, 0].     in   x F [B, T, C]     out  y F [B, C]
 * first_position_grad:  in dy     out dx F [B, rows, C], zero but for row 0 of each sample
 */
struct gt_value *gt_patch_tokens(
    struct gt_graph *g, struct gt_value *x, struct gt_value *token, struct gt_value *position);
struct gt_value *gt_first_position(struct gt_graph *g, struct gt_value *x);

/* ---- pool.c ---- */

/*
 * max_pool2d: the largest of each window (padding counts as -inf, NaN wins), as
 * torch.nn.functional.max_pool2d.
 *   in   x F [B, C, H, W]
 *   out  y F [B, C, H', W'];  index U8 like y: which of the window's k*k elements (first among
 *        equals)
 * max_pool2d_grad:  in dy, index     out  dx
 * avg_pool2d: the mean of each window, zeros of the padding included (count_include_pad).
 *   avg_pool2d_grad:  in dy   out  dx
 */
struct gt_value *gt_max_pool2d(
    struct gt_graph *g, struct gt_value *x, int kernel, int stride, int pad);
struct gt_value *gt_avg_pool2d(
    struct gt_graph *g, struct gt_value *x, int kernel, int stride, int pad);

/* ---- embedding.c ---- */

/*
 * embedding: y[b, t] = table[ids[b, t]] + position[past + t]; an id outside the table is an error
 * that names it.
 *   in   table F [V, C];  ids I32 [B, T];  position F [P, C], P >= past + T, optional;
 *        past I32 [], optional (0): tokens of the text before these
 *   out  y F [B, T, C], in the type attrs.embedding.low if that has 16 bits
 * embedding_grad:  in dy, ids, acc F [V, C] (optional)
 *   out  dtable = acc + the rows of dy added in the order of (b, t); overwrites acc
 * position_grad:   in dy     out  dposition F [rows, C] = sum over b; zero from row T on
 *   For a low y, both gradients are in the table's type.
 * A shard of a table (attrs.embedding.whole > 0) holds the rows from attrs.embedding.first on, of
 * so many: y is zero, without a position, where the row is in another shard. So the sum of the y of
 * all shards is that of the whole table, and dy, the gradient of this sum, is that of each y.
 */
struct gt_value *gt_embedding(struct gt_graph *g, struct gt_value *table, struct gt_value *ids,
    struct gt_value *position, struct gt_value *past);

/* ---- attention.c ---- */

/*
 * attention: scaled dot-product self-attention over packed projections, no T x T matrix kept.
 *   in   qkv F [B, T, C + 2 kv_heads D]: q, k, v side by side, q of C = heads * D;  rng I64 [4],
 *        optional (dropout p > 0)
 *   out  y F [B, T, C];  lse W [B, heads, T], log-sum-exp of each row of scores
 *   score[i, j] = q_i . k_j / sqrt(D) for j <= i, or for all j if attrs.attention.full;
 *   p = softmax(score) (dropped and rescaled);  y_i = sum_j p[i, j] v_j
 *   Head h of q has head h / (heads / kv_heads), rounded down, of k and v.
 * attention_grad:  in dy, qkv, y, lse, rng (optional)     out  dqkv
 * Dropout's element of (b, head, i, j) is ((head * T) + i) * T + j of sample b. Where these heads
 * are a shard of a layer's, attrs.attention.first_head and all_heads say which, and dropout draws
 * as it does for them in the whole layer.
 * gt_attention() is causal, gt_attention_full() is not; both have as many heads of keys as of
 * queries. gt_attention_grouped() is causal and drops nothing.
 * Sources: Dao et al., NeurIPS 2022 (recomputation from lse); GPT-2's packing (c_attn); Ainslie et
 * al., arXiv 2305.13245 (heads that share keys and values).
 */
struct gt_value *gt_attention(
    struct gt_graph *g, struct gt_value *qkv, struct gt_value *rng, int heads, double p);
struct gt_value *gt_attention_full(
    struct gt_graph *g, struct gt_value *qkv, struct gt_value *rng, int heads, double p);
struct gt_value *gt_attention_grouped(
    struct gt_graph *g, struct gt_value *qkv, int heads, int kv_heads);

/*
 * attention_cached: the same for T tokens of a text of which `past` come before, whose keys and
 * values earlier runs left in the caches; no gradient.
 *   in   qkv F as above;  past I32 [], past + T <= P;  keys, values F [B, kv_heads, P, D], both
 *        updated: rows past to past + T - 1 become k and v of these tokens
 *   out  y F [B, T, C]
 *   score[i, j] = q_i . keys_j / sqrt(D) for j <= past + i;
 *   y_i = sum_j softmax(score)[i, j] values_j
 * Reads the first past + T rows of the caches and no more.
 */
struct gt_value *gt_attention_cached(struct gt_graph *g, struct gt_value *qkv,
    struct gt_value *past, struct gt_value *keys, struct gt_value *values, int heads, int kv_heads);

/* ---- loss.c ---- */

/*
 * cross_entropy: loss = weight * sum over rows r with target[r] >= 0 of (lse[r] - logits[r,
 * target[r]]).
 *   in   logits F [..., V];  target I32 [...];  weight F []: 1 / (targets counted in the whole
 *        step), so that micro-batches and ranks add up
 *   out  loss F [];  lse F [rows]
 * Negative targets (torch's ignore_index -100) do not count; a target >= V is an error that names
 * it. The sum is kept in double.
 * The targets of mixtures are I32 [rows, GT_MIXED_TARGET_WORDS] (lib/base/mixed_target.h): each row
 * has two classes a and b and a weight w. Its term is w (lse - logits[a]) + (1 - w) (lse -
 * logits[b]), without that of a class which is negative.
 * cross_entropy_grad:  in dloss F [], logits, target, lse, weight
 *   out  dlogits = dloss weight (exp(logits - lse) - onehot(target)), 0 for rows that do not count;
 *        of mixtures the sum of w (exp(logits - lse) - onehot(a)) and (1 - w) (exp(logits - lse) -
 *        onehot(b)), likewise;
 *        may overwrite logits. These may be a shard of the classes (attrs.loss.whole > 0): those
 *        from attrs.loss.first on, of so many.
 */
struct gt_value *gt_cross_entropy(
    struct gt_graph *g, struct gt_value *logits, struct gt_value *target, struct gt_value *weight);

/* Whether these are the targets of mixtures. No other op of this family but pick and
 * cross_entropy_sharded takes them. */
bool gt_targets_are_mixed(const struct gt_value *logits, const struct gt_value *target);

/* classify_stats: sums over rows with target >= 0.
 *   out  F64 [4]: cross-entropy, rows, top-1 hits, top-5 hits
 * Row r is a top-k hit if fewer than k logits are greater than the target's, or equal
 * to it at a lower index; never with a NaN in the row. */
struct gt_value *gt_classify_stats(
    struct gt_graph *g, struct gt_value *logits, struct gt_value *target);

/* ---- square_error.c ---- */

/*
 * square_error: loss = weight * sum over targets that count of (y - target)^2.
 *   in   y F [...];  target F, as many;  weight F []: as of cross_entropy
 *   out  loss F []
 * A target that is NaN does not count: it is missing. The sum is kept in double.
 * square_error_grad:  in dloss F [], y, target, weight
 *   out  dy = dloss weight 2 (y - target), 0 where the target does not count; may overwrite y
 */
struct gt_value *gt_square_error(
    struct gt_graph *g, struct gt_value *y, struct gt_value *target, struct gt_value *weight);

/* regress_stats: sums over targets that count.
 *   out  F64 [5]: (y - target)^2, targets, |y - target|, target, target^2 */
enum { GT_REGRESS_STATS = 5 };
struct gt_value *gt_regress_stats(struct gt_graph *g, struct gt_value *y, struct gt_value *target);

/* ---- linear_cross_entropy.c ---- */

/*
 * linear_cross_entropy: cross_entropy, or classify_stats, of the logits x w^T, with the gradients
 * of the loss. Logits are computed for attrs.head.rows rows at a time; no tensor holds all of them.
 *   in   x F [..., C];  w F [V, C];  target I32 [...];  weight W [], optional;  dloss W [],
 *        optional, not without weight
 *   out  loss W [], with weight;  stats F64 [4], without;  dx like x and dw W [V, C], with dloss
 * With 16-bit inputs, logits and their gradients are rounded to that type, as if they were tensors.
 * Sums over rows for dw are in W. The op has no gradient: fuse_head replaces the forward and the
 * backward nodes by it.
 */

/* ---- loss_sharded.c ---- */

/*
 * cross_entropy and classify_stats where each rank has the logits F [..., V] of V classes, those
 * from attrs.loss.first on, of attrs.loss.whole. The ranks exchange some numbers per row between
 * these nodes, never logits. For gradients all of these nodes are constants, except
 * cross_entropy_sharded.
 *
 *   lse_r = log_sum_exp(logits)               of this rank's classes
 *   max = maximum over ranks of lse_r
 *   s = sum over ranks of exp_difference(lse_r, max)
 *   lse = add_log(max, s)                     of all classes
 *   picked = sum over ranks of pick(logits, target)
 *   before = sum over ranks of count_before(logits, target, picked)
 *
 * log_sum_exp:     in logits     out lse F [rows]
 * exp_difference:  in a F [n], b F [n]     out F64 [n] = exp(a - b), in float64
 * add_log:         in a F [n], s F64 [n]     out F [n] = a + log(s), in float64
 * pick:            in logits, target I32 [...]     out F [rows]: the target's logit, 0 where it is
 *                  negative or the class of another rank; of mixtures the sum of w logits[a] and
 *                  (1 - w) logits[b], likewise. A target >= whole is an error.
 * count_before:    in logits, target, picked F [rows]     out F64 [rows]: how many of these logits
 *                  are greater than `picked`, or equal to it and of a lower class than the target;
 *                  infinity with a NaN in the row, 0 where the target is negative
 * cross_entropy_sharded:   in logits, target, lse F [rows], picked F [rows], weight F []
 *   out  loss F [] = weight * sum over rows with target >= 0 of (lse - picked); of mixtures lse
 *        times the weights of the classes that count. Its gradient by the
 *        logits is cross_entropy_grad: that of lse and picked, which are made of them, is in it.
 *        The kernel doesn't read the logits.
 * classify_stats_sharded:  in lse, picked, before, target
 *   out  F64 [4], as classify_stats
 * Source: Shoeybi et al., arXiv 1909.08053, section 3.
 */

/* Rows of the table, for passes and gradients that emit by row. */
extern const struct gt_op gt_op_matmul, gt_op_bias_grad, gt_op_conv2d, gt_op_conv2d_input_grad,
    gt_op_conv2d_weight_grad, gt_op_layer_norm, gt_op_layer_norm_grad, gt_op_add_layer_norm,
    gt_op_add_layer_norm_grad, gt_op_batch_norm, gt_op_batch_norm_grad, gt_op_batch_norm_eval,
    gt_op_batch_norm_fold, gt_op_add, gt_op_relu, gt_op_relu_grad, gt_op_gelu, gt_op_gelu_grad,
    gt_op_dropout, gt_op_fill, gt_op_copy, gt_op_cast, gt_op_accumulate, gt_op_reshape,
    gt_op_reorder, gt_op_subsample, gt_op_subsample_grad, gt_op_image_normalize, gt_op_max_pool2d,
    gt_op_max_pool2d_grad, gt_op_avg_pool2d, gt_op_avg_pool2d_grad, gt_op_embedding,
    gt_op_embedding_grad, gt_op_position_grad, gt_op_attention, gt_op_attention_grad,
    gt_op_attention_cached, gt_op_last_position, gt_op_cross_entropy, gt_op_cross_entropy_grad,
    gt_op_classify_stats, gt_op_square_error, gt_op_square_error_grad, gt_op_regress_stats,
    gt_op_bias_add, gt_op_linear_cross_entropy;
extern const struct gt_op gt_op_rms_norm, gt_op_rms_norm_grad, gt_op_swiglu, gt_op_swiglu_grad,
    gt_op_rope, gt_op_rope_grad;
extern const struct gt_op gt_op_patch_tokens, gt_op_patch_tokens_grad, gt_op_first_position,
    gt_op_first_position_grad;
extern const struct gt_op gt_op_matmul_gelu, gt_op_matmul_gelu_grad, gt_op_weight_grad;
extern const struct gt_op gt_op_log_sum_exp, gt_op_exp_difference, gt_op_add_log, gt_op_pick,
    gt_op_count_before, gt_op_cross_entropy_sharded, gt_op_classify_stats_sharded;
extern const struct gt_op gt_op_batch_norm_moments, gt_op_batch_norm_combine,
    gt_op_batch_norm_apply, gt_op_batch_norm_grad_sums, gt_op_batch_norm_grad_apply;

#endif
