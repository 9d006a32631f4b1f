/* attrs.h - the attributes of ops: the constants of a node, such as stride or eps. */
#ifndef GT_GRAPH_ATTRS_H
#define GT_GRAPH_ATTRS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/sample.h"
#include "lib/device/dtype.h"
#include "lib/device/layout.h"

/* The two forms of GELU: the tanh approximation, and the exact formula with erf. */
enum gt_gelu { GT_GELU_TANH, GT_GELU_ERF };

enum { GT_MAX_DIMS = 4 };

/* The op linear_cross_entropy computes logits in chunks of rows. If the number of rows of a chunk
 * is a multiple of GT_HEAD_ROWS, every chunk begins at a multiple of 32 bytes, in all data
 * types. */
enum { GT_HEAD_ROWS = 16 };

/*
 * The attributes of a node (struct gt_node, lib/graph/graph.h): one member for each family of ops.
 * Zero the union before you set a member: the common-subexpression pass (lib/graph/pass.h) compares
 * the bytes of two nodes to decide whether the nodes compute the same values.
 *
 * "Forward only" means: used only in graphs without a backward pass. A node may work on a shard
 * (lib/graph/shard.h): a range of the heads, table rows or classes of a layer. Then `first` or
 * `first_head` is the index where the range begins, and `whole` or `all_heads` is the number of all
 * heads, rows or classes of the layer.
 */
union gt_attrs {
	/* This member covers every byte. It comes first, because `= { 0 }` zeroes only the first
	 * member of a union. */
	int64_t all[6];
	/* The attributes of ops outside of lib/graph, such as collectives. The code of these ops
	 * defines their meaning, and copies them from and to this member. */
	int64_t own[6];
	struct {
		/* trans_a: transpose the first factor. trans_b: transpose the second factor. */
		bool trans_a, trans_b;
		bool relaxed; /* the kernel may change the order of additions; forward only */
		/* the kernel may round float32 factors to TF32 (10 bits of mantissa); set by the
		 * pass tf32 */
		bool tf32;
	} matmul;
	struct {
		int kernel, stride, pad; /* in pixels, equal for height and width */
		bool relu;               /* apply max(0, .) after bias and residual; forward only */
		/* the kernel may use algorithms that round more often than a plain sum; forward
		 * only */
		bool relaxed;
		bool tf32; /* the kernel may round float32 factors to TF32 */
		/* only for the op conv2d_input_grad: height and width of the forward op's input, in
		 * pixels */
		int64_t in_height, in_width;
	} conv;
	struct {
		int kernel, stride, pad; /* in pixels, equal for height and width */
		/* only for gradient ops, including patch_tokens_grad: height and width of the
		 * forward op's input, in pixels */
		int64_t in_height, in_width;
	} pool;
	struct {
		double eps;
		/* batch norm: weight of the new statistics in the running mean and variance */
		double momentum;
		bool relu; /* batch norm: apply max(0, .) to the output */
		/* Layer norm of a float32 input: the 16-bit type of the output. GT_F32: the output
		 * has the type of the input. */
		enum gt_dtype low;
	} norm;
	struct {
		enum gt_gelu kind;
	} gelu;
	struct {
		double p; /* probability that an element becomes 0 */
		/* word 2 of the counter of the random generator Philox (lib/base/philox.h); each
		 * dropout of a model has a different one */
		uint32_t stream;
		/* If x has only some rows of each sample: the index of the first element of these
		 * rows, and the number of elements of a whole sample. 0, 0: x has whole samples. */
		int64_t first, sample;
	} dropout;
	struct {
		int heads;       /* heads of the queries */
		double p;        /* dropout probability of the attention probabilities */
		uint32_t stream; /* word 2 of the counter of Philox, as for dropout */
		/* shard: index of the first query head, and number of query heads of the whole
		 * layer; 0, 0: no shard */
		int first_head, all_heads;
		int kv_heads; /* heads of the keys, and also of the values; 0: as many as `heads` */
		bool full;    /* a token also attends to later tokens; false: causal attention */
		bool tf32;    /* the kernel may round float32 factors to TF32 */
	} attention;
	struct {
		/* heads: heads of the queries. kv_heads: heads of the keys, and also of the
		 * values. */
		int heads, kv_heads;
		double theta; /* base of the rotation frequencies */
	} rope;
	struct {
		int64_t rows; /* only for gradient ops: number of rows of the table */
		/* shard: index of the first row, and number of rows of the whole table; 0, 0: no
		 * shard */
		int64_t first, whole;
		enum gt_dtype low; /* 16-bit type of the output; GT_F32: the table's type */
	} embedding;
	struct {
		/* shard: index of the first class, and number of all classes; 0, 0: no shard */
		int64_t first, whole;
	} loss;
	struct {
		int64_t rows; /* rows of logits per chunk; a multiple of GT_HEAD_ROWS */
		bool tf32;    /* the kernel may round float32 factors to TF32 */
	} head;               /* linear_cross_entropy */
	struct {
		int stride;          /* keep every stride-th row and column */
		int64_t front, back; /* channels of zeros added before and after */
		/* only for the gradient op: height and width of the forward op's input, in
		 * pixels */
		int64_t in_height, in_width;
	} subsample;
	struct {
		float mean[GT_MAX_CHANNELS], std[GT_MAX_CHANNELS]; /* per channel of the image */
	} normalize;
	struct {
		int ndim;
		int64_t shape[GT_MAX_DIMS];
	} reshape;
	struct {
		enum gt_layout to;
	} reorder;
	struct {
		enum gt_dtype to;
	} cast;
	struct {
		double value;
		enum gt_dtype dtype;
		int ndim;
		int64_t shape[GT_MAX_DIMS];
	} fill;
};

/* Return the number of heads that keys and values of an attention node have. */
static inline int gt_attrs_kv_heads(const union gt_attrs *attrs)
{
	return attrs->attention.kv_heads ? attrs->attention.kv_heads : attrs->attention.heads;
}

static_assert(sizeof(union gt_attrs) == 6 * sizeof(int64_t), "gt_attrs.all covers every member");

#endif
