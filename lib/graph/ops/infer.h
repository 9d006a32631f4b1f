/* infer.h - the steps that shape rules share. */
#ifndef GT_GRAPH_OPS_INFER_H
#define GT_GRAPH_OPS_INFER_H

#include "lib/graph/op.h"

/* A shape as text, "[12, 64, 128]", for error messages. */
struct gt_shape_text {
	char s[96];
};

struct gt_shape_text gt_shape_text(const struct gt_value *v);

/* Give `out` the dtype and shape of v. */
void gt_infer_like(struct gt_value *out, const struct gt_value *v);

/* Give `out` this dtype and shape. */
void gt_infer_shape(struct gt_value *out, enum gt_dtype dtype, int ndim, const int64_t *shape);

/* Elements of all dimensions but the last. */
int64_t gt_value_rows(const struct gt_value *v);
/* The last dimension; 1 for a scalar. */
int64_t gt_value_last(const struct gt_value *v);

/* Check that v is floating point and has `ndim` dimensions (-1: at least one). `what` names it in
 * the error. */
int gt_infer_float(const struct gt_value *v, const char *what, int ndim, struct gt_err *err);

/* Check that v has this dtype and one dimension of size n. NULL is accepted. */
int gt_infer_vector(
    const struct gt_value *v, const char *what, enum gt_dtype dtype, int64_t n, struct gt_err *err);

/* Check that v can be the number of tokens before those of a node: I32 []. NULL is accepted. */
int gt_infer_past(const struct gt_value *v, struct gt_err *err);

/* Check that a and b have the same dtype and shape. */
int gt_infer_same(
    const struct gt_value *a, const struct gt_value *b, const char *what, struct gt_err *err);

/* Check that `count` elements from `first` on are a shard of `whole` elements (0: they are all
 * elements). `what` names them in the error. Print such a shard as " from 4 of 16", or as nothing
 * if it has all elements. */
int gt_infer_shard(
    int64_t first, int64_t whole, int64_t count, const char *what, struct gt_err *err);
void gt_infer_print_shard(int64_t first, int64_t whole, FILE *f);

/* gt_emit(), returning out[0]. */
struct gt_value *gt_emit1(struct gt_graph *g, const struct gt_op *op, const union gt_attrs *attrs,
    int inputs, struct gt_value *const *in);

#endif
