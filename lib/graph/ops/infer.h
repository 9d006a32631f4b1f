/* infer.h - helpers for the functions gt_op.infer, which compute the shapes of outputs of ops. */
#ifndef GT_GRAPH_OPS_INFER_H
#define GT_GRAPH_OPS_INFER_H

#include "lib/graph/op.h"

/* The shape of a value as text, "[12, 64, 128]", for error messages. */
struct gt_shape_text {
	char s[96];
};

struct gt_shape_text gt_shape_text(const struct gt_value *v);

/* Set dtype and shape of `out` to the dtype and shape of v. */
void gt_infer_like(struct gt_value *out, const struct gt_value *v);

/* Set dtype and shape of `out`. */
void gt_infer_shape(struct gt_value *out, enum gt_dtype dtype, int ndim, const int64_t *shape);

/* Return the product of all dimensions except the last one. */
int64_t gt_value_rows(const struct gt_value *v);
/* Return the size of the last dimension; 1 for a scalar. */
int64_t gt_value_last(const struct gt_value *v);

/* The checks below return GT_EINVAL if the value does not match. `what` names the value in the
 * error. */

/* Check that v is floating point and has `ndim` dimensions (-1: at least one). */
int gt_infer_float(const struct gt_value *v, const char *what, int ndim, struct gt_err *err);

/* Return whether v is a matrix of `columns` columns, stored in blocks. */
bool gt_infer_is_packed(const struct gt_value *v, enum gt_block block, int64_t columns);

/* Check that v has this dtype and shape [n]. If v is NULL, there is nothing to check. */
int gt_infer_vector(
    const struct gt_value *v, const char *what, enum gt_dtype dtype, int64_t n, struct gt_err *err);

/* Check an input that is the number of earlier tokens of a text: v must have the type int32 and the
 * shape []. If v is NULL, there is nothing to check. */
int gt_infer_past(const struct gt_value *v, struct gt_err *err);

/* Check the places of tokens in documents: int32 [B, T] for x [B, T, ...]. If v is NULL, there is
 * nothing to check. */
int gt_infer_positions(const struct gt_value *v, const struct gt_value *x, struct gt_err *err);

/* Check that `b` has the dtype and shape of `a`. `what` names `b`. */
int gt_infer_same(
    const struct gt_value *a, const struct gt_value *b, const char *what, struct gt_err *err);

/* Check the numbers of a window. */
int gt_infer_window(const struct gt_window *w, struct gt_err *err);
/* Return how many windows fit into `in` rows (dim 0) or columns (dim 1) with their padding. */
int64_t gt_window_count(const struct gt_window *w, int dim, int64_t in);
/* Print " NAME=H", or " NAME=HxW" if the numbers differ. */
void gt_infer_print_pair(const char *name, const int *pair, FILE *f);
/* Print a window as " stride=2 pad=1x0 dilation=4", without the kernel and without dilation 1. */
void gt_infer_print_window(const struct gt_window *w, FILE *f);

/* Check the shard that an op works on (lib/graph/attrs.h): the elements [first, first + count) must
 * be among the elements [0, whole). If `whole` is 0, there is no shard, and `first` must be 0.
 * `what` names the elements, for example "rows". */
int gt_infer_shard(
    int64_t first, int64_t whole, int64_t count, const char *what, struct gt_err *err);
/* Print a shard as " from 4 of 16". Print nothing if `whole` is 0. */
void gt_infer_print_shard(int64_t first, int64_t whole, FILE *f);

/* Emit a node as gt_emit() does, but return the output out[0] of the node, or NULL on error. */
struct gt_value *gt_emit1(struct gt_graph *g, const struct gt_op *op, const union gt_attrs *attrs,
    int inputs, struct gt_value *const *in);

#endif
