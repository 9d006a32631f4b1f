/* ops.h - all ops of the graph: shapes and formulas, and the functions that emit them. */
#ifndef GT_GRAPH_OPS_OPS_H
#define GT_GRAPH_OPS_OPS_H

#include "lib/graph/op.h"

/*
 * Notation:
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
 * This header is the only documentation of the ops, and kernels follow its formulas. If an op has
 * no function below, a pass (lib/graph/pass.h) or the gradient function (gt_op.grad) of another op
 * emits it. Each function appends a node to the graph and returns the node's out[0]. It returns
 * NULL if a required input is NULL or the graph has failed (graph.h).
 */

/* ---- matmul.c ---- */

/*
 * matmul: the matrix product y = op(a) * op(b) + bias.
 *   in   a F [..., K], or [..., M] with trans_a; treated as two-dimensional
 *        b F [K, N], or [N, K] with trans_b; leading dimensions are treated as one
 *        bias F [N], optional
 *   out  y F [..., N]; with trans_a [M, N]
 * op(a) is a, or its transpose with trans_a; likewise op(b) with trans_b. trans_a and trans_b
 * cannot be combined. torch.nn.Linear is matmul of (x, weight, bias) with trans_b. Hugging Face's
 * Conv1D is matmul of (x, weight, bias) without trans_b. If attrs.matmul.relaxed is set, the kernel
 * may add the terms of a sum in another order. Only passes of forward-only graphs set this
 * attribute.
 *
 * Products, convolutions, attention, the gradients of these ops, and linear_cross_entropy have an
 * attribute tf32, which the pass tf32 sets. If the attribute is set, the kernel may round float32
 * factors to 10 bits of mantissa.
 */
struct gt_value *gt_matmul(struct gt_graph *g, struct gt_value *a, struct gt_value *b,
    struct gt_value *bias, bool trans_a, bool trans_b);

/*
 * Products fused with other ops. The pass fuse_products emits these ops if the backend has kernels
 * for them.
 * matmul_gelu: p = the result of matmul, and y = gelu(p) in the tanh form (see gelu below).
 *   in   as matmul
 *   out  y F;  p F like y (missing if no node reads it)
 * matmul_gelu_grad: y = (op(a) * op(b)) * gelu'(p). The product with gelu'(p) is element by
 * element.
 *   in   a, b as matmul;  p F like y     out  y F
 * weight_grad: y = a^T * b, and the gradient of a bias: the sums over the rows of a or of b.
 *   in   a F [..., M];  b F [..., N];  third input: a again, if the sums over the rows of a are
 *        wanted, optional;  fourth input: b again, if the sums over the rows of b are wanted,
 *        optional. At most one of the third and the fourth input may be given.
 *   out  y W [M, N];  sums W [M] or [N] (missing without a third or fourth input)
 */

/* bias_add: y = x + bias; may overwrite x.     in   x F [..., N];  bias F [N]     out  y like x */
struct gt_value *gt_bias_add(struct gt_graph *g, struct gt_value *x, struct gt_value *bias);

/* bias_grad: for each channel, the sum of dy over all other dimensions. The dimension of channels
 * is dimension 1 for an image with four dimensions, otherwise the last dimension.
 *   in   dy F [..., N] or [B, N, H, W]     out  F [N] */
struct gt_value *gt_bias_grad(struct gt_graph *g, struct gt_value *dy);

/* ---- conv.c ---- */

/*
 * conv2d: cross-correlation, as torch.nn.functional.conv2d. Then bias and residual are added. After
 * that, max(0, .) is applied if attrs.conv.relu is set.
 *   in   x F [B, C, H, W];  w F [O, C, k, k];  bias F [O], optional;  residual F [B, O, H', W'],
 *        optional
 *   out  y F [B, O, H', W'],  H' = (H + 2 * pad - k) / stride + 1, rounded down, W' likewise;
 *        may overwrite residual
 * Only fusion passes of forward-only graphs set residual, attrs.conv.relu and attrs.conv.relaxed. A
 * node with a residual or with attrs.conv.relu has no gradient. If attrs.conv.relaxed is set, the
 * kernel may use an algorithm that rounds more often than a plain sum.
 * conv2d_input_grad:   in dy, w          out dx F [B, C, in_height, in_width]
 * conv2d_weight_grad:  in x, dy          out dw F [O, C, k, k]
 */
struct gt_value *gt_conv2d(struct gt_graph *g, struct gt_value *x, struct gt_value *w,
    struct gt_value *bias, int stride, int pad);

/* ---- norm.c ---- */

/*
 * layer_norm: normalize each row over the last dimension C.
 *   in   x F [..., C];  weight W [C];  bias W [C], optional
 *   out  y [..., C] of the type F, or of the type attrs.norm.low if attrs.norm.low is a 16-bit
 *        type;  mean W [rows];  rstd W [rows] = 1 / sqrt(biased variance + eps)
 *   y = (x - mean) * rstd * weight + bias
 * layer_norm_grad:
 *   in   dy like y;  x, weight, mean, rstd;  acc like x, optional (0);  bias, optional: its values
 *        are not read, but without bias there is no dbias
 *   out  dx = acc + the gradient, may overwrite acc;  dweight W [C];  dbias W [C] (missing without
 *        bias)
 */
struct gt_value *gt_layer_norm(struct gt_graph *g, struct gt_value *x, struct gt_value *weight,
    struct gt_value *bias, double eps);

/*
 * add_layer_norm: add, then layer_norm, in one pass over memory. A fusion pass emits this op.
 *   in   x F [..., C];  residual F or W, with the shape of x;  weight W [C];  bias W [C], optional
 *   out  y F like x;  sum like residual = x + residual;  mean, rstd W [rows], of the sum
 *   y = (sum - mean) * rstd * weight + bias; may overwrite x
 * add_layer_norm_grad:
 *   in   dy, sum, weight, mean, rstd;  dsum like sum, optional (0);  bias, optional: its values are
 *        not read
 *   out  d like sum, the gradient of x and of residual, may overwrite dsum;  dweight W [C];
 *        dbias W [C] (missing without bias);  a copy of d in the type of dy (missing if sum has
 *        this type)
 */

/*
 * batch_norm: normalize each channel over B, H and W with the statistics of this batch, and update
 * the running statistics.
 *   in   x F [B, C, H, W];  weight, bias W [C];  running_mean, running_var W [C];
 *        num_batches_tracked I64 [];  residual like x, optional (0)
 *   out  y like x, may overwrite residual;  mean W [C];
 *        rstd W [C] = 1 / sqrt(biased variance + eps)
 *   y = (x - mean) * rstd * weight + bias + residual. After that, max(0, .) is applied if
 *   attrs.norm.relu is set. A fusion pass sets this attribute and the residual.
 *   running = (1 - momentum) * running + momentum * batch, for the mean and for the variance. Here
 *   the variance of the batch is unbiased: divided by n - 1, with n = B * H * W.
 *   num_batches_tracked += 1
 * batch_norm_grad:
 *   in   dy, x, weight, mean, rstd;
 *        y, optional, present if attrs.norm.relu is set: where y <= 0, dy counts as 0;
 *        more like dy, optional, allowed only if the node has the output dresidual: a second
 *        gradient of y; wherever the formulas have dy, the op uses dy + more, rounded to F
 *   out  dx, may overwrite dy, x or more;  dweight W [C];  dbias W [C];
 *        dresidual like x, optional: dy where y > 0, else 0 (missing without y); may overwrite dy
 *        or more
 * Source: Ioffe and Szegedy, ICML 2015; torch.nn.BatchNorm2d for the running statistics.
 */
struct gt_value *gt_batch_norm(struct gt_graph *g, struct gt_value *x, struct gt_value *weight,
    struct gt_value *bias, struct gt_value *running_mean, struct gt_value *running_var,
    struct gt_value *num_batches_tracked, double eps, double momentum);

/* batch_norm_eval: batch_norm with the running statistics instead of the statistics of the batch;
 * no gradient.
 *   in   x, weight, bias, running_mean, running_var
 *   out  y, with attrs.norm.relu as in batch_norm; may overwrite x
 * batch_norm_fold: the weight and bias of one convolution that replaces a convolution and a
 * batch_norm_eval. A fusion pass of forward-only graphs emits this op.
 *   in   w F [O, C, k, k]; weight, bias, running_mean, running_var F [O]; conv_bias F [O], optional
 *   out  the new w: w * weight / sqrt(running_var + eps);  the new bias:
 *        bias + (conv_bias - running_mean) * weight / sqrt(running_var + eps) */
struct gt_value *gt_batch_norm_eval(struct gt_graph *g, struct gt_value *x, struct gt_value *weight,
    struct gt_value *bias, struct gt_value *running_mean, struct gt_value *running_var, double eps);

/* ---- rms_norm.c ---- */

/*
 * rms_norm: divide each row, the C elements of the last dimension, by its root mean square.
 *   in   x F [..., C];  weight W [C]
 *   out  y F like x;  rstd W [rows] = 1 / sqrt(mean of x^2 + eps)
 *   y = x * rstd * weight
 * rms_norm_grad:  in dy like x, x, weight, rstd
 *   out  dx = rstd * (dy * weight - x * rstd^2 * mean(dy * weight * x));  dweight W [C]
 * Source: Zhang and Sennrich, "Root mean square layer normalization", NeurIPS 2019.
 */
struct gt_value *gt_rms_norm(
    struct gt_graph *g, struct gt_value *x, struct gt_value *weight, double eps);

/* ---- swiglu.c ---- */

/*
 * swiglu: y = a / (1 + e^-a) * b. a is the argument `gate`, b the argument `up`.
 *   in   a F [...];  b like a     out  y like a
 * swiglu_grad:  in dy, a, b     out  da, db
 * Source: Shazeer, "GLU variants improve transformer", arXiv 2002.05202.
 */
struct gt_value *gt_swiglu(struct gt_graph *g, struct gt_value *gate, struct gt_value *up);

/* ---- rope.c ---- */

/*
 * rope: apply rotary position embeddings to queries and keys, and pack q, k, v for attention.
 *   in   q F [B, T, heads * D];  k, v F [B, T, kv_heads * D];  past I32 [], optional (0): the
 *        number of earlier tokens of the text
 *   out  qkv F [B, T, (heads + 2 * kv_heads) * D]: rotated q, rotated k, and v
 *   D, an even number, is the size of a head. For j < D / 2, columns j and j + D / 2 of a head are
 *   a pair (x1, x2). For token t the pair becomes
 *   (x1 * cos a - x2 * sin a, x2 * cos a + x1 * sin a) with a = (past + t) * theta^(-2 * j / D).
 * Frequencies, angles, cos and sin are computed in float64 for float64 data, and in float32 for all
 * other types. The pairing of columns and the precision are those of Hugging Face's
 * LlamaRotaryEmbedding.
 * rope_grad:  in dqkv     out  dq, dk, dv, where dq and dk are rotated by the angle -a
 * Source: Su et al., "RoFormer", arXiv 2104.09864.
 */
struct gt_value *gt_rope(struct gt_graph *g, struct gt_value *q, struct gt_value *k,
    struct gt_value *v, struct gt_value *past, int heads, int kv_heads, double theta);

/* ---- norm_sync.c ---- */

/*
 * Ops that replace batch_norm and batch_norm_grad if ranks combine their statistics of the batch
 * (lib/parallel/data/sync_bn.h). n is the number of values of a channel, B * H * W. In the outputs
 * of batch_norm_moments and batch_norm_grad_sums, n is that of one rank. In the formula of
 * batch_norm_grad_apply, n is the sum over all ranks. C is the number of channels, R the number of
 * ranks.
 *
 * batch_norm_moments:     in x
 *   out  F64 [1 + 2 * C]: n, the means [C], the sums of squared deviations from the mean [C]
 * batch_norm_combine:     in running_mean, running_var, num_batches_tracked (all three updated, as
 *                            batch_norm does), moments F64 [R, 1 + 2 * C], one row for each rank
 *   out  mean W [C];  rstd W [C];  both for the samples of all ranks
 * batch_norm_apply:       in x, weight, bias, mean, rstd, residual (optional, as in batch_norm)
 *   out  y, with attrs.norm.relu as in batch_norm; may overwrite residual
 * batch_norm_grad_sums:   in dy, x, mean, rstd;  y, more (these two optional, as in
 *                            batch_norm_grad)
 *   out  sums F64 [1 + 2 * C]: n, sums of dy [C], sums of dy * (x - mean) [C];
 *        dweight, dbias W [C];  all of them for the samples of this rank;  dresidual (optional, as
 *        in batch_norm_grad)
 * batch_norm_grad_apply:  in dy, x, weight, mean, rstd, sums F64 [1 + 2 * C] over all ranks,
 *                            y (optional, as in batch_norm_grad). If batch_norm_grad_sums has
 *                            the output dresidual, dresidual is the input dy here, and y is
 *                            missing.
 *   out  dx = weight * rstd * (dy - sum(dy) / n - (x - mean) * rstd^2 * sum(dy * (x - mean)) / n);
 *        may overwrite dy or x
 * These ops have no gradient, because they are inserted after the backward part was added.
 * Sources: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
 * sample variances", 1979, for the sums; torch.nn.SyncBatchNorm.
 */

/* ---- elementwise.c ---- */

/* add: y = a + b, where a and b have the same shape; may overwrite a or b. */
struct gt_value *gt_add(struct gt_graph *g, struct gt_value *a, struct gt_value *b);

/* relu: y = max(0, x), where NaN stays NaN; may overwrite x.
 * relu_grad:  in dy, y     out  dx = dy where y > 0, else 0; may overwrite dy */
struct gt_value *gt_relu(struct gt_graph *g, struct gt_value *x);

/*
 * gelu, two forms (enum gt_gelu):
 *   erf   y = x/2 * (1 + erf(x / sqrt(2)))
 *   tanh  y = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))
 * gelu_grad:  in dy, x     out  dx, may overwrite dy
 * Source: Hendrycks and Gimpel, arXiv 1606.08415.
 */
struct gt_value *gt_gelu(struct gt_graph *g, struct gt_value *x, enum gt_gelu kind);

/*
 * dropout: y = x / (1 - p) with probability 1 - p, else 0; may overwrite x. The gradient is dropout
 * of dy with the same random numbers.
 *   in   x F [B, ...];  rng I64 [4] (enum gt_rng_field in lib/graph/kernel.h)
 * Element e of sample i (in row-major order) has the counter
 *   c = (first + i * stride) * (elements per sample) + e
 * `first` and `stride` are the elements GT_RNG_FIRST and GT_RNG_STRIDE of rng. The random number of
 * the element is word (c mod 4) of block floor(c / 4) of the Philox generator (lib/base/philox.h),
 * converted by gt_philox_float(). If the random number is below p, y is 0. If x has only some rows
 * of each sample, attrs.dropout.first and attrs.dropout.sample say which rows. Each element then
 * gets the same random number as in the whole sample.
 */
struct gt_value *gt_dropout(struct gt_graph *g, struct gt_value *x, struct gt_value *rng, double p);

/* fill: a tensor with the same constant in each element.     out  F, with the given shape
 * copy: y = x.
 * cast: y = x in the floating-point type `to`, rounded to nearest even. The gradient of x is dy,
 * cast to the type of x. gt_cast_to() returns x itself if x already has the type `to`.
 * accumulate: acc += x, in place.     in acc, x     no output */
struct gt_value *gt_fill(
    struct gt_graph *g, enum gt_dtype dtype, int ndim, const int64_t *shape, double value);
struct gt_value *gt_copy(struct gt_graph *g, struct gt_value *x);
struct gt_value *gt_cast_to(struct gt_graph *g, struct gt_value *x, enum gt_dtype to);
void gt_accumulate(struct gt_graph *g, struct gt_value *acc, struct gt_value *x);

/* ---- shape.c ---- */

/* reshape: a view (gt_op.view) of x: the same elements in row-major order, with another shape.
 * reorder: copy x to the layout `to` (lib/device/layout.h); the shape does not change. */
struct gt_value *gt_reshape(struct gt_graph *g, struct gt_value *x, int ndim, const int64_t *shape);
struct gt_value *gt_reorder(struct gt_graph *g, struct gt_value *x, enum gt_layout to);

/*
 * subsample: keep every stride-th row and column of the image. Then add channels of zeros: `front`
 * channels before those of x, and `back` channels after them. This is the parameter-free "option A"
 * shortcut of He et al., CVPR 2016.
 *   in   x F [B, C, H, W]     out  y F [B, front + C + back, ceil(H / stride), ceil(W / stride)]
 * subsample_grad:  in dy     out  dx F [B, C, in_height, in_width], zero for pixels that were not
 * kept
 */
struct gt_value *gt_subsample(
    struct gt_graph *g, struct gt_value *x, int stride, int64_t front, int64_t back);

/* last_position: y[b] = x[b, at[b]], or x[b, T - 1] without `at`. at[b] is the index of the last
 * token of sequence b. An index below 0 counts as 0, an index above T - 1 as T - 1. The op has no
 * gradient.
 *   in   x F [B, T, C];  at I32 [B], optional     out  y F [B, C] */
struct gt_value *gt_last_position(struct gt_graph *g, struct gt_value *x, struct gt_value *at);

/* image_normalize: y = (x / 255 - mean[c]) / std[c] for channel c.
 *   in   x U8 or F32 [B, H, W, C] (always row-major)     out  y F32 [B, C, H, W] */
struct gt_value *gt_image_normalize(
    struct gt_graph *g, struct gt_value *x, const float *mean, const float *std);

/* ---- tokens.c ---- */

/*
 * patch_tokens: turn an image of features into a sequence of tokens: first the learned class token,
 * then one token for each pixel of x. A learned position embedding is added to each token.
 *   in   x F [B, C, H, W];  token F [1, 1, C];  position F [1, 1 + H * W, C]
 *   out  y F [B, 1 + H * W, C]:  y[b, 0] = token + position[0];
 *        y[b, 1 + h * W + w] = x[b, :, h, w] + position[1 + h * W + w]
 * patch_tokens_grad:  in dy     out  dx;  dtoken;  dposition.  The last two are sums over b.
 * Source: Dosovitskiy et al., "An image is worth 16x16 words", ICLR 2021, equation 1.
 *
 * first_position: y[b] = x[b, 0].     in   x F [B, T, C]     out  y F [B, C]
 * first_position_grad:  in dy     out  dx F [B, T, C]: dy in row 0 of each sample, zero in other
 * rows
 */
struct gt_value *gt_patch_tokens(
    struct gt_graph *g, struct gt_value *x, struct gt_value *token, struct gt_value *position);
struct gt_value *gt_first_position(struct gt_graph *g, struct gt_value *x);

/* ---- pool.c ---- */

/*
 * max_pool2d: the largest element of each window of k * k elements, as in
 * torch.nn.functional.max_pool2d; k is attrs.pool.kernel. Padding counts as -inf. If an element of
 * a window is NaN, the result is NaN.
 *   in   x F [B, C, H, W]
 *   out  y F [B, C, H', W'], H' and W' as in conv2d;  index U8, with the shape of y: the index of
 *        the largest element in its window. If several elements are the largest, it is the index of
 *        the first one.
 * max_pool2d_grad:  in dy, index     out  dx
 * avg_pool2d: the mean of each window, including the zeros of the padding (PyTorch's
 * count_include_pad).
 *   in   x F [B, C, H, W]     out  y F [B, C, H', W']
 * avg_pool2d_grad:  in dy   out  dx
 */
struct gt_value *gt_max_pool2d(
    struct gt_graph *g, struct gt_value *x, int kernel, int stride, int pad);
struct gt_value *gt_avg_pool2d(
    struct gt_graph *g, struct gt_value *x, int kernel, int stride, int pad);

/* ---- embedding.c ---- */

/*
 * embedding: y[b, t] = table[ids[b, t]] + position[past + t]. An id outside the table is an error;
 * the error's text contains the id.
 *   in   table F [V, C];  ids I32 [B, T];  position F [P, C], P >= past + T, optional;
 *        past I32 [], optional (0): the number of earlier tokens of the text
 *   out  y [B, T, C] of the type F, or of the type attrs.embedding.low if this is a 16-bit type
 * embedding_grad:  in dy, ids, acc F [V, C], optional (0)
 *   out  dtable = acc + the sum of the rows of dy for each id, added in the order of (b, t);
 *        overwrites acc
 * position_grad:   in dy     out  dposition F [attrs.embedding.rows, C] = sum of dy over b; zero
 *        from row T on
 * If y has a 16-bit type, dtable and dposition have the type of the table.
 * If attrs.embedding.whole > 0, the table is a shard of a whole table with attrs.embedding.whole
 * rows: it has the rows from attrs.embedding.first on. If the row of ids[b, t] is in another shard,
 * y[b, t] is zero, and no position is added. So the sum of y over all shards is the y of the whole
 * table. The gradient of this sum is also the gradient of each shard's y.
 */
struct gt_value *gt_embedding(struct gt_graph *g, struct gt_value *table, struct gt_value *ids,
    struct gt_value *position, struct gt_value *past);

/* ---- attention.c ---- */

/*
 * attention: scaled dot-product self-attention over packed projections. No T x T matrix is stored.
 *   in   qkv F [B, T, C + 2 * kv_heads * D]: the columns of q, then k, then v; C = heads * D, where
 *        D is the size of a head;  rng I64 [4], required only for dropout (attrs.attention.p > 0)
 *   out  y F [B, T, C];  lse W [B, heads, T]: log-sum-exp of each row of scores
 *   score[i, j] = dot(q_i, k_j) / sqrt(D) for j <= i, or for all j if attrs.attention.full is set;
 *   p = softmax(score), then dropout;  y_i = sum over j of p[i, j] * v_j
 *   Head h of q uses head h / (heads / kv_heads), rounded down, of k and v.
 * attention_grad:  in dy, qkv, y, lse, rng (optional)     out  dqkv
 * For dropout, element (b, head, i, j) is element ((head * T) + i) * T + j of sample b. If the node
 * computes only a shard of the heads of a layer, attrs.attention.first_head and
 * attrs.attention.all_heads say which heads. Dropout then draws the same numbers as in the whole
 * layer.
 * gt_attention() is causal, gt_attention_full() is not causal. In both, keys and queries have the
 * same number of heads. gt_attention_grouped() is causal and has no dropout; its keys may have
 * fewer heads than its queries.
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
 * attention_cached: causal attention for the next T tokens of a text. Earlier runs stored the keys
 * and values of the `past` earlier tokens in the caches `keys` and `values`. The op has no
 * gradient.
 *   in   qkv F as in attention;  past I32 [], past + T <= P;  keys, values F [B, kv_heads, P, D],
 *        both updated: rows past to past + T - 1 become k and v of these T tokens
 *   out  y F [B, T, C]
 *   score[i, j] = dot(q_i, keys_j) / sqrt(D) for j <= past + i;
 *   y_i = sum over j of softmax(score)[i, j] * values_j
 * The kernel reads only the first past + T rows of the caches.
 */
struct gt_value *gt_attention_cached(struct gt_graph *g, struct gt_value *qkv,
    struct gt_value *past, struct gt_value *keys, struct gt_value *values, int heads, int kv_heads);

/* ---- loss.c ---- */

/*
 * cross_entropy: the loss is the sum over all rows r with target[r] >= 0 of
 *   weight * (lse[r] - logits[r, target[r]])
 *   in   logits F [..., V];  target I32 [...];  weight F []: 1 / (number of targets >= 0 in the
 *        whole step), so that the loss of the step is the sum over its micro-batches and ranks
 *   out  loss F [];  lse F [rows]: log-sum-exp of each row of logits
 * Rows with a negative target (torch's ignore_index -100) are ignored. A target >= V is an error;
 * the error's text contains the target. The sum is computed in float64.
 * Mixtures: each row is a mixture of two samples (mixup), and target is
 * I32 [rows, GT_MIXED_TARGET_WORDS] (lib/base/mixed_target.h): for each row two classes a and b,
 * and a weight w. The summand of row r in the loss is
 *   weight * (w * (lse[r] - logits[r, a]) + (1 - w) * (lse[r] - logits[r, b]))
 * If a or b is negative, the part with this class is left out.
 * cross_entropy_grad:  in dloss F [], logits, target, lse, weight
 *   out  dlogits, may overwrite logits
 *   dlogits = dloss * weight * (exp(logits - lse) - onehot(target)), 0 for rows that are ignored
 *   Mixtures: dlogits = dloss * weight * (w * (exp(logits - lse) - onehot(a)) +
 *        (1 - w) * (exp(logits - lse) - onehot(b))), without the part of a negative class
 *   If attrs.loss.whole > 0, `logits` is a shard: it has the classes from attrs.loss.first on.
 *   attrs.loss.whole is then the number of all classes.
 */
struct gt_value *gt_cross_entropy(
    struct gt_graph *g, struct gt_value *logits, struct gt_value *target, struct gt_value *weight);

/* Return whether `target` has the form for mixtures. Only cross_entropy, cross_entropy_grad, pick
 * and cross_entropy_sharded accept such targets. */
bool gt_targets_are_mixed(const struct gt_value *logits, const struct gt_value *target);

/* classify_stats: sums over rows with target >= 0.
 *   in   logits F [..., V];  target I32 [...]
 *   out  F64 [4]: cross-entropy, number of rows, top-1 hits, top-5 hits
 * A logit is ahead of the target's logit if it is greater, or if it is equal and has a lower index.
 * A row is a top-k hit if fewer than k logits are ahead of the target's logit. A row with a NaN is
 * never a hit. */
struct gt_value *gt_classify_stats(
    struct gt_graph *g, struct gt_value *logits, struct gt_value *target);

/* ---- square_error.c ---- */

/*
 * square_error: loss = weight * sum of (y - target)^2 over all targets that are not NaN.
 *   in   y F [...];  target F, as many elements as y;  weight F []: 1 / (number of targets in the
 *        whole step that are not NaN)
 *   out  loss F []
 * NaN marks a missing target. The sum is computed in float64.
 * square_error_grad:  in dloss F [], y, target, weight
 *   out  dy = dloss * weight * 2 * (y - target), 0 for missing targets; may overwrite y
 */
struct gt_value *gt_square_error(
    struct gt_graph *g, struct gt_value *y, struct gt_value *target, struct gt_value *weight);

enum { GT_REGRESS_STATS = 5 };
/* regress_stats: sums over all targets that are not NaN.
 *   in   y F [...];  target F, as many elements as y
 *   out  F64 [GT_REGRESS_STATS]: sum of (y - target)^2, number of targets, sum of |y - target|, sum
 *        of target, sum of target^2
 */
struct gt_value *gt_regress_stats(struct gt_graph *g, struct gt_value *y, struct gt_value *target);

/* ---- linear_cross_entropy.c ---- */

/*
 * linear_cross_entropy: compute the logits x * w^T, and a result from them. A node with the input
 * weight computes the loss as cross_entropy does; if the node also has the input dloss, it computes
 * the gradients dx and dw, too. A node without the input weight computes classify_stats. The kernel
 * computes the logits of attrs.head.rows rows at a time, so no tensor holds all logits.
 *   in   x F [..., C];  w F [V, C];  target I32 [...];  weight W [], optional;  dloss W [],
 *        optional; requires weight
 *   out  loss W [] (missing without weight);  stats F64 [4], as classify_stats (missing with
 *        weight);  dx like x and dw W [V, C] (both missing without dloss)
 * If F is a 16-bit type, logits and their gradients are rounded to F, as if they were stored in
 * tensors. The sums over rows for dw are computed in W. The op has no gradient, because the pass
 * fuse_head replaces both the forward and the backward nodes by one node of this op.
 */

/* ---- loss_sharded.c ---- */

/*
 * Ops that replace cross_entropy and classify_stats if logits are sharded over classes. Each rank
 * has logits F [..., V] for V classes: those from attrs.loss.first on. The number of all classes is
 * attrs.loss.whole. The ranks never exchange logits. Collectives between these nodes exchange only
 * a few numbers per row. The backward pass treats the outputs of these nodes as constants, except
 * the loss of cross_entropy_sharded.
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
 * pick:            in logits, target I32 [...]     out F [rows]: the logit of the target; 0 if the
 *                  target is negative or a class of another rank. Mixtures: w * logits[a] +
 *                  (1 - w) * logits[b], where a class that is negative or of another rank adds 0.
 *                  A target >= attrs.loss.whole is an error.
 * count_before:    in logits, target, picked F [rows]     out F64 [rows]: the number of this rank's
 *                  logits that are ahead of the target's logit, as defined for classify_stats;
 *                  infinity for a row with a NaN, 0 for a row with a negative target
 * cross_entropy_sharded:   in logits, target, lse F [rows], picked F [rows], weight F []
 *   out  loss F [] = weight * (sum over all rows with target >= 0 of (lse - picked)). Mixtures: lse
 *        is multiplied by the sum of the weights of those classes that are not negative.
 *        cross_entropy_grad computes the gradient with respect to the logits. lse and picked
 *        depend on the logits, and this gradient includes both dependencies. The kernel of
 *        cross_entropy_sharded does not read the logits: only cross_entropy_grad needs them.
 * classify_stats_sharded:  in lse, picked, before, target
 *   out  F64 [4], as classify_stats
 * Source: Shoeybi et al., arXiv 1909.08053, section 3.
 */

/* The rows of the op table. Passes and gradient functions need them, because they call gt_emit()
 * directly. */
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
